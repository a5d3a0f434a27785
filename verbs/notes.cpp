#include "verbs/notes.h"

#include <cstdio>

#include "base/core/split.h"
#include "engine/run/run_name.h"
#include "engine/run/stored_experiment.h"
#include "engine/train/idle_settings.h"

namespace maglev {

std::vector<std::string> run_notes(const std::string& player,
                                   const std::vector<std::string>& settings) {
  std::vector<std::string> notes;
  const auto run = run_named(player);
  if (run)
    if (const std::string note = stored_experiment(run->folder).note; !note.empty())
      notes.push_back(note);
  const std::string changed = run ? changed_files(run->folder, settings) : "";
  if (!changed.empty())
    notes.push_back(changed + " holds something else than what " + player +
                    " was trained on; what follows is of what it holds now");
  for (std::string& note : idle_notes(player, settings)) notes.push_back(std::move(note));
  return notes;
}

std::vector<std::string> idle_notes(const std::string& player,
                                    const std::vector<std::string>& settings) {
  const auto run = run_named(player);
  if (!run || settings.empty()) return {};
  const auto experiment = experiment_of(run->folder);
  OptionTable& table = experiment->table();
  // of several players each takes what it has
  for (const std::string& setting : settings)
    if (table.find(name_part(setting))) table.override_with(setting);
  const IdleSettings idle(*experiment, {.device = at::kCPU});
  std::vector<std::string> notes;
  for (const std::string& setting : settings)
    if (const std::string why = idle.why(name_part(setting)); !why.empty())
      notes.push_back(setting + " changes nothing for " + player + ": " + why);
  return notes;
}

void print_notes(const std::vector<std::string>& notes) {
  for (const std::string& note : notes) std::fprintf(stderr, "maglev: %s\n", note.c_str());
}

}  // namespace maglev
