#pragma once
// Learning by PPO (Schulman et al., "Proximal policy optimization algorithms", 2017), whichever
// code does it: ReferenceLearner is the paper, FusedLearner does the same fast. What both change
// besides the network is one LearnerState, so that a checkpoint of one resumes under the other.

#include <memory>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "algos/ppo/options.h"
#include "algos/ppo/policy.h"
#include "engine/algo/algorithm.h"
#include "engine/nn/autocast.h"
#include "engine/nn/normalizer.h"
#include "engine/nn/optimizer.h"
#include "kernels/ppo_loss/ppo_loss.h"

namespace maglev::ppo {

/// What updates change besides the policy, and what survives a restart with it.
struct LearnerState {
  LearnerState(const Options& options, const AlgoContext& context, PpoPolicy& policy);

  std::unique_ptr<Optimizer> optimizer;
  LossScale loss_scale;                     ///< stays 1 but in fp16
  std::shared_ptr<RewardNorm> reward_norm;  ///< null unless ppo.normalize_reward
  at::Tensor last_entropy;  ///< scalar f32, nats: of the last minibatch with a row that counts
  at::Tensor steps_done;    ///< scalar f64, rows learned from: what schedules see
  at::Tensor epochs_done;   ///< scalar i64, numbers permutations

  /// The batch's rewards [T, rows] by reward_norm, which takes in those of all processes first;
  /// valid [T, rows] f32.
  at::Tensor scaled_reward(const Batch& batch, const at::Tensor& valid, Group* group);
  void visit(StateVisitor& visitor);
  /// Views of the optimiser's moments that belong to the value head, which PopArt rescales.
  ValueHead::AdamMoments head_moments() const;

 private:
  bool scales_;
  int64_t head_begin_ = 0, head_count_ = 0;  ///< in the flat buffer
};

/// What the stages of an update left on the device.
struct Results {
  at::Tensor advantage;           ///< [T, rows] f32
  at::Tensor returns;             ///< [T, rows] f32, in the reward's units
  at::Tensor explained_variance;  ///< scalar f32: 1 - Var(returns - values) / Var(returns)
  at::Tensor figures;             ///< [kPpoFigures] f32, of the last minibatch
  at::Tensor grad_norm;           ///< scalar f32, of the last minibatch, before clipping
  at::Tensor stopped;             ///< scalar f32: 1 once target_kl ended this update, else 0
};

class Learner {
 public:
  virtual ~Learner() = default;

  /// Learns from one rollout: prepare, epochs of minibatch steps, finish. Figures go to `metrics`.
  virtual void update(const Batch& batch, Metrics& metrics) = 0;

  // The stages of update, in order; a test may drive them with a batch and index lists of its own.

  /// Schedules of this update, values, advantages, returns, value-head statistics.
  virtual void prepare(const Batch& batch) = 0;
  /// One optimiser step on rows `index` [B] i64 of the flattened rollout (t * rows + row): where the
  /// network remembers, sequences of sequence_steps() rows one behind another. Rows that only reset
  /// an environment count nothing.
  virtual void minibatch_step(const Batch& batch, const at::Tensor& index) = 0;
  /// Observation statistics, once all epochs are done.
  virtual void finish(const Batch& batch) = 0;

  virtual Results results() const = 0;
  /// As Algorithm::note.
  virtual std::string note() const { return ""; }
};

PpoLossSettings loss_settings(const Options& options);

/// Row of a rollout [T, R] flattened, of step l of a sequence of L steps: it begins at time
/// sequence / R * L of row sequence % R.
constexpr int64_t row_of_sequence(int64_t sequence, int64_t l, int64_t L, int64_t R) {
  return (sequence / R * L + l) * R + sequence % R;
}
/// The same of tensors on any device, all steps of a sequence one behind another: `sequences` [n]
/// i64 -> [n * L] i64.
at::Tensor rows_of_sequences(const at::Tensor& sequences, int64_t L, int64_t R);

/// Such rows as networks take them: as they are, where none remembers.
struct SequenceRows {
  at::Tensor index;  ///< [L * n] i64, time first
  Recall recall;     ///< as the policy that collected them remembered; else nothing
};
SequenceRows time_first(const Batch& batch, const at::Tensor& index, int64_t L);

/// Names of an update's figures: of a minibatch PpoFigure's, the gradient's norm and the learning
/// rate; then kUpdateFigures of the update.
const std::vector<std::string>& metric_names();
constexpr int64_t kUpdateFigures = 3;

}  // namespace maglev::ppo
