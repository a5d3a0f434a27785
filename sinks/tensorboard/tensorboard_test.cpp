// The bytes against published values; tests/python/test_formats.py reads whole files with
// TensorBoard's own reader.
#include <cmath>
#include <cstring>
#include <filesystem>
#include <unistd.h>

#include <gtest/gtest.h>

#include "base/core/file.h"
#include "base/metrics/sink.h"
#include "sinks/tensorboard/event.h"

namespace maglev::sinks::tensorboard {
SinkEntry entry();
namespace {

// records of a file, each with both of its checksums compared
std::vector<std::string> records(std::string_view file) {
  std::vector<std::string> found;
  while (!file.empty()) {
    uint64_t size = 0;
    std::memcpy(&size, file.data(), 8);
    if (size + 16 > file.size()) throw std::runtime_error("cut record");
    std::string bytes(file.substr(12, size));
    if (record(bytes) != file.substr(0, size + 16)) throw std::runtime_error("wrong record");
    found.push_back(bytes);
    file.remove_prefix(size + 16);
  }
  return found;
}

class TensorboardSink : public ::testing::Test {
 protected:
  void SetUp() override {
    info_.dir =
        (std::filesystem::temp_directory_path() / ("maglev-tb-" + std::to_string(::getpid())))
            .string();
    std::filesystem::remove_all(info_.dir);
    make_dirs(info_.dir);
  }
  void TearDown() override { std::filesystem::remove_all(info_.dir); }

  RunInfo info_;
};

TEST(TensorboardEvents, checksums_equal_the_published_check_value) {
  EXPECT_EQ(crc32c("123456789"), 0xe3069283u);
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8a9136aau);
}

TEST(TensorboardEvents, a_scalar_has_protobufs_bytes) {
  std::string expected(
      "\x09\0\0\0\0\0\0\xf8\x3f"
      "\x10\xac\x02"
      "\x2a\x0a"
      "\x0a\x08"
      "\x0a\x01"
      "a"
      "\x15\0\0\0\x3f",
      24);
  EXPECT_EQ(scalars_event(1.5, 300, {{"a", 0.5}}), expected);
}

TEST_F(TensorboardSink, a_continued_run_writes_a_later_file_that_says_where_it_starts) {
  entry().open(info_)->close("stopped");
  info_.resumed_at = 299;
  auto sink = entry().open(info_);
  sink->write({.step = 400, .return_mean = std::nan(""), .values = {}});
  auto names = list_dir(info_.dir);
  ASSERT_EQ(names.size(), 2u);
  EXPECT_LT(names[0].substr(0, 30), names[1].substr(0, 30));
  auto events = records(read_file(info_.dir + "/" + names[1], 1 << 20));
  ASSERT_EQ(events.size(), 3u);
  EXPECT_NE(events[0].find("brain.Event:2"), std::string::npos);
  // step 300, session_log { status: START }
  EXPECT_EQ(events[1].substr(9), std::string("\x10\xac\x02\x3a\x02\x08\x01", 7));
  EXPECT_EQ(events[2].find("return_mean"), std::string::npos) << "what is not finite is left out";
}

}  // namespace
}  // namespace maglev::sinks::tensorboard
