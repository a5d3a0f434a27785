#pragma once
// Profiles: settings for a machine or a purpose, layered over the proven ones by +hardware=NAME.
//   NAME                   configs/hardware/NAME.yaml of the checkout
//   a path, or *.yaml      that file
//   auto                   what `maglev tune` found on this machine for these settings

#include <string>
#include <vector>

#include "engine/algo/experiment.h"

namespace maglev {

/// Takes the profile into `experiment`, all else being there already: what a file or the command
/// line gave stays. Settings of other algorithms are left out. Returns lines for people. Throws
/// Error.
std::vector<std::string> load_profile(Experiment& experiment, const std::string& name,
                                      const std::string& home);

/// Whether a file's setting is to be left out: none is; throws Error on one below `env_vars`, with
/// what does it instead, for variables are set before a program begins.
bool refuse_variable(const std::string& setting);

}  // namespace maglev
