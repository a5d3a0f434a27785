#pragma once
// How fast a training run is, measured on this program run as a child: each measurement begins with
// fresh threads, caches and memory.

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "verbs/settings.h"

namespace maglev::verbs::bench {

struct Speed {
  double steps_per_second = 0;
  int64_t updates = 0;  ///< the figure is taken over
  double seconds = 0;
  int64_t peak_bytes = 0;  ///< of the process
};

/// A signal asked for an end (engine/train/signals.h): what measures leaves nothing behind. No
/// Error, which says that a run cannot be measured.
struct Interrupted {};

/// What a child is given of a verb's words: the pair, and where settings come from besides words.
std::vector<std::string> child_words(const Arguments& arguments, const AlgoOnEnv& pair);
/// `words` with those of `later`, which replace settings of the same name.
std::vector<std::string> joined_settings(std::vector<std::string> words,
                                         const std::vector<std::string>& later);

/// The steps and seconds of a metrics.jsonl: the first row in which something was learned, which
/// holds construction and first touches of memory, only starts the clock. All zero with fewer than
/// two whole rows from there on.
Speed speed_of(const std::string& metrics);

/// Runs `train` with `words` for `seconds` after its first update, and for two more updates at
/// least, then ends it; `limit` seconds at most in all. Throws Error with what the run said when it
/// fails, or when the limit came before a figure; Interrupted.
Speed measure_training(const std::vector<std::string>& words, double seconds,
                       double limit = std::numeric_limits<double>::infinity());

/// Runs `bench run` with `words` for one round of `seconds`; what it prints with --lines. Throws
/// Error with what it said when it fails; Interrupted.
std::string measure_round(const std::vector<std::string>& words, double seconds);

}  // namespace maglev::verbs::bench
