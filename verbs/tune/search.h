#pragma once
// The tuner's search: which settings a run is fastest with, found by measuring within a budget of
// time. A pure function over what plans, what measures and a clock, so that tests show it machines
// that are not there.
//
//   search     rounds of coordinate descent: every single change of the best settings so far, halved
//              by measurement, the time of a measurement doubling (successive halving, Jamieson and
//              Talwalkar 2016, arXiv:1502.07943); changes that helped are also tried together
//   finals     the settings as they were beside the best found, turn about: A B C A B C A B C; medians.
//              Where none is there for them, their time goes to candidates that had none

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace maglev::verbs::tune {

struct Setting {
  std::string name, value;
  bool operator==(const Setting&) const = default;
};
/// What differs from the settings as they are, in the order of the knobs; empty: nothing does.
using Candidate = std::vector<Setting>;

/// A setting that is searched: what it is now, and what else it may be. Those that come first are
/// measured first.
struct Knob {
  std::string setting, now;
  std::vector<std::string> values;
};

/// What candidates hold in memory, from sums alone.
struct Fit {
  int64_t bytes = 0;
  std::string refused = {};  ///< why it is never run, e.g. that it does not fit; empty: it may be
};

struct Sample {
  double speed = 0;         ///< steps a second
  int64_t peak_bytes = 0;   ///< of the process
  std::string failed = {};  ///< why there is no figure; empty: there is
  bool late = false;        ///< that there was no time for one
};

enum class State {
  measured,
  refused,   ///< by its plan: never run
  failed,    ///< run, and gave no figure: never run again, nor anything bigger
  too_slow,  ///< likewise, for the time it had was too short
  left_out,  ///< bigger than one of those, or there was no time
};

/// A candidate and what became of it.
struct Row {
  Candidate candidate;
  State state = State::left_out;
  int64_t bytes = 0, peak_bytes = 0;
  double speed = 0;            ///< when it was measured last in the search
  double gain = 0;             ///< then, beside the settings as they are: times their speed
  std::vector<double> looks;   ///< each figure of it, in the order in which they were measured
  std::vector<double> finals;  ///< in the finals, turn about; empty: it was not in them
  std::string why;             ///< of the state, or of the choice; one line

  double median() const;  ///< of the finals, else of all looks
};

struct World {
  std::function<Fit(const Candidate&)> plan;
  /// Measures for `seconds`, and takes at most `limit` seconds in all.
  std::function<Sample(const Candidate&, double seconds, double limit)> measure;
  std::function<double()> clock;  ///< seconds
  /// Told of each row when it changes, with what was just measured, or 0; may be empty.
  std::function<void(const Row&, double speed)> told;
};

struct Outcome {
  std::vector<Row> rows;  ///< [0]: the settings as they are
  size_t chosen = 0;
  double noise = 0;    ///< half the spread of a finalist's samples at most, as a share
  double seconds = 0;  ///< the search took
  /// That more of a budget would say more: some had no time or too little, or what came near was not
  /// measured turn about.
  bool unfinished = false;
};

/// A gain below this share is none.
constexpr double kLeastGain = 0.02;
/// Of candidates that are within this share of the best the one with the least memory is taken.
constexpr double kKnee = 0.03;

/// Searches for at most `budget` seconds by the world's clock. The settings as they are stay unless
/// another beats their median by more than the noise. Throws Error when the settings as they are
/// give no figure.
Outcome search(const std::vector<Knob>& knobs, double budget, const World& world);

}  // namespace maglev::verbs::tune
