#include "algos/dreamer/rssm.h"

#include <ATen/ATen.h>

namespace maglev::dreamer {
namespace {

constexpr int64_t kPosteriorLayers = 1, kPriorLayers = 2;

}  // namespace

at::Tensor Latent::feature() const { return at::cat({deter, stoch}, -1); }

at::Tensor mixed_log_probs(const at::Tensor& logits, double unimix) {
  const double C = double(logits.size(-1));
  return ((1 - unimix) * at::softmax(logits, -1) + unimix / C).log();
}

at::Tensor drawn_category(const at::Tensor& probs, const at::Tensor& uniforms) {
  // how many categories end below the uniform; the last one ends where all do
  const auto ends = probs.narrow(-1, 0, probs.size(-1) - 1).cumsum(-1);
  return (ends <= uniforms.unsqueeze(-1)).sum(-1);
}

at::Tensor one_hot(const at::Tensor& category, int64_t C, const at::TensorOptions& options) {
  const auto classes = at::arange(C, category.options());
  return (category.unsqueeze(-1) == classes).to(options.dtype());
}

at::Tensor drawn_stoch(const at::Tensor& log_probs, const at::Tensor& uniforms) {
  const auto probs = log_probs.exp(), still = probs.detach();
  const auto drawn = one_hot(drawn_category(still, uniforms), probs.size(-1), probs.options());
  return (drawn + (probs - still)).flatten(-2);
}

Rssm::Rssm(const ModelShape& s, Initializer& init) : shape_(s) {
  const auto input = [&](const char* name, int64_t width) {
    return register_module(name, std::make_shared<Mlp>(width, 1, s.hidden, init));
  };
  from_deter_ = input("from_deter", s.deter);
  from_stoch_ = input("from_stoch", s.flat_stoch());
  from_action_ = input("from_action", s.actions);
  // a block sees its own part of h, and all of the three inputs
  const int64_t mixed = s.deter + s.blocks * 3 * s.hidden;
  mix_ = register_module("mix", std::make_shared<BlockDense>(mixed, s.deter, s.blocks, init));
  mix_norm_ = register_module("mix_norm", std::make_shared<NormSilu>(s.deter, init));
  gates_ =
      register_module("gates", std::make_shared<BlockDense>(s.deter, 3 * s.deter, s.blocks, init));
  const auto categoricals = [&](const char* name, int64_t in, int64_t layers) {
    const HeadShape head{
        .in = in, .layers = layers, .units = s.hidden, .out = s.flat_stoch(), .scale = 1};
    return register_module(name, std::make_shared<Head>(head, init));
  };
  posterior_ = categoricals("posterior", s.deter + s.token(), kPosteriorLayers);
  prior_ = categoricals("prior", s.deter, kPriorLayers);
}

at::Tensor Rssm::next_deter(const Latent& latent, const at::Tensor& action) const {
  const int64_t N = action.size(0), g = shape_.blocks;
  // actions beyond [-1, 1] count as the nearest within
  const auto bounded = action / action.detach().abs().clamp_min(1);
  const auto inputs = at::cat({from_deter_->forward(latent.deter),
                               from_stoch_->forward(latent.stoch), from_action_->forward(bounded)},
                              1);
  const auto h = latent.deter.view({N, g, -1});
  auto x = at::cat({h, inputs.unsqueeze(1).expand({N, g, inputs.size(1)})}, 2);
  x = mix_norm_->forward(mix_->forward(x).reshape({N, -1})).view({N, g, -1});

  // a gated recurrent unit (Cho et al., 2014) in each block
  const auto gates = gates_->forward(x).chunk(3, 2);
  const auto reset = at::sigmoid(gates[0]);
  const auto candidate = at::tanh(reset * gates[1]);
  const auto update = at::sigmoid(gates[2] - 1);
  return (update * candidate + (1 - update) * h).reshape({N, -1});
}

at::Tensor Rssm::categoricals(const at::Tensor& logits) const {
  return mixed_log_probs(logits.unflatten(-1, {shape_.stoch, shape_.classes}), shape_.unimix);
}

at::Tensor Rssm::prior(const at::Tensor& deter) const {
  return categoricals(prior_->forward(deter));
}

at::Tensor Rssm::posterior(const at::Tensor& deter, const at::Tensor& token) const {
  return categoricals(posterior_->forward(at::cat({deter, token}, -1)));
}

}  // namespace maglev::dreamer
