#include <algorithm>
#include <cmath>

#include "base/search/draws.h"
#include "base/search/sampler.h"

namespace maglev::search {
namespace {

constexpr double kShrink = 0.8, kGrow = 1.2;
constexpr double kAnew = 0.25;  // of choices
constexpr int64_t kShare = 5;   // a fifth at either end

double explored(const Dimension& d, double value, Draws& draws) {
  const double u = draws.uniform(), v = draws.uniform();
  if (d.kind == Dimension::Kind::choice) return u < kAnew ? d.from_unit(v) : value;
  // of powers of two the next one
  if (d.powers) return std::clamp(value * (u < 0.5 ? 0.5 : 2), d.low, d.high);
  double next = value * (u < 0.5 ? kShrink : kGrow);
  // a whole number moves at least by one
  if (d.kind == Dimension::Kind::integer) {
    next = std::round(next);
    if (next == value) next += u < 0.5 ? -1 : 1;
  }
  return std::clamp(next, d.low, d.high);
}

}  // namespace

std::optional<Proposal> ask_pbt(const Question& question, const SamplerOptions& options) {
  const int64_t members = options.population;
  if (question.number < members) return ask_random(question, options);
  const int64_t generation = question.number / members;
  std::vector<SearchTrial> before;
  for (const SearchTrial& trial : question.trials)
    if (trial.number / members == generation - 1) before.push_back(trial);
  if (std::ranges::any_of(before, [](const SearchTrial& t) { return t.ended == 0; })) return {};

  const std::vector<const SearchTrial*> order = by_score(before);
  const int64_t forerunner = question.number - members;
  const int64_t place = std::ranges::find(order, forerunner, &SearchTrial::number) - order.begin();
  const int64_t count = std::ssize(order), tail = std::max<int64_t>(1, count / kShare);
  // one that nothing is known of is neither replaced nor copied
  if (place == count) {
    const auto it = std::ranges::find(before, forerunner, &SearchTrial::number);
    return Proposal{it->values, it->number};
  }
  Draws draws(question.seed, question.number);
  const SearchTrial* from = order[size_t(place)];
  // where it is the only one that is known there is none to take its place
  if (place < std::max<int64_t>(1, count - tail) && from->state != TrialState::failed)
    return Proposal{from->values, from->number};
  // exploit: one of the best; explore: around its values
  from = order[draws.below(uint32_t(tail))];
  if (from->state == TrialState::failed) return ask_random(question, options);
  Proposal proposal{from->values, from->number};
  const auto& dimensions = question.space.dimensions();
  for (size_t d = 0; d < dimensions.size(); ++d)
    proposal.values[d] = explored(dimensions[d], from->values[d], draws);
  return proposal;
}

}  // namespace maglev::search
