#pragma once
// One update of Dreamer without autograd where it matters: sequences are cut into shards, each of
// which a thread takes through model, dream and losses into a gradient lane of its own. The same
// figures as ReferenceLearner, which is its reference.
//
// Threads: shards are cut from sizes alone and lanes are added in order: results do not depend on
// how many threads there are. On a device the batch is one shard. Where memory does not suffice for
// a shard's sequences, it takes them in parts.

#include <memory>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "algos/dreamer/fused/core.h"
#include "algos/dreamer/fused/shard.h"
#include "algos/dreamer/learner.h"
#include "engine/algo/micro_batch.h"

namespace maglev::dreamer {

class FusedLearner : public Learner {
 public:
  FusedLearner(const LearnerOptions& options, LearnerState& state);

  StoredLatents update(const Sequences& batch, at::Tensor& figures) override;
  /// What became of shards where memory did not suffice for all of one's sequences at once.
  std::string note() const override { return micro_batch_.note(); }

  // its parts, in order; a test may look between them

  /// The sum of all losses' gradients, [P].
  at::Tensor gradients(const Sequences& batch);

 private:
  /// Shards anew, of `at_once` sequences at a time or the next fewer that divide theirs.
  void make_shards(int64_t at_once);
  void learn(const Sequences& batch);
  void draw_noise();
  /// returns_, and with them those of other processes, who give theirs once an update: what is begun
  /// anew for want of memory gets those it had. Beside them their weights, or none.
  std::pair<at::Tensor, at::Tensor> returns_of_all();
  /// Without a decoder: the loss over the whole batch's projections and tokens, and its gradient.
  void learn_agreement();
  template <class Work>
  void each_shard(const Work& work);

  LearnerOptions options_;
  LearnerState* state_;
  MicroBatch micro_batch_;  ///< sequences of a shard at once
  int64_t at_once_ = 0;     ///< as shards_ are made
  at::Tensor bins_;
  at::Tensor lanes_, figures_;                  ///< [shards, P], [shards, kFigures]
  at::Tensor returns_, scale_;                  ///< [H * T * B]; what returns were divided by
  at::Tensor row_weights_, return_weights_;     ///< [T * B], [H * T * B], where rows have some
  at::Tensor given_;                            ///< of all processes, [W * H * T * B, 1 or 2]
  at::Tensor projected_, token_, d_projected_;  ///< [T * B, E], shard after shard; or undefined
  UpdateNoise noise_;
  StoredLatents latents_;
  MixInputs mix_;
  WeightRows weights_;
  std::vector<std::unique_ptr<Shard>> shards_;
};

/// Sequences of each shard of a batch, how many shards there are, and sequences that one takes at
/// once where `asked` (0: all) of `count` were asked for.
int64_t shard_sequences(const Options& options, at::Device device);
int64_t shard_count(const Options& options, at::Device device);
/// The setting that gives more of `threads` a shard, "dreamer.shard=4"; empty: there is none.
std::string for_more_threads(const Options& options, int64_t threads, at::Device device);
int64_t sequences_at_once(int64_t asked, int64_t count);
/// Whether updates of these options run so, on any device: one that this build has no kernels for
/// can be planned for, and there the first kernel throws Error.
bool use_fused(const Options& options);

}  // namespace maglev::dreamer
