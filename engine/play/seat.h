#pragma once
// A player and the rows it plays, which are chosen anew for every time step. On a device a player
// whose acting may be captured acts through batches of a few fixed sizes: powers of two, and all
// rows. Each is captured by itself and replayed. A batch that is not full holds other rows besides,
// all different; they stay as they are.

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include <ATen/core/Tensor.h>

#include "engine/data/batch.h"
#include "engine/device/event.h"
#include "engine/device/repeated_stage.h"
#include "engine/play/player.h"

namespace maglev {

/// Rows of the batch that `count` of `rows` rows are played in.
int64_t bucket_rows(int64_t count, int64_t rows);

class Seat {
 public:
  /// Rows of `now`, whose addresses stay. `now`, player and pool outlive this. What is drawn is a
  /// function of `seed`, the step and a row's index.
  Seat(Player& player, TimeStep& now, GraphPool& graphs, uint64_t seed);

  /// Writes now.action of the rows `chosen`, each named once, and advances their carry.
  void act(const std::vector<int64_t>& chosen, int64_t step);

  /// Of all rows, used where it plays.
  Carry& carry() { return carry_; }
  /// Batch sizes that are replayed so far.
  std::vector<int64_t> replayed() const;

 private:
  struct Bucket {
    TimeStep rows;
    Carry carry;
    RepeatedStage stage;
  };

  void act_eagerly(const std::vector<int64_t>& chosen, int64_t step);
  void act_in_bucket(const std::vector<int64_t>& chosen, int64_t step);
  Bucket made_bucket(int64_t rows) const;
  /// What is captured: gather, act, put back.
  void play(Bucket& bucket);

  Player* player_;
  TimeStep* now_;
  GraphPool* graphs_;
  uint64_t seed_;
  Carry carry_;
  /// Of buckets: the step, how many rows are chosen, then all rows, the chosen ones first. On the
  /// device, and what it is copied from.
  at::Tensor choice_, host_choice_;  ///< [2 + N] i64
  std::unique_ptr<DeviceEvent> copied_;
  std::map<int64_t, Bucket> buckets_;
};

}  // namespace maglev
