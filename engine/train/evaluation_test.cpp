#include "engine/train/evaluation.h"

#include <gtest/gtest.h>

#include "engine/algo/experiment.h"
#include "tests/errors.h"

namespace maglev {
namespace {

// env.* settings of evaluations of a run on goodhart
std::unique_ptr<EnvParams> judged_in(const std::vector<std::string>& settings) {
  Experiment experiment("ppo", "goodhart");
  for (const auto& setting : settings) experiment.table().override_with(setting);
  return evaluation_env(experiment);
}

TEST(Evaluation, has_the_settings_of_training_but_for_its_own) {
  const auto env = judged_in({"env.mode=proxy", "env.max_steps=77", "env.width=32",
                              "train.eval_env=mode=ground_truth,max_steps=99"});
  const std::vector<std::pair<const char*, const char*>> expected{
      {"env.mode", "ground_truth"}, {"env.max_steps", "99"}, {"env.width", "32"}};
  for (const auto& [name, value] : expected)
    EXPECT_EQ(env->table().find(name)->plain(), value) << name;
  EXPECT_EQ(judged_in({"env.max_steps=77"})->table().find("env.max_steps")->plain(), "77");
}

TEST(Evaluation, of_frozen_energy_is_with_live_energy_unless_that_is_given) {
  const auto energy = [](const std::vector<std::string>& settings) {
    return judged_in(settings)->table().find("env.energy")->plain();
  };
  EXPECT_EQ(energy({"env.mode=proxy"}), "live");
  EXPECT_EQ(energy({"env.energy=frozen"}), "live");
  EXPECT_EQ(energy({"env.mode=proxy", "train.eval_env=energy=by_mode"}), "by_mode");
  EXPECT_EQ(energy({"env.mode=proxy_mortal"}), "by_mode") << "it is live";
  EXPECT_EQ(energy({"env.mode=proxy", "train.eval_env=mode=ground_truth"}), "by_mode");
  Experiment experiment("ppo", "goodhart");
  EXPECT_EQ(evaluation_note(experiment), "");
  experiment.table().override_with("env.mode=proxy");
  EXPECT_EQ(evaluation_note(experiment),
            "checkpoints are judged with env.energy=live (as in training: env.energy=by_mode)");
}

TEST(Evaluation, takes_settings_as_a_file_lists_them_and_as_eval_takes_them) {
  Experiment experiment("ppo", "goodhart");
  experiment.table().load_text("train: {eval_env: [env.max_steps=5, view=5]}", "mine.yaml");
  const auto env = evaluation_env(experiment);
  EXPECT_EQ(env->table().find("env.max_steps")->plain(), "5");
  EXPECT_EQ(env->table().find("env.view")->plain(), "5");
}

TEST(Evaluation, answers_wrong_settings_and_refuses_what_changes_what_is_seen) {
  const std::vector<std::pair<const char*, const char*>> wrong{
      {"max_step=9", "[train.eval_env] unknown setting 'env.max_step'"},
      {"max_step=9", "env.max_steps"},
      {"max_steps=0", "[train.eval_env] env.max_steps must be in [1"},
      {"max_steps", "[train.eval_env] settings are name=value, got 'env.max_steps'"},
      {"max_steps=9,,", "[train.eval_env] has an empty name"},
      {"view=3", "[train] train.eval_env=view=3 changes the environment's observations"},
      {"max_move=2", "[train] train.eval_env=max_move=2 changes the environment's observations"}};
  for (const auto& [given, expected] : wrong) {
    const std::string error =
        error_of([&] { judged_in({std::string("train.eval_env=") + given}); });
    EXPECT_TRUE(contains(error, expected)) << error;
  }
}

}  // namespace
}  // namespace maglev
