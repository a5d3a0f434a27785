// What the table of sinks promises (docs/architecture.md), of each one that can read back what it
// wrote: rows in order, no torn row however a process ends, and none lost to a disk that was full
// for a moment.

#include <cmath>
#include <csignal>
#include <filesystem>
#include <unistd.h>

#include <gtest/gtest.h>
#include <sys/wait.h>

#include "base/core/file.h"
#include "base/core/file_fault.h"
#include "base/metrics/writer.h"
#include "tests/folder.h"

namespace maglev {
namespace {

// exact in fp32, which a sink may round to
double return_of(int64_t step) { return double(step % 1024) / 8; }

MetricRow row_of(int64_t step) {
  return {.step = step, .return_mean = return_of(step), .values = {{"loss/total", 0.25}}};
}

std::vector<int64_t> range(int64_t first, int64_t last) {
  std::vector<int64_t> steps;
  for (int64_t step = first; step <= last; ++step) steps.push_back(step);
  return steps;
}

class ASink : public testing::TestWithParam<size_t> {
 protected:
  void SetUp() override {
    if (!entry().read_back) GTEST_SKIP() << entry().name << " keeps nothing to read back";
    info_.dir = test_folder() + "/" + entry().name;
    empty();
  }
  void TearDown() override { set_file_fault({}); }

  const SinkEntry& entry() const { return sink_table()[GetParam()]; }
  void empty() {
    std::filesystem::remove_all(info_.dir);
    make_dirs(info_.dir);
  }
  /// Steps of the rows that are there; each is as it was written.
  std::vector<int64_t> steps() const {
    std::vector<int64_t> found;
    entry().read_back(info_.dir, [&](const PastRow& row) {
      EXPECT_EQ(row.return_mean, return_of(row.step)) << "at step " << row.step;
      found.push_back(row.step);
    });
    return found;
  }
  /// Runs `work` in a process of its own; returns how that ended, as waitpid says.
  template <class Work>
  static int in_child(const Work& work) {
    const pid_t child = ::fork();
    if (child == 0) {
      work();
      ::_exit(0);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    return status;
  }

  RunInfo info_;
};

TEST_P(ASink, gives_back_its_rows_in_order_without_events_and_what_is_not_known) {
  MetricWriter writer(open_sinks(info_, {entry().name}));
  for (int64_t step : range(1, 50)) {
    writer.push(row_of(step));
    writer.note("a line for people");
    writer.push({.step = step / 2, .values = {{"eval/return_mean", 7}}, .event = true});
  }
  writer.push({.step = 51, .return_mean = std::nan(""), .values = {}});
  writer.push(row_of(52));
  writer.close("finished");
  auto expected = range(1, 50);
  expected.push_back(52);
  EXPECT_EQ(steps(), expected);
}

TEST_P(ASink, a_process_that_ends_at_any_operation_leaves_whole_rows_alone) {
  int ended = 0;
  for (int n = 1; WEXITSTATUS(ended) != 0 || n == 1; ++n) {
    ASSERT_LT(n, 200) << "it never came to its end";
    empty();
    ended = in_child([&] {
      set_file_fault(parse_file_fault("any:EXIT:" + std::to_string(n)));
      const auto sink = entry().open(info_);
      for (int64_t step : range(1, 8)) sink->write(row_of(step)), sink->sync();
      sink->close("finished");
    });
    const auto found = steps();
    EXPECT_EQ(found, range(1, int64_t(found.size()))) << "at operation " << n;
    // and a run that goes on from step 3 goes on behind it
    info_.resumed_at = 3;
    entry().open(info_)->write(row_of(9));
    info_.resumed_at = -1;
    auto expected = range(1, std::min<int64_t>(3, int64_t(found.size())));
    expected.push_back(9);
    EXPECT_EQ(steps(), expected) << "at operation " << n;
  }
  EXPECT_EQ(ended, 0);
}

TEST_P(ASink, that_is_killed_at_any_moment_has_every_row_it_took) {
  for (int64_t taken : {1, 2, 17, 300}) {
    empty();
    int ends[2];
    ASSERT_EQ(::pipe(ends), 0);
    const pid_t child = ::fork();
    if (child == 0) {
      const auto sink = entry().open(info_);
      for (int64_t step = 1;; ++step) {
        sink->write(row_of(step));
        if (::write(ends[1], "x", 1) != 1) ::_exit(1);
      }
    }
    char byte;
    for (int64_t i = 0; i < taken; ++i) ASSERT_EQ(::read(ends[0], &byte, 1), 1);
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
    ::close(ends[0]), ::close(ends[1]);
    const auto found = steps();
    EXPECT_GE(int64_t(found.size()), taken);
    EXPECT_EQ(found, range(1, int64_t(found.size())));
  }
}

TEST_P(ASink, a_disk_that_was_full_for_a_moment_costs_no_row) {
  MetricWriter writer(open_sinks(info_, {entry().name}));
  testing::internal::CaptureStderr();
  writer.push(row_of(1));
  writer.flush();
  set_file_fault(parse_file_fault("write:SHORT:1,write:ENOSPC:2"));
  writer.push(row_of(2));
  writer.push(row_of(3));
  writer.flush();
  writer.close("finished");
  testing::internal::GetCapturedStderr();
  EXPECT_EQ(steps(), range(1, 3));
}

TEST_P(ASink, a_disk_that_stays_full_keeps_whole_rows_and_is_told_of) {
  MetricWriter writer(open_sinks(info_, {entry().name}));
  testing::internal::CaptureStderr();
  writer.push(row_of(1));
  writer.flush();
  const auto files = list_dir(info_.dir);
  set_file_fault(parse_file_fault("write:SHORT:1,write:ENOSPC:2+"));
  writer.push(row_of(2));
  writer.push(row_of(3));
  writer.close("finished");
  set_file_fault({});
  // whatever was tried again left nothing
  EXPECT_EQ(list_dir(info_.dir), files);
  EXPECT_NE(testing::internal::GetCapturedStderr().find("free space"), std::string::npos);
  EXPECT_EQ(writer.failed(), std::vector<std::string>{entry().name});
  EXPECT_EQ(steps(), range(1, 1));
}

INSTANTIATE_TEST_SUITE_P(OfTheTable, ASink, testing::Range<size_t>(0, sink_table().size()),
                         [](const auto& info) { return sink_table()[info.param].name; });

}  // namespace
}  // namespace maglev
