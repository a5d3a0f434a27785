#pragma once
// From stored observation columns to what networks take: scaling of bytes, cell codes through their
// palettes, running normalisation of vectors. One encoder serves acting and learning, so both see
// the same numbers.

#include <vector>

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>

#include "base/env/spec.h"
#include "engine/nn/normalizer.h"

namespace maglev {

/// What a network takes. Either part may be undefined.
struct NetInput {
  at::Tensor image;   ///< [B, C, H, W] f32, channels-last in memory
  at::Tensor vector;  ///< [B, D] f32
};

class ObsEncoder : public torch::nn::Module {
 public:
  /// `normalize`: standardise f32 columns by running statistics.
  ObsEncoder(const EnvSpec& spec, bool normalize);

  /// columns: [B, shape] each, as stored. `policy` is what both may see, `privileged` [B, P] what
  /// only the critic sees besides (undefined when P = 0).
  struct Output {
    NetInput policy;
    at::Tensor privileged;
  };
  Output forward(const std::vector<at::Tensor>& columns, bool want_privileged) const;

  /// Takes a rollout's observations [.., shape] into the running statistics.
  void absorb(const std::vector<at::Tensor>& columns);

  /// Running statistics of column `i`; null where it is taken as it is.
  const RunningNorm* norm(size_t i) const { return columns_[i].norm.get(); }

  /// Sizes of what forward gives: image [C, H, W] (C = 0: none), vector D, privileged P.
  int64_t channels() const { return channels_; }
  int64_t height() const { return height_; }
  int64_t width() const { return width_; }
  int64_t vector_size() const { return vector_size_; }
  int64_t privileged_size() const { return privileged_size_; }

 private:
  struct Column {
    ObsColumn spec;
    std::shared_ptr<RunningNorm> norm;      ///< null unless normalised
    at::Tensor policy_table, critic_table;  ///< of make_cell_table, for cell codes
  };

  std::vector<Column> columns_;
  int64_t channels_ = 0, height_ = 0, width_ = 0, vector_size_ = 0, privileged_size_ = 0;
};

}  // namespace maglev
