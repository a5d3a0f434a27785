#include "verbs/train/again.h"

#include <algorithm>
#include <cstdio>
#include <vector>

#include "base/core/error.h"
#include "base/core/file.h"
#include "base/core/split.h"
#include "engine/run/checkpoint_store.h"
#include "engine/run/given.h"
#include "engine/run/run_dir.h"
#include "engine/run/several_runs.h"
#include "engine/run/stored_experiment.h"
#include "verbs/train/seeds.h"

namespace maglev::verbs::train {
namespace {

// lines of `now` that the folder's last command did not give; where none was written down none
std::vector<std::string> changes_since(const std::string& folder, const std::string& now) {
  const std::string path = folder + "/" + kGivenFile;
  if (!path_exists(path)) return {};
  const auto before = given_by_command(read_file(path, kMaxGivenBytes));
  auto changes = given_by_command(now);
  std::erase_if(changes, [&](const std::string& line) {
    return std::find(before.begin(), before.end(), line) != before.end();
  });
  return changes;
}

// whether a run of these settings has the one in `line` already, such as what a resume gave
bool holds(const OptionTable& table, const std::string& line) {
  return std::ranges::any_of(
      table.fields(), [&](const Field& field) { return line == field.name + "=" + field.plain(); });
}

void expect_same(const std::string& folder, const std::string& algo, const std::string& env,
                 const Experiment& experiment) {
  if (algo != experiment.algo().name || env != experiment.env().name)
    throw Error("[" + folder + "] was begun with " + algo + " on " + env +
                "; --continue goes on with the same two");
}

RunOutcome go_on_with_seeds(const Experiment& experiment, std::optional<int64_t> seeds,
                            const RunRequest& request) {
  if (!seeds)
    throw Error("[" + request.out + "] holds several seeds: give --seeds as before, or more");
  const std::string& folder = request.out;
  const SeedsGroup there = seeds_group(folder);
  expect_same(folder, there.algo, there.env, experiment);
  const auto changes = changes_since(folder, request.given);
  const auto other = std::ranges::find_if_not(changes, for_seeds);
  if (other != changes.end())
    throw Error("[" + folder +
                "] several seeds go on as they began, but for train.steps and --seeds; leave out "
                "the change of " +
                *other + ", or begin others in a new folder");
  return resume_seeds(folder, request.sinks, changes, RemovedSeed::is_lost, *seeds);
}

// whether nothing that is asked for is left to do: what was trained is no other for settings that
// are free, such as what tune has found since
bool is_done(const std::string& folder, const OptionTable& table,
             const std::vector<std::string>& changes) {
  if (!has_finished(folder)) return false;
  const int64_t steps = read_status(folder).steps;
  return std::ranges::all_of(changes, [&](const std::string& change) {
    constexpr std::string_view kSteps = "train.steps=";
    if (const Field* field = table.find(name_part(change)); field && field->rule.free) return true;
    return change.starts_with(kSteps) &&
           std::strtoll(change.c_str() + kSteps.size(), nullptr, 10) <= steps;
  });
}

}  // namespace

std::string given_settings(const OptionTable& table) {
  std::string text;
  for (const Field& field : table.fields())
    if (field.origin >= Origin::profile) text += field.name + "=" + field.plain() + "\n";
  return text;
}

std::optional<RunOutcome> go_on(const Experiment& experiment, std::optional<int64_t> seeds,
                                RunRequest& request) {
  const std::string& folder = request.out;
  if (is_seeds(folder)) return go_on_with_seeds(experiment, seeds, request);
  if (!is_run(folder)) return std::nullopt;
  if (seeds)
    throw Error("[" + folder +
                "] holds one run, and --seeds wants a folder of seeds: choose "
                "another --out");
  // stopped before anything was saved
  if (!has_checkpoint(folder)) {
    expect_nothing_lost(folder,
                        "with --overwrite in place of --continue, which moves this folder aside");
    request.overwrite = true;
    return std::nullopt;
  }
  const auto there = experiment_of(folder);
  expect_same(folder, there->algo().name, there->env().name, experiment);
  auto changes = changes_since(folder, request.given);
  std::erase_if(changes, [&](const std::string& line) { return holds(there->table(), line); });
  if (is_done(folder, there->table(), changes)) {
    std::printf("maglev: %s is finished\n", folder.c_str());
    return RunOutcome::finished;
  }
  return train_resume(folder, changes, request);
}

}  // namespace maglev::verbs::train
