#pragma once
// Asynchronous successive halving (Li et al., "A system for massively parallel hyperparameter
// tuning", 2020, algorithm 2): many trials begin, few are promoted, nobody waits for a rung to
// fill.

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/search/sampler.h"

namespace maglev::search {

struct Asha {
  double keep = 3;  ///< eta: of so many at a rung one is promoted
  std::vector<int64_t> rungs =
      {};  ///< steps at which trials are compared, ascending; the last: all

  /// Rungs from `first` steps on, each `keep` times the last, up to `all`.
  static Asha with(int64_t first, int64_t all, double keep);

  /// The trial that goes on to the next rung: from the highest rung on down, one among the best
  /// 1 / keep of those that reached the rung and not promoted yet, the best first. Nothing: begin a
  /// new trial. `promoted[i]`: how many rungs trial i may reach so far, by number, at least 1.
  std::optional<int64_t> promote(std::span<const SearchTrial> trials,
                                 std::span<const int64_t> promoted) const;
};

}  // namespace maglev::search
