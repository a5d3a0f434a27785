#pragma once
// A sweep as it lies on disk, shared by all who work on it:
//   sweep.json            what was asked for
//   settings.yaml         what all trials share
//   sweep.lock            held for the moment in which a worker takes or records a trial
//   trials/<n>/trial.json what trial n tries, how far it is and what it came to
//   trials/<n>/trial.lock held while a worker trains it
//   trials/<n>/run/       its run, or its seeds (verbs/train/seeds.h)
// Who works on a trial is said by its lock alone, which ends with the process: a trial that runs
// and is held by nobody was left behind, and the next worker goes on with it.

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/core/file.h"
#include "base/search/asha.h"
#include "base/search/sampler.h"
#include "engine/run/run_dir.h"

namespace maglev::verbs::sweep {

/// What makes two sweeps the same, but for `trials`, of which more may be asked for later.
struct SweepRequest {
  std::string algo, env;
  std::string settings;  ///< YAML that all trials share
  /// Those of them that a result depends on, by name.
  std::map<std::string, std::string> named = {};
  search::SearchSpace space;
  std::string sampler = "tpe";
  search::SamplerOptions options = {};
  std::optional<search::Asha> asha = {};
  uint64_t seed = 1;  ///< of the search
  int64_t seeds = 1;  ///< runs a trial
  int64_t trials = 50;
  std::string python;  ///< of Optuna; empty: the embedded samplers
};

/// A trial and what only its workers want to know.
struct BoardTrial {
  search::SearchTrial trial;
  int64_t promoted = 0;  ///< how many rungs it may reach so far; 0: there are none
  /// Why it failed or has no score; of one that runs: what cut it off, until it is taken up again.
  std::string message = {};
  int64_t killed = 0;  ///< how often somebody or something else ended it
  /// The trial whose settings and score these are; -1: it was trained itself.
  int64_t same_as = -1;
};

/// A trial that this process works on.
struct Claim {
  BoardTrial task;
  FileLock lock;
};

class Board {
 public:
  /// Makes the folder, or takes up the sweep that lies there. Throws Error where that was asked for
  /// otherwise, or the folder holds something else.
  Board(SweepRequest request, std::string folder);

  /// The next trial to work on: one left behind, one promoted, or a new one where `begin_new`.
  /// Nothing: there is none now. Those of `put_off` are left to others.
  std::optional<Claim> claim(bool begin_new, const std::set<int64_t>& put_off = {});
  /// The trial that was trained to its end with these settings, and so with this result, for a run is
  /// a function of its settings; nothing: none was, or it would be another run.
  std::optional<BoardTrial> tried(const BoardTrial& row) const;
  /// Writes down what became of it; sets its place among those that ended.
  void record(Claim& claim);
  /// All trials, by number. Throws Error on a damaged file.
  std::vector<BoardTrial> trials() const;
  /// No trial runs but those of `put_off`, and none is left to begin or promote, or what is left may
  /// wait for those.
  bool done(const std::set<int64_t>& put_off = {}) const;
  /// Whether a process trains a trial now. A caller has none of its own.
  bool trains_elsewhere() const;

  const SweepRequest& request() const { return request_; }
  const std::string& folder() const { return folder_; }
  std::string folder_of(int64_t number) const;
  /// "name=value" of each dimension.
  std::vector<std::string> settings_of(const search::Values& values) const;

 private:
  /// Of a trial's folder.
  int64_t number_of(const std::string& name) const;
  BoardTrial read(int64_t number) const;
  void write(const BoardTrial& trial) const;
  FileLock wait_for_lock() const;
  std::optional<search::Proposal> propose(const std::vector<BoardTrial>& all) const;

  SweepRequest request_;
  std::string folder_;
};

/// A sweep as one row, called `name`: "5 of 6 trials ended", the steps of all, the best score of
/// those that finished. Its state is "unknown" where a file of it is damaged.
RunRow sweep_row(const std::string& folder, const std::string& name);

std::vector<search::SearchTrial> plain(const std::vector<BoardTrial>& trials);

}  // namespace maglev::verbs::sweep
