#include "engine/train/bottleneck.h"

#include <gtest/gtest.h>

namespace maglev {
namespace {

// a run that lacks nothing but time to learn
Load busy() {
  return {.environment = 0.2,
          .policy = 0.2,
          .learn = 0.55,
          .copy = 0.01,
          .processors = 3.9,
          .memory_pressure = 0,
          .processor_pressure = 0.05,
          .threads = 4,
          .usable = 4,
          .rows = 1024,
          .block_rows = 64};
}

TEST(Bottleneck, names_the_stage_that_takes_most_of_the_time) {
  Load load = busy();
  EXPECT_EQ(bottleneck_of(load).bound, Bound::learning);
  EXPECT_EQ(bottleneck_of(load).share, 0.55);
  load.environment = 0.7, load.learn = 0.05;
  EXPECT_EQ(bottleneck_of(load).bound, Bound::environment);
  load.environment = 0.05, load.policy = 0.8;
  EXPECT_EQ(bottleneck_of(load).bound, Bound::policy);
  load.policy = 0.05, load.copy = 0.8;
  EXPECT_EQ(bottleneck_of(load).bound, Bound::copying);
  load.copy = 0.05;
  EXPECT_EQ(bottleneck_of(load).bound, Bound::other);
}

TEST(Bottleneck, puts_what_all_stages_wait_for_before_any_of_them) {
  Load load = busy();
  load.processors = 1.2;
  EXPECT_EQ(bottleneck_of(load).text(), "idle threads, 70 % of them: threads=2");
  // more threads than processors cannot all be busy
  load.threads = 16, load.processors = 3.9;
  EXPECT_EQ(bottleneck_of(load).text(), "more threads than processors, by 75 % of them: threads=4");
  load.threads = 4, load.processors = 1.2;
  load.processor_pressure = 0.8;
  EXPECT_EQ(bottleneck_of(load).text(),
            "other programs, which have 70 % of its processors: fewer of them, or another time");
  load.memory_pressure = 0.4;
  EXPECT_EQ(bottleneck_of(load).bound, Bound::memory);
  EXPECT_EQ(bottleneck_of(load).share, 0.4);
}

TEST(Bottleneck, puts_what_is_no_stage_before_the_threads_that_wait_for_it) {
  const std::pair<double Load::*, Bound> each[] = {{&Load::logging, Bound::logging},
                                                   {&Load::saving, Bound::saving},
                                                   {&Load::evaluating, Bound::evaluation},
                                                   {&Load::hooks, Bound::hooks}};
  for (const auto& [share, bound] : each) {
    Load load = busy();
    load.processors = 1.2, load.learn = 0.1, load.*share = 0.5;
    EXPECT_EQ(bottleneck_of(load).bound, bound);
    EXPECT_EQ(bottleneck_of(load).share, 0.5);
    // a little of it is as it should be
    load = busy(), load.*share = 0.15;
    EXPECT_EQ(bottleneck_of(load).bound, Bound::learning);
  }
}

TEST(Bottleneck, advises_the_first_change_that_is_there_to_make) {
  Load load = busy();
  load.usable = 8;
  EXPECT_EQ(bottleneck_of(load).text(),
            "learning, 55 % of the time: threads=0 uses all 8 processors");
  load.usable = 4, load.may_overlap = load.may_round = true;
  EXPECT_EQ(bottleneck_of(load).advice, "train.overlap=true makes updates beside the steps");
  // where there is next to nothing beside it to hide
  Load alone = load;
  alone.learn = 0.97, alone.environment = alone.policy = 0.01;
  EXPECT_EQ(bottleneck_of(alone).advice, "train.precision=bf16");
  load.may_overlap = false;
  EXPECT_EQ(bottleneck_of(load).advice, "train.precision=bf16");
  load.policy = 0.9, load.rows = 128;
  EXPECT_EQ(bottleneck_of(load).advice, "env.count=256 gives each thread rows to act for");
  load.on_device = true;
  EXPECT_EQ(bottleneck_of(load).advice, "env.count=512 acts for more rows at once");
}

TEST(Bottleneck, checkpoints_that_are_there_to_be_evaluated_come_less_often_by_evaluating_less) {
  Load load = busy();
  load.saving = 0.6, load.learn = 0.2;
  EXPECT_EQ(bottleneck_of(load).advice, "a larger train.save_every");
  load.saves_to_evaluate = true;
  EXPECT_TRUE(bottleneck_of(load).advice.starts_with("a larger train.eval_every"));
}

TEST(Bottleneck, knows_nothing_of_pressure_that_the_kernel_does_not_tell) {
  Load load = busy();
  load.memory_pressure = load.processor_pressure = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(bottleneck_of(load).bound, Bound::learning);
}

}  // namespace
}  // namespace maglev
