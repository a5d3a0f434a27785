#include "verbs/train/seed_runs.h"

#include <cmath>

#include <gtest/gtest.h>

#include "base/core/file.h"
#include "engine/run/checkpoint_store.h"
#include "tests/errors.h"
#include "tests/folder.h"
#include "verbs/train/seeds.h"

namespace maglev::verbs::train {
namespace {

std::string seeds_folder(const std::string& name) {
  const std::string folder = test_folder() + "/" + name;
  make_dirs(folder);
  write_atomic(folder + "/seeds.json", "{}\n");
  return folder;
}

// a run that saved once, with this return of training
void save_seed(const std::string& run, double return_mean, double evaluation = std::nan("")) {
  make_dirs(run);
  CheckpointStore store(run, 0);
  const CheckpointIdentity identity{.algo = "ppo",
                                    .env = "cartpole",
                                    .engine_version = "0",
                                    .torch_version = "t",
                                    .options_yaml = "seed: 1\n",
                                    .step = 5,
                                    .return_mean = return_mean,
                                    .evaluate = !std::isnan(evaluation)};
  int64_t updates = 1;
  const std::string path =
      store.save(identity, [&](StateVisitor& v) { v.integer("updates", updates); });
  if (!std::isnan(evaluation)) store.judge(path, evaluation);
}

TEST(SeedRuns, runs_come_by_their_numbers_and_only_seeds_do) {
  const std::string folder = seeds_folder("numbers");
  for (const char* name : {"seed-10", "seed-2", "seed-3", "seed-2.old-1", "other"}) {
    make_dirs(folder + "/" + name);
    // a seed that has not begun holds no run
    if (name != std::string("seed-3"))
      write_atomic(folder + "/" + name + "/config.yaml", "seed: 1\n");
  }
  const std::vector<std::string> runs{folder + "/seed-2", folder + "/seed-10"};
  EXPECT_EQ(seed_runs(folder), runs);
  EXPECT_EQ(seed_runs(folder + "/"), runs);
}

TEST(SeedRuns, a_name_may_say_which_checkpoint_of_each) {
  const std::string folder = seeds_folder("named");
  EXPECT_EQ(seeds_named(folder + "/")->folder, folder);
  EXPECT_EQ(seeds_named(folder)->checkpoint, "latest");
  EXPECT_EQ(seeds_named(folder + "@best")->folder, folder);
  EXPECT_EQ(seeds_named(folder + "@best")->checkpoint, "best");
  EXPECT_FALSE(seeds_named(test_folder() + "@best"));
}

TEST(SeedRuns, the_best_is_by_evaluations_where_there_are_any) {
  const std::string folder = seeds_folder("best");
  EXPECT_TRUE(contains(error_of([&] { best_seed(folder); }), "no seed of it has saved"));
  save_seed(folder + "/seed-1", std::nan(""));
  EXPECT_EQ(best_seed(folder).figure, "");
  save_seed(folder + "/seed-2", 30);
  save_seed(folder + "/seed-10", 20);
  EXPECT_EQ(best_seed(folder).run, folder + "/seed-2");
  EXPECT_EQ(best_seed(folder).figure, "its return of training, 30.00");
  save_seed(folder + "/seed-3", 5, 7);
  EXPECT_EQ(best_seed(folder).run, folder + "/seed-3");
  EXPECT_EQ(best_seed(folder).figure, "its last evaluation, 7.00");
}

TEST(SeedRuns, what_killed_a_seed_is_named_and_a_stop_is_no_kill) {
  EXPECT_EQ(killed_text(128 + 9),
            "ended: signal 9 (Killed), by the system where memory did not suffice, if by nobody "
            "else");
  EXPECT_EQ(killed_text(128 + 11), "ended: signal 11 (Segmentation fault)");
  for (int status : {0, 2, 70, 128, 255, kStopped}) EXPECT_EQ(killed_text(status), "");
}

}  // namespace
}  // namespace maglev::verbs::train
