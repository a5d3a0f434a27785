#include "engine/run/several_runs.h"

#include <gtest/gtest.h>

#include "base/core/file.h"
#include "engine/run/run_dir.h"
#include "tests/errors.h"
#include "tests/folder.h"

namespace maglev {
namespace {

void make_run(const std::string& folder) { make_dirs(folder + "/checkpoints"); }

TEST(SeveralRuns, a_sweep_that_is_taken_for_a_run_names_its_trials_best_first) {
  const std::string folder = test_folder() + "/sweep";
  make_dirs(folder + "/trials");
  EXPECT_FALSE(several_runs(folder) || several_runs(folder + "@best"));
  write_atomic(folder + "/sweep.json", "{}\n");
  EXPECT_TRUE(contains(no_run(folder).what(), "none of its trials has a run yet"));
  const auto trial = [&](const std::string& number, const std::string& json) {
    make_run(folder + "/trials/" + number + "/run");
    write_atomic(folder + "/trials/" + number + "/trial.json", json);
    return folder + "/trials/" + number + "/run";
  };
  const std::string damaged = trial("0", "{"), low = trial("1", R"({"score": -3})"),
                    none = trial("2", R"({"score": null})"), high = trial("3", R"({"score": 4.5})"),
                    rung = trial("5", R"({"score": 9, "state": "stopped"})");
  // one that took over another's result has no run
  make_dirs(folder + "/trials/4");
  for (const std::string& name : {folder, folder + "/", folder + "@best"})
    EXPECT_TRUE(contains(no_run(name).what(), "with their scores: " + high + " (4.5), " + low +
                                                  " (-3), " + rung + " (9, stopped early), " +
                                                  damaged + ", " + none))
        << no_run(name).what();
}

TEST(SeveralRuns, seeds_are_named_by_their_evaluations_where_there_are_any) {
  const std::string folder = test_folder() + "/group";
  for (const char* seed : {"/seed-1", "/seed-2"}) make_run(folder + seed);
  const auto said = [&](const std::string& json) {
    write_atomic(folder + "/seeds.json", json);
    return std::string(no_run(folder).what());
  };
  const std::string first = folder + "/seed-1", second = folder + "/seed-2";
  // the third has not begun
  EXPECT_TRUE(contains(said(R"({"seeds": [{"seed": 1, "return": 2}, {"seed": 2, "return": 3},
                                          {"seed": 3}]})"),
                       "is several seeds; name one of its runs in its place, best first, with "
                       "their scores: " +
                           second + " (3), " + first + " (2)"));
  const std::string evaluated = said(R"({"seeds": [{"seed": 1, "return": 2, "evaluation": 9},
                         {"seed": 2, "return": 3, "evaluation": null}]})");
  EXPECT_TRUE(evaluated.ends_with(first + " (9), " + second)) << evaluated;
  EXPECT_TRUE(contains(said("{"), "none of its runs"));
}

}  // namespace
}  // namespace maglev
