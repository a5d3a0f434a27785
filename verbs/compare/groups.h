#pragma once
// What is compared: groups of runs, one figure of each run.

#include <map>
#include <set>
#include <string>
#include <vector>

namespace maglev::verbs::compare {

struct Group {
  std::string name;                 ///< as it was given
  std::string algo, env;            ///< of its runs
  std::string steps;                ///< each took, "8000" or "8000 to 9000"
  std::string unfinished;           ///< the first run that trains yet or was stopped; empty: none
  std::vector<std::string> notes;   ///< what its figures lack: seeds that are not there, rows
  std::vector<std::string> runs;    ///< folders
  std::vector<double> values = {};  ///< one a run
  /// What its runs' config.yaml say, by setting: each value that some run has. Seeds and threads are
  /// not among them. Empty where a run has no config.yaml.
  std::map<std::string, std::set<std::string>> settings = {};
};

/// A group of each word: a folder of several seeds, a run, or several of both by commas. Throws
/// Error on what is neither, on a run that was given already, and on a group whose runs are of
/// several algorithms or environments.
std::vector<Group> groups_of(const std::vector<std::string>& words);

/// Settings that all groups have and that are not the same in all runs: what each group's runs have,
/// "0.001" or "0.001 or 0.01".
std::map<std::string, std::vector<std::string>> differing_settings(
    const std::vector<Group>& groups);

/// A figure of a run's metrics.
struct Metric {
  std::string column;  ///< of metrics.jsonl
  double over;         ///< mean of its rows in this last share of the run's steps; 0: the last row
};

/// The column that is compared where none was named: evaluations' mean return where every run has
/// some, else that of training.
std::string usual_column(const std::vector<Group>& groups);
/// Fills each group's values, and notes which rows are missing. Throws Error where no row of a run
/// can be read, where a run has no such column, with near names, or no finite value in that share.
void read_values(std::vector<Group>& groups, const Metric& metric);

}  // namespace maglev::verbs::compare
