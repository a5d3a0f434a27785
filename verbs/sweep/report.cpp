#include "verbs/sweep/report.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <iterator>
#include <unistd.h>

#include "base/core/file.h"
#include "base/core/home.h"
#include "base/core/printed.h"
#include "base/core/shell_word.h"
#include "base/core/words.h"
#include "base/picture/chart.h"
#include "base/search/importance.h"
#include "engine/algo/experiment.h"
#include "verbs/table.h"

namespace maglev::verbs::sweep {
namespace {

using search::Dimension;
using search::TrialState;

constexpr size_t kMaxSettingsBytes = 1 << 20;
constexpr size_t kShown = 15;        // trials in the page's table
constexpr size_t kMostUnscored = 5;  // that are named

std::string seconds_text(double seconds) {
  return std::isfinite(seconds) ? printed("%.1f", seconds) : "-";
}

// points without a line between them
std::vector<ChartPoint> scattered(const std::vector<ChartPoint>& points) {
  std::vector<ChartPoint> apart;
  for (const ChartPoint& point : points) {
    apart.push_back(point);
    apart.push_back({point.x, NAN});
  }
  return apart;
}

std::vector<std::string> cells_of(const Board& board, const BoardTrial& row) {
  std::vector<std::string> cells{std::to_string(row.trial.number), score_text(row.trial.score),
                                 seconds_text(row.trial.cost), name_of(row.trial.state)};
  const auto& dimensions = board.request().space.dimensions();
  for (size_t d = 0; d < dimensions.size(); ++d)
    cells.push_back(dimensions[d].brief(row.trial.values[d]));
  return cells;
}

std::string history_chart(const std::vector<search::SearchTrial>& trials) {
  std::vector<search::SearchTrial> done;
  for (const auto& trial : trials)
    if (trial.ended > 0) done.push_back(trial);
  std::ranges::sort(done, {}, &search::SearchTrial::ended);
  std::vector<ChartPoint> each, best;
  double most = NAN;
  for (const auto& trial : done) {
    if (trial.state == TrialState::finished)
      most = std::isnan(most) ? trial.score : std::max(most, trial.score);
    each.push_back({double(trial.ended), trial.score});
    best.push_back({double(trial.ended), most});
  }
  return svg(LineChart{.title = "scores in the order in which trials ended",
                       .x_label = "trial",
                       .y_label = "score",
                       .lines = {{"trial", scattered(each)}, {"best so far", best}},
                       .marked = true});
}

std::string slice_chart(const Dimension& d, size_t index,
                        const std::vector<search::SearchTrial>& trials) {
  std::vector<ChartPoint> points;
  for (const auto& trial : trials)
    if (trial.ended > 0 && std::isfinite(trial.score))
      points.push_back({trial.values[index], trial.score});
  std::ranges::sort(points, {}, &ChartPoint::x);
  std::string label = d.name;
  for (size_t c = 0; c < d.choices.size(); ++c)
    label += (c ? ", " : ": ") + std::to_string(c) + " is " + d.choices[c];
  return svg(LineChart{.title = d.name,
                       .x_label = label,
                       .y_label = "score",
                       .lines = {{"trial", scattered(points)}},
                       .log_x = d.log,
                       .marked = true});
}

std::string pareto_chart(const std::vector<search::SearchTrial>& trials) {
  std::vector<ChartPoint> points, front;
  for (const auto& trial : trials)
    if (trial.state == TrialState::finished) points.push_back({trial.cost, trial.score});
  for (const auto* trial : search::pareto_front(trials))
    front.push_back({trial->cost, trial->score});
  return svg(LineChart{.title = "score against seconds",
                       .x_label = "seconds of a trial",
                       .y_label = "score",
                       .lines = {{"trial", scattered(points)}, {"Pareto front", front}},
                       .marked = true});
}

std::string importance_chart(const search::SearchSpace& space, const std::vector<double>& shares) {
  RowChart chart{.title = "importance", .x_label = "share of the variance of scores"};
  std::vector<size_t> order(space.size());
  for (size_t d = 0; d < order.size(); ++d) order[d] = d;
  std::ranges::stable_sort(order, std::greater(), [&](size_t d) { return shares[d]; });
  for (size_t d : order)
    chart.rows.push_back(
        {.name = space.dimensions()[d].name, .value = shares[d], .low = 0, .high = shares[d]});
  return svg(chart);
}

}  // namespace

std::string score_text(double score) {
  return std::isfinite(score) ? printed("%.4g", score) : "-";
}

std::vector<const BoardTrial*> ranked(const std::vector<BoardTrial>& trials) {
  const auto known = plain(trials);
  std::vector<const BoardTrial*> rows;
  for (const search::SearchTrial* trial : search::by_score(known))
    if (trial->state != TrialState::failed) rows.push_back(&trials[size_t(trial - known.data())]);
  return rows;
}

std::string table_of(const Board& board, const std::vector<BoardTrial>& trials, size_t most) {
  std::vector<std::string> headings{">trial", ">score", ">seconds", "state"};
  for (const Dimension& d : board.request().space.dimensions()) headings.push_back(">" + d.name);
  Table table(headings);
  auto rows = ranked(trials);
  if (rows.size() > most) rows.resize(most);
  for (const BoardTrial* row : rows) table.add(cells_of(board, *row));
  return table.text(probe_terminal(STDOUT_FILENO));
}

std::string best_command(const Board& board, const BoardTrial& best) {
  const SweepRequest& request = board.request();
  // a member of a population has its networks from others: its run is what can be gone on with
  if (request.sampler == "pbt")
    return command_name() + " eval " + shell_word(board.folder_of(best.trial.number) + "/run");
  return command_name() + " train " + request.algo + " " + request.env + " --bare --config " +
         shell_word(board.folder() + "/best.yaml");
}

std::string best_yaml(const Board& board, const BoardTrial& best, const std::string& unscored) {
  return "# trial " + std::to_string(best.trial.number) + " of a sweep: score " +
         score_text(best.trial.score) + " in " + seconds_text(best.trial.cost) + " s\n" +
         (unscored.empty() ? "" : "# " + unscored + "\n") +
         read_file(board.folder_of(best.trial.number) + "/settings.yaml", kMaxSettingsBytes);
}

std::string unscored_text(const Board& board, const std::vector<BoardTrial>& trials) {
  std::vector<std::string> numbers;
  for (const BoardTrial& row : trials)
    if (row.trial.state == TrialState::unscored)
      numbers.push_back(std::to_string(row.trial.number));
  if (numbers.empty()) return "";
  const auto& shared = board.request().named;
  const bool evaluated = shared.at("train.eval_every") != "0";
  const bool several = numbers.size() > 1;
  const std::string run = board.folder() + "/trials/" + numbers[0] + "/run";
  std::string more;
  if (numbers.size() > kMostUnscored)
    more = " and " + std::to_string(numbers.size() - kMostUnscored) + " more";
  numbers.resize(std::min(numbers.size(), kMostUnscored));
  return std::string(several ? "trials " : "trial ") + joined(numbers) + more +
         (several ? " have" : " has") + " no score, for no episode " +
         (evaluated ? "of the evaluations " : "") +
         (board.request().seeds > 1 ? "of one seed or more " : "") +
         "ended, and may be the best: " + command_name() + " eval " + shell_word(run) + " judges " +
         (several ? "the first" : "it") +
         (evaluated ? ""
                    : "; a sweep in another --out with train.eval_every=" +
                          shared.at("train.steps") + " judges all alike, or give more train.steps");
}

study::Page page_of(const Board& board, const std::vector<BoardTrial>& trials,
                    const std::string& command, const std::optional<Confirmation>& confirmation) {
  using namespace study;
  const SweepRequest& request = board.request();
  const auto known = plain(trials);
  Page page{.title = "Sweep of " + request.algo + " on " + request.env, .parts = {}};
  const auto count = [&](TrialState state) {
    return std::to_string(std::ranges::count(known, state, &search::SearchTrial::state));
  };
  page.parts.push_back(CommandLine{command});
  page.parts.push_back(Paragraph{"Searched: " + request.space.written()});
  page.parts.push_back(Paragraph{
      count(TrialState::finished) + " trials finished, " + count(TrialState::stopped) +
      " stopped early, " + count(TrialState::failed) + " failed, " + count(TrialState::unscored) +
      " have no score, " + count(TrialState::running) + " run."});
  if (const std::string unscored = unscored_text(board, trials); !unscored.empty())
    page.parts.push_back(Paragraph{unscored});
  const auto rows = ranked(trials);
  if (rows.empty()) return page;

  page.parts.push_back(Heading{"Best trials"});
  std::string words;
  for (const std::string& setting : board.settings_of(rows[0]->trial.values))
    words += " " + setting;
  page.parts.push_back(CommandLine{best_command(board, *rows[0])});
  page.parts.push_back(Paragraph{"The best trial's own settings:" + words});
  ReportTable table{.headings = {"trial", "score", "seconds", "state"}, .rows = {}};
  for (const Dimension& d : request.space.dimensions()) table.headings.push_back(d.name);
  for (size_t i = 0; i < std::min(rows.size(), kShown); ++i)
    table.rows.push_back(cells_of(board, *rows[i]));
  page.parts.push_back(table);
  if (confirmation) std::ranges::copy(parts_of(*confirmation), std::back_inserter(page.parts));

  page.parts.push_back(Heading{"History"});
  page.parts.push_back(Figure{"history", history_chart(known), "Score of each trial that ended."});
  page.parts.push_back(Heading{"Importance"});
  if (const auto shares = search::importance(request.space, known);
      std::ranges::any_of(shares, [](double share) { return share > 0; }))
    page.parts.push_back(
        Figure{"importance", importance_chart(request.space, shares),
               "The share of the variance of finished trials' scores that lies between bins of one "
               "setting's values (the correlation ratio, omega squared: the first-order term of "
               "functional ANOVA). What settings do together is not in it."});
  else
    page.parts.push_back(Paragraph{
        "No setting by itself explains how the finished trials' scores differ, or there are fewer "
        "than 8 of them."});
  page.parts.push_back(Heading{"Slices"});
  for (size_t d = 0; d < request.space.size(); ++d)
    page.parts.push_back(Figure{"slice_" + std::to_string(d),
                                slice_chart(request.space.dimensions()[d], d, known),
                                "Scores by " + request.space.dimensions()[d].name + "."});
  page.parts.push_back(Heading{"Score against seconds"});
  page.parts.push_back(Figure{"pareto", pareto_chart(known),
                              "On the front no other trial scored more in less time."});
  return page;
}

}  // namespace maglev::verbs::sweep
