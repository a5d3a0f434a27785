#pragma once
// Batches out of a replay, one after another; the next one may be drawn by a thread of its own while
// one is learned from. What is drawn ahead is what would be drawn later: slices are a function of the
// key and of what the ring holds, which no update changes, and the columns that updates do write are
// gathered when the batch is asked for.

#include <memory>
#include <optional>

#include "base/core/background.h"
#include "engine/data/replay.h"

namespace maglev {

class Batches {
 public:
  /// `ahead`: with a thread and a second buffer. CPU only.
  Batches(Replay& replay, bool ahead);
  Batches(const Batches&) = delete;
  Batches& operator=(const Batches&) = delete;

  /// Batch `key`, valid until the next call. Something can be drawn.
  const Batch& get(const ReplayKey& key, ThreadPool& pool);
  /// get() will be asked for `key` next, and the ring's steps stay as they are until then; else call
  /// drop(). Does nothing without a thread, or where a counter adds to the key's number.
  void draw_ahead(const ReplayKey& key);
  /// Before the ring or its table changes: what was drawn ahead counts no more.
  void drop();
  /// What get() gave last, rewritten columns back into the ring.
  void put_back() { replay_.put_back(buffer_); }

 private:
  Replay& replay_;
  ReplayBuffer buffer_, next_;
  ThreadPool alone_;
  ReplayKey key_;  ///< of next_
  bool drawn_ = false;
  std::unique_ptr<Background> thread_;  ///< ends first, for it uses the others
};

}  // namespace maglev
