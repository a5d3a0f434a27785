#include "verbs/sweep/confirm.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <tuple>
#include <unistd.h>

#include "base/core/error.h"
#include "base/core/file.h"
#include "base/core/terminal.h"
#include "base/statistics/samples.h"
#include "engine/algo/experiment.h"
#include "engine/run/run_dir.h"
#include "engine/run/several_runs.h"
#include "verbs/compare/groups.h"
#include "verbs/compare/verdict.h"
#include "verbs/notes.h"
#include "verbs/sweep/report.h"
#include "verbs/table.h"
#include "verbs/train/seed_runs.h"
#include "verbs/train/seeds.h"

namespace maglev::verbs::sweep {
namespace {

constexpr double kConfidence = 0.95;
constexpr const char* kStart = "where it began";

std::string lock_of(const Board& board) { return board.folder() + "/confirm.lock"; }

// settings as they lie in a file, with seeds from `first` on; where there are some, they go on, and
// more begin where more are asked for
RunOutcome train_arm(const Board& board, const std::string& settings, const std::string& folder,
                     uint64_t first, int64_t seeds) {
  if (is_seeds(folder))
    return train::resume_seeds(folder, {"jsonl"}, {}, train::RemovedSeed::is_lost, seeds);
  Experiment experiment(board.request().algo, board.request().env);
  experiment.table().load(settings);
  experiment.table().override_with("seed=" + std::to_string(first), "--confirm");
  return train::train_seeds(experiment, {.out = folder, .count = seeds, .sinks = {"jsonl"}});
}

// where the settings that the search began with are trained, and the best
std::array<std::string, 2> arms_of(const Board& board, const BoardTrial& best) {
  const std::string folder = board.folder() + "/confirm/";
  return {folder + "start", folder + "trial-" + std::to_string(best.trial.number)};
}

// seeds that have begun
int64_t begun(const std::string& arm) {
  return is_seeds(arm) ? int64_t(train::seed_runs(arm).size()) : 0;
}

std::vector<std::string> row_of(const compare::Group& group, const std::string& searched) {
  const Spread spread = spread_of(group.values, kConfidence);
  return {group.name,
          std::to_string(group.values.size()),
          score_text(spread.mean),
          score_text(spread.deviation),
          score_text(spread.interval.low) + " to " + score_text(spread.interval.high),
          searched};
}

}  // namespace

bool is_confirmed_elsewhere(const Board& board) {
  return path_exists(lock_of(board)) && FileLock::held(lock_of(board));
}

bool is_confirmed(const Board& board, const BoardTrial& best) {
  const auto arms = arms_of(board, best);
  return std::ranges::all_of(arms, [&](const std::string& arm) {
    return is_seeds(arm) && train::seeds_group(arm).count == begun(arm) &&
           begun(arm) == begun(arms[0]) && std::ranges::all_of(train::seed_runs(arm), has_finished);
  });
}

std::optional<Confirmation> confirm(const Board& board, const BoardTrial& best,
                                    std::optional<int64_t> asked) {
  const FileLock lock(lock_of(board));
  make_dirs(board.folder() + "/confirm");
  const auto [start, again] = arms_of(board, best);
  const int64_t there = std::max(begun(start), begun(again)),
                seeds = std::max(asked.value_or(0), there);
  if (asked && there > *asked)
    print_notes({counted(there, "seed") +
                 " of the settings are there already: it is confirmed by " + "these, in place of " +
                 std::to_string(*asked)});

  // the trials had the seeds before these
  const SweepRequest& request = board.request();
  const uint64_t first =
      std::strtoull(request.named.at("seed").c_str(), nullptr, 10) + uint64_t(request.seeds);
  const std::string name = "trial " + std::to_string(best.trial.number);
  const std::string which = "seeds " + std::to_string(first) + " to " +
                            std::to_string(first + uint64_t(seeds) - 1) +
                            ", which the search did not use";
  if (asked) {
    print_notes({"confirms " + name + " beside the settings the search began with, by " + which});
    for (const auto& [row, settings, arm] :
         {std::tuple(std::string(kStart), board.folder() + "/settings.yaml", start),
          std::tuple(name, board.folder_of(best.trial.number) + "/settings.yaml", again)}) {
      // whose seeds are told of from here on
      print_notes({row + ": seeds of " + arm});
      if (train_arm(board, settings, arm, first, seeds) != RunOutcome::finished) return {};
    }
  }

  // the figure a trial's score is
  auto groups = compare::groups_of({again, start});
  const compare::Metric metric{.column = compare::usual_column(groups), .over = 0};
  compare::read_values(groups, metric);
  groups[0].name = name, groups[1].name = kStart;
  const auto pairs = compare::pairs_of({groups[0].values, groups[1].values}, kConfidence);
  const auto verdict = compare::verdict_of(pairs[0], {groups[0].name, groups[0].values},
                                           {groups[1].name, groups[1].values}, 1, kConfidence);
  return Confirmation{
      .about = "Confirmed with " + which + ": " + metric.column + " of each run's last row.",
      .table = {.headings = {"settings", "seeds", "mean", "std", "95 % CI", "in the search"},
                .rows = {row_of(groups[1], "-"), row_of(groups[0], score_text(best.trial.score))}},
      .verdict = verdict.text};
}

std::string text_of(const Confirmation& confirmation) {
  std::vector<std::string> headings;
  // all but the first are figures
  for (const std::string& heading : confirmation.table.headings)
    headings.push_back((headings.empty() ? "" : ">") + heading);
  Table table(headings);
  for (const auto& row : confirmation.table.rows) table.add(row);
  return confirmation.about + "\n" + table.text(probe_terminal(STDOUT_FILENO)) +
         confirmation.verdict + "\n";
}

std::vector<study::PagePart> parts_of(const Confirmation& confirmation) {
  return {study::Heading{"Confirmation"}, study::Paragraph{confirmation.about}, confirmation.table,
          study::Paragraph{confirmation.verdict}};
}

}  // namespace maglev::verbs::sweep
