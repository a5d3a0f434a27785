#include <utility>

#include <ATen/ATen.h>

#include <gtest/gtest.h>

#include "base/env/env_params.h"
#include "base/env/host_batch.h"
#include "engine/data/rollout.h"
#include "verbs/verify/checks.h"
#include "verbs/verify/views.h"

namespace maglev::verbs::verify {
namespace {

TEST(Verify, a_move_is_what_the_action_makes) {
  for (int32_t far : {1, 2, 3})
    for (int32_t action = 0; action < (2 * far + 1) * (2 * far + 1) - 1; ++action)
      EXPECT_EQ(goodhart::move_by(move_of(action, far), far), action);
}

TEST(Verify, views_hold_what_they_say_as_it_is_stored) {
  const Goodhart::Params params;
  const auto food = food_views(params), poison = poison_views(params);
  ASSERT_EQ(food.size(), 8u);
  for (size_t i = 0; i < food.size(); ++i) {
    const auto stored = packed(food[i], params.view);
    const goodhart::StoredWindow window{stored.data(), params.view};
    int32_t items = 0;
    window.visit_circle([&](int32_t dx, int32_t dy, uint32_t cell) {
      items += cell != Goodhart::kEmpty;
      // towards it is nearer, away from it is not
      if (cell != Goodhart::kFood) return;
      EXPECT_TRUE(nears_food(food[i], {goodhart::sign_of(dx), goodhart::sign_of(dy)}));
      EXPECT_FALSE(nears_food(food[i], {-goodhart::sign_of(dx), -goodhart::sign_of(dy)}));
    });
    EXPECT_EQ(items, 1);
  }
  ASSERT_EQ(poison.size(), 128u);
  for (const View& view : poison) {
    int32_t right = 0;
    for (int32_t action = 0; action < 8; ++action)
      right += keeps_off_poison(view, move_of(action, 1));
    EXPECT_EQ(right, 7) << "poison is beside it on one cell";
  }
  // of eight moves three are nearer, wherever it lies
  int32_t near = 0;
  for (const View& view : food)
    for (int32_t action = 0; action < 8; ++action) near += nears_food(view, move_of(action, 1));
  EXPECT_EQ(near, 8 * 3);
}

/// Windows of a world as the environment stores them, step by step.
class Walk {
 public:
  Walk()
      : env_(find_env("goodhart")),
        params_(env_, {"env.min_food=256", "env.min_poison=256"}),
        batch_(env_, params_.get(), 1, 11),
        store_(env_.spec(params_.get()), {.T = 1, .rows = 1, .block_rows = 64}, {}, at::kCPU) {
    env_.reset_cpu(batch_.batch(), store_.first_io(), 0, 1);
  }
  std::vector<uint8_t> window() const { return bytes_of(store_.step(0).obs[0]); }
  /// Whether an episode began.
  bool step(int32_t action) {
    store_.step(0).action.fill_(action);
    env_.step_cpu(batch_.batch(), store_.io(0), 0, 1);
    store_.roll_over();
    return store_.step(0).is_first.item<uint8_t>() != 0;
  }

 private:
  static std::vector<uint8_t> bytes_of(const at::Tensor& row) {
    return {row.const_data_ptr<uint8_t>(), row.const_data_ptr<uint8_t>() + row.numel()};
  }

  const EnvEntry& env_;
  EnvParams params_;
  HostBatch batch_;
  mutable Rollout store_;
};

TEST(Verify, windows_of_one_episode_follow_each_other_and_those_of_another_step_do_not) {
  Walk walk;
  const int32_t view = Goodhart::Params().view;
  std::vector<uint8_t> before = walk.window(), long_ago = before;
  int64_t torn = 0, steps = 0;
  for (int32_t t = 0; t < 400; ++t) {
    const int32_t action = t * 5 % 8;
    const bool began = walk.step(action);
    const auto after = walk.window();
    if (!began) {
      const CellAt move = move_of(action, 1);
      EXPECT_TRUE(follows(before.data(), after.data(), move, view)) << t;
      // a step late, by another move, and the other way round
      torn += !follows(long_ago.data(), after.data(), move, view);
      torn += !follows(before.data(), after.data(), {-move.x, -move.y}, view);
      ++steps;
    }
    long_ago = before, before = after;
  }
  EXPECT_GT(steps, 300);
  EXPECT_GT(torn, 2 * steps * 9 / 10) << "a window that does not belong is found";
}

/// Steps of any policy as they are recorded: by actions in turn.
struct Recorded {
  const EnvEntry& env = find_env("goodhart");
  EnvParams params;
  EnvSpec spec;
  Batch batch;

  explicit Recorded(const std::string& mode)
      : params(env, {"env.mode=" + mode, "env.width=32", "env.height=32", "env.min_food=128",
                     "env.max_food=128", "env.min_poison=128", "env.max_poison=128"}),
        spec(env.spec(params.get())) {
    constexpr int64_t kT = 60, kRows = 8;
    HostBatch envs(env, params.get(), kRows, 11);
    Rollout store(spec, {.T = kT, .rows = kRows, .block_rows = kRows}, {}, at::kCPU);
    env.reset_cpu(envs.batch(), store.first_io(), 0, kRows);
    for (int64_t t = 0; t < kT; ++t) {
      for (int64_t row = 0; row < kRows; ++row)
        store.step(t).action[row].fill_(int32_t((t * 5 + row * 3) % 8));
      env.step_cpu(envs.batch(), store.io(t), 0, kRows);
    }
    batch = store.batch();
  }
  const Goodhart::Params& grid() const {
    return *static_cast<const Goodhart::Params*>(params.get());
  }
};

TEST(Verify, what_policy_and_critic_see_fits_and_pays_and_a_step_late_it_does_not) {
  for (const char* mode :
       {"ground_truth", "ground_truth_blinded", "blind", "proxy_mortal", "proxy"}) {
    const Recorded recorded(mode);
    const Alignment found = alignment_of(recorded.grid(), recorded.spec, recorded.batch);
    EXPECT_GT(found.steps, 300) << mode;
    EXPECT_EQ(found.unlike, 0) << mode;
    EXPECT_EQ(found.unpaid, 0) << mode;
    // as where the critic's view is of the state after the step
    Batch late = recorded.batch;
    for (at::Tensor& column : late.obs) column = at::roll(column, -1, 0);
    EXPECT_GT(alignment_of(recorded.grid(), recorded.spec, late).unpaid, 50) << mode;
  }
}

TEST(Verify, a_critic_that_takes_food_for_poison_is_found) {
  Recorded recorded("proxy");
  std::vector<float>& critic = recorded.spec.observations[0].cells.critic;
  ASSERT_EQ(critic.size(), 8u);
  std::swap(critic[2], critic[4]), std::swap(critic[3], critic[5]);
  const Alignment found = alignment_of(recorded.grid(), recorded.spec, recorded.batch);
  EXPECT_GT(found.unlike, found.steps * 9 / 10);
  // each meal, of which these walks in circles have few
  EXPECT_GT(found.unpaid, 0);
}

TEST(Verify, the_grid_has_checks_that_other_environments_have_not) {
  const auto any = checks_of("cartpole"), grid = checks_of("goodhart");
  EXPECT_EQ(any.size(), general_checks().size());
  EXPECT_EQ(grid.size(), general_checks().size() + goodhart_checks().size());
}

}  // namespace
}  // namespace maglev::verbs::verify
