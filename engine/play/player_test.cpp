#include "engine/play/player.h"

#include <limits>
#include <string>
#include <vector>

#include <ATen/ATen.h>

#include <gtest/gtest.h>

#include "base/env/env_params.h"
#include "base/env/host_batch.h"
#include "engine/data/rollout.h"
#include "engine/play/evaluate.h"
#include "tests/errors.h"

namespace maglev {
namespace {

constexpr int64_t kPlayed = 5, kSteps = 12;

Game game_in(const EnvEntry& env, const EnvParams& params, ThreadPool& pool) {
  return {.env = env,
          .params = params.get(),
          .spec = env.spec(params.get()),
          .placement = {.device = at::kCPU, .threads = pool.threads()},
          .pool = pool};
}

void expect_allowed(const TimeStep& step, const ActionSpec& action, const std::string& who) {
  for (int64_t r = 0; r < step.rows(); ++r) {
    int64_t before = 0;
    for (int64_t d = 0; d < action.dims(); ++d) {
      const at::Tensor chosen = step.action[r][d];
      if (!action.discrete()) {
        EXPECT_GE(chosen.item<float>(), action.low[size_t(d)]) << who;
        EXPECT_LE(chosen.item<float>(), action.high[size_t(d)]) << who;
        continue;
      }
      const auto k = chosen.item<int32_t>();
      ASSERT_GE(k, 0) << who;
      ASSERT_LT(k, action.heads[size_t(d)]) << who;
      if (step.mask.defined()) {
        EXPECT_EQ(step.mask[r][before + k].item<uint8_t>(), 1) << who;
      }
      before += action.heads[size_t(d)];
    }
  }
}

TEST(Player, every_environment_has_a_random_one_and_all_that_are_scripted_give_what_is_allowed) {
  claim_threads();
  ThreadPool pool(1);
  for (const EnvEntry& env : env_table()) {
    const EnvParams params(env, {});
    const Game game = game_in(env, params, pool);
    HostBatch batch(env, params.get(), kPlayed, 7);
    Rollout store(game.spec, {.T = 1, .rows = kPlayed * game.spec.agents, .block_rows = 64}, {},
                  at::kCPU);
    env.reset_cpu(batch.batch(), store.first_io(), 0, kPlayed);
    const auto names = scripted_players(env);
    EXPECT_EQ(names.back(), "random") << env.name;
    for (const std::string& name : names) {
      const auto player = make_player(name, game, ActMode::sample);
      Carry carry = player->initial_carry(kPlayed * game.spec.agents);
      player->act(store.step(0), carry, {.seed = 3, .purpose = Purpose::eval});
      // a bot's pull may be beyond the range, which environments clip; at random it is within
      if (game.spec.action.discrete() || name == "random")
        expect_allowed(store.step(0), game.spec.action, std::string(env.name) + ", " + name);
    }
  }
}

TEST(Player, scripted_ones_do_the_same_for_any_number_of_threads_and_another_seed_another) {
  claim_threads();
  for (const EnvEntry& env : env_table()) {
    if (env.library) continue;  // a library's steps are slow, and not what is looked at
    const EnvParams params(env, {});
    for (const std::string& name : scripted_players(env)) {
      const auto judged = [&](int threads, uint64_t seed) {
        ThreadPool pool(threads);
        const Game game = game_in(env, params, pool);
        std::vector<double> counted;
        evaluate(
            *make_player(name, game, ActMode::sample), game,
            {.steps = 80 * kSteps, .envs = 80, .seed = seed, .life = [&](const Life& life) {
               counted.push_back(double(life.steps));
               for (double e : life.events) counted.push_back(e);
               counted.push_back(life.last.obs[0][life.row].to(at::kDouble).sum().item<double>());
             }});
        return counted;
      };
      EXPECT_EQ(judged(1, 5), judged(3, 5)) << env.name << ", " << name;
      if (env.name == std::string("goodhart") || env.name == std::string("pendulum")) {
        EXPECT_NE(judged(1, 5), judged(1, 6)) << env.name << ", " << name;
      }
    }
  }
}

TEST(Player, one_that_is_not_there_is_answered_with_those_that_are) {
  const EnvEntry& env = find_env("goodhart");
  const EnvParams params(env, {});
  ThreadPool pool(1);
  const Game game = game_in(env, params, pool);
  const std::string message = error_of([&] { make_player("seeker", game, ActMode::sample); });
  EXPECT_TRUE(contains(message, "omniscient_seeker, proxy_seeker, random")) << message;
}

/// Remembers what it was asked to draw by.
class Asked final : public Policy {
 public:
  explicit Asked(std::string temperature_obstacle)
      : temperature_obstacle_(std::move(temperature_obstacle)) {}
  int64_t block_rows() const override { return 2; }
  void act(TimeStep&, Carry&, ActMode, const ActKey& key) override {
    temperatures.push_back(key.temperature);
  }
  std::string temperature_obstacle() const override { return temperature_obstacle_; }
  void visit_state(StateVisitor&) override {}

  std::vector<float> temperatures;

 private:
  std::string temperature_obstacle_;
};

TEST(Player, hands_a_temperature_to_a_policy_that_takes_one_and_refuses_it_for_others) {
  Asked takes(""), refuses("its actions are planned");
  TimeStep step;
  step.action = at::zeros({3, 1}, at::kInt);
  step.is_first = at::zeros({3}, at::kByte);
  Carry carry;
  PolicyPlayer(takes, "run", ActMode::sample, 0.5f).act(step, carry, {});
  EXPECT_EQ(takes.temperatures, (std::vector<float>{0.5f, 0.5f}));
  PolicyPlayer(refuses, "run", ActMode::sample).act(step, carry, {});
  EXPECT_EQ(refuses.temperatures, (std::vector<float>{1, 1}));
  const auto refused = [](Policy& policy, ActMode mode, float temperature) {
    return error_of([&] { PolicyPlayer(policy, "run", mode, temperature); });
  };
  EXPECT_TRUE(contains(refused(refuses, ActMode::sample, 2), "its actions are planned"));
  EXPECT_TRUE(contains(refused(takes, ActMode::sample, 0), "--actions mean"));
  for (const float wrong : {-1.f, 2000.f, std::numeric_limits<float>::quiet_NaN()})
    EXPECT_TRUE(contains(refused(takes, ActMode::sample, wrong), "above 0")) << wrong;
  EXPECT_TRUE(contains(refused(takes, ActMode::mean, 2), "the same at every temperature"));

  // nor is it silent where nobody has a policy
  const EnvEntry& env = find_env("cartpole");
  const EnvParams params(env, {});
  ThreadPool pool(1);
  Game game = game_in(env, params, pool);
  game.temperature = 2;
  EXPECT_TRUE(contains(error_of([&] { make_player("random", game, ActMode::sample); }),
                       "no policy that a temperature could be of"));
  EXPECT_EQ(as_trained(game).temperature, 1);
}

TEST(Player, lives_of_an_evaluation_are_all_its_steps) {
  claim_threads();
  const EnvEntry& env = find_env("cartpole");
  const EnvParams params(env, {});
  ThreadPool pool(2);
  const Game game = game_in(env, params, pool);
  RandomPlayer random(game.spec);
  int64_t steps = 0, ended = 0, going_on = 0;
  const EvalResult r =
      evaluate(random, game, {.steps = 64 * 100, .envs = 64, .life = [&](const Life& l) {
                                steps += l.steps;
                                (l.terminated || l.truncated ? ended : going_on) += 1;
                              }});
  EXPECT_EQ(steps, r.steps);
  EXPECT_GT(ended, 64);
  // an environment whose last episode ended on the last step has none that goes on
  EXPECT_LE(going_on, 64);
  EXPECT_GT(going_on, 48);
  EXPECT_TRUE(r.returns.empty()) << "they would grow with the steps";
}

}  // namespace
}  // namespace maglev
