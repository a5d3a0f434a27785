#include "verbs/notes.h"

#include <cstdio>

#include "base/core/split.h"
#include "base/core/words.h"
#include "engine/run/run_dir.h"
#include "engine/run/run_name.h"
#include "engine/run/stored_experiment.h"
#include "engine/train/idle_settings.h"

namespace maglev {

namespace {

// of several players each takes what it has; what it acts by gives way to that
void add_given(Experiment& experiment, const std::string& player,
               const std::vector<std::string>& settings, std::vector<std::string>& notes) {
  if (settings.empty()) return;
  OptionTable& table = experiment.table();
  bool acting = false;
  for (const std::string& setting : settings) {
    if (!table.find(name_part(setting))) continue;
    table.override_with(setting);
    acting |= !setting.starts_with("env.");
  }
  if (acting)
    for (std::string& note : experiment.settle(/*of_run=*/true)) notes.push_back(std::move(note));
  const IdleSettings idle(experiment, {.device = at::kCPU});
  for (const std::string& setting : settings)
    if (const std::string why = idle.why(name_part(setting)); !why.empty())
      notes.push_back(setting + " changes nothing for " + player + ": " + why);
}

}  // namespace

std::vector<std::string> run_notes(const std::string& player,
                                   const std::vector<std::string>& settings) {
  const auto run = run_named(player);
  if (!run) return {};
  std::vector<std::string> notes;
  const StoredExperiment stored = stored_experiment(run->folder);
  if (!stored.note.empty()) notes.push_back(stored.note);
  const std::string changed = changed_files(*stored.experiment, run->folder, settings);
  if (!changed.empty())
    notes.push_back(changed + " holds something else than what " + player +
                    " was trained on; what follows is of what it holds now");
  add_given(*stored.experiment, player, settings, notes);
  return notes;
}

std::vector<std::string> guest_notes(const std::string& player,
                                     const std::vector<std::string>& settings,
                                     const OptionTable& env) {
  const auto run = run_named(player);
  if (!run) return {};
  std::vector<std::string> notes;
  const auto experiment = experiment_of(run->folder);
  const char* kHeld = "env.action_repeat";
  const Field *trained = experiment->table().find(kHeld), *here = env.find(kHeld);
  if (trained && here && trained->plain() != here->plain())
    notes.push_back(player + " was trained with " + kHeld + "=" + trained->plain() + ", which is " +
                    here->plain() + " here; give " + kHeld + "=" + trained->plain() +
                    " for it to act as it learned to");
  add_given(*experiment, player, settings, notes);
  return notes;
}

std::string or_near_run(const std::string& name) {
  const auto runs = near_runs(name);
  return runs.empty() ? "" : "; or the run " + joined(runs) + "?";
}

void print_notes(const std::vector<std::string>& notes) {
  for (const std::string& note : notes) std::fprintf(stderr, "maglev: %s\n", note.c_str());
}

}  // namespace maglev
