#pragma once
// What was tuned on this machine, a JSON file each in the user's cache folder:
// $XDG_CACHE_HOME/maglev/tune/, else ~/.cache/maglev/tune/.

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/algo/experiment.h"
#include "verbs/tune/search.h"

namespace maglev::verbs::tune {

/// What a tuning is of, as JSON text: processor, usable processors, memory, GPUs, versions of torch
/// and the engine, algorithm, environment, and the settings that shape the work: whole numbers,
/// switches, choices and texts of algorithm and environment, device and precision. Free settings
/// count where the command line gave them; rates and other fractions do not.
struct CacheKey {
  std::string text;
};
/// `learning`: what was searched besides free settings.
CacheKey cache_key(const Experiment& experiment, std::span<const std::string> learning = {});

struct Tuned {
  std::string made;               ///< date and time
  std::vector<Setting> settings;  ///< what differs from the settings as they were
  Outcome outcome;
  double budget = 0;  ///< seconds it had

  /// Whether a search of so many seconds may find what this one had no time for.
  bool outdone_by(double seconds) const { return outcome.unfinished && seconds > budget; }
};

/// Where the tuning of `key` lies. Throws Error where there is neither XDG_CACHE_HOME nor HOME.
std::string cache_file(const CacheKey& key);
/// None where there is none that can be read.
std::optional<Tuned> read_cache(const CacheKey& key);
/// Writes it; the file's path. Throws Error.
std::string write_cache(const CacheKey& key, const Tuned& tuned);

}  // namespace maglev::verbs::tune
