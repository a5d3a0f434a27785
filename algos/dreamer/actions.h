#pragma once
// Actions: what an environment's are to the model, and the distributions they are drawn from.

#include <vector>

#include <ATen/core/Tensor.h>

#include "algos/dreamer/model_shape.h"
#include "algos/dreamer/observation.h"
#include "base/env/spec.h"

namespace maglev::dreamer {

/// What the model sees of an environment's columns, and what its actions mean there: categories are
/// ones and zeros, one head behind another; bounds are -1 and 1.
class Columns {
 public:
  Columns(const EnvSpec& spec, const ModelShape& shape, at::Device device);

  /// Of columns [N, shape] or [T, N, shape], `lead` = 1 or 2.
  Observation seen(const std::vector<at::Tensor>& obs, int64_t lead) const;
  /// Columns likewise as the model sees them, cells as images [..., H, W, C] u8; undefined where it
  /// does not.
  std::vector<at::Tensor> shown(const std::vector<at::Tensor>& obs) const;
  /// action [..., dims] to [..., A] f32, within [-1, 1].
  at::Tensor to_model(const at::Tensor& action) const;
  /// What [N, A] f32 is to the environment: [N, dims], i32 or f32.
  at::Tensor to_environment(const at::Tensor& action) const;
  /// Writes the same.
  void to_environment(const at::Tensor& action, at::Tensor& out) const;
  /// What a deviation [A] f32 of a continuous action is there.
  at::Tensor deviation(const at::Tensor& std) const { return half_ * std; }

 private:
  struct Image {
    size_t column;
    CellCoding cells = {};
    at::Tensor pixels = {};  ///< u8, for decode_cells; undefined: it is a picture
  };
  static at::Tensor image_of(const Image& image, const at::Tensor& column);

  std::vector<Image> images_;
  std::vector<size_t> vectors_;
  std::vector<int64_t> heads_;
  at::Tensor middle_, half_;  ///< [dims] f32, where continuous
};

/// What the policy's head [..., P] stands for: for each head of categories a softmax; for each
/// bounded dimension a normal distribution with its mean in (-1, 1) and a deviation of 0.1 to 1,
/// which is not cut: who takes the action does that.
class ActionDistribution {
 public:
  explicit ActionDistribution(const ModelShape& shape) : heads_(shape.heads) {}

  /// Random numbers an action of width `actions` is drawn by: a normal each where it is continuous,
  /// else a uniform a head.
  bool takes_normals() const { return heads_.empty(); }
  int64_t numbers(int64_t actions) const {
    return heads_.empty() ? actions : int64_t(heads_.size());
  }
  /// [..., A] by numbers [..., numbers()]; `temperature` as ActKey's.
  at::Tensor draw(const at::Tensor& head, const at::Tensor& numbers, float temperature = 1) const;
  /// The most likely category of each head, or the mean.
  at::Tensor mode(const at::Tensor& head) const;
  /// [...], of actions [..., A].
  at::Tensor log_prob(const at::Tensor& head, const at::Tensor& action) const;
  at::Tensor entropy(const at::Tensor& head) const;
  /// Of each head's categories, [..., categories].
  std::vector<at::Tensor> log_probs(const at::Tensor& head) const;
  /// Where continuous: [..., A] each.
  struct Normal {
    at::Tensor mean, std;
  };
  Normal normal(const at::Tensor& head) const;

 private:
  std::vector<int64_t> heads_;
};

}  // namespace maglev::dreamer
