#include "verbs/sweep/ending.h"

#include <csignal>

#include <gtest/gtest.h>

#include "verbs/train/seeds.h"

namespace maglev::verbs::sweep {
namespace {

TEST(SweepEnding, a_kill_and_a_stop_come_from_outside_and_a_crash_does_not) {
  for (int signal : {SIGKILL, SIGTERM, SIGHUP, SIGXCPU})
    EXPECT_EQ(cause_of(128 + signal, "step=256"), Cause::outside) << signal;
  EXPECT_EQ(cause_of(train::kStopped, ""), Cause::outside);
  EXPECT_EQ(cause_of(kStalled, ""), Cause::outside) << "a disk or a device that hangs";
  for (int signal : {SIGSEGV, SIGABRT, SIGFPE})
    EXPECT_EQ(cause_of(128 + signal, ""), Cause::trial) << signal;
  EXPECT_EQ(cause_of(2, "[ppo] ppo.minibatch must be at most 64"), Cause::trial);
  EXPECT_EQ(cause_of(70, "internal error: free"), Cause::trial);
}

TEST(SweepEnding, what_ended_a_part_of_a_run_is_in_its_words) {
  const std::string process = "[processes] process 1 of the run ended: signal ";
  EXPECT_EQ(cause_of(2, process + "9 (Killed), by the system where memory did not suffice"),
            Cause::outside);
  EXPECT_EQ(cause_of(2, process + "11 (Segmentation fault); resume the run"), Cause::trial);
  EXPECT_EQ(cause_of(2, "[seeds] seed 2: " + train::killed_text(128 + SIGKILL)), Cause::outside);
  EXPECT_EQ(cause_of(2, "[processes] process 1 of the run ended: exit status 2"), Cause::trial);
  EXPECT_EQ(cause_of(2, std::string("[seeds] seed 2: ") + train::kStalledText), Cause::outside);
}

TEST(SweepEnding, a_full_disk_is_known_by_what_is_to_be_done) {
  EXPECT_EQ(cause_of(2,
                     "[runs/s/trials/6/run/checkpoints] needs 367 KiB, 112 KiB are free; free "
                     "space there"),
            Cause::disk);
  EXPECT_EQ(cause_of(2,
                     "[a/state.safetensors] write failed: No space left on device; free space "
                     "there, or write elsewhere; what was learned since step 0 is lost"),
            Cause::disk);
}

}  // namespace
}  // namespace maglev::verbs::sweep
