#pragma once
// Policy and value networks over encoded observations: MLP or CNN trunks, apart or shared, with a
// privileged critic.

#include <array>
#include <memory>
#include <optional>
#include <vector>

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>

#include "base/config/options.h"
#include "base/env/spec.h"
#include "engine/nn/init.h"
#include "engine/nn/obs_encoder.h"
#include "engine/nn/value_head.h"
#include "kernels/mlp/mlp.h"
#include "kernels/relu_layers/relu_layers_op.h"

namespace maglev {

enum class NetworkKind { mlp, cnn };
constexpr auto names_of(NetworkKind) { return std::array{"mlp", "cnn"}; }

/// Behind each hidden layer.
enum class HiddenActivation { tanh, relu, silu };
constexpr auto names_of(HiddenActivation) { return std::array{"tanh", "relu", "silu"}; }

struct NetworkOptions {
  std::optional<NetworkKind> kind;  ///< auto: cnn where there is an image, else mlp
  std::vector<int64_t> hidden = {64,
                                 64};  ///< fully connected layers, behind the convolutions of a cnn
  std::vector<int64_t> channels = {32, 64, 64};  ///< convolution layers of a cnn, 3x3, padding 1
  std::vector<int64_t> critic_hidden = {};       ///< layers between features and value head
  HiddenActivation activation = HiddenActivation::tanh;
  bool fast_tanh = true;     ///< tanh by kernels/tanh; false: ATen's, its reference
  bool fused_layers = true;  ///< relu layers of a cnn by kernels/relu_layers; false: ATen's
  bool bf16 = false;    ///< a cnn's trunk computes in bf16, from the run's precision; no setting
  bool shared = false;  ///< one trunk for policy and value
  ValueHeadKind value_head = ValueHeadKind::plain;
  double popart_beta = 1e-3;
  double log_std = 0;  ///< initial, for continuous actions
  bool normalize_obs = false;

  void describe(OptionTable& table);
};

/// A fully connected layer's tensors, which are the module's own.
struct DenseTensors {
  at::Tensor weight, bias;  ///< [out, in], [out]
  Activation activation;
};

/// Inputs -> features [B, F]. Fully connected layers, behind convolutions for an image.
class Trunk : public torch::nn::Module {
 public:
  struct Shape {
    int64_t channels, height, width, vector,
        extra;  ///< extra: privileged inputs joined to the first dense layer
  };
  Trunk(Shape shape, const NetworkOptions& options, bool cnn, Initializer& init);

  at::Tensor forward(const NetInput& input, const at::Tensor& extra) const;
  int64_t features() const { return features_; }
  /// Convolution layers in front of the fully connected ones.
  size_t convolutions() const { return conv_.size(); }
  bool rounds_weights() const { return low_; }
  /// The fully connected layers, in order.
  std::vector<DenseTensors> dense() const;

  /// Rounds the weights anew where forward computes in bf16: once after they changed.
  void round_weights();
  /// Reads the rounded weights of `original`, as a replica reads its parameters.
  void share_rounded(const Trunk& original);

 private:
  at::Tensor activated(const at::Tensor& x, const LayerWeights& layer) const;

  int activation_;
  bool fused_, low_;  ///< low_: bf16
  int64_t features_;
  std::vector<LayerWeights> conv_, dense_;
};

/// What the networks give for rows of observations.
struct Evaluation {
  at::Tensor
      /// [B, categories] f32, or the mean [B, dims] of continuous actions; undefined if not asked
      logits;
  at::Tensor value;  ///< [B] f32, normalised units of the value head; undefined if not asked
};

class ActorCritic : public torch::nn::Module {
 public:
  ActorCritic(const EnvSpec& spec, const NetworkOptions& options, Initializer init);

  struct Want {
    bool policy = true, value = true;
  };
  /// columns: [B, shape] each, as stored.
  Evaluation forward(const std::vector<at::Tensor>& columns, Want want) const;

  const at::Tensor& log_std() const {
    return log_std_;
  }  ///< [dims]; undefined for categorical actions
  /// The networks as fully connected layers: `shared` on what the policy sees, then `policy` on
  /// its output (or on what the policy sees, when it is empty) to the logits, and `value` likewise,
  /// with privileged inputs joined behind, to the value. No layers at all where there is a
  /// convolution.
  struct DenseStacks {
    std::vector<DenseTensors> shared, policy, value;
  };
  DenseStacks dense() const;
  ValueHead& value_head() const { return *value_head_; }
  ObsEncoder& encoder() const { return *encoder_; }
  /// To be called when parameters changed, and once for each replica; see Trunk.
  void round_weights();
  void share_rounded(const ActorCritic& original);
  /// Whether it computes in bf16 by itself.
  bool rounds_weights() const { return policy_trunk_->rounds_weights(); }
  /// Multiply-adds a row costs in one forward pass: what shards are sized by.
  int64_t cost() const;

 private:
  std::shared_ptr<ObsEncoder> encoder_;
  std::shared_ptr<Trunk> policy_trunk_, value_trunk_, critic_;  ///< value_trunk_ null when shared
  at::Tensor policy_weight_, policy_bias_, log_std_;
  std::shared_ptr<ValueHead> value_head_;
  int64_t pixels_ = 1;
};

}  // namespace maglev
