#include "engine/data/rollout.h"

#include <ATen/ATen.h>

#include <gtest/gtest.h>

#include "engine/train/trainer.h"

namespace maglev {
namespace {

class StoredRollout : public testing::TestWithParam<const char*> {};

// the same environments stepped again with the stored actions: every byte the policy read is what
// the environment gave, whatever the threads
TEST_P(StoredRollout, holds_what_the_environments_gave_bit_for_bit) {
  Experiment experiment("ppo", GetParam());
  for (const char* setting : {"env.count=70", "ppo.rollout=40", "ppo.epochs=1",
                              "ppo.network.kind=mlp", "ppo.network.hidden=[16]", "seed=5"})
    experiment.table().override_with(setting);
  Trainer trainer(experiment, {.device = at::kCPU, .threads = 2});
  trainer.iterate();
  const Batch& stored = trainer.rollout().batch();

  ThreadPool pool(1);
  VecEnv again(experiment.env(), experiment.env_params(), 70, 5, at::kCPU, pool);
  Rollout replay(again.spec(), {.T = 40, .rows = 70, .block_rows = 64}, {}, at::kCPU);
  again.reset(replay.first_io());
  for (int64_t t = 0; t < 40; ++t) {
    replay.step(t).action.copy_(stored.action[t]);
    again.step(replay.io(t));
  }
  const Batch& fresh = replay.batch();
  // row 0 of the store is the next rollout's by now
  for (size_t c = 0; c < fresh.obs.size(); ++c)
    EXPECT_TRUE(at::equal(stored.obs[c].narrow(0, 1, 40), fresh.obs[c].narrow(0, 1, 40)))
        << again.spec().observations[c].name;
  EXPECT_TRUE(at::equal(stored.is_first.narrow(0, 1, 40), fresh.is_first.narrow(0, 1, 40)));
  EXPECT_TRUE(at::equal(stored.reward, fresh.reward));
  EXPECT_TRUE(at::equal(stored.terminated, fresh.terminated));
  EXPECT_TRUE(at::equal(stored.truncated, fresh.truncated));
  EXPECT_TRUE(at::equal(stored.obs[0][0], stored.obs[0][40]));
}

INSTANTIATE_TEST_SUITE_P(Environments, StoredRollout,
                         testing::Values("goodhart", "cartpole", "pendulum", "acrobot",
                                         "mountain_car"));

TEST(Rollout, blocks_cover_each_row_once_and_share_its_memory) {
  Experiment experiment("ppo", "cartpole");
  Rollout store(experiment.spec(), {.T = 3, .rows = 10, .block_rows = 4}, {{.name = "value"}},
                at::kCPU);
  TimeStep& step = store.step(1);
  ASSERT_EQ(step.blocks.size(), 3u);
  for (auto& block : step.blocks) {
    block.action.fill_(int64_t(block.first));
    block.extra[0].fill_(double(block.first));
  }
  EXPECT_TRUE(
      at::equal(step.extra[0], at::tensor({0.f, 0.f, 0.f, 0.f, 4.f, 4.f, 4.f, 4.f, 8.f, 8.f})));
  EXPECT_TRUE(at::equal(store.batch().action[1].squeeze(1),
                        at::tensor({0, 0, 0, 0, 4, 4, 4, 4, 8, 8}, at::kInt)));
  EXPECT_FALSE(store.step(3).extra[0].defined());
}

TEST(Rollout, blocks_hold_whole_environments_and_no_more_rows_than_asked) {
  EXPECT_GE(block_rows(256, 8, 1), 8);
  EXPECT_EQ(block_rows(256, 1024, 1), 256);
  EXPECT_EQ(block_rows(256, 300, 1), 80);
  EXPECT_EQ(block_rows(256, 1 << 20, 1), 256);
  EXPECT_EQ(block_rows(100, 1 << 20, 6), 96);
  EXPECT_EQ(block_rows(4, 1 << 20, 6), 6);
  EXPECT_EQ(block_rows(8, 1000, 1), 8);
  // those that take long are shared from a few on
  EXPECT_EQ(block_rows(256, 8, 1, 4), 4);
  EXPECT_EQ(block_rows(256, 64, 1, 4), 16);
  EXPECT_EQ(block_rows(256, 192, 1, 4), 16);
  EXPECT_EQ(block_rows(256, 1 << 20, 1, 4), 256);
  EXPECT_EQ(block_rows(256, 9, 3, 1), 3);
}

}  // namespace
}  // namespace maglev
