#include "engine/train/stage_times.h"

#include <stdexcept>
#include <string>

#include <gtest/gtest.h>

namespace maglev {
namespace {

// a stream that has done what it was given up to a time, and is given work that takes some
double given_s = 0, done_s = 0;

struct StreamEvent {
  explicit StreamEvent(bool) {}
  void record() { at_s = given_s; }
  bool passed() const { return at_s <= done_s; }
  std::optional<double> seconds_since(const StreamEvent& earlier) const {
    if (!passed() || at_s < earlier.at_s) return std::nullopt;
    return at_s - earlier.at_s;
  }
  double at_s = 0;
};

class StreamTimes : public testing::Test {
 protected:
  void SetUp() override { given_s = done_s = 0; }
  // an iteration of 8 time steps, which the host gives at once
  void iterate(double policy_s, double environment_s, double learn_s) {
    times.begin(Stage::collect);
    for (int t = 0; t < 8; ++t) {
      if (t == 4) times.mark(0);
      given_s += policy_s / 8;
      if (t == 4) times.mark(1);
      given_s += environment_s / 8;
      if (t == 4) times.mark(2);
    }
    times.end(Stage::collect);
    times.begin(Stage::learn);
    given_s += learn_s;
    times.end(Stage::learn);
  }
  void expect(double policy_s, double environment_s, double learn_s) {
    const PhaseTimes t = times.take();
    EXPECT_NEAR(t.policy, policy_s, 1e-9);
    EXPECT_NEAR(t.environment, environment_s, 1e-9);
    EXPECT_NEAR(t.learn, learn_s, 1e-9);
  }

  StageTimes<StreamEvent> times;
};

TEST_F(StreamTimes, are_the_streams_own_and_not_the_hosts) {
  for (int i = 0; i < 3; ++i) iterate(0.3, 0.1, 0.6);
  done_s = given_s;
  expect(0.9, 0.3, 1.8);
  expect(0, 0, 0);
}

TEST_F(StreamTimes, count_what_has_not_passed_yet_as_what_has) {
  for (int i = 0; i < 4; ++i) iterate(0.3, 0.1, 0.6);
  done_s = 2.5;
  // one time step that has passed says how all divide: here it has not
  const PhaseTimes t = times.take();
  EXPECT_NEAR(t.policy + t.environment, 1.6, 1e-9);
  EXPECT_NEAR(t.learn, 2.4, 1e-9);
}

TEST_F(StreamTimes, count_more_iterations_than_there_are_events_and_wait_for_none) {
  for (int i = 0; i < 100; ++i) iterate(0.3, 0.1, 0.6);
  done_s = given_s;
  expect(30, 10, 60);
  for (int i = 0; i < 100; ++i) iterate(0.1, 0.1, 0.2), done_s = given_s;
  expect(10, 10, 20);
}

TEST_F(StreamTimes, keep_the_last_measure_while_nothing_new_has_passed) {
  iterate(0.3, 0.1, 0.6);
  done_s = given_s;
  expect(0.3, 0.1, 0.6);
  for (int i = 0; i < 2; ++i) iterate(0.5, 0.5, 0.5);
  expect(0.6, 0.2, 1.2);
}

TEST_F(StreamTimes, of_updates_alone_have_no_collecting) {
  times.begin(Stage::learn);
  given_s += 0.5;
  times.end(Stage::learn);
  done_s = given_s;
  expect(0, 0, 0.5);
}

TEST(StageTimes, of_two_blocks_divide_by_both_acts) {
  given_s = 0, done_s = 0;
  StageTimes<StreamEvent> times(/*blocks=*/2);
  times.begin(Stage::collect);
  times.mark(0);
  given_s += 0.1;
  times.mark(1);
  // the other block's act, and what of the first one's step that leaves to be waited for
  given_s += 0.1 + 0.3;
  times.mark(2);
  times.end(Stage::collect);
  done_s = given_s;
  const PhaseTimes t = times.take();
  EXPECT_NEAR(t.policy, 0.2, 1e-9);
  EXPECT_NEAR(t.environment, 0.3, 1e-9);
}

// of a device that fails within a stage and takes no more
bool device_failed = false;

struct FailingEvent : StreamEvent {
  using StreamEvent::StreamEvent;
  void record() {
    if (device_failed) throw std::runtime_error("the event's");
  }
};

TEST(InStage, leaves_the_failure_of_its_work_to_be_told) {
  StageTimes<FailingEvent> times;
  device_failed = false;
  std::string told;
  try {
    const InStage measured(&times, Stage::learn);
    device_failed = true;
    throw std::runtime_error("the work's");
  } catch (const std::exception& e) {
    told = e.what();
  }
  EXPECT_EQ(told, "the work's");
}

}  // namespace
}  // namespace maglev
