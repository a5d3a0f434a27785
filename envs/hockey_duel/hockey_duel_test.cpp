#include "envs/hockey_duel/hockey_duel.h"

#include <gtest/gtest.h>

#include "base/env/host_envs.h"

namespace maglev {
namespace {

using rink::kObservation;

TEST(HockeyDuel, shows_each_player_the_same_game_from_its_own_side) {
  HostEnvs envs(find_env("hockey_duel"), 8, 1);
  envs.reset();
  Rng rng(1, stream_id(Purpose::act, 0), 0);
  for (int t = 0; t < 300; ++t) {
    envs.random_actions(rng);
    envs.step();
    for (int64_t i = 0; i < 8; ++i) {
      const float *one = envs.obs<float>(0, 2 * i), *two = envs.obs<float>(0, 2 * i + 1);
      for (int k = 0; k < kObservation; ++k) {
        // own and other swapped; angles and spins as they are, all else negated, counters kept
        const int from = k < 12 ? (k + 6) % 12 : k < 16 ? k : 33 - k;
        const bool kept = k >= 16 || (k < 12 && (k % 6 == 2 || k % 6 == 5));
        ASSERT_EQ(two[k], kept ? one[from] : -one[from]) << "value " << k;
      }
    }
  }
}

TEST(HockeyDuel, pays_one_what_the_other_loses_by_a_goal) {
  HostEnvs envs(find_env("hockey_duel"), 64, 1);
  envs.reset();
  Rng rng(2, stream_id(Purpose::act, 0), 0);
  int goals = 0;
  for (int t = 0; t < 2000; ++t) {
    envs.random_actions(rng);
    envs.step();
    for (size_t i = 0; i < 64; ++i) {
      ASSERT_EQ(envs.terminated[2 * i], envs.terminated[2 * i + 1]);
      ASSERT_EQ(envs.truncated[2 * i], envs.truncated[2 * i + 1]);
      if (!envs.terminated[2 * i]) continue;
      ++goals;
      const float one = envs.reward[2 * i], two = envs.reward[2 * i + 1];
      EXPECT_NEAR(std::max(one, two), 10.f, 1e-4f);
      EXPECT_NEAR(std::min(one, two), -10.f, 0.5f);
    }
  }
  EXPECT_GT(goals, 5);
}

TEST(HockeyDuel, plays_hockey_when_the_second_player_is_scripted) {
  HostEnvs duel(find_env("hockey_duel"), 1, 1), alone(find_env("hockey"), 1, 1);
  duel.reset();
  alone.reset();
  auto& game = duel.state<HockeyDuel>(0).game;
  auto& one = alone.state<Hockey>(0);
  game = one.game;
  rink::Opponent opponent = one.opponent;
  // the environment's own draws: the same stream at the same place
  Rng rng(1, stream_id(Purpose::act, 0), 0);
  for (int t = 0; t < 200 && !alone.terminated[0]; ++t) {
    alone.random_actions(rng);
    std::copy(alone.actions_f32.begin(), alone.actions_f32.end(), duel.actions_f32.begin());
    float seen[kObservation];
    game.observe(rink::kPlayerTwo, seen);
    Rng draws(1, stream_id(Purpose::env, 0),
              reinterpret_cast<const SlotHead*>(alone.slot(0))->rng_counter);
    opponent.act(false, seen, draws, &duel.actions_f32[4]);
    alone.step();
    duel.step();
    for (int k = 0; k < kObservation; ++k)
      ASSERT_EQ(alone.obs<float>(0, 0)[k], duel.obs<float>(0, 0)[k]) << "step " << t;
    ASSERT_EQ(alone.reward[0], duel.reward[0]);
  }
}

}  // namespace
}  // namespace maglev
