#include "verbs/run_notes.h"

#include <cstdio>

#include "base/core/split.h"
#include "engine/run/run_name.h"
#include "engine/run/stored_experiment.h"
#include "engine/train/idle_settings.h"

namespace maglev {

void warn_of_changed_files(const std::string& player, const std::vector<std::string>& settings) {
  const auto run = run_named(player);
  const std::string files = run ? changed_files(run->folder, settings) : "";
  if (!files.empty())
    std::fprintf(stderr,
                 "maglev: %s holds something else than when %s was trained; what follows is of "
                 "what it holds now\n",
                 files.c_str(), player.c_str());
}

void warn_of_idle_settings(const std::string& player, const std::vector<std::string>& acting) {
  const auto run = run_named(player);
  if (!run || acting.empty()) return;
  const auto experiment = experiment_of(run->folder);
  OptionTable& table = experiment->table();
  // of several players each takes what it has
  for (const std::string& setting : acting)
    if (table.find(name_part(setting))) table.override_with(setting);
  const IdleSettings idle(*experiment, {.device = at::kCPU});
  for (const std::string& setting : acting)
    if (const std::string why = idle.why(name_part(setting)); !why.empty())
      std::fprintf(stderr, "maglev: %s changes nothing of how %s acts: %s\n", setting.c_str(),
                   player.c_str(), why.c_str());
}

}  // namespace maglev
