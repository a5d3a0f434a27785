#pragma once
// What two groups' figures allow to say.

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/statistics/power.h"
#include "base/statistics/samples.h"

namespace maglev::verbs::compare {

/// Two groups beside each other. Without two values on each side nothing is known: all NaN.
struct Pair {
  size_t first, second;  ///< which groups
  WelchTest welch;
  EffectSize effect;
  double holm_p;  ///< where all pairs are tested at once
};
/// The pairs `planned` of `samples`, tested together.
std::vector<Pair> pairs_of(const std::vector<std::vector<double>>& samples,
                           const std::vector<std::pair<size_t, size_t>>& planned,
                           double confidence);
/// Every pair of `samples`, in order.
std::vector<Pair> pairs_of(const std::vector<std::vector<double>>& samples, double confidence);

/// How likely a seed of the first is above one of the second.
struct Improvement {
  double probability;
  Interval interval;  ///< NaN without two values on each side
};
/// One value each at least.
Improvement improvement_of(std::span<const double> first, std::span<const double> second,
                           double confidence);

enum class Finding {
  too_few,  ///< a single value on some side
  none,     ///< no difference was shown
  higher,   ///< the first is higher: the test says so for all pairs, and the means' intervals are
            ///< apart
  lower
};
Finding finding_of(const Pair& pair, std::span<const double> first, std::span<const double> second,
                   double confidence);

/// The chance of error that a t-test may have to be as strict as a finding of higher or lower is,
/// where `pairs` are tested at once: means with like deviations whose intervals touch differ by the
/// halves of both. Deviations that are seen are unlike, and their intervals part a little sooner:
/// from three values each on, what is found is 1 to 6 % less than is said.
double finding_alpha(Sizes n, size_t pairs, double confidence);

/// What a comparison of so many values is able to find, by a t-test as strict as a finding.
struct PowerAnalysis {
  double detectable;  ///< deviations that are found with a power of 0.8
  double achieved;    ///< power where the true difference is the one that is seen
  int64_t needed;     ///< values each that find such a one with a power of 0.8
};
/// `values`: on each side; `pairs`: tested at once. NaN and 0 where two values on each side, or a
/// difference and deviations to measure it in, are missing; `needed` is 0 beyond a million, too.
PowerAnalysis power_analysis(const Pair& pair, Sizes values, size_t pairs, double confidence);

/// One group of a pair: what people call it, and its values.
struct Side {
  std::string name;
  std::span<const double> values;
};
struct Verdict {
  Finding finding;
  PowerAnalysis power;
  /// The finding for people, with the condition that was not met and what would be needed to know
  /// more.
  std::string text;
};
/// `pairs`: tested at once.
Verdict verdict_of(const Pair& pair, const Side& first, const Side& second, size_t pairs,
                   double confidence);

}  // namespace maglev::verbs::compare
