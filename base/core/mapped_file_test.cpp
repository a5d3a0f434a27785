#include "base/core/mapped_file.h"

#include <cstring>

#include <gtest/gtest.h>

#include "base/core/error.h"
#include "base/core/file.h"
#include "tests/errors.h"
#include "tests/folder.h"

namespace maglev {
namespace {

TEST(MappedFile, is_zeroed_memory_that_leaves_nothing_in_its_folder) {
  const std::string folder = test_folder() + "/made/here";
  const MappedFile file(folder, 1 << 20);
  EXPECT_TRUE(list_dir(folder).empty());
  for (int64_t i = 0; i < 1 << 20; i += 4096) ASSERT_EQ(file.data()[i], std::byte(0));
  std::memset(file.data(), 7, 1 << 20);
  EXPECT_EQ(file.data()[(1 << 20) - 1], std::byte(7));
}

TEST(MappedFile, larger_than_the_disk_is_refused_in_one_line) {
  const std::string folder = test_folder();
  const int64_t bytes = int64_t(free_bytes(folder)) * 2;
  const std::string told = error_of([&] { MappedFile(folder, bytes); });
  EXPECT_TRUE(contains(told, "does not fit the disk")) << told;
  EXPECT_TRUE(contains(told, folder)) << told;
}

}  // namespace
}  // namespace maglev
