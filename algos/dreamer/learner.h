#pragma once
// Who learns. All change the same LearnerState.

#include <ATen/core/Tensor.h>

#include "algos/dreamer/learner_state.h"
#include "algos/dreamer/model_shape.h"
#include "algos/dreamer/observation.h"
#include "algos/dreamer/options.h"
#include "base/core/thread_pool.h"
#include "engine/device/precision.h"
#include "engine/group/group.h"

namespace maglev::dreamer {

/// A batch as the model takes it: T steps of B sequences, each with what led to it. A sequence may
/// cross the ends of episodes.
struct Sequences {
  Observation seen;        ///< [T, B, ...]
  at::Tensor is_first;     ///< [T, B] f32: an episode begins here, and nothing led to it
  at::Tensor action;       ///< [T, B, A] f32, taken before
  at::Tensor reward;       ///< [T, B] f32, got on the way here
  at::Tensor terminated;   ///< [T, B] f32: there is no future from here
  at::Tensor ended;        ///< [T, B] f32: the episode's last step, for whatever reason
  at::Tensor deter;        ///< [B, D] f32: the state before, as it was stored
  at::Tensor stoch;        ///< [B, S] u8: its categories
  at::Tensor weight = {};  ///< [T, B] f32: of row_weights; undefined: all rows count alike
};

/// States of all steps, to be stored again.
struct StoredLatents {
  at::Tensor deter;  ///< [T, B, D] f32
  at::Tensor stoch;  ///< [T, B, S] u8
};

/// What learners are made of. `options.batch` are the sequences that this process learns from: with
/// a group they are its share of a batch.
struct LearnerOptions {
  Options options;
  ModelShape shape;
  uint64_t seed = 0;
  Precision precision = Precision::fp32;  ///< of the fused learner's products
  ThreadPool* pool = nullptr;
  Group* group = nullptr;

  /// Sequences of the whole batch, and the share of it that lies here.
  int64_t batch_of_all() const { return options.batch * size_of(group); }
  double share() const { return 1 / double(size_of(group)); }
};

class Learner {
 public:
  virtual ~Learner() = default;

  /// One update of all networks; writes `figures` [kFigures] f32 on the batch's device. Graph-safe.
  virtual StoredLatents update(const Sequences& batch, at::Tensor& figures) = 0;

  /// What people should know of it, one line or none.
  virtual std::string note() const { return ""; }
};

}  // namespace maglev::dreamer
