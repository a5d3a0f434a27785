#pragma once
// An update whose gradients are made of whole tensors, part of a batch after part: what the
// reference and the device's learner have in common. Losses are means over sequences, so that a
// batch may be learned from in parts; numbers drawn for a part are those of its rows in the batch.

#include <vector>

#include <ATen/core/Tensor.h>

#include "algos/tdmpc2/learner.h"
#include "algos/tdmpc2/numbers.h"
#include "engine/algo/micro_batch.h"

namespace maglev::tdmpc2 {

/// What is learned from at once: `rows`, which are sequences [first, first + count()) of those of
/// this process, and follow `before` others of the batch of all processes, which has `batch`.
struct Part {
  Sequences rows;
  int64_t first, before, batch;

  int64_t count() const { return rows.action.size(1); }
  bool whole() const { return count() == batch; }
  double share() const { return double(count()) / double(batch); }
};

/// Sequences [first, first + count) of x, which are its dimension `dim`; x may be undefined.
at::Tensor cut(const at::Tensor& x, int64_t dim, int64_t first, int64_t count);
class PartsLearner : public Learner {
 public:
  PartsLearner(const LearnerOptions& options, LearnerState& state);

  /// Graph-safe.
  void update(const Sequences& batch, at::Tensor& figures) override;

  /// What became of the batch where memory did not suffice for all of it at once.
  std::string note() const override { return micro_batch_.note(); }

  // an update's two halves, in order; a test may look between them

  /// Gradients of the model's losses into state.grad, from `at_once` sequences after the others;
  /// returns the latents [H+1, B, D] f32.
  virtual at::Tensor model_gradients(const Sequences& batch, int64_t at_once,
                                     at::Tensor& figures) = 0;
  /// Gradients of the policy's loss at the batch's latents [H+1, B, D] into state.grad, likewise,
  /// and the running scale.
  virtual void policy_gradients(const at::Tensor& latents, const Sequences& batch, int64_t at_once,
                                at::Tensor& figures) = 0;

 protected:
  std::vector<Part> parts_of(const Sequences& batch, int64_t at_once) const;
  /// `values` [B] of this process's sequences, part by part, and with them those of all. Others give
  /// theirs once an update: what is begun anew for want of memory gets those it had.
  at::Tensor of_all(const std::vector<at::Tensor>& values);

  /// Numbers [outer, B, width] of a part's rows.
  at::Tensor normals(UpdateNumbers kind, int64_t outer, int64_t width, const Part& part) const;
  at::Tensor uniforms(UpdateNumbers kind, int64_t outer, int64_t width, const Part& part) const;
  /// The two networks drawn, [2] i64.
  at::Tensor drawn_pair(UpdateNumbers kind) const;

  LearnerOptions options_;
  LearnerState* state_;
  at::Tensor rho_;  ///< [H+1] f32, rho^t

 private:
  using Draw = void (*)(at::Tensor&, NoiseFill);
  at::Tensor drawn(Draw draw, UpdateNumbers kind, int64_t outer, int64_t width,
                   const Part& part) const;
  NoiseFill numbers(UpdateNumbers kind) const;

  MicroBatch micro_batch_;  ///< sequences at once
  at::Tensor pairs_;        ///< [pairs, 2] i64
  at::Tensor given_;        ///< by all processes to the update that is under way, [W * B]
};

}  // namespace maglev::tdmpc2
