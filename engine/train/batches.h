#pragma once
// Batches out of a replay, one after another; the next one may be drawn while one is learned from:
// by a thread of its own on a processor, on a stream of its own on a GPU. What is drawn ahead is
// what would be drawn later: slices are a function of the key and of what the ring holds, which no
// update changes, and the columns that updates do write are gathered when the batch is asked for.

#include <memory>
#include <optional>

#include "base/core/background.h"
#include "engine/data/replay.h"
#include "engine/device/side_stream.h"

namespace maglev {

class Batches {
 public:
  /// `ahead`: with a thread or stream, and a second buffer.
  Batches(Replay& replay, bool ahead);
  ~Batches();
  Batches(const Batches&) = delete;
  Batches& operator=(const Batches&) = delete;

  /// Whether draw_ahead() does anything.
  bool ahead() const { return thread_ || stream_; }
  /// Batch `key`, valid until the next call. Something can be drawn.
  const Batch& get(const ReplayKey& key, ThreadPool& pool);
  /// get() will be asked for `key` next, and the ring's steps stay as they are until then; else
  /// call drop(). On a processor it does nothing where a counter adds to the key's number. On a GPU
  /// put_back() comes before the stream may go on to anything that changes the ring or that
  /// counter.
  void draw_ahead(const ReplayKey& key);
  /// Before the ring or its table changes: what was drawn ahead counts no more. On a GPU it may be
  /// captured.
  void drop();
  /// What get() gave last, rewritten columns back into the ring.
  void put_back();

 private:
  Replay& replay_;
  ReplayBuffer buffer_, next_;
  ThreadPool alone_;
  // a processor's
  ReplayKey key_;  ///< of next_
  bool drawn_ = false;
  std::unique_ptr<Background> thread_;  ///< ends first, for it uses the others
  // a GPU's, where next_ itself says which batch it holds: a replay runs no code here
  std::unique_ptr<SideStream> stream_;
  bool forked_ = false;  ///< perhaps, and not joined yet

  void join();
};

}  // namespace maglev
