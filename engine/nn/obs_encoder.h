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
  /// Not null: trunks add what each of their layers gives, for people who look.
  std::vector<at::Tensor>* layers = nullptr;

  /// What a layer gave, as it goes on.
  const at::Tensor& noted(const at::Tensor& x) const {
    if (layers) layers->push_back(x);
    return x;
  }
};

/// What the encoder makes of observations.
struct EncodedObs {
  NetInput policy;        ///< what policy and critic see
  at::Tensor privileged;  ///< [B, P], what only the critic sees besides; undefined where P = 0
};

/// Whether the encoder gives an image of this column: of cells or of bytes.
bool is_image(const ObsColumn& column);
bool shows_image(const EnvSpec& spec);
/// Whether a column is of tokens, which stand for something and are no numbers to compute with.
bool shows_tokens(const EnvSpec& spec);

class ObsEncoder : public torch::nn::Module {
 public:
  /// `normalize`: standardise f32 columns by running statistics.
  ObsEncoder(const EnvSpec& spec, bool normalize);

  /// columns: [B, shape] each, as stored.
  EncodedObs forward(const std::vector<at::Tensor>& columns, bool want_privileged) const;

  /// Takes observations of times 0 to T of columns [.., rows, shape] into the running statistics,
  /// those of all processes of `group`. Where agents end apart is_first [T+1, rows] u8 says which
  /// are of agents that wait, and count for nothing.
  void absorb(const std::vector<at::Tensor>& columns, const at::Tensor& is_first, int64_t T,
              Group* group);

  /// Running statistics of each column; null where it is taken as it is.
  std::vector<const RunningNorm*> norms() const;

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
  bool ends_apart_;
  int64_t channels_ = 0, height_ = 0, width_ = 0, vector_size_ = 0, privileged_size_ = 0;
};

}  // namespace maglev
