#pragma once
// What stands between observations and the outputs of a TrunkNetwork. A network that differs from
// others in its layers alone is a Trunk.

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>

#include "engine/nn/activation.h"
#include "engine/nn/actor_critic.h"
#include "engine/nn/init.h"
#include "engine/nn/obs_encoder.h"

namespace maglev {

/// Inputs -> features [B, F] f32.
class Trunk : public torch::nn::Module {
 public:
  /// What it takes: an image (channels 0: none), a vector, and privileged inputs of the critic.
  struct Shape {
    int64_t channels, height, width, vector, extra;
    /// Of all, side by side.
    int64_t elements() const { return channels * height * width + vector + extra; }
  };

  /// extra: [B, extra], undefined where there are none.
  virtual at::Tensor forward(const NetInput& input, const at::Tensor& extra) = 0;
  virtual int64_t features() const = 0;

  virtual RowCost cost() const { return cost_of(parameters()); }
  /// As ActorCritic's.
  virtual std::string note() const { return ""; }
  /// As fully connected layers on inputs side by side; none where it is more.
  virtual std::optional<std::vector<DenseTensors>> dense() const { return std::nullopt; }

  /// As ActorCritic's.
  virtual bool rounds_weights() const { return false; }
  virtual void round_weights() {}
  virtual void share_rounded(const Trunk& original) { (void)original; }

 protected:
  struct Layer {
    at::Tensor weight, bias;  ///< [out, ..], [out]
  };
  /// A new layer with a weight of these sizes, `name`_weight and `name`_bias among the parameters:
  /// orthogonal times the square root of 2, and 0.
  Layer add_layer(const std::string& name, const std::vector<int64_t>& sizes, Initializer& init);
};

/// Makes a trunk that takes such inputs.
using MakeTrunk = std::function<std::shared_ptr<Trunk>(const Trunk::Shape& shape, Initializer&)>;

/// Pixels with channels innermost, then the vector, then `extra`, where there are such: [B, D].
at::Tensor side_by_side(const NetInput& input, const at::Tensor& extra);

/// Fully connected layers on inputs side by side.
class DenseTrunk : public Trunk {
 public:
  DenseTrunk(const Shape& shape, const std::vector<int64_t>& hidden,
             const Nonlinearity& nonlinearity, Initializer& init);

  at::Tensor forward(const NetInput& input, const at::Tensor& extra) override;
  int64_t features() const override { return features_; }
  std::optional<std::vector<DenseTensors>> dense() const override { return layers_; }

 private:
  Nonlinearity nonlinearity_;
  int64_t features_;
  std::vector<DenseTensors> layers_;
};

}  // namespace maglev
