#include "verbs/compare/groups.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <tuple>

#include "base/core/error.h"
#include "base/core/file.h"
#include "base/core/printed.h"
#include "base/core/split.h"
#include "base/core/words.h"
#include "base/metrics/rows.h"
#include "engine/run/run_dir.h"
#include "engine/run/run_settings.h"
#include "engine/run/several_runs.h"
#include "verbs/train/seed_runs.h"
#include "verbs/train/seeds.h"

namespace maglev::verbs::compare {
namespace {

// of a run that has finished
constexpr const char* kLost =
    " holds no row, and the run has finished: bring the file back, or leave the run out (one that "
    "was trained without the sink jsonl has none)";

std::string metrics_of(const std::string& run) { return run + "/" + kMetricsFile; }

void add_runs(const std::string& folder, Group& group) {
  const auto missing = [&](const std::string& what) {
    return Error("[compare] " + folder + " " + what +
                 "; name a run, or the folder that `train --seeds` made");
  };
  if (!path_exists(folder))
    throw Error(missing("is not there").what() + did_you_mean(near_runs(folder)));
  if (!is_seeds(folder)) {
    if (auto several = several_runs(folder)) throw *several;
    if (!path_exists(metrics_of(folder))) throw missing("holds no run with metrics");
    group.runs.push_back(folder);
    return;
  }
  int64_t trained = 0;
  for (const std::string& run : train::seed_runs(folder))
    if (path_exists(metrics_of(run))) group.runs.push_back(run), ++trained;
    else if (has_finished(run)) throw Error("[compare] " + metrics_of(run) + kLost);
  if (trained == 0) throw missing("has no seed that trained");
  try {
    if (const int64_t all = train::seeds_group(folder).count; trained < all)
      group.notes.push_back(std::to_string(trained) + " of the " + std::to_string(all) +
                            " seeds of " + folder + (trained == 1 ? " has" : " have") +
                            " trained, and no other counts");
  } catch (const Error&) {
    // a damaged seeds.json does not say how many there are to be
  }
}

std::string kind_of(const RunStatus& status) { return status.algo + " on " + status.env; }

void look_at_runs(Group& group) {
  int64_t fewest = std::numeric_limits<int64_t>::max(), most = 0;
  for (const std::string& run : group.runs) {
    if (!path_exists(run + "/run.json")) continue;
    const RunStatus status = read_status(run);
    fewest = std::min(fewest, status.steps), most = std::max(most, status.steps);
    if (status.state != "finished" && group.unfinished.empty()) group.unfinished = run;
    if (group.algo.empty()) group.algo = status.algo, group.env = status.env;
    else if (status.algo != group.algo || status.env != group.env)
      throw Error("[compare] runs of one group are alike but for their seeds, and " + run + " is " +
                  kind_of(status) + ", not " + group.algo + " on " + group.env +
                  "; give them as groups of their own");
  }
  group.steps = std::to_string(most);
  if (fewest < most) group.steps = std::to_string(fewest) + " to " + group.steps;
}

void look_at_settings(Group& group) {
  const auto configured = [](const std::string& run) { return path_exists(run + "/config.yaml"); };
  if (!std::ranges::all_of(group.runs, configured)) return;
  try {
    for (const std::string& run : group.runs)
      for (const auto& [name, value] : named_settings(read_config(run)))
        if (name != "seed" && name != "threads") group.settings[name].insert(value);
  } catch (const Error&) {
    // a damaged file names no setting, and returns can be compared without
    group.settings.clear();
  }
}

// a run is one sample, however often it is named
void expect_each_once(const std::vector<Group>& groups) {
  std::set<std::filesystem::path> seen;
  for (const Group& group : groups)
    for (const std::string& run : group.runs)
      if (!seen.insert(std::filesystem::weakly_canonical(run)).second)
        throw Error("[compare] " + run + " is given twice, and no run counts as two seeds");
}

// rounded up to whole ones
std::string whole_percent(double share) { return printed("%.0f", std::ceil(100 * share - 1e-9)); }

// the rows of a run, as far as they can be read
struct Rows {
  std::vector<std::pair<double, double>> found = {};  ///< step and value, where it is finite
  std::set<std::string> columns = {};
  double last_step = 0;
  int64_t read = 0, unreadable = 0;
};

Rows rows_of(const std::string& run, const std::string& column) {
  Rows rows;
  rows.unreadable = each_metric_row(run, [&](const MetricReader& row) {
    ++rows.read;
    rows.last_step = std::max(rows.last_step, row.step());
    if (rows.columns.size() < row.columns().size())
      rows.columns = {row.columns().begin(), row.columns().end()};
    if (row.has(column) && std::isfinite(row.value(column)))
      rows.found.emplace_back(row.step(), row.value(column));
  });
  if (rows.read == 0)
    throw Error(
        "[compare] " + metrics_of(run) +
        (rows.unreadable > 0 ? ": none of its " + std::to_string(rows.unreadable) +
                                   " rows can be read; leave the run out, or bring the file back"
         : has_finished(run) ? kLost
                             : " holds no row yet; leave the run out, or wait for its first one"));
  return rows;
}

// rows that are not there: the end of a run is then that of those which are
void note_missing(const std::string& run, const Rows& rows, Group& group) {
  std::string note;
  if (rows.unreadable > 0)
    note = std::to_string(rows.unreadable) + " of " + std::to_string(rows.read + rows.unreadable) +
           " rows of " + metrics_of(run) + " cannot be read";
  if (path_exists(run + "/run.json")) {
    const RunStatus status = read_status(run);
    // one that goes on, or was stopped, has steps behind its last row
    if (double(status.steps) > rows.last_step && (!note.empty() || status.state == "finished"))
      note += (note.empty() ? "rows of " + metrics_of(run) : ", and the others") + " end at step " +
              printed("%.0f", rows.last_step) + " of " + std::to_string(status.steps);
  }
  if (!note.empty()) group.notes.push_back(note);
}

double value_of(const std::string& run, const Metric& metric, Group& group) {
  const Rows rows = rows_of(run, metric.column);
  const auto& [found, columns, last_step] = std::tie(rows.found, rows.columns, rows.last_step);
  if (!columns.contains(metric.column))
    throw Error("[compare] " + run + ": " +
                unknown_name("metric", metric.column, {columns.begin(), columns.end()}));
  note_missing(run, rows, group);
  double sum = 0, count = 0;
  for (const auto& [step, value] : found) {
    if (metric.over > 0 && step < (1 - metric.over) * last_step) continue;
    if (metric.over > 0) sum += value, count += 1;
    else sum = value, count = 1;
  }
  if (found.empty()) {
    std::set<std::string> full;
    each_metric_row(run, [&](const MetricReader& row) {
      for (const std::string& column : row.columns())
        if (row.has(column) && std::isfinite(row.value(column))) full.insert(column);
    });
    std::string others;
    for (const std::string& column : full)
      if (column.starts_with("eval/") || column.starts_with("events/") || column == "return_mean")
        others += (others.empty() ? "" : ", ") + column;
    const bool of_episodes = metric.column.starts_with("eval/") ||
                             metric.column.starts_with("events/") ||
                             metric.column == "return_mean" || metric.column == "length_mean";
    throw Error("[compare] " + run + " has no value of " + metric.column + " in any row" +
                (of_episodes ? ": no episode ended, perhaps; " : "; ") +
                (others.empty() ? "choose another --metric" : "--metric may be " + others));
  }
  if (count == 0)
    throw Error("[compare] " + run + " has no value of " + metric.column + " in its last " +
                whole_percent(metric.over) + " % of steps; --over " +
                whole_percent(1 - found.back().first / last_step) + " reaches the last one");
  return sum / count;
}

}  // namespace

std::vector<Group> groups_of(const std::vector<std::string>& words) {
  std::vector<Group> groups;
  for (const std::string& word : words) {
    Group& group = groups.emplace_back();
    group.name = word;
    for (const std::string& folder : split_list(word, "a group of runs")) add_runs(folder, group);
    look_at_runs(group);
    look_at_settings(group);
  }
  expect_each_once(groups);
  return groups;
}

std::map<std::string, std::vector<std::string>> differing_settings(
    const std::vector<Group>& groups) {
  std::map<std::string, std::vector<std::string>> differing;
  for (const auto& [name, first] : groups.front().settings) {
    std::vector<std::string> texts;
    bool differs = false;
    for (const Group& group : groups) {
      const auto found = group.settings.find(name);
      if (found == group.settings.end()) break;
      std::string text;
      for (const std::string& value : found->second) text += (text.empty() ? "" : " or ") + value;
      texts.push_back(text);
      differs |= found->second != first || found->second.size() > 1;
    }
    if (differs && texts.size() == groups.size()) differing[name] = texts;
  }
  return differing;
}

std::string usual_column(const std::vector<Group>& groups) {
  const auto evaluated = [](const std::string& run) {
    bool has = false;
    each_metric_row(run, [&](const MetricReader& row) { has |= row.has("eval/return_mean"); });
    return has;
  };
  for (const Group& group : groups)
    for (const std::string& run : group.runs)
      if (!evaluated(run)) return "return_mean";
  return "eval/return_mean";
}

void read_values(std::vector<Group>& groups, const Metric& metric) {
  for (Group& group : groups) {
    group.values.clear();
    for (const std::string& run : group.runs) group.values.push_back(value_of(run, metric, group));
  }
}

}  // namespace maglev::verbs::compare
