#include "verbs/compare/verdict.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/core/printed.h"
#include "base/statistics/distributions.h"

namespace maglev::verbs::compare {
namespace {

constexpr double kPower = 0.8;

std::string short_number(double x) { return printed("%.3g", x); }

// that no difference was shown, and why
std::string none_text(const Pair& pair, const PowerAnalysis& power, Sizes values,
                      double confidence) {
  // which of the two conditions was not met: p may be small beside this
  const std::string limit = short_number(1 - confidence);
  std::string text = pair.holm_p < 1 - confidence
                         ? "no difference is shown: Holm's p is below " + limit +
                               ", but the intervals of the two means overlap"
                         : "no difference is shown: Holm's p is not below " + limit;
  const bool alike = values.first == values.second;
  if (std::isfinite(power.detectable))
    text += "; " + std::to_string(values.first) +
            (alike ? " seeds each" : " and " + std::to_string(values.second) + " seeds") +
            " find one of " + short_number(power.detectable) + " deviations four times in five";
  if (std::isfinite(pair.effect.g) && pair.effect.g != 0)
    text += ", this one of " + short_number(std::abs(pair.effect.g)) + " would take " +
            (power.needed > 0 ? std::to_string(power.needed) : "more than a million") +
            (alike ? "" : " each");
  return text;
}

}  // namespace

std::vector<Pair> pairs_of(const std::vector<std::vector<double>>& samples, double confidence) {
  std::vector<std::pair<size_t, size_t>> all;
  for (size_t a = 0; a < samples.size(); ++a)
    for (size_t b = a + 1; b < samples.size(); ++b) all.emplace_back(a, b);
  return pairs_of(samples, all, confidence);
}

std::vector<Pair> pairs_of(const std::vector<std::vector<double>>& samples,
                           const std::vector<std::pair<size_t, size_t>>& planned,
                           double confidence) {
  constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();
  std::vector<Pair> pairs;
  std::vector<double> p;
  for (const auto& [a, b] : planned) {
    Pair pair{a,
              b,
              {kUnknown, kUnknown, kUnknown, kUnknown, {kUnknown, kUnknown}},
              {kUnknown, {kUnknown, kUnknown}},
              kUnknown};
    if (samples[a].size() >= 2 && samples[b].size() >= 2) {
      pair.welch = welch_test(samples[a], samples[b], confidence);
      pair.effect = hedges_g(samples[a], samples[b], confidence);
      p.push_back(pair.welch.p);
    }
    pairs.push_back(pair);
  }
  // all of them are tested at once, and a few come out by chance
  const std::vector<double> adjusted = holm(p);
  size_t next = 0;
  for (Pair& pair : pairs)
    if (!std::isnan(pair.welch.p)) pair.holm_p = adjusted[next++];
  return pairs;
}

Improvement improvement_of(std::span<const double> first, std::span<const double> second,
                           double confidence) {
  return {probability_of_improvement(first, second),
          improvement_interval(first, second, confidence)};
}

Finding finding_of(const Pair& pair, std::span<const double> first, std::span<const double> second,
                   double confidence) {
  if (first.size() < 2 || second.size() < 2) return Finding::too_few;
  const Interval a = spread_of(first, confidence).interval,
                 b = spread_of(second, confidence).interval;
  const bool apart = a.low > b.high || b.low > a.high;
  if (!apart || pair.holm_p >= 1 - confidence) return Finding::none;
  return pair.welch.difference > 0 ? Finding::higher : Finding::lower;
}

double finding_alpha(Sizes n, size_t pairs, double confidence) {
  const auto half = [&](int64_t values) {
    return t_quantile((1 + confidence) / 2, double(values - 1)) / std::sqrt(double(values));
  };
  const double t = (half(n.first) + half(n.second)) / difference_error(n);
  const double apart = 2 * t_cdf(-t, degrees_of(n));
  return std::min((1 - confidence) / double(std::max<size_t>(1, pairs)), apart);
}

PowerAnalysis power_analysis(const Pair& pair, Sizes values, size_t pairs, double confidence) {
  constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();
  PowerAnalysis found{.detectable = kUnknown, .achieved = kUnknown, .needed = 0};
  const auto alpha = [&](Sizes n) { return finding_alpha(n, pairs, confidence); };
  const bool enough = values.first >= 2 && values.second >= 2;
  if (enough) found.detectable = detectable_effect(values, kPower, alpha(values));
  if (const double effect = pair.effect.g; std::isfinite(effect) && effect != 0) {
    if (enough) found.achieved = power_of(std::abs(effect), values, alpha(values));
    found.needed = needed_values(effect, kPower, [&](int64_t n) { return alpha({n, n}); });
  }
  return found;
}

Verdict verdict_of(const Pair& pair, const Side& first, const Side& second, size_t pairs,
                   double confidence) {
  const Sizes values{int64_t(first.values.size()), int64_t(second.values.size())};
  Verdict verdict{.finding = finding_of(pair, first.values, second.values, confidence),
                  .power = power_analysis(pair, values, pairs, confidence),
                  .text = {}};
  switch (verdict.finding) {
    case Finding::higher:
      verdict.text = first.name + " is higher than " + second.name;
      break;
    case Finding::lower:
      verdict.text = first.name + " is lower than " + second.name;
      break;
    case Finding::too_few:
      verdict.text =
          "nothing can be said: one seed does not tell how far others lie; train 3 or more";
      break;
    case Finding::none:
      verdict.text = none_text(pair, verdict.power, values, confidence);
  }
  return verdict;
}

}  // namespace maglev::verbs::compare
