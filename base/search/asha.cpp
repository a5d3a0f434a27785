#include "base/search/asha.h"

#include <algorithm>
#include <functional>

namespace maglev::search {

Asha Asha::with(int64_t first, int64_t all, double keep) {
  Asha asha{.keep = keep};
  for (double at = double(first); at < double(all); at *= keep) asha.rungs.push_back(int64_t(at));
  asha.rungs.push_back(all);
  return asha;
}

std::optional<int64_t> Asha::promote(std::span<const SearchTrial> trials,
                                     std::span<const int64_t> promoted) const {
  // the last rung is the end: nobody is promoted from it
  for (size_t rung = rungs.size() - 1; rung-- > 0;) {
    std::vector<const SearchTrial*> reached;
    for (const SearchTrial& trial : trials)
      if (trial.rungs.size() > rung && trial.state != TrialState::failed) reached.push_back(&trial);
    std::ranges::stable_sort(reached, std::greater(),
                             [&](const SearchTrial* trial) { return trial->rungs[rung]; });
    reached.resize(size_t(double(reached.size()) / keep));
    for (const SearchTrial* trial : reached)
      if (promoted[size_t(trial->number)] == int64_t(rung) + 1) return trial->number;
  }
  return std::nullopt;
}

}  // namespace maglev::search
