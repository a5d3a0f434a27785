#include "verbs/sweep/board.h"

#include <gtest/gtest.h>

#include "tests/errors.h"
#include "tests/folder.h"

namespace maglev::verbs::sweep {
namespace {

TEST(Board, a_sweep_that_is_taken_for_a_run_names_its_trials_best_first) {
  const std::string folder = test_folder() + "/sweep";
  make_dirs(folder + "/trials");
  EXPECT_FALSE(sweep_named(folder) || sweep_named(folder + "@best"));
  write_atomic(folder + "/sweep.json", "{}\n");
  EXPECT_EQ(sweep_named(folder), folder);
  EXPECT_EQ(sweep_named(folder + "@best"), folder) << "as checkpoints of runs are called";
  EXPECT_TRUE(contains(several_trials(folder).what(), "none of its trials has a run yet"));
  const auto trial = [&](const std::string& number, const std::string& json) {
    make_dirs(folder + "/trials/" + number + "/run/checkpoints");
    write_atomic(folder + "/trials/" + number + "/trial.json", json);
    return folder + "/trials/" + number + "/run";
  };
  const std::string damaged = trial("0", "{"), low = trial("1", R"({"score": -3})"),
                    none = trial("2", R"({"score": null})"), high = trial("3", R"({"score": 4})");
  // one that took over another's result has no run
  make_dirs(folder + "/trials/4");
  EXPECT_TRUE(contains(several_trials(folder).what(),
                       "best first: " + high + ", " + low + ", " + damaged + ", " + none))
      << several_trials(folder).what();
}

}  // namespace
}  // namespace maglev::verbs::sweep
