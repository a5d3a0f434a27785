#pragma once
// What people are told before the work begins: of runs that are judged or played, and on stderr.

#include <string>
#include <vector>

#include "base/config/options.h"

namespace maglev {

/// Lines for people of `player`, a name as of make_player; none where it is no run. `settings`:
/// name=value that were given. That its config.yaml is damaged (StoredExperiment::note); that it was
/// trained on something else than its environment reads now (changed_files); what of its own
/// settings gives way to those (Experiment::settle); and of each setting of it that changes nothing
/// here, why (IdleSettings).
std::vector<std::string> run_notes(const std::string& player,
                                   const std::vector<std::string>& settings);
/// Of who plays in an environment that was named, with its settings: those of `settings` alone, and
/// that actions are held for another time than in training.
std::vector<std::string> guest_notes(const std::string& player,
                                     const std::vector<std::string>& settings,
                                     const OptionTable& env);
/// "; or the run kin?" where runs are called nearly as a name that is no graph's; else empty.
std::string or_near_run(const std::string& name);
/// A line on stderr each.
void print_notes(const std::vector<std::string>& notes);

}  // namespace maglev
