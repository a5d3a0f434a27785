#include "base/search/sampler.h"

#include <algorithm>
#include <cmath>

#include "base/search/draws.h"

namespace maglev::search {
namespace {

constexpr SamplerEntry kSamplers[] = {
    {"random", "evenly over the space", ask_random},
    {"tpe", "Parzen estimators of good and other trials", ask_tpe},
    {"cmaes", "a normal distribution that adapts; for numbers", ask_cmaes},
    {"pareto", "tpe for score against seconds", ask_pareto},
    {"pbt", "a population that copies its best and perturbs", ask_pbt},
};

bool ended(const SearchTrial& trial) { return trial.ended > 0; }

double log_cost(const SearchTrial& trial) { return std::log(std::max(trial.cost, 1e-6)); }

// at least as good in both and better in one
bool beats(const SearchTrial& a, const SearchTrial& b) {
  return a.score >= b.score && a.cost <= b.cost && (a.score > b.score || a.cost < b.cost);
}

// of one front, sorted by cost: what each adds to the area that all dominate, ends most
std::vector<double> areas_added(const std::vector<const SearchTrial*>& front) {
  std::vector<double> areas(front.size(), std::numeric_limits<double>::infinity());
  for (size_t i = 1; i + 1 < front.size(); ++i)
    areas[i] =
        (front[i]->score - front[i - 1]->score) * (log_cost(*front[i + 1]) - log_cost(*front[i]));
  return areas;
}

}  // namespace

std::span<const SamplerEntry> sampler_table() { return kSamplers; }

std::optional<Proposal> ask_random(const Question& question, const SamplerOptions&) {
  Draws draws(question.seed, question.number);
  std::vector<double> units(question.space.size());
  for (double& unit : units) unit = draws.uniform();
  return Proposal{question.space.from_units(units)};
}

std::vector<const SearchTrial*> by_score(std::span<const SearchTrial> trials) {
  std::vector<const SearchTrial*> order;
  for (const SearchTrial& trial : trials)
    if (ended(trial) && trial.state != TrialState::unscored) order.push_back(&trial);
  // a finished one stands above all rungs
  const auto level = [](const SearchTrial& t) {
    return t.state == TrialState::failed     ? -1.
           : t.state == TrialState::finished ? std::numeric_limits<double>::infinity()
                                             : double(t.rungs.size());
  };
  std::ranges::stable_sort(order, [&](const SearchTrial* a, const SearchTrial* b) {
    if (level(*a) != level(*b)) return level(*a) > level(*b);
    return level(*a) >= 0 && a->score > b->score;
  });
  return order;
}

std::vector<const SearchTrial*> pareto_front(std::span<const SearchTrial> trials) {
  std::vector<const SearchTrial*> front;
  for (const SearchTrial& trial : trials)
    if (trial.state == TrialState::finished &&
        std::ranges::none_of(trials, [&](const SearchTrial& other) {
          return other.state == TrialState::finished && beats(other, trial);
        }))
      front.push_back(&trial);
  std::ranges::stable_sort(front, {}, [](const SearchTrial* t) { return t->cost; });
  return front;
}

std::vector<const SearchTrial*> by_pareto(std::span<const SearchTrial> trials) {
  std::vector<const SearchTrial*> order, left, last;
  for (const SearchTrial* trial : by_score(trials))
    (trial->state == TrialState::finished ? left : last).push_back(trial);
  while (!left.empty()) {
    std::vector<const SearchTrial*> front, others;
    for (const SearchTrial* trial : left)
      (std::ranges::any_of(left, [&](const SearchTrial* other) { return beats(*other, *trial); })
           ? others
           : front)
          .push_back(trial);
    std::ranges::stable_sort(front, {}, [](const SearchTrial* t) { return t->cost; });
    const std::vector<double> areas = areas_added(front);
    std::vector<size_t> places(front.size());
    for (size_t i = 0; i < places.size(); ++i) places[i] = i;
    std::ranges::stable_sort(places, [&](size_t a, size_t b) { return areas[a] > areas[b]; });
    for (size_t place : places) order.push_back(front[place]);
    left = std::move(others);
  }
  order.insert(order.end(), last.begin(), last.end());
  return order;
}

}  // namespace maglev::search
