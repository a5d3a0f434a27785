#pragma once
// The checkpoints of one run: `<run>/checkpoints/step_.../` and a link `best` to the one with the
// highest return. Invariants: a committed checkpoint is never torn; the newest, the best and, if it
// comes to that, the only valid one are never deleted.

#include <functional>
#include <string>
#include <vector>

#include "engine/run/checkpoint.h"

namespace maglev {

struct CheckpointRow {
  std::string path;
  CheckpointIdentity identity;
  int64_t sequence = 0;
  uint64_t state_bytes = 0;
};

class CheckpointStore {
 public:
  /// Keeps the `keep_last` newest besides the best; 0 keeps all. Touches nothing until save().
  CheckpointStore(const std::string& run_dir, int keep_last);

  const std::string& dir() const { return dir_; }

  /// Saves, points `best` at the highest return (the newest of equals), deletes what need not be
  /// kept. Returns the path. Throws Error; if that says "was not saved" nothing new is there, else
  /// the checkpoint is there and the link or the deletion failed.
  std::string save(const CheckpointIdentity& identity, const VisitState& visit);

  /// Checkpoints whose manifest is sound, in the order they were saved.
  std::vector<CheckpointRow> list() const;

  /// The last saved one of which every byte is right; empty when there is none. Each that is
  /// skipped is one `note`.
  std::string newest_valid(const std::function<void(const std::string&)>& note = {}) const;

  /// What `best` points at, when it is sound; else the highest return of list(); empty when there
  /// is none.
  std::string best() const;

  /// Deletes what need not be kept, but nothing while no kept one is valid. Damaged ones are left
  /// for people to see.
  void collect_garbage();

 private:
  void delete_all_but(const std::vector<CheckpointRow>& rows, size_t first_kept);

  std::string dir_;
  int keep_last_;
};

}  // namespace maglev
