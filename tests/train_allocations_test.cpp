// An iteration works in memory it already has: tests that a warm trainer asks the system for none.

#include <gtest/gtest.h>

#include "engine/host/cpu_cache.h"
#include "engine/host/machine.h"
#include "engine/train/trainer.h"

namespace maglev {
namespace {

TEST(Allocations, an_iteration_asks_the_system_for_nothing_once_warm) {
  claim_threads();
  Experiment experiment("ppo", "cartpole");
  for (const char* setting :
       {"env.count=24", "ppo.rollout=32", "ppo.minibatch=200", "ppo.shard_rows=64"})
    experiment.table().override_with(setting);
  // threads meet at different times from run to run; one thread shows exactly what an iteration
  // needs
  Trainer trainer(experiment, place("cpu", 1));
  for (int i = 0; i < 5; ++i) trainer.iterate(), trainer.flush();
  const int64_t before = cpu_cache_system_allocations();
  EXPECT_GT(before, 0);
  for (int i = 0; i < 10; ++i) trainer.iterate(), trainer.flush();
  EXPECT_EQ(cpu_cache_system_allocations(), before);
}

}  // namespace
}  // namespace maglev
