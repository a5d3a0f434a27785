#pragma once
// What memory lies on: a disk, for what a machine's memory does not hold; large pages.

#include <cstddef>
#include <cstdint>
#include <string>

namespace maglev {

class MappedFile {
 public:
  /// `bytes` of zeros in a file without a name in `folder`, so that nothing is left behind however
  /// the process ends. All of it is taken from the disk now. Throws Error where the disk has less
  /// free, says so before anything is written, or where the folder cannot be written.
  MappedFile(const std::string& folder, int64_t bytes);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::byte* data() const { return data_; }

 private:
  std::byte* data_ = nullptr;
  int64_t bytes_;
};

/// Asks for large pages under memory that will be read here and there, where it is large enough to
/// have any: fewer addresses to look up. A hint; contents stay as they are.
void prefer_large_pages(void* memory, int64_t bytes);

/// Throws Error where a disk has no `bytes` free for `folder`, which is made.
void expect_disk_space(const std::string& folder, int64_t bytes);

}  // namespace maglev
