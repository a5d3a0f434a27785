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
          .block_rows = 64,
          .busy_rows = 256};
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
            "other programs, which have 70 % of its processors: fewer of them, another time, "
            "or threads=1 meanwhile");
  load.memory_pressure = 0.4;
  EXPECT_EQ(bottleneck_of(load).bound, Bound::memory);
  EXPECT_EQ(bottleneck_of(load).share, 0.4);
}

TEST(Bottleneck, deals_an_update_to_threads_that_have_none_of_it) {
  Load load = busy();
  load.processors = 1.2, load.for_more_threads = "ppo.shard_rows=32";
  EXPECT_EQ(bottleneck_of(load).text(),
            "idle threads, 70 % of them: ppo.shard_rows=32 gives more threads rows to learn from");
  load.processors = 4;
  EXPECT_EQ(bottleneck_of(load).advice, "ppo.shard_rows=32 gives more threads rows to learn from");
  // others wait for no rows of it
  load.processors = 1.2, load.learn = 0.05, load.policy = 0.8;
  EXPECT_EQ(bottleneck_of(load).advice, "threads=2");
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

// four processes that step 64 environments, which ask a simulator and wait for it
Load stepped_elsewhere() {
  Load load = busy();
  load.environment = 0.9, load.policy = 0.05, load.learn = 0.04, load.processors = 0.3;
  load.processor_pressure = 0.9, load.queued = 0.1, load.rows = 64;
  load.programs = 4, load.programs_processors = 0.2, load.programs_queued = 0.3;
  load.most_workers = 1024;
  return load;
}

TEST(Bottleneck, environments_that_wait_in_processes_of_their_own_are_no_other_programs_doing) {
  Load load = stepped_elsewhere();
  EXPECT_EQ(bottleneck_of(load).text(),
            "waits for the environment, 90 % of the time: env.workers=64, a process for each, has "
            "all of them wait at once");
  // on a GPU as well, which idles meanwhile
  load.on_device = true, load.device_busy = 0.1;
  EXPECT_EQ(bottleneck_of(load).bound, Bound::waiting);
  load.rows = 4;
  EXPECT_EQ(bottleneck_of(load).advice, "env.count=16 has more of them wait at once");
  // env.count is of all processes of the run, env.workers of each, and no more than it takes
  load.processes = 2;
  EXPECT_EQ(bottleneck_of(load).advice, "env.count=32 has more of them wait at once");
  load.rows = 2048;
  EXPECT_EQ(bottleneck_of(load).advice, "env.workers=1024 has more of them wait at once");
  load.programs = 1024, load.programs_queued = 0;
  EXPECT_EQ(bottleneck_of(load).advice, "env.count=16384 has more of them wait at once");
}

TEST(Bottleneck, processes_that_compute_steps_are_neither_idle_threads_nor_other_programs) {
  Load load = stepped_elsewhere();
  load.programs_processors = 3.2, load.programs_queued = 0.4;
  EXPECT_EQ(bottleneck_of(load).bound, Bound::environment);
  // they would, and others have the processors
  load.programs_processors = 1, load.programs_queued = 2.5;
  EXPECT_EQ(bottleneck_of(load).bound, Bound::processors);
  // of a run that spends its time elsewhere they say nothing
  load.environment = 0.1, load.learn = 0.8, load.processors = 3.9;
  EXPECT_EQ(bottleneck_of(load).bound, Bound::learning);
  // nor where the kernel does not tell of them
  load = stepped_elsewhere();
  load.programs_processors = load.programs_queued = load.queued =
      std::numeric_limits<double>::quiet_NaN();
  EXPECT_NE(bottleneck_of(load).bound, Bound::waiting);
}

TEST(Bottleneck, threads_that_sleep_have_lost_nothing_to_other_programs) {
  Load load = busy();
  load.environment = 0.9, load.policy = 0.05, load.learn = 0.04, load.processors = 0.3;
  load.processor_pressure = 0.9, load.queued = 0.4;
  EXPECT_EQ(bottleneck_of(load).bound, Bound::threads);
  load.threads = 1, load.queued = 0.1;
  EXPECT_EQ(bottleneck_of(load).bound, Bound::environment);
  load.queued = 0.6;
  EXPECT_EQ(bottleneck_of(load).bound, Bound::processors);
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

// a run on a GPU that has work 26 % of the time
Load idle_gpu() {
  Load load = busy();
  load.on_device = true, load.device_busy = 0.26;
  return load;
}

TEST(Bottleneck, a_gpu_that_idles_is_named_with_what_its_host_is_at) {
  Load load = idle_gpu();
  EXPECT_EQ(bottleneck_of(load).text(),
            "idle GPU, 74 % of the time, while small kernels follow each other: a larger minibatch "
            "is more work for each");
  load.policy = 0.7, load.learn = 0.05;
  EXPECT_EQ(bottleneck_of(load).advice, "env.count=4096 acts for more rows at once");
  load.launches = true;
  EXPECT_EQ(bottleneck_of(load).text(),
            "idle GPU, 74 % of the time, while the host launches kernels one by one: "
            "env.count=4096 acts for more rows at once");
  load.may_capture = true;
  EXPECT_EQ(bottleneck_of(load).advice, "train.graph=on replays them all at once");
  load.policy = 0.1;
  EXPECT_EQ(bottleneck_of(load).meanwhile, "the host does what is no stage");
}

TEST(Bottleneck, a_gpu_that_waits_for_environments_on_the_host_wants_them_stepped_faster) {
  Load load = idle_gpu();
  load.environment = 0.8, load.learn = 0.1, load.policy = 0.05;
  load.host_steps = true, load.usable = 8;
  EXPECT_EQ(bottleneck_of(load).text(),
            "idle GPU, 74 % of the time, while the host steps environments: threads=0 uses all 8 "
            "processors");
  load.usable = 4, load.rows = 2;
  EXPECT_EQ(bottleneck_of(load).advice, "env.count=4 gives each thread one to step");
  load.rows = 1024;
  EXPECT_EQ(bottleneck_of(load).advice,
            "a faster step: settings of env.* say how much there is to it");
}

TEST(Bottleneck, a_gpu_is_not_called_idle_that_has_work_or_of_which_nothing_is_known) {
  Load load = idle_gpu();
  load.may_round = true;
  for (const double share : {0.5, 0.97, std::numeric_limits<double>::quiet_NaN()}) {
    load.device_busy = share;
    EXPECT_EQ(bottleneck_of(load).text(), "learning, 55 % of the time: train.precision=bf16");
  }
  // nor by what a run on a processor cannot be told
  load.on_device = false, load.device_busy = 0.26;
  EXPECT_EQ(bottleneck_of(load).bound, Bound::learning);
}

TEST(Bottleneck, what_keeps_the_loop_itself_is_told_before_the_gpu_that_idles_meanwhile) {
  Load load = idle_gpu();
  load.evaluating = 0.6, load.learn = 0.2;
  EXPECT_EQ(bottleneck_of(load).bound, Bound::evaluation);
  load.evaluating = 0.1;
  EXPECT_EQ(bottleneck_of(load).bound, Bound::device);
  load.memory_pressure = 0.4;
  EXPECT_EQ(bottleneck_of(load).bound, Bound::memory);
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
