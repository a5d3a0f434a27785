#include "engine/play/evaluate.h"

#include <gtest/gtest.h>

#include "engine/algo/algorithm.h"
#include "engine/algo/experiment.h"

namespace maglev {
namespace {

EvalResult judged(const std::vector<std::string>& settings, const EvalOptions& options,
                  const char* env = "pendulum") {
  claim_threads();
  Experiment experiment("ppo", env);
  for (const auto& setting : settings) experiment.table().override_with(setting);
  const Placement placement{.device = at::kCPU, .threads = 1};
  ThreadPool pool(1);
  auto policy = experiment.algo().make_policy(experiment.algo_options(),
                                              context_of(experiment, placement, pool));
  policy->publish();
  PolicyPlayer player(*policy, "policy", ActMode::mean);
  return evaluate(player, game_of(experiment, placement, pool), options);
}

TEST(Evaluate, an_episode_that_never_ends_counts_as_far_as_it_came) {
  // nobody fails in pendulum: each environment's first episode is cut, its others never begin
  const EvalResult r =
      judged({"env.max_steps=1000000000"}, {.episodes = 7, .envs = 3, .longest_episode = 20});
  EXPECT_EQ(r.cut, 3);
  EXPECT_EQ(r.given_up, 4);
  EXPECT_EQ(r.episodes, 3);
  EXPECT_EQ(r.length_mean, 20);
  EXPECT_LT(r.return_max, 0);
  EXPECT_EQ(r.steps, 3 * 20);
  // as one that ends there
  const EvalResult ends =
      judged({"env.max_steps=20"}, {.episodes = 3, .envs = 3, .longest_episode = 21});
  EXPECT_EQ(r.returns, ends.returns);
}

TEST(Evaluate, what_became_of_episodes_that_did_not_end_is_one_sentence) {
  EXPECT_EQ(unended_note(0, 0, 100'000), "");
  EXPECT_EQ(unended_note(1, 0, 100'000),
            "1 episode had not ended after 100,000 steps and counts as far as it came");
  EXPECT_EQ(unended_note(3, 2, 20),
            "3 episodes had not ended after 20 steps and count as far as they came; 2 episodes had "
            "not ended, or not begun, after 20 steps and do not count");
}

TEST(Evaluate, episodes_within_the_limit_all_count) {
  const EvalResult r =
      judged({"env.max_steps=20"}, {.episodes = 7, .envs = 3, .longest_episode = 20});
  EXPECT_EQ(r.cut, 0);
  EXPECT_EQ(r.given_up, 0);
  EXPECT_EQ(r.episodes, 7);
  EXPECT_EQ(r.length_mean, 20);
}

TEST(Evaluate, games_that_the_environment_counts_are_won_drawn_and_lost) {
  const EvalResult r = judged({"env.opponent=weak"}, {.episodes = 200}, "hockey");
  EXPECT_EQ(r.wins + r.draws + r.losses, r.episodes);
  EXPECT_GT(r.losses, 0);
  EXPECT_GT(r.wins, 0);
  ASSERT_EQ(r.events.size(), r.events_per_1k.size());
  EXPECT_EQ(r.events[1], (std::pair<std::string, double>("conceded", double(r.losses))));
  EXPECT_EQ(r.shares[0], (std::pair<std::string, double>("win_rate", double(r.wins) / 200)));
  EXPECT_EQ(r.shares[1].second, double(r.wins) / double(r.wins + r.losses));
  for (size_t k = 0; k < r.events.size(); ++k)
    EXPECT_NEAR(r.events_per_1k[k].second, 1000 * r.events[k].second / double(r.steps), 1e-9);
  const EvalResult none = judged({"env.max_steps=20"}, {.episodes = 7});
  EXPECT_EQ(none.wins + none.draws + none.losses, 0);
}

}  // namespace
}  // namespace maglev
