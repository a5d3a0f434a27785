#include "base/core/mapped_file.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <unistd.h>

#include <sys/mman.h>

#include "base/core/error.h"
#include "base/core/file.h"
#include "base/core/printed.h"

namespace maglev {
namespace {

std::string gibibytes(uint64_t bytes) {
  return printed("%.1f GiB", double(bytes) / double(1 << 30));
}

[[noreturn]] void refuse(const std::string& folder, const char* what, int error) {
  throw Error("[" + folder + "] " + what + ": " + std::strerror(error) +
              "; name a folder on a disk that can be written");
}

}  // namespace

void expect_disk_space(const std::string& folder, int64_t bytes) {
  make_dirs(folder);
  const uint64_t left = free_bytes(folder);
  if (uint64_t(bytes) > left)
    throw Error("[" + folder + "] a file of " + gibibytes(uint64_t(bytes)) +
                " does not fit the disk, which has " + gibibytes(left) +
                " free; ask for less or name a folder on another disk");
}

void prefer_large_pages(void* memory, int64_t bytes) {
  constexpr uintptr_t page = uintptr_t(2) << 20;
  const uintptr_t first = (reinterpret_cast<uintptr_t>(memory) + page - 1) / page * page;
  const uintptr_t end = (reinterpret_cast<uintptr_t>(memory) + uintptr_t(bytes)) / page * page;
  // a kernel without them refuses, and nothing is lost
  if (first < end) madvise(reinterpret_cast<void*>(first), end - first, MADV_HUGEPAGE);
}

MappedFile::MappedFile(const std::string& folder, int64_t bytes) : bytes_(bytes) {
  expect_disk_space(folder, bytes);
  std::string path = folder + "/ring-XXXXXX";
  const int file = mkostemp(path.data(), O_CLOEXEC);
  if (file < 0) refuse(folder, "no file can be made", errno);
  unlink(path.c_str());
  // the disk is asked now: a page that cannot be written later would kill the process
  const int full = posix_fallocate(file, 0, bytes);
  void* memory =
      full ? MAP_FAILED : mmap(nullptr, size_t(bytes), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  const int error = full ? full : errno;
  close(file);
  if (memory == MAP_FAILED) refuse(folder, "no memory can be mapped", error);
  data_ = static_cast<std::byte*>(memory);
}

MappedFile::~MappedFile() { munmap(data_, size_t(bytes_)); }

}  // namespace maglev
