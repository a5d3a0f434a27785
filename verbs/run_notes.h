#pragma once
// What is told of runs before they are judged or played: lines on stderr.

#include <string>
#include <vector>

namespace maglev {

/// Where `player`, a name as of make_player, is a run that was trained on something else than its
/// environment reads now (changed_files). `settings`: name=value that were given.
void warn_of_changed_files(const std::string& player, const std::vector<std::string>& settings);

/// Of `acting`, name=value of settings that say how a policy acts, each that changes nothing of how
/// the run `player` does, and why (IdleSettings).
void warn_of_idle_settings(const std::string& player, const std::vector<std::string>& acting);

}  // namespace maglev
