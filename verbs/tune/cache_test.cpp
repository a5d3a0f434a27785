#include "verbs/tune/cache.h"

#include <cstdlib>

#include <gtest/gtest.h>

#include "base/core/error.h"
#include "base/core/file.h"
#include "tests/errors.h"
#include "tests/folder.h"
#include "verbs/hardware.h"

namespace maglev::verbs::tune {
namespace {

/// A cache folder of the test's own.
class TuneCache : public testing::Test {
 protected:
  void SetUp() override {
    if (const char* before = std::getenv("XDG_CACHE_HOME")) before_ = before;
    setenv("XDG_CACHE_HOME", (test_folder() + "/cache").c_str(), 1);
  }
  void TearDown() override {
    if (before_.empty()) unsetenv("XDG_CACHE_HOME");
    else setenv("XDG_CACHE_HOME", before_.c_str(), 1);
    remove_tree(test_folder() + "/cache");
  }

  static Tuned one() {
    Tuned tuned{.made = "2026-11-23 12:00", .settings = {{"threads", "1"}}, .outcome = {}};
    tuned.outcome.rows = {{.candidate = {},
                           .state = State::measured,
                           .bytes = 10,
                           .peak_bytes = 20,
                           .speed = 100,
                           .gain = 1,
                           .finals = {99, 101},
                           .why = "as it is"},
                          {.candidate = {{"threads", "1"}},
                           .state = State::measured,
                           .bytes = 9,
                           .peak_bytes = 19,
                           .speed = 120,
                           .gain = 1.2,
                           .finals = {119, 121},
                           .why = "chosen"}};
    tuned.outcome.chosen = 1;
    tuned.outcome.unfinished = true;
    tuned.budget = 5;
    return tuned;
  }
  static CacheKey key_with(const std::string& setting) {
    Experiment experiment("ppo", "cartpole");
    if (!setting.empty()) experiment.table().override_with(setting);
    return cache_key(experiment);
  }

  std::string before_;
};

TEST_F(TuneCache, gives_back_what_was_written) {
  const CacheKey key = key_with("");
  EXPECT_FALSE(read_cache(key));
  const std::string file = write_cache(key, one());
  EXPECT_TRUE(file.starts_with(test_folder() + "/cache/maglev/tune/")) << file;
  const auto back = read_cache(key);
  ASSERT_TRUE(back);
  EXPECT_EQ(back->settings, one().settings);
  EXPECT_EQ(back->made, one().made);
  EXPECT_EQ(back->outcome.chosen, 1u);
  EXPECT_EQ(back->outcome.rows[1].finals, one().outcome.rows[1].finals);
  EXPECT_EQ(back->outcome.rows[0].why, "as it is");
}

TEST_F(TuneCache, one_that_ran_out_of_time_stands_until_there_is_more) {
  const CacheKey key = key_with("");
  Tuned tuned = one();
  write_cache(key, tuned);
  EXPECT_FALSE(read_cache(key)->outdone_by(5));
  EXPECT_TRUE(read_cache(key)->outdone_by(40));
  Experiment experiment("ppo", "cartpole");
  EXPECT_NE(load_profile(experiment, "auto", "").at(0).find("./maglev tune ppo cartpole --budget "),
            std::string::npos);
  tuned.outcome.unfinished = false;
  write_cache(key, tuned);
  EXPECT_FALSE(read_cache(key)->outdone_by(40));
}

TEST_F(TuneCache, is_of_the_settings_that_shape_the_work) {
  for (const char* same : {"seed=7", "train.steps=5000", "ppo.lr=1e-3", "train.eval_every=100"})
    EXPECT_EQ(key_with(same).text, key_with("").text) << same;
  for (const char* other : {"env.count=16", "ppo.rollout=64", "ppo.network.hidden=[32]",
                            "threads=1", "train.precision=bf16", "device=cpu"})
    EXPECT_NE(key_with(other).text, key_with("").text) << other;
  Experiment experiment("ppo", "cartpole");
  const std::vector<std::string> learning = {"env.count"};
  EXPECT_NE(cache_key(experiment, learning).text, cache_key(experiment).text);
}

TEST_F(TuneCache, one_that_is_damaged_is_none) {
  const CacheKey key = key_with("");
  const std::string file = write_cache(key, one());
  const std::string text = read_file(file, 1 << 20);
  for (size_t bytes = 0; bytes + 3 < text.size(); bytes += 7) {
    write_atomic(file, text.substr(0, bytes));
    EXPECT_FALSE(read_cache(key)) << bytes;
  }
}

TEST_F(TuneCache, is_what_auto_stands_for_below_the_command_line) {
  write_cache(key_with(""), one());
  Experiment experiment("ppo", "cartpole");
  const auto notes = load_profile(experiment, "auto", "");
  EXPECT_EQ(experiment.run.threads, 1);
  EXPECT_EQ(experiment.run.hardware, "auto");
  EXPECT_NE(notes.at(0).find("threads=1"), std::string::npos);
  // another machine, or another work
  Experiment other("ppo", "cartpole");
  other.table().override_with("env.count=16");
  EXPECT_NE(load_profile(other, "auto", "").at(0).find("nothing was tuned"), std::string::npos);
  EXPECT_EQ(other.run.threads, 0);
}

TEST_F(TuneCache, a_profile_gives_way_to_what_was_given_and_leaves_out_other_algorithms) {
  const std::string file = test_folder() + "/mine.yaml";
  write_atomic(file, "threads: 1\ntdmpc2.fused: off\nppo: {fused: false}\nenv: {count: 3}\n");
  Experiment experiment("ppo", "cartpole");
  experiment.table().override_with("env.count=16");
  experiment.table().set("ppo.fused", "true", "proven.yaml", Origin::proven);
  const auto notes = load_profile(experiment, file, "");
  EXPECT_EQ(experiment.run.threads, 1);
  EXPECT_EQ(experiment.run.env_count, 16);
  EXPECT_EQ(experiment.table().find("ppo.fused")->plain(), "false");
  ASSERT_EQ(notes.size(), 1u);
  EXPECT_NE(notes[0].find("tdmpc2.fused"), std::string::npos);
  write_atomic(file, "thraeds: 1\n");
  EXPECT_THROW(load_profile(experiment, file, ""), Error);
  // variables are no settings, and what does it instead is told
  write_atomic(file, "env_vars:\n  OMP_NUM_THREADS: \"8\"\n");
  EXPECT_NE(error_of([&] { load_profile(experiment, file, ""); }).find("set threads=<count>"),
            std::string::npos);
}

}  // namespace
}  // namespace maglev::verbs::tune
