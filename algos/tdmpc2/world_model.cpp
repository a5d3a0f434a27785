#include "algos/tdmpc2/world_model.h"

#include <cmath>
#include <string>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "kernels/image/image_op.h"

namespace maglev::tdmpc2 {
namespace {

constexpr double kNormEps = 1e-5, kWeightStd = 0.02, kWeightLimit = 2;
constexpr int64_t kStrides[] = {2, 2, 2, 1};

at::Tensor ended(const at::Tensor& x, LayerEnd end, int64_t group) {
  return end == LayerEnd::simnorm ? simnorm(x, group) : at::mish(x);
}

}  // namespace

at::Tensor simnorm(const at::Tensor& x, int64_t group) {
  return at::softmax(x.unflatten(-1, {-1, group}), -1).flatten(-2);
}

at::Tensor dropped(const at::Tensor& x, const at::Tensor& keep) {
  return keep.defined() ? x * keep : x;
}

at::Tensor joined(const at::Tensor& a, const at::Tensor& b, const at::Tensor& c) {
  std::vector<at::Tensor> parts{a};
  for (const auto& part : {b, c})
    if (part.defined()) parts.push_back(part);
  return parts.size() == 1 ? a : at::cat(parts, -1);
}

Layer::Layer(const LayerPlace& p) {
  // `in` of a convolution counts its whole window
  const auto sizes =
      p.kernel > 0 ? std::vector<int64_t>{p.out, p.in / (p.kernel * p.kernel), p.kernel, p.kernel}
                   : std::vector<int64_t>{p.out, p.in};
  weight = register_parameter("weight", at::zeros(sizes));
  bias = register_parameter("bias", at::zeros({p.out}));
  if (!p.normed) return;
  gain = register_parameter("gain", at::ones({p.out}));
  shift = register_parameter("shift", at::zeros({p.out}));
}

Mlp::Mlp(const MlpPlaces& places) {
  for (const auto& place : places)
    layers.push_back(
        register_module(std::to_string(layers.size()), std::make_shared<Layer>(place)));
}

StackedMlp stacked(const at::Tensor& flat, const MlpPlaces& net, int64_t n) {
  auto part = [&](int64_t begin, at::IntArrayRef sizes) {
    // the same part of the next network lies one network's size further on
    const int64_t count = c10::multiply_integers(sizes) / n;
    return flat.view({n, -1}).narrow(1, begin - net.front().begin, count).view(sizes);
  };
  StackedMlp stack;
  for (const auto& p : net) {
    stack.push_back({part(p.weight(), {n, p.out, p.in}), part(p.bias(), {n, 1, p.out})});
    if (!p.normed) continue;
    stack.back().gain = part(p.gain(), {n, 1, p.out});
    stack.back().shift = part(p.shift(), {n, 1, p.out});
  }
  return stack;
}

StackedMlp picked(const StackedMlp& stack, const at::Tensor& index) {
  auto pick = [&](const at::Tensor& t) {
    return t.defined() ? at::index_select(t, 0, index) : at::Tensor();
  };
  StackedMlp some;
  for (const auto& l : stack)
    some.push_back({pick(l.weight), pick(l.bias), pick(l.gain), pick(l.shift)});
  return some;
}

at::Tensor stacked_forward(const StackedMlp& stack, const at::Tensor& x, const at::Tensor& keep) {
  const int64_t n = stack.front().weight.size(0);
  // all networks read the same inputs
  auto h = x.unsqueeze(0).expand({n, x.size(0), x.size(1)});
  bool first = true;
  for (const auto& l : stack) {
    h = at::baddbmm(l.bias, h, l.weight.transpose(1, 2));
    if (first) h = dropped(h, keep);
    first = false;
    if (!l.gain.defined()) continue;
    const int64_t out = h.size(2);
    // layer_norm takes one gain for all networks, these have one each
    h = at::mish(at::layer_norm(h, {out}, {}, {}, kNormEps) * l.gain + l.shift);
  }
  return h;
}

WorldModel::Embedding::Embedding(int64_t tasks, int64_t width) {
  weight = register_parameter("weight", at::zeros({tasks, width}));
}

WorldModel::WorldModel(const ModelShape& shape, bool kaiming, Initializer init)
    : shape_(shape), layout_(model_layout(shape)) {
  auto add = [&](const char* name, const MlpPlaces& places) {
    return register_module(name, std::make_shared<Mlp>(places));
  };
  // in the order of model_layout(), which is the order of the flat buffer
  encoder_ = add("encoder", layout_.encoder);
  dynamics_ = add("dynamics", layout_.dynamics);
  reward_ = add("reward", layout_.reward);
  if (shape.episodic) termination_ = add("termination", layout_.termination);
  for (size_t i = 0; i < layout_.q.size(); ++i)
    q_.push_back(add(("q" + std::to_string(i)).c_str(), layout_.q[i]));
  if (shape.tasks > 0)
    embedding_ = register_module("task", std::make_shared<Embedding>(shape.tasks, shape.task_dim));
  policy_ = add("policy", layout_.policy);
  initialise(kaiming, init);
}

void WorldModel::initialise(bool kaiming, Initializer init) {
  // torch's own: uniform within 1 / sqrt(inputs)
  auto uniform = [&](Layer& layer) {
    const double limit = 1 / std::sqrt(double(layer.weight.numel() / layer.weight.size(0)));
    init.uniform(layer.weight, limit);
    init.uniform(layer.bias.unsqueeze(0), limit);
  };
  // normal within [-2, 2]; biases stay 0
  auto normal = [&](const Mlp& mlp) {
    for (const auto& layer : mlp.layers) init.normal(layer->weight, kWeightStd, kWeightLimit);
  };
  at::NoGradGuard no_grad;
  if (shape_.image())
    for (const auto& layer : encoder_->layers) uniform(*layer);
  else normal(*encoder_);
  normal(*dynamics_);
  // last weights of reward and value networks are 0: at first no input changes what they say
  normal(*reward_);
  reward_->layers.back()->weight.zero_();
  if (termination_) normal(*termination_);
  for (const auto& q : q_) {
    if (kaiming)
      for (const auto& layer : q->layers) uniform(*layer);
    else normal(*q);
    q->layers.back()->weight.zero_();
  }
  if (embedding_) init.uniform(embedding_->weight, kWeightStd);
  normal(*policy_);
}

at::Tensor WorldModel::run(const Mlp& mlp, at::Tensor x, LayerEnd last) const {
  for (size_t i = 0; i < mlp.layers.size(); ++i) {
    const Layer& layer = *mlp.layers[i];
    x = at::linear(x, layer.weight, layer.bias);
    if (!layer.gain.defined()) continue;
    x = at::layer_norm(x, {x.size(-1)}, layer.gain, layer.shift, kNormEps);
    x = ended(x, i + 1 == mlp.layers.size() ? last : LayerEnd::mish, shape_.simnorm);
  }
  return x;
}

StackedMlp WorldModel::stacked_q() const {
  // copies through which gradients reach the networks
  auto stack = [&](size_t layer, auto member) {
    std::vector<at::Tensor> parts;
    for (const auto& q : q_) parts.push_back((*q->layers[layer]).*member);
    if (!parts.front().defined()) return at::Tensor();
    const auto all = at::stack(parts);
    // vectors are [n, 1, out], so that they broadcast over rows
    return all.dim() == 2 ? all.unsqueeze(1) : all;
  };
  StackedMlp nets;
  for (size_t i = 0; i < q_.front()->layers.size(); ++i)
    nets.push_back({stack(i, &Layer::weight), stack(i, &Layer::bias), stack(i, &Layer::gain),
                    stack(i, &Layer::shift)});
  return nets;
}

at::Tensor WorldModel::embedding(const at::Tensor& task) const {
  return embedding_ ? at::index_select(embedding_->weight, 0, task) : at::Tensor();
}

at::Tensor WorldModel::encode(const at::Tensor& obs, const at::Tensor& e) const {
  return run(*encoder_, joined(obs, e), LayerEnd::simnorm);
}

at::Tensor WorldModel::encode_image(const at::Tensor& image, const at::Tensor& uniforms) const {
  return encode_pixels(shift_images(image, uniforms, shape_.image_shift));
}

at::Tensor WorldModel::encode_pixels(at::Tensor x) const {
  // relu between convolutions, SimNorm behind the last
  const size_t count = encoder_->layers.size();
  for (size_t i = 0; i < count; ++i) {
    const Layer& layer = *encoder_->layers[i];
    x = at::conv2d(x, layer.weight, layer.bias, kStrides[i]);
    if (i + 1 < count) x = at::relu(x);
  }
  return simnorm(x.flatten(1).to(at::kFloat), shape_.simnorm);
}

at::Tensor WorldModel::next(const at::Tensor& z, const at::Tensor& a, const at::Tensor& e) const {
  return run(*dynamics_, joined(z, a, e), LayerEnd::simnorm);
}

at::Tensor WorldModel::reward(const at::Tensor& z, const at::Tensor& a, const at::Tensor& e) const {
  return run(*reward_, joined(z, a, e), LayerEnd::none);
}

at::Tensor WorldModel::termination(const at::Tensor& z, const at::Tensor& e) const {
  return run(*termination_, joined(z, e), LayerEnd::none).squeeze(-1);
}

at::Tensor WorldModel::policy(const at::Tensor& z, const at::Tensor& e) const {
  return run(*policy_, joined(z, e), LayerEnd::none);
}

}  // namespace maglev::tdmpc2
