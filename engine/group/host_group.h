#pragma once
// Processes of one machine whose tensors are in its memory: they add and gather there.

#include "base/processes/process_group.h"
#include "engine/group/group.h"

namespace maglev {

class HostGroup final : public Group {
 public:
  /// `processes` outlives it.
  explicit HostGroup(ProcessGroup& processes) : processes_(processes) {}

  int rank() const override { return processes_.rank(); }
  int size() const override { return processes_.size(); }
  at::Device device() const override { return at::kCPU; }
  /// Throws Error where another process has failed or ended. Adds in order of rank.
  void sum(const at::Tensor& values) override;
  at::Tensor gather(const at::Tensor& values) override;

 private:
  ProcessGroup& processes_;
};

}  // namespace maglev
