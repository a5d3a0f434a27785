#include "base/search/importance.h"

#include <algorithm>
#include <cmath>
#include <map>

namespace maglev::search {
namespace {

constexpr size_t kLeast = 8;
constexpr size_t kMostBins = 10;

double share_between(const std::vector<const SearchTrial*>& trials,
                     const std::vector<size_t>& bins) {
  double mean = 0;
  for (const SearchTrial* trial : trials) mean += trial->score / double(trials.size());
  struct Bin {
    double sum = 0, count = 0;
  };
  std::map<size_t, Bin> sums;
  double total = 0, between = 0;
  for (size_t i = 0; i < trials.size(); ++i) {
    Bin& bin = sums[bins[i]];
    bin.sum += trials[i]->score - mean, ++bin.count;
    total += (trials[i]->score - mean) * (trials[i]->score - mean);
  }
  for (const auto& [number, bin] : sums) between += bin.sum * bin.sum / bin.count;
  const double free = double(sums.size()) - 1, left = double(trials.size() - sums.size());
  if (!(total > 0) || free < 1 || left < 1) return 0;
  const double within = (total - between) / left;
  return std::max(0., (between - free * within) / (total + within));
}

}  // namespace

std::vector<double> importance(const SearchSpace& space, std::span<const SearchTrial> trials) {
  std::vector<double> shares(space.size(), 0);
  std::vector<const SearchTrial*> done;
  for (const SearchTrial& trial : trials)
    if (trial.state == TrialState::finished) done.push_back(&trial);
  if (done.size() < kLeast) return shares;
  const size_t count = std::clamp<size_t>(size_t(std::sqrt(double(done.size()))), 2, kMostBins);
  for (size_t d = 0; d < space.size(); ++d) {
    std::ranges::stable_sort(done, {}, [&](const SearchTrial* t) { return t->values[d]; });
    std::vector<size_t> bins(done.size());
    const bool choice = space.dimensions()[d].kind == Dimension::Kind::choice;
    for (size_t i = 0; i < done.size(); ++i) {
      bins[i] = choice ? size_t(done[i]->values[d]) : i * count / done.size();
      // alike values stand in one bin
      if (i > 0 && done[i]->values[d] == done[i - 1]->values[d]) bins[i] = bins[i - 1];
    }
    shares[d] = share_between(done, bins);
  }
  return shares;
}

}  // namespace maglev::search
