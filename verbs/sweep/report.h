#pragma once
// What a sweep came to: its best settings, a table and a page.

#include <optional>
#include <string>
#include <vector>

#include "verbs/study/page.h"
#include "verbs/sweep/board.h"
#include "verbs/sweep/confirm.h"

namespace maglev::verbs::sweep {

/// A score, or a mean of some, for people; "-" where there is none.
std::string score_text(double score);
/// Finished and stopped trials, the best score first.
std::vector<const BoardTrial*> ranked(const std::vector<BoardTrial>& trials);
/// The best trials as a table for people; at most `most`.
std::string table_of(const Board& board, const std::vector<BoardTrial>& trials, size_t most);
/// What trains with the best trial's settings, or judges it where those alone do not make it (pbt).
std::string best_command(const Board& board, const BoardTrial& best);
/// Settings of one trial as YAML, for --config: what all share and what it tried. `unscored`: see
/// below.
std::string best_yaml(const Board& board, const BoardTrial& best, const std::string& unscored);
/// Which of the trials have no score, why they may be the best, and how to judge them; empty: all of
/// those that ended have one.
std::string unscored_text(const Board& board, const std::vector<BoardTrial>& trials);
/// The best trials, `confirmation` where there is one, history, importance, slices and score
/// against seconds.
study::Page page_of(const Board& board, const std::vector<BoardTrial>& trials,
                    const std::string& command, const std::optional<Confirmation>& confirmation);

}  // namespace maglev::verbs::sweep
