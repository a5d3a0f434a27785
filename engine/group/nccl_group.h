#pragma once
// Processes of one machine with a GPU each: NCCL adds and gathers, on the device's current stream.
// It is opened at run time, so that every build has this and none links it; what is laid out here
// is so in nccl.h.
//
// Invariants: what one process captures or replays, all do. A group outlives the graphs that its
// work was captured into: NCCL lets go of nothing before they are gone, and waits.

#include <memory>
#include <string>

#include "engine/group/group.h"

namespace maglev {

/// By what the processes of a group find each other: bytes that one of them makes and tells the
/// others.
struct NcclId {
  char bytes[128] = {};
};

class NcclGroup final : public Group {
 public:
  /// An id for one group. `library`: a file in the place of torch's libnccl.so.2. Throws Error
  /// where there is none.
  static NcclId make_id(const std::string& library = "");

  /// Waits until all `size` processes have come here, each with a device of its own; NCCL waits
  /// without end, so whoever started them ends the others when one fails. Throws Error where NCCL
  /// refuses, or this build has no device code.
  NcclGroup(int rank, int size, at::Device device, const NcclId& id,
            const std::string& library = "");
  /// Ends at once what the device still does for it.
  ~NcclGroup() override;
  NcclGroup(const NcclGroup&) = delete;
  NcclGroup& operator=(const NcclGroup&) = delete;

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  at::Device device() const override { return device_; }
  void sum(const at::Tensor& values) override;
  at::Tensor gather(const at::Tensor& values) override;

  /// Throws Error when something went wrong in what NCCL was given before: replays tell nobody, so
  /// who replays asks now and then. Waits for nothing; also within a capture.
  void check() const override;

 private:
  struct Library;
  static std::unique_ptr<const Library> opened(const std::string& path);
  void expect_ours(const at::Tensor& values) const;

  int rank_, size_;
  at::Device device_;
  std::unique_ptr<const Library> nccl_;
  void* communicator_ = nullptr;  ///< ncclComm_t
};

}  // namespace maglev
