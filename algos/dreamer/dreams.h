#pragma once
// Dreamer's world model to be looked into: all networks, without a learner.

#include "algos/dreamer/actions.h"
#include "algos/dreamer/networks.h"
#include "engine/algo/algorithm.h"
#include "engine/algo/imagination.h"

namespace maglev::dreamer {

class Dreams : public Imagination {
 public:
  /// Throws Error where the model has no decoder (Objective::redundancy).
  Dreams(const Options& options, const AlgoContext& context);

  std::vector<at::Tensor> imagine(const Batch& play, int64_t seen, uint64_t seed) override;
  std::vector<at::Tensor> shown(const Batch& play) const override {
    return columns_.shown(play.obs);
  }
  void visit_state(StateVisitor& visitor) override;

 private:
  /// Columns of what was made of T * N rows.
  std::vector<at::Tensor> columns_of(const Reconstruction& made, int64_t T, int64_t N) const;

  EnvSpec spec_;
  ModelShape shape_;
  Columns columns_;
  Networks networks_;
};

}  // namespace maglev::dreamer
