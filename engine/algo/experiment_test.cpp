#include "engine/algo/experiment.h"

#include <filesystem>
#include <fstream>
#include <memory>
#include <tuple>

#include <gtest/gtest.h>

#include "tests/errors.h"
#include "tests/folder.h"

namespace maglev {
namespace {

TEST(Experiment, a_proven_setting_gives_way_to_what_was_given) {
  Experiment experiment("ppo", "cartpole");
  experiment.table().load_text("{env: {count: 8}, ppo: {rollout: 32, minibatch: 256}}", "proven",
                               Origin::proven);
  experiment.table().override_with("env.count=1");
  const auto notes = experiment.settle();
  ASSERT_EQ(notes.size(), 1u);
  EXPECT_EQ(notes[0],
            "ppo.minibatch is 32 here and not 256 of the proven settings: it must be at most "
            "ppo.rollout * env.count = 32 rows");
  EXPECT_EQ(experiment.table().find("ppo.minibatch")->text(), "32");
  EXPECT_TRUE(experiment.settle().empty());
}

TEST(Experiment, begins_with_the_file_of_its_environment_or_with_that_of_any) {
  const std::string home = test_folder() + "/begins";
  std::filesystem::create_directories(home + "/configs/ppo");
  std::ofstream(home + "/configs/ppo/cartpole.yaml") << "ppo: {rollout: 32}\n";
  std::ofstream(home + "/configs/ppo/any.yaml") << "ppo: {rollout: 64}\n";
  for (const auto& [env, file, rollout] :
       {std::tuple{"cartpole", "cartpole.yaml", "32"}, {"pendulum", "any.yaml", "64"}}) {
    Experiment experiment("ppo", env);
    EXPECT_EQ(experiment.load_proven({home}), home + "/configs/ppo/" + file);
    EXPECT_EQ(experiment.table().find("ppo.rollout")->text(), rollout);
    EXPECT_EQ(experiment.table().find("ppo.rollout")->origin, Origin::proven);
  }
  EXPECT_EQ(Experiment("dreamer", "cartpole").load_proven({home}), "");
}

TEST(Experiment, begins_with_the_file_of_the_first_folder_that_has_one_for_its_environment) {
  const std::string home = test_folder() + "/of_two", mine = home + "/mine";
  for (const auto& [folder, name] :
       {std::pair{mine, "pendulum"}, {mine, "any"}, {home, "pendulum"}, {home, "cartpole"}}) {
    std::filesystem::create_directories(folder + "/configs/ppo");
    std::ofstream(folder + "/configs/ppo/" + name + ".yaml") << "ppo: {rollout: 32}\n";
  }
  const auto loaded = [&](const char* env) {
    return Experiment("ppo", env).load_proven({mine, home});
  };
  EXPECT_EQ(loaded("pendulum"), mine + "/configs/ppo/pendulum.yaml");
  EXPECT_EQ(loaded("cartpole"), home + "/configs/ppo/cartpole.yaml");
  EXPECT_EQ(loaded("acrobot"), mine + "/configs/ppo/any.yaml");
}

TEST(Experiment, an_algorithm_of_another_library_is_answered_with_ours) {
  const auto answer = [](const char* algo) {
    return error_of([&] { Experiment experiment(algo, "pendulum"); });
  };
  EXPECT_EQ(
      answer("SAC"),
      "[algo] SAC is not here; tdmpc2 learns continuous actions from a replay, and SAC itself is "
      "an example to copy, examples/algos/sac (./maglev train tdmpc2 ENVIRONMENT)");
  EXPECT_TRUE(contains(answer("dqn"), "; dreamer ")) << answer("dqn");
  EXPECT_TRUE(contains(answer("a2c"), "; ppo ")) << answer("a2c");
  EXPECT_EQ(answer("MuZero"),
            "[algo] MuZero is not here; tdmpc2 plans continuous actions in a model, and dreamer "
            "learns any actions in one (./maglev train tdmpc2 ENVIRONMENT)");
  EXPECT_TRUE(contains(answer("ppoo"), "did you mean ppo")) << answer("ppoo");
}

TEST(Experiment, a_default_gives_way_too) {
  Experiment experiment("tdmpc2", "pendulum");
  experiment.table().override_with("tdmpc2.samples=10");
  EXPECT_EQ(experiment.settle().size(), 2u);
  EXPECT_EQ(experiment.table().find("tdmpc2.elites")->text(), "10");
  EXPECT_EQ(experiment.table().find("tdmpc2.policy_trajectories")->text(), "9");
}

TEST(Experiment, a_potential_is_shaped_by_the_discount_that_is_learned_with) {
  const auto settled = [](std::vector<std::string> words) {
    auto experiment = std::make_unique<Experiment>("ppo", "goodhart");
    words.push_back("ppo.gamma=0.9");
    for (const std::string& word : words) experiment->table().override_with(word);
    auto notes = experiment->settle();
    return std::pair(experiment->table().find("env.shaping_gamma")->plain(), notes);
  };
  using Notes = std::vector<std::string>;
  EXPECT_EQ(settled({"env.mode=ground_truth_handhold"}),
            std::pair(std::string("0.9"),
                      Notes{"env.shaping_gamma is 0.9 here and not 0.99, as ppo.gamma=0.9"}));
  EXPECT_EQ(settled({"env.mode=ground_truth_handhold", "env.shaping_gamma=0.95"}),
            std::pair(std::string("0.95"),
                      Notes{"env.shaping_gamma=0.95 is another discount than ppo.gamma=0.9: what "
                            "the rewards are shaped by may change what is best"}));
  EXPECT_EQ(settled({"env.mode=ground_truth_handhold", "env.shaping_gamma=0.9"}).second, Notes{});
  // nothing is shaped
  EXPECT_EQ(settled({"env.mode=proxy"}), std::pair(std::string("0.99"), Notes{}));
  // a horizon says it too, once
  Experiment dreamer("dreamer", "goodhart");
  dreamer.table().override_with("env.mode=ground_truth_handhold");
  EXPECT_EQ(dreamer.settle(),
            Notes{"env.shaping_gamma is 0.996997 here and not 0.99, as dreamer.horizon=333"});
  EXPECT_TRUE(dreamer.settle().empty());
  // a discount that is chosen by the length of episodes is none yet
  Experiment planner("tdmpc2", "pendulum");
  EXPECT_TRUE(planner.table().find("tdmpc2.discount")->rule.discount);
  EXPECT_TRUE(planner.settle().empty());
}

TEST(Experiment, of_a_run_that_is_to_act_what_says_how_gives_way) {
  const auto run = [](const char* settings) {
    auto experiment = std::make_unique<Experiment>("tdmpc2", "pendulum");
    experiment->table().load_text(settings, "config.yaml");
    return experiment;
  };
  const auto acts = run("tdmpc2: {samples: 64, elites: 8, policy_trajectories: 16}");
  acts->table().override_with("tdmpc2.samples=16");
  EXPECT_TRUE(contains(error_of([&] { acts->settle(); }), "policy_trajectories must be at most"));
  const auto notes = acts->settle(/*of_run=*/true);
  ASSERT_EQ(notes.size(), 1u);
  EXPECT_EQ(notes[0],
            "tdmpc2.policy_trajectories is 15 here and not 16 of the run: it must be at most "
            "tdmpc2.samples - 1 = 15");
  // what was learned stays
  const auto learned = run("tdmpc2: {mlp_dim: 100, mpc: false}");
  learned->table().override_with("tdmpc2.mpc=true");
  EXPECT_TRUE(contains(error_of([&] { learned->settle(/*of_run=*/true); }), "tdmpc2.mlp_dim must"));
  // and so does what was given beside it
  const auto both = run("tdmpc2: {samples: 64}");
  both->table().override_with("tdmpc2.samples=16");
  both->table().override_with("tdmpc2.elites=17");
  EXPECT_TRUE(contains(error_of([&] { both->settle(/*of_run=*/true); }), "elites must be at most"));
}

TEST(Experiment, what_was_given_is_refused_where_it_contradicts_itself) {
  for (bool file : {false, true}) {
    Experiment experiment("ppo", "cartpole");
    experiment.table().override_with("env.count=1");
    if (file) experiment.table().load_text("ppo.minibatch: 4096", "mine.yaml");
    else experiment.table().override_with("ppo.minibatch=4096");
    EXPECT_TRUE(contains(error_of([&] { experiment.settle(); }),
                         "[ppo] ppo.minibatch must be at most ppo.rollout * env.count = 128 rows"));
    EXPECT_EQ(experiment.table().find("ppo.minibatch")->text(), "4096");
  }
}

}  // namespace
}  // namespace maglev
