#include "base/metrics/writer.h"

#include <atomic>
#include <chrono>
#include <stdexcept>

#include <gtest/gtest.h>

#include "base/core/error.h"

namespace maglev {
namespace {

// what a sink was told, in order
struct Heard {
  std::mutex mutex;
  std::vector<std::string> lines;
  std::atomic<bool> gate{true};

  void add(std::string line) {
    std::lock_guard lock(mutex);
    lines.push_back(std::move(line));
  }
  std::vector<std::string> all() {
    std::lock_guard lock(mutex);
    return lines;
  }
};

class Listener : public MetricSink {
 public:
  Listener(Heard& heard, int fails_at = -1) : heard_(heard), fails_at_(fails_at) {}
  void write(const MetricRow& row) override {
    while (!heard_.gate) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    if (row.step == fails_at_) throw std::runtime_error("disk full");
    heard_.add("row " + std::to_string(row.step));
  }
  void note(const std::string& text) override { heard_.add("note " + text); }
  void close(const std::string& outcome) override { heard_.add("close " + outcome); }

 private:
  Heard& heard_;
  int fails_at_;
};

std::vector<NamedSink> sinks(std::unique_ptr<MetricSink> a,
                             std::unique_ptr<MetricSink> b = nullptr) {
  std::vector<NamedSink> list;
  list.push_back({"a", std::move(a)});
  if (b) list.push_back({"b", std::move(b)});
  return list;
}

MetricRow row(int64_t step) {
  MetricRow r;
  r.step = step;
  return r;
}

TEST(MetricWriter, rows_and_notes_arrive_in_order_and_close_drains) {
  Heard heard;
  std::vector<std::string> expected;
  {
    MetricWriter writer(sinks(std::make_unique<Listener>(heard)));
    for (int i = 0; i < 1000; ++i) {
      writer.push(row(i));
      expected.push_back("row " + std::to_string(i));
      if (i == 500) {
        writer.note("saved");
        expected.push_back("note saved");
        writer.ends_early("good enough");
        expected.push_back("note good enough");
      }
    }
    writer.close("finished");
    writer.push(row(7));
    writer.close("again");
  }
  expected.push_back("close finished");
  EXPECT_EQ(heard.all(), expected);
}

TEST(MetricWriter, a_push_does_not_wait_for_a_sink_that_stands_still) {
  Heard heard;
  heard.gate = false;
  MetricWriter writer(sinks(std::make_unique<Listener>(heard)));
  for (size_t i = 0; i < MetricWriter::kQueueRows; ++i) writer.push(row(int64_t(i)));
  EXPECT_TRUE(heard.all().empty());
  heard.gate = true;
  writer.flush();
  EXPECT_EQ(heard.all().size(), MetricWriter::kQueueRows);
}

TEST(MetricWriter, a_full_queue_makes_the_caller_wait_and_loses_nothing) {
  Heard heard;
  heard.gate = false;
  MetricWriter writer(sinks(std::make_unique<Listener>(heard)));
  std::atomic<bool> through{false};
  // one row more than the queue holds may be in the sink's hands
  std::thread training([&] {
    for (size_t i = 0; i < MetricWriter::kQueueRows + 2; ++i) writer.push(row(int64_t(i)));
    through = true;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_FALSE(through);
  heard.gate = true;
  training.join();
  writer.flush();
  EXPECT_EQ(heard.all().size(), MetricWriter::kQueueRows + 2);
}

TEST(MetricWriter, a_sink_that_fails_is_switched_off_and_told_once_while_others_go_on) {
  Heard broken, sound;
  MetricWriter writer(
      sinks(std::make_unique<Listener>(broken, 1), std::make_unique<Listener>(sound)));
  testing::internal::CaptureStderr();
  for (int i = 0; i < 4; ++i) writer.push(row(i));
  writer.flush();
  std::string shown = testing::internal::GetCapturedStderr();
  writer.close("finished");
  std::string report = "[sinks.a] is switched off, training goes on: disk full";
  EXPECT_EQ(shown, "maglev: " + report + "\n");
  EXPECT_EQ(broken.all(), std::vector<std::string>{"row 0"});
  EXPECT_EQ(sound.all(), (std::vector<std::string>{"row 0", "row 1", "note " + report, "row 2",
                                                   "row 3", "close finished"}));
  EXPECT_EQ(writer.failed(), std::vector<std::string>{"a"});
}

TEST(MetricWriter, a_writer_that_is_destroyed_closes_its_sinks) {
  Heard heard;
  { MetricWriter writer(sinks(std::make_unique<Listener>(heard))); }
  EXPECT_EQ(heard.all(), std::vector<std::string>{"close stopped"});
}

TEST(MetricWriter, a_run_that_was_asked_to_stop_says_once_what_it_waits_for) {
  using namespace std::chrono_literals;
  Heard heard;
  Progress progress;
  progress.iteration_s = 18.3;
  progress.leaving = [] { return true; };
  testing::internal::CaptureStderr();
  MetricWriter writer(sinks(std::make_unique<Listener>(heard)), &progress);
  while (heard.all().empty()) std::this_thread::sleep_for(1ms);
  // and not again
  std::this_thread::sleep_for(500ms);
  writer.close("stopped");
  const std::string shown = testing::internal::GetCapturedStderr();
  ASSERT_EQ(heard.all().size(), 2u);
  const std::string said = "asked to stop: this iteration ends first (the last one took 18.3 s)";
  EXPECT_TRUE(heard.all()[0].starts_with("note " + said)) << heard.all()[0];
  EXPECT_TRUE(shown.starts_with("maglev: " + said)) << "no sink shows it: " << shown;
}

TEST(OpenSinks, unknown_names_are_answered_with_near_ones) {
  try {
    open_sinks({}, {"jsonn"});
    FAIL() << "an unknown sink was opened";
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("did you mean jsonl"), std::string::npos) << e.what();
  }
}

TEST(MetricWriter, a_sink_that_fails_for_a_moment_is_opened_again_and_misses_no_row) {
  Heard heard;
  auto list = sinks(std::make_unique<Listener>(heard, 1));
  std::vector<int64_t> opened_behind;
  int failures = 1;
  list[0].reopen = [&](int64_t last_step) -> std::unique_ptr<MetricSink> {
    opened_behind.push_back(last_step);
    if (failures-- > 0) throw std::runtime_error("still full");
    return std::make_unique<Listener>(heard);
  };
  MetricWriter writer(std::move(list));
  testing::internal::CaptureStderr();
  for (int i = 0; i < 3; ++i) writer.push(row(i));
  // the first flush finds the disk still full
  writer.flush();
  EXPECT_EQ(writer.failed(), std::vector<std::string>{"a"});
  writer.push(row(3));
  writer.flush();
  writer.close("finished");
  const std::string shown = testing::internal::GetCapturedStderr();
  EXPECT_EQ(heard.all(),
            (std::vector<std::string>{"row 0", "row 1", "row 2", "row 3",
                                      "note [sinks.a] takes rows again", "close finished"}));
  EXPECT_EQ(opened_behind, (std::vector<int64_t>{0, 0}));
  EXPECT_TRUE(writer.failed().empty());
  EXPECT_NE(shown.find("its rows are kept"), std::string::npos) << shown;
}

}  // namespace
}  // namespace maglev
