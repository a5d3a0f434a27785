#pragma once
// Whether a sweep's best settings are better than those it began with: the best of many scores is
// partly luck, so that both are trained once more, with seeds that the search did not use.
//   confirm/start/      several seeds (verbs/train/seeds.h) of the settings the search began with
//   confirm/trial-<n>/  and of the best trial's
//   confirm.lock        held by the worker that trains them

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "verbs/study/page.h"
#include "verbs/sweep/board.h"

namespace maglev::verbs::sweep {

struct Confirmation {
  std::string about;  ///< which seeds, and what is compared
  /// A row where the search began, and one of the best: seeds, mean, deviation, interval, and what
  /// the search had.
  study::ReportTable table;
  std::string verdict;
};

/// Whether another process trains them now.
bool is_confirmed_elsewhere(const Board& board);
/// Whether both were trained, to the end of each seed.
bool is_confirmed(const Board& board, const BoardTrial& best);
/// Trains `seeds` of each, or goes on with them, and compares what the last row of each run's
/// metrics says; where more are there already it is these. Nothing of `seeds`: those that are there.
/// Nothing comes of it: a signal stopped it. Throws Error where a run fails, or none of its episodes
/// ended.
std::optional<Confirmation> confirm(const Board& board, const BoardTrial& best,
                                    std::optional<int64_t> seeds);

/// For people at a terminal, and for the page.
std::string text_of(const Confirmation& confirmation);
std::vector<study::PagePart> parts_of(const Confirmation& confirmation);

}  // namespace maglev::verbs::sweep
