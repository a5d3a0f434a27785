#pragma once
// Value heads behind one interface: callers learn in normalised units and read values in the
// reward's own units, whichever head it is.

#include <array>
#include <memory>

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>

#include "engine/nn/init.h"

namespace maglev {

class FlatParams;

/// A linear map of features [B, F] to one value a row, in normalised units. The plain head's unit
/// is the reward's.
class ValueHead : public torch::nn::Module {
 public:
  ValueHead(int64_t F, Initializer& init);

  /// [B, F] f32 -> [B] f32, normalised units, with gradients.
  at::Tensor forward(const at::Tensor& features) const;

  /// Whether its units are others than the reward's.
  virtual bool normalizes() const { return false; }
  virtual at::Tensor denormalize(const at::Tensor& value) const { return value; }
  virtual at::Tensor normalize(const at::Tensor& value) const { return value; }

  /// The optimiser's moments of this head's weight and bias, [F + 1] f32 each, weight first.
  struct AdamMoments {
    at::Tensor first, second;
  };
  /// Takes in this iteration's returns [M] f32 before they become targets, each with weight [M] f32
  /// (0 leaves it out). A head that rescales its weights rescales `adam` with them, where given.
  virtual void absorb(const at::Tensor& returns, const at::Tensor& weight,
                      const AdamMoments& adam = {}) {
    (void)returns, (void)weight, (void)adam;
  }

  const at::Tensor& weight() const { return weight_; }  ///< [1, F]
  const at::Tensor& bias() const { return bias_; }      ///< [1]

 protected:
  at::Tensor weight_, bias_;  ///< [1, F], [1]
};

/// PopArt (van Hasselt et al., "Learning values across many orders of magnitude", 2016): first and
/// second moments of the returns normalise the targets; weight and bias are rescaled so that every
/// denormalised output stays what it was.
class PopArtHead : public ValueHead {
 public:
  /// Step size of the moments: max(1 / updates, beta_min).
  PopArtHead(int64_t F, double beta_min, Initializer& init);

  bool normalizes() const override { return true; }
  at::Tensor denormalize(const at::Tensor& value) const override;
  at::Tensor normalize(const at::Tensor& value) const override;
  void absorb(const at::Tensor& returns, const at::Tensor& weight,
              const AdamMoments& adam) override;

 private:
  double beta_min_;
  /// Device scalars f32; scale is the factor the last absorb put on the weights.
  at::Tensor mean_, var_, std_, count_, scale_;
  at::Tensor scratch_;  ///< popart_scratch, once returns came
};

enum class ValueHeadKind { plain, popart };
constexpr auto names_of(ValueHeadKind) { return std::array{"plain", "popart"}; }

std::shared_ptr<ValueHead> make_value_head(ValueHeadKind kind, int64_t F, double popart_beta,
                                           Initializer& init);

}  // namespace maglev
