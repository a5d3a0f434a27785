#pragma once
// Who learns: the losses as they are written down, by autograd; panels on a processor; or few
// launches on a GPU. All change the same LearnerState.

#include <memory>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "algos/tdmpc2/learner_state.h"
#include "algos/tdmpc2/model_shape.h"
#include "algos/tdmpc2/options.h"
#include "base/core/thread_pool.h"
#include "engine/device/precision.h"
#include "engine/group/group.h"

namespace maglev::tdmpc2 {

/// A batch as the model takes it.
struct Sequences {
  at::Tensor obs;         ///< [H+1, B, obs] f32, or images [H+1, B, 64, 64, C] u8
  at::Tensor action;      ///< [H, B, A] f32 in [-1, 1]
  at::Tensor reward;      ///< [H, B] f32
  at::Tensor terminated;  ///< [H, B] f32
  at::Tensor task;        ///< [B] i64; undefined without tasks
};

/// What both learners are made of. `options.batch` are the sequences that this process learns from:
/// with a group they are its share of a batch whose others lie before and behind them, by rank.
struct LearnerOptions {
  Options options;
  ModelShape shape;
  uint64_t seed = 0;
  std::vector<float> discount;  ///< of each task
  at::Tensor action_mask;       ///< [tasks, A] f32; undefined without tasks
  Precision precision = Precision::fp32;
  ThreadPool* pool = nullptr;
  Group* group = nullptr;

  /// Sequences of the whole batch, and those of it before this process's.
  int64_t batch_of_all() const { return options.batch * size_of(group); }
  int64_t first_sequence() const { return options.batch * rank_of(group); }
};

class Learner {
 public:
  virtual ~Learner() = default;

  /// One update of the model, the policy and the targets; writes `figures` [kFigures] f32 on the
  /// batch's device.
  virtual void update(const Sequences& batch, at::Tensor& figures) = 0;

  /// What people should know of it, one line or none.
  virtual std::string note() const { return ""; }
};

enum class LearnerKind { reference, panels, device };
/// Who learns with these settings on `device`; reads options, shape and precision alone. Throws
/// Error where tdmpc2.fused=on demands what cannot be.
LearnerKind learner_kind(const LearnerOptions& options, at::Device device);
/// Why it is the reference although tdmpc2.fused and tdmpc2.prune would have another; empty where it
/// is not.
std::string why_reference(const LearnerOptions& options, at::Device device);
/// That one, of `state`.
std::unique_ptr<Learner> made_learner(const LearnerOptions& options, LearnerState& state);

}  // namespace maglev::tdmpc2
