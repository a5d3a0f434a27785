// What findings propose to set is accepted by the run they were found in, and is not set already.

#include <gtest/gtest.h>

#include "base/timeline/origin.h"
#include "base/timeline/remedies.h"
#include "engine/algo/experiment.h"

namespace maglev {
namespace {

constexpr size_t kRemedies = names_of(Remedy{}).size();

// a run as its trace would tell of it
TraceOrigin origin_of_run(const Experiment& experiment, int64_t threads, int64_t processors) {
  TraceOrigin origin{.algorithm = experiment.algo().name,
                     .ours = true,
                     .threads = threads,
                     .processors = processors,
                     .iteration_steps = 4096,
                     .block_environments = 64};
  for (const Field& field : experiment.table().fields())
    origin.settings[field.name] = field.plain();
  return origin;
}

std::vector<std::string> words(const std::string& settings) {
  std::vector<std::string> all;
  for (size_t begin = 0; begin < settings.size();) {
    const size_t end = std::min(settings.find(' ', begin), settings.size());
    all.push_back(settings.substr(begin, end - begin));
    begin = end + 1;
  }
  return all;
}

TEST(Remedies, every_patch_is_accepted_by_every_algorithm_and_proposed_once) {
  for (const AlgoEntry& algo : algo_table()) {
    std::vector<bool> proposed(kRemedies);
    for (const auto& [threads, processors] : {std::pair<int64_t, int64_t>{1, 8}, {32, 8}})
      for (size_t remedy = 0; remedy < kRemedies; ++remedy) {
        SCOPED_TRACE(std::string(algo.name) + " " + names_of(Remedy{})[remedy]);
        Experiment experiment(algo.name, "cartpole");
        experiment.run.threads = threads, experiment.run.eval_every = 1000;
        const std::string minibatch = std::string(algo.name) + ".minibatch";
        if (experiment.table().find(minibatch)) experiment.table().set(minibatch, "8");
        const RunPatch patch =
            patch_for(Remedy(remedy), origin_of_run(experiment, threads, processors), 0.5);
        if (patch.settings.empty()) continue;
        proposed[remedy] = true;
        EXPECT_GT(patch.gain, 0);
        EXPECT_LE(patch.gain, 0.5);
        for (const std::string& word : words(patch.settings))
          EXPECT_NO_THROW(experiment.table().override_with(word)) << word;
        // a run that has it is not told again
        const RunPatch again = patch_for(
            Remedy(remedy), origin_of_run(experiment, experiment.run.threads, processors), 0.01);
        EXPECT_EQ(again.settings, "");
      }
    for (const Remedy remedy : {Remedy::more_threads, Remedy::fewer_threads, Remedy::log_less,
                                Remedy::save_less, Remedy::evaluate_less})
      EXPECT_TRUE(proposed[size_t(remedy)]) << algo.name << " " << names_of(remedy)[size_t(remedy)];
    EXPECT_FALSE(proposed[size_t(Remedy::none)]);
  }
}

TEST(Remedies, look_at_what_the_run_has) {
  Experiment experiment("ppo", "cartpole");
  experiment.run.env_count = 8;
  TraceOrigin origin = origin_of_run(experiment, 1, 2);
  // one block of rows is one thread's
  EXPECT_EQ(patch_for(Remedy::more_threads, origin, 0.8).settings, "threads=2 env.count=128");
  EXPECT_DOUBLE_EQ(patch_for(Remedy::more_threads, origin, 0.8).gain, 0.4);
  origin.block_environments = 1;
  EXPECT_EQ(patch_for(Remedy::more_threads, origin, 0.8).settings, "threads=2");
  // no more threads than processors
  origin.threads = 2;
  EXPECT_EQ(patch_for(Remedy::more_threads, origin, 0.8).settings, "");
  EXPECT_EQ(patch_for(Remedy::fewer_threads, origin, 0.8).settings, "");
  origin.threads = 16;
  EXPECT_EQ(patch_for(Remedy::fewer_threads, origin, 0.8).settings, "threads=2");
  // rows come once an iteration at most: 4096 steps, and as much again for all but 2 % of the rest
  origin.settings["train.log_every"] = "1";
  EXPECT_EQ(patch_for(Remedy::log_less, origin, 0.5).settings, "train.log_every=210000");
  EXPECT_EQ(patch_for(Remedy::log_less, origin, 0.01).settings, "");
  // what is off is not put off
  EXPECT_EQ(patch_for(Remedy::evaluate_less, origin, 0.5).settings, "");
  origin.settings["ppo.minibatch"] = "8";
  EXPECT_EQ(patch_for(Remedy::larger_minibatch, origin, 0.5).settings, "ppo.minibatch=256");
  // a trace that says no settings
  EXPECT_EQ(
      patch_for(Remedy::log_less, {.ours = true, .threads = 4, .processors = 8}, 0.5).settings, "");
}

}  // namespace
}  // namespace maglev
