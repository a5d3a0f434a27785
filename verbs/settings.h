#pragma once
// What a command takes that has <algorithm> <environment> [name=value ...]: the pair, and settings.

#include <optional>
#include <string>
#include <vector>

#include "engine/algo/experiment.h"
#include "verbs/arguments.h"

namespace maglev {

/// An algorithm and an environment by name, as they were given: either may be none.
struct AlgoOnEnv {
  std::string algo, env;
};

/// The two words from `first` on. The other way round they are taken as they were meant, and stderr
/// says so.
AlgoOnEnv algo_on_env(const std::vector<std::string>& words, size_t first = 0);

/// Whether name=value `settings` say where to compute: of verbs that take a processor unless they do.
bool names_device(const std::vector<std::string>& settings);

struct LoadedSettings {
  /// The proven file, or the one for any environment, as it is found from the checkout, of plug-ins
  /// elsewhere its whole path; empty: there is neither.
  std::string proven;
  std::vector<std::string> notes;  ///< lines for people
};

/// Where settings come from besides words.
struct SettingsFiles {
  bool bare = false;                  ///< without what is proven
  std::optional<std::string> config;  ///< a file of them
};

/// Into `experiment`, each before the next: what is proven, the profile of +hardware=NAME among
/// `words` (hardware.h), the file, the other `words`. Throws Error.
LoadedSettings load_settings(Experiment& experiment, const SettingsFiles& files,
                             const std::vector<std::string>& words);
/// The same by the flags --bare and --config.
LoadedSettings load_settings(Experiment& experiment, const Arguments& arguments,
                             const std::vector<std::string>& words);

}  // namespace maglev
