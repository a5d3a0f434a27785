#pragma once
// The checkpoints of one run: `<run>/checkpoints/step_.../`, a link `best` to the one with the
// highest return, and evaluations.json: the mean returns that evaluations gave, by folder name,
// null where one has not ended. Where any was evaluated, `best` is of those, else by the return of
// training. Invariants: a committed checkpoint is never torn; the newest, the best, those whose
// evaluation runs and, if it comes to that, the only valid one are never deleted.

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/core/error.h"
#include "engine/run/checkpoint.h"

namespace maglev {

struct CheckpointRow {
  std::string path;
  CheckpointIdentity identity;
  int64_t sequence = 0;
  uint64_t state_bytes = 0;
  /// Mean return of its evaluation; NaN: there was none, or it has not ended.
  double evaluation = std::numeric_limits<double>::quiet_NaN();
};

class CheckpointStore {
 public:
  /// Keeps the `keep_last` newest besides the best; 0 keeps all. Touches nothing until save().
  CheckpointStore(const std::string& run_dir, int keep_last);

  const std::string& dir() const { return dir_; }

  /// Saves, points `best` at the highest return (the newest of equals), deletes what need not be
  /// kept. Returns the path. Throws Error when nothing new is there. Where the checkpoint is there
  /// and the link or the deletion failed, `trouble` says so; where that is null, Error is thrown
  /// then too. `replaced`: a checkpoint that was saved for the time between two others, and goes.
  std::string save(const CheckpointIdentity& identity, const VisitState& visit,
                   std::string* trouble = nullptr, const std::string& replaced = "");

  /// The evaluation of the checkpoint `path` ended, with NaN where it says nothing; `best` is
  /// pointed anew.
  void judge(const std::string& path, double return_mean);
  /// Verdicts are forgotten: all that are kept are to be judged anew, by another measure.
  void forget_evaluations();
  /// Those saved with `evaluate` whose evaluation never ended, in the order they were saved. They
  /// stay until they are judged.
  std::vector<std::string> unjudged() const;

  /// Checkpoints whose manifest is sound, in the order they were saved.
  std::vector<CheckpointRow> list() const;

  /// The last saved one of which every byte is right; none when there is none. Each that is skipped
  /// is one `note`.
  std::optional<VerifiedCheckpoint> newest_verified(
      const std::function<void(const std::string&)>& note = {}) const;
  /// Its path; empty when there is none.
  std::string newest_valid(const std::function<void(const std::string&)>& note = {}) const;

  /// What `best` points at, when it is sound; else the best of list(); empty when no return is
  /// known.
  std::string best() const;

  /// Deletes what need not be kept, but nothing while no kept one is valid. Damaged ones are left
  /// for people to see.
  void collect_garbage();

 private:
  void point_best(const std::vector<CheckpointRow>& rows);
  void remove(const std::string& path);
  void delete_all_but(const std::vector<CheckpointRow>& rows, size_t first_kept);
  std::map<std::string, double> evaluations() const;
  void write_evaluations(const std::map<std::string, double>& judged);

  std::string dir_;
  int keep_last_;
};

/// Whether a run's folder has checkpoints, sound or not.
bool has_checkpoint(const std::string& run_dir);
/// What is said of a run that has none to go on from or to judge: all are damaged, or none was
/// saved.
Error no_valid_checkpoint(const std::string& run_dir);

}  // namespace maglev
