#pragma once
// What a learned model of the environment sees and imagines, for people to look at. Only algorithms
// that learn to give back what is seen have one (AlgoEntry::make_imagination).

#include <cstdint>
#include <vector>

#include "engine/data/batch.h"
#include "engine/data/state.h"

namespace maglev {

class Imagination {
 public:
  virtual ~Imagination() = default;

  /// Of `play`, T steps of N rows as a policy took them: what the model says that it sees, column
  /// by column as shown() has them, f32; undefined where it does not see a column. The first `seen`
  /// steps are shown to it, and the first one of each later episode; all others it imagines from
  /// the actions alone, by random numbers of `seed`.
  virtual std::vector<at::Tensor> imagine(const Batch& play, int64_t seen, uint64_t seed) = 0;

  /// Columns of `play` as it is shown them: numbers [T, N, shape] f32, images [T, N, H, W, C] u8,
  /// cells as images.
  virtual std::vector<at::Tensor> shown(const Batch& play) const = 0;

  /// What it is made of, as the algorithm names it: a checkpoint's section "algo" loads it.
  virtual void visit_state(StateVisitor& visitor) = 0;
};

}  // namespace maglev
