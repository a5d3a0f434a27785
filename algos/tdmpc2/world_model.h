#pragma once
// The networks of TD-MPC2: encoder, latent dynamics, reward, termination, value ensemble, policy
// prior and task embeddings, in ATen. Parameters come in the order of model_layout().

#include <memory>
#include <vector>

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>

#include "algos/tdmpc2/model_shape.h"
#include "engine/nn/init.h"

namespace maglev::tdmpc2 {

/// What a layer ends in. A normalised layer has LayerNorm (eps 1e-5) before Mish or SimNorm.
enum class LayerEnd { none, mish, simnorm };

/// Softmax over groups of `group` consecutive values of the last dimension (Lavoie et al.,
/// "Simplicial embeddings in self-supervised learning", 2022).
at::Tensor simnorm(const at::Tensor& x, int64_t group);

/// x*keep where keep is defined: what dropout leaves between a product and its LayerNorm.
at::Tensor dropped(const at::Tensor& x, const at::Tensor& keep);

/// Inputs side by side; undefined ones are left out.
at::Tensor joined(const at::Tensor& a, const at::Tensor& b, const at::Tensor& c = {});

class Layer : public torch::nn::Module {
 public:
  explicit Layer(const LayerPlace& place);
  at::Tensor weight, bias, gain, shift;  ///< gain and shift undefined unless normalised
};

class Mlp : public torch::nn::Module {
 public:
  explicit Mlp(const MlpPlaces& places);
  std::vector<std::shared_ptr<Layer>> layers;
};

/// The value networks side by side: layer by layer [n, ...] views of their flat buffer.
struct StackedLayer {
  at::Tensor weight, bias, gain, shift;  ///< [n, out, in], [n, 1, out] each
};
using StackedMlp = std::vector<StackedLayer>;

/// Views of `flat` [n * size] f32, whose networks have the layers `net` (places of the first one).
StackedMlp stacked(const at::Tensor& flat, const MlpPlaces& net, int64_t n);
/// Networks `index` [k] i64, copied.
StackedMlp picked(const StackedMlp& stack, const at::Tensor& index);
/// Logits [n, rows, out] of x [rows, in]; `keep` [n, rows, M] multiplies the first product.
at::Tensor stacked_forward(const StackedMlp& stack, const at::Tensor& x,
                           const at::Tensor& keep = {});

class WorldModel : public torch::nn::Module {
 public:
  /// `kaiming` leaves the value networks' hidden weights as torch does (q_init).
  WorldModel(const ModelShape& shape, bool kaiming, Initializer init);

  // `e` [..., T] is the task's embedding, undefined without tasks; leading dimensions are free

  /// Embeddings [rows, T] of tasks [rows] i64; undefined without tasks.
  at::Tensor embedding(const at::Tensor& task) const;
  /// Latents [..., D] of vector observations [..., obs] f32.
  at::Tensor encode(const at::Tensor& obs, const at::Tensor& e) const;
  /// Latents [rows, D] of images [rows, 64, 64, C] u8, each moved by at most shape().image_shift
  /// pixels as its `uniforms` [rows, 2] f32 say.
  at::Tensor encode_image(const at::Tensor& image, const at::Tensor& uniforms) const;
  /// The same of what was moved, [rows, C, 64, 64] f32 in [-0.5, 0.5]; differentiable in it.
  at::Tensor encode_pixels(at::Tensor pixels) const;
  at::Tensor next(const at::Tensor& z, const at::Tensor& a, const at::Tensor& e) const;
  at::Tensor reward(const at::Tensor& z, const at::Tensor& a, const at::Tensor& e) const;  ///< K
  at::Tensor termination(const at::Tensor& z, const at::Tensor& e) const;  ///< [...], a logit
  at::Tensor policy(const at::Tensor& z, const at::Tensor& e) const;       ///< [..., 2A]

  /// Copies of the value networks' parameters side by side, through which gradients reach them.
  StackedMlp stacked_q() const;

  const ModelShape& shape() const { return shape_; }
  const ModelLayout& layout() const { return layout_; }
  /// Null where there is none.
  Mlp* termination_head() const { return termination_.get(); }
  Mlp& dynamics_head() const { return *dynamics_; }
  Mlp& reward_head() const { return *reward_; }
  Mlp& policy_head() const { return *policy_; }
  Mlp& encoder() const { return *encoder_; }
  at::Tensor& embeddings() { return embedding_->weight; }

 private:
  /// The table of task embeddings, [tasks, T].
  class Embedding : public torch::nn::Module {
   public:
    Embedding(int64_t tasks, int64_t width);
    at::Tensor weight;
  };

  at::Tensor run(const Mlp& mlp, at::Tensor x, LayerEnd last) const;
  void initialise(bool kaiming, Initializer init);

  ModelShape shape_;
  ModelLayout layout_;
  std::shared_ptr<Mlp> encoder_, dynamics_, reward_, termination_, policy_;
  std::vector<std::shared_ptr<Mlp>> q_;
  std::shared_ptr<Embedding> embedding_;
};

}  // namespace maglev::tdmpc2
