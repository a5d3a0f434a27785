#include "engine/run/stored_experiment.h"

#include <gtest/gtest.h>

#include "base/core/file.h"
#include "engine/run/checkpoint_store.h"
#include "tests/errors.h"
#include "tests/folder.h"

namespace maglev {
namespace {

/// A run of PPO on CartPole that was trained with lr=0.001 and 7 epochs.
class StoredRun : public ::testing::Test {
 protected:
  StoredRun() {
    static int runs = 0;
    folder_ = test_folder() + "/stored" + std::to_string(runs++);
    make_dirs(folder_);
    Experiment experiment("ppo", "cartpole");
    experiment.table().override_with("ppo.lr=0.001");
    experiment.table().override_with("ppo.epochs=7");
    config_ = experiment.table().yaml();
    save(config_);
    write(config_);
  }
  void save(const std::string& yaml) {
    CheckpointStore(folder_, 0)
        .save({.algo = "ppo", .env = "cartpole", .options_yaml = yaml, .step = step_++},
              [](StateVisitor&) {});
  }
  void write(const std::string& yaml) { write_atomic(folder_ + "/config.yaml", yaml); }
  /// config.yaml with `now` in place of `was`.
  std::string with(const std::string& was, const std::string& now) const {
    std::string text = config_;
    const size_t place = text.find(was);
    EXPECT_NE(place, std::string::npos) << was;
    return text.replace(place, was.size(), now);
  }
  static std::string value(const Experiment& experiment, const char* name) {
    return experiment.table().find(name)->text();
  }

  std::string folder_, config_;
  int64_t step_ = 0;
};

TEST_F(StoredRun, that_nobody_touched_is_as_it_was_trained) {
  const StoredExperiment stored = stored_experiment(folder_);
  EXPECT_EQ(stored.note, "");
  EXPECT_EQ(stored.experiment->table().yaml(), config_);
  EXPECT_EQ(stored.trained->table().yaml(), config_);
}

TEST_F(StoredRun, whose_config_lacks_a_line_takes_it_from_the_checkpoint_and_says_so) {
  write(with("  lr: 0.001\n", ""));
  const StoredExperiment stored = stored_experiment(folder_);
  EXPECT_EQ(stored.experiment->table().yaml(), config_);
  EXPECT_TRUE(contains(stored.note, "lacks ppo.lr: taken from the newest checkpoint"))
      << stored.note;
}

TEST_F(StoredRun, whose_config_is_damaged_is_as_it_was_trained) {
  for (const std::string& damaged :
       {std::string(), std::string("{"), std::string("[1, 2]"),
        config_.substr(0, config_.find("  lr: 0.001")), with("  lr: 0.001", "  l: 0.001"),
        with("  lr: 0.001", "  lr: often"), config_ + config_}) {
    write(damaged);
    const StoredExperiment stored = stored_experiment(folder_);
    EXPECT_EQ(stored.experiment->table().yaml(), config_) << damaged;
    EXPECT_EQ(stored.trained->table().yaml(), config_) << damaged;
    EXPECT_TRUE(contains(stored.note, "newest checkpoint")) << stored.note;
  }
  remove_path(folder_ + "/config.yaml");
  EXPECT_TRUE(contains(stored_experiment(folder_).note, "is missing"));
}

TEST_F(StoredRun,
       whose_config_was_edited_goes_on_with_the_edit_and_knows_what_it_was_trained_with) {
  write(with("  lr: 0.001", "  lr: 0.002"));
  const StoredExperiment stored = stored_experiment(folder_);
  EXPECT_EQ(stored.note, "");
  EXPECT_EQ(value(*stored.experiment, "ppo.lr"), "0.002");
  EXPECT_EQ(value(*stored.trained, "ppo.lr"), "0.001");
}

TEST_F(StoredRun, of_before_a_setting_existed_has_its_default_and_nothing_is_damaged) {
  const std::string older = with("  monitor_every: 10\n", "");
  write(older);
  // also where a session of this version has saved since
  for (int session = 0; session < 2; ++session) {
    const StoredExperiment stored = stored_experiment(folder_);
    EXPECT_EQ(stored.note, "");
    EXPECT_EQ(stored.experiment->table().yaml(), config_);
    save(older);
  }
}

TEST_F(StoredRun,
       with_a_setting_that_this_version_has_not_is_refused_until_the_file_leaves_it_out) {
  const std::string other = with("ppo:\n", "ppo:\n  elsewhere: 3\n");
  save(other);
  write(other);
  const std::string error = error_of([&] { stored_experiment(folder_); });
  EXPECT_TRUE(contains(error, "config.yaml") && contains(error, "elsewhere")) << error;
  write(config_);
  const StoredExperiment stored = stored_experiment(folder_);
  EXPECT_EQ(stored.note, "");
  EXPECT_EQ(stored.trained->table().yaml(), config_);
}

TEST_F(StoredRun, without_checkpoints_has_its_file_alone) {
  write_atomic(folder_ + "/run.json",
               R"({"algo": "ppo", "env": "cartpole", "state": "stopped", "steps": 0,
                   "total_steps": 1, "return_mean": null, "started": 0, "ended": 0, "updated": 0,
                   "pid": 0, "host": "", "message": ""})");
  remove_tree(folder_ + "/checkpoints");
  const StoredExperiment stored = stored_experiment(folder_);
  EXPECT_EQ(stored.trained->table().yaml(), config_);
  write("{");
  EXPECT_TRUE(contains(error_of([&] { stored_experiment(folder_); }), "not valid YAML"));
}

TEST_F(StoredRun, whose_environment_is_gone_says_with_which_plug_ins_it_was_made) {
  write_atomic(folder_ + "/run.json",
               R"({"algo": "ppo", "env": "gone", "state": "stopped", "steps": 0,
                   "total_steps": 1, "return_mean": null, "started": 0, "ended": 0, "updated": 0,
                   "pid": 0, "host": "", "message": "", "plugins": "/home/me/mine"})");
  CheckpointStore(folder_, 0)
      .save({.algo = "ppo", .env = "gone", .options_yaml = config_, .step = step_},
            [](StateVisitor&) {});
  const std::string text = error_of([&] { stored_experiment(folder_); });
  EXPECT_TRUE(contains(text, "'gone'")) << text;
  EXPECT_TRUE(contains(text, "the run was made with MAGLEV_PLUGINS=/home/me/mine, this program"))
      << text;
}

}  // namespace
}  // namespace maglev
