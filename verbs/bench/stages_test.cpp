#include "verbs/bench/stages.h"

#include <algorithm>

#include <gtest/gtest.h>

#include "engine/algo/experiment.h"
#include "verbs/bench/run_child.h"

namespace maglev::verbs::bench {
namespace {

size_t index_of(const std::vector<Stage>& all, const std::string& name) {
  const auto found =
      std::find_if(all.begin(), all.end(), [&](const Stage& stage) { return stage.name == name; });
  EXPECT_NE(found, all.end()) << name;
  return size_t(found - all.begin());
}

std::string value_of(const std::vector<std::string>& settings, const std::string& name) {
  for (const std::string& setting : settings)
    if (setting.starts_with(name + "=")) return setting.substr(name.size() + 1);
  return "";
}

TEST(stages, values_of_every_switch_are_taken_by_the_settings_it_names) {
  for (const AlgoEntry& algo : algo_table())
    for (const Stage& stage : stages(algo.name, 64, 32))
      for (const Switch& one : stage.switches) {
        Experiment experiment(algo.name, algo.small.env);
        if (!experiment.table().find(one.name)) continue;
        for (const std::string& value : {one.before, one.after})
          EXPECT_NO_THROW(experiment.table().set(one.name, value)) << one.name << "=" << value;
      }
}

TEST(stages, an_update_takes_as_many_steps_in_every_stage) {
  const auto all = stages("ppo", 64, 32);
  const std::vector<bool> none(all.size(), false);
  for (size_t i = 0; i < all.size(); ++i) {
    Experiment experiment("ppo", "cartpole");
    for (const std::string& setting : settings_at(all, i, none, experiment.table()))
      experiment.table().override_with(setting);
    const int64_t rollout = std::stoll(experiment.table().find("ppo.rollout")->text());
    EXPECT_EQ(experiment.run.env_count * rollout, 64 * 32) << all[i].name;
  }
}

TEST(stages, a_stage_switches_on_what_it_names_and_keeps_what_was_on) {
  const auto all = stages("ppo", 64, 32);
  const std::vector<bool> none(all.size(), false);
  Experiment experiment("ppo", "cartpole");
  const auto at = [&](const char* name) {
    return settings_at(all, index_of(all, name), none, experiment.table());
  };
  EXPECT_EQ(value_of(at("vectorised"), "threads"), "1");
  EXPECT_EQ(value_of(at("threads"), "threads"), "0");
  EXPECT_EQ(value_of(at("threads"), "ppo.network.fast_tanh"), "false");
  EXPECT_EQ(value_of(at("own tanh"), "ppo.network.fast_tanh"), "true");
  EXPECT_EQ(value_of(at("own tanh"), "threads"), "0");
  EXPECT_EQ(value_of(at("own layers"), "ppo.network.cnn.winograd"), "false");
  EXPECT_EQ(value_of(at("winograd"), "ppo.network.cnn.winograd"), "true");
  EXPECT_EQ(value_of(at("winograd"), "ppo.network.cnn.fused_layers"), "true");
}

TEST(stages, what_was_given_is_what_a_stage_switches_on) {
  Experiment experiment("ppo", "cartpole");
  experiment.table().override_with("threads=2");
  const auto all = as_given(stages("ppo", 64, 32), experiment.table());
  const std::vector<bool> none(all.size(), false);
  const auto at = [&](const char* name) {
    return settings_at(all, index_of(all, name), none, experiment.table());
  };
  EXPECT_EQ(value_of(at("vectorised"), "threads"), "1");
  EXPECT_EQ(value_of(at("threads"), "threads"), "2");
  EXPECT_EQ(value_of(at("own tanh"), "ppo.network.fast_tanh"), "true");
  // words as they are given, not as a file quotes them; what is proven is no wish
  experiment.table().override_with("train.precision=fp32");
  experiment.table().set("ppo.network.fast_tanh", "false", "proven", Origin::proven);
  const auto again = as_given(stages("ppo", 64, 32), experiment.table());
  EXPECT_EQ(value_of(settings_at(again, index_of(again, "bf16"), none, experiment.table()),
                     "train.precision"),
            "fp32");
  EXPECT_EQ(value_of(settings_at(again, index_of(again, "own tanh"), none, experiment.table()),
                     "ppo.network.fast_tanh"),
            "true");
}

TEST(stages, a_skipped_stage_stays_off_in_those_after_it) {
  const auto all = stages("ppo", 64, 32);
  std::vector<bool> skipped(all.size(), false);
  skipped[index_of(all, "own tanh")] = true;
  Experiment experiment("ppo", "cartpole");
  const auto last = settings_at(all, all.size() - 1, skipped, experiment.table());
  EXPECT_EQ(value_of(last, "ppo.network.fast_tanh"), "false");
  EXPECT_EQ(value_of(last, "threads"), "0");
}

TEST(stages, what_an_algorithm_or_machine_lacks_is_named) {
  Experiment experiment("ppo", "cartpole");
  const Stage unknown{.name = "x", .what = "", .switches = {{"ppo.nonesuch", "false", "true"}}};
  const Placement gpu{.device = at::Device(at::kCUDA, 0)}, cpu{.device = at::kCPU};
  EXPECT_EQ(lacking(unknown, experiment, gpu), "ppo has no such setting: ppo.nonesuch");
  const Stage device{.name = "x", .what = "", .switches = {}, .needs_cuda = true};
  EXPECT_EQ(lacking(device, experiment, cpu), "needs a CUDA device");
  EXPECT_EQ(lacking(device, experiment, gpu), "");
  // a network without convolutions gains nothing by theirs
  const auto all = stages("ppo", 64, 32);
  EXPECT_EQ(lacking(all[index_of(all, "own layers")], experiment, cpu), "the network is mlp");
  EXPECT_EQ(lacking(all[index_of(all, "own tanh")], experiment, cpu), "");
  experiment.table().override_with("ppo.network.activation=relu");
  EXPECT_EQ(lacking(all[index_of(all, "own tanh")], experiment, cpu), "the activation is relu");
}

TEST(stages, an_algorithm_without_a_switch_leaves_its_stage_out) {
  Experiment experiment("tdmpc2", "pendulum");
  const auto all = stages("tdmpc2", 64, 1);
  const Stage& vectorised = all[index_of(all, "vectorised")];
  EXPECT_EQ(lacking(vectorised, experiment, {.device = at::kCPU}),
            "tdmpc2 has no such setting: tdmpc2.rollout");
  EXPECT_EQ(lacking(all[index_of(all, "threads")], experiment, {.device = at::kCPU}), "");
}

TEST(stages, what_is_of_one_network_or_algorithm_is_a_stage_of_its_runs_alone) {
  const Placement cpu{.device = at::kCPU}, gpu{.device = at::Device(at::kCUDA, 0)};
  const auto why = [](const char* algo, const char* env, const char* stage,
                      const Placement& placement) {
    const auto all = stages(algo, 64, 1);
    return lacking(all[index_of(all, stage)], Experiment(algo, env), placement);
  };
  for (const char* stage : {"packed goals", "own goals"}) {
    EXPECT_EQ(why("ppo", "kg", stage, cpu), "") << stage;
    EXPECT_EQ(why("ppo", "cartpole", stage, cpu), "the network is mlp") << stage;
  }
  EXPECT_EQ(why("ppo", "cartpole", "own memory", cpu), "ppo.network.memory is 0");
  Experiment remembering("ppo", "cartpole");
  remembering.table().override_with("ppo.network.memory=8");
  const auto of_ppo = stages("ppo", 64, 32);
  EXPECT_EQ(lacking(of_ppo[index_of(of_ppo, "own memory")], remembering, cpu), "");
  EXPECT_EQ(why("tdmpc2", "pendulum", "pruned", cpu), "");
  EXPECT_EQ(why("dreamer", "pendulum", "pruned", cpu),
            "dreamer has no such setting: dreamer.prune");
  EXPECT_EQ(why("dreamer", "pendulum_pixels", "own images", cpu), "");
  EXPECT_EQ(why("dreamer", "pendulum_pixels", "own images", gpu), "it is for a processor");
  EXPECT_EQ(why("dreamer", "pendulum", "own images", cpu), "nothing is seen as an image");
  for (const char* algo : {"tdmpc2", "dreamer"}) {
    EXPECT_EQ(why(algo, "pendulum", "next batch ahead", cpu), "") << algo;
    EXPECT_EQ(why(algo, "pendulum", "overlapped", cpu), "") << algo;
    EXPECT_EQ(why(algo, "pendulum", "overlapped", gpu), "") << algo;
  }
  EXPECT_EQ(why("ppo", "cartpole", "next batch ahead", cpu), "ppo has no replay");
  EXPECT_EQ(why("ppo", "cartpole", "overlapped", cpu), "ppo acts on what it learns");
  // a whole plan in few launches leaves out what cannot change it
  const auto all = stages("tdmpc2", 64, 1);
  EXPECT_LT(index_of(all, "pruned"), index_of(all, "fused"));
}

TEST(run_child, the_first_row_only_starts_the_clock) {
  const Speed speed = speed_of(
      "{\"step\": 100, \"seconds\": 5, \"loss/policy\": 1}\n{\"step\": 300, \"seconds\": 6}\n"
      "{\"step\": 500, \"seconds\": 7}\n{\"step\": 700, \"sec");
  EXPECT_EQ(speed.updates, 2);
  EXPECT_DOUBLE_EQ(speed.seconds, 2);
  EXPECT_DOUBLE_EQ(speed.steps_per_second, 200);
}

TEST(run_child, steps_before_the_first_update_do_not_count) {
  const Speed speed = speed_of(
      "{\"step\": 900, \"seconds\": 1, \"loss/policy\": null}\n{\"step\": 1000, \"seconds\": 5, "
      "\"loss/policy\": 1}\n{\"step\": 1100, \"seconds\": 6, \"loss/policy\": 1}\n");
  EXPECT_EQ(speed.updates, 1);
  EXPECT_DOUBLE_EQ(speed.steps_per_second, 100);
}

TEST(run_child, one_row_gives_no_figure) {
  EXPECT_EQ(speed_of("{\"step\": 100, \"seconds\": 5, \"loss/policy\": 1}\n").updates, 0);
  EXPECT_EQ(speed_of("").steps_per_second, 0);
}

}  // namespace
}  // namespace maglev::verbs::bench
