#include "verbs/train/seed_runs.h"

#include <algorithm>
#include <cmath>

#include "base/core/error.h"
#include "base/core/printed.h"
#include "engine/run/checkpoint_store.h"
#include "engine/run/run_dir.h"
#include "engine/run/several_runs.h"
#include "verbs/notes.h"
#include "verbs/train/seeds.h"

namespace maglev::verbs::train {
namespace {

struct SavedSeed {
  std::string run;
  double evaluation, trained;  // returns; NaN: none
};

}  // namespace

std::optional<RunName> seeds_named(const std::string& name) { return folder_named(name, is_seeds); }

std::vector<std::string> seed_runs(const std::string& folder) {
  const std::string begin = without_slashes(folder) + "/seed-";
  std::vector<std::string> runs = runs_in(folder);
  // one that began anew has left its folder under a longer name
  std::erase_if(runs, [&](const std::string& run) {
    return !run.starts_with(begin) || run.size() == begin.size() ||
           run.find_first_not_of("0123456789", begin.size()) != std::string::npos;
  });
  return runs;
}

std::vector<std::string> seeds_to_judge(const std::string& verb, const std::string& folder) {
  std::vector<std::string> runs;
  for (const std::string& run : seed_runs(folder)) {
    if (has_checkpoint(run)) runs.push_back(run);
    else print_notes({"left out: " + std::string(no_valid_checkpoint(run).what())});
  }
  if (runs.empty()) throw Error("[" + verb + "] no seed in " + folder + " has saved a policy yet");
  return runs;
}

BestSeed best_seed(const std::string& folder) {
  std::vector<SavedSeed> seeds;
  for (const std::string& run : seed_runs(folder))
    if (has_checkpoint(run))
      seeds.push_back({run, last_evaluation(run), run_row(run, run).status.return_mean});
  if (seeds.empty()) throw Error("[" + folder + "] no seed of it has saved a policy yet");
  const bool evaluated =
      std::ranges::any_of(seeds, [](const SavedSeed& s) { return !std::isnan(s.evaluation); });
  const auto figure = [&](const SavedSeed& s) { return evaluated ? s.evaluation : s.trained; };
  const SavedSeed* best = &seeds[0];
  for (const SavedSeed& seed : seeds)
    if (figure(seed) > figure(*best) || std::isnan(figure(*best))) best = &seed;
  if (std::isnan(figure(*best))) return {.run = seeds[0].run, .figure = ""};
  return {.run = best->run,
          .figure = std::string(evaluated ? "its last evaluation, " : "its return of training, ") +
                    printed("%.2f", figure(*best))};
}

}  // namespace maglev::verbs::train
