// What a planner on a device is made of: the weights that stay, where they lie, and how they come
// there.

#include <algorithm>
#include <string>
#include <vector>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "algos/tdmpc2/device/planner.h"
#include "base/core/error.h"
#include "kernels/mppi/mppi_op.h"

namespace maglev::tdmpc2 {

DevicePlanner::DevicePlanner(const PlanOptions& options, const ModelShape& shape,
                             Precision precision, at::Device device, bool ends_in_products)
    : options_(options),
      numbers_(options.sizes),
      shape_(shape),
      device_(device),
      dtype_(precision == Precision::bf16 ? at::kBFloat16 : at::kFloat),
      ends_in_products_(ends_in_products),
      ld_(product_tiles(shape.latent + shape.actions)),
      heads_(shape.episodic ? 3 : 2),
      rewards_(device),
      aside_(device),
      aside_rewards_(device) {
  if (ends_in_products && !obstacle(shape, precision, device).empty())
    throw Error("[tdmpc2] ends within products cannot be: " + obstacle(shape, precision, device));
  if (device.is_cuda() && options.sizes.S > kMostMppiSamples)
    throw Error("[tdmpc2] tdmpc2.samples must be at most " + std::to_string(kMostMppiSamples) +
                " on a GPU, got " + std::to_string(options.sizes.S));
  const int64_t D = shape.latent, A = shape.actions, nq = shape.num_q;
  const HiddenWidths& h = shape.hidden;
  const auto f = at::TensorOptions(at::kFloat).device(device);
  // networks that read the same inputs lie side by side: those of a step, those of a latent
  std::vector<std::vector<int64_t>> of_step{h.dynamics, h.reward}, of_latent{h.policy};
  if (shape.episodic) of_step.push_back(h.termination), of_latent.push_back(h.termination);
  step_ = heads(D + A, of_step), policy_ = heads(D, of_latent);
  dynamics_out_ = side(1, h.dynamics.back(), D);
  reward_out_ = out(h.reward.back(), kBins), policy_out_ = out(h.policy.back(), 2 * A);
  if (shape.episodic) termination_out_ = out(h.termination.back(), 1);
  int64_t in = ld_;
  for (int64_t width : h.q) q_weights_.push_back(empty({nq, width * in}).zero_()), in = width;
  q_weights_.push_back(empty({nq, product_tiles(kBins) * in}).zero_());
  q_vectors_ = at::zeros({nq, q_vector() + kBins}, f);
  // of tasks, in f32: products with an embedding are where the sums of a first layer begin
  if (shape.task_dim > 0) {
    q_task_ = at::zeros({shape.task_dim, nq * h.q.front()}, f);
    embedding_ = at::zeros({shape.tasks, shape.task_dim}, f);
  }
  // discount^t of each task
  const auto gamma = at::tensor(options.discount).unsqueeze(1);
  discount_ = at::pow(gamma, at::arange(options.sizes.H + 1)).to(device);
}

std::string DevicePlanner::obstacle(const ModelShape& shape, Precision precision,
                                    at::Device device) {
  if (!device.is_cuda() || precision != Precision::bf16) return "products are not bf16 on a GPU";
  if (std::ranges::count(precisions_of(device), Precision::bf16) == 0) return "it has no bf16";
  if (shape.latent + shape.actions > kMostProductInputs)
    return "latents and actions are more than " + std::to_string(kMostProductInputs);
  std::vector<int64_t> widths = shape.head_widths();
  widths.push_back(shape.latent);
  for (int64_t width : widths)
    if (width % kProductTile || width > kMostEndedFeatures)
      return "latents and hidden layers are not all multiples of " + std::to_string(kProductTile) +
             " wide, up to " + std::to_string(kMostEndedFeatures);
  return "";
}

at::Tensor DevicePlanner::empty(at::IntArrayRef sizes) const {
  return at::empty(sizes, at::TensorOptions(dtype_).device(device_));
}

at::Tensor DevicePlanner::weight(at::IntArrayRef sizes) const {
  return product_weight(sizes, at::TensorOptions(dtype_).device(device_));
}

int64_t DevicePlanner::Heads::features(int64_t nets) const {
  int64_t sum = 0;
  for (const Block& block : blocks)
    sum += std::clamp<int64_t>(nets - block.begin, 0, block.nets) * block.widths.front();
  return sum;
}

int64_t DevicePlanner::q_vector() const {
  int64_t sum = 0;
  for (int64_t width : shape_.hidden.q) sum += 3 * width;
  return sum;
}

DevicePlanner::Side DevicePlanner::side(int64_t nets, int64_t in, int64_t out) const {
  const auto vector = [&] {
    return at::zeros({1, nets, out}, at::TensorOptions().device(device_));
  };
  return {weight({nets, in, out}), vector(), vector(), vector()};
}

DevicePlanner::Out DevicePlanner::out(int64_t in, int64_t out) const {
  return {weight({in, out}), at::zeros({out}, at::TensorOptions().device(device_))};
}

DevicePlanner::Heads DevicePlanner::heads(int64_t in,
                                          const std::vector<std::vector<int64_t>>& hidden) const {
  const auto f = at::TensorOptions(at::kFloat).device(device_);
  Heads heads;
  for (size_t net = 0; net < hidden.size(); ++net) {
    const auto& widths = hidden[net];
    if (!heads.blocks.empty() && heads.blocks.back().widths == widths) ++heads.blocks.back().nets;
    else
      heads.blocks.push_back({.begin = int64_t(net),
                              .nets = 1,
                              .column = heads.features(int64_t(net)),
                              .widths = widths});
  }
  const int64_t features = heads.features(int64_t(hidden.size()));
  heads.first = weight({in, features}), heads.start = at::zeros({1, features}, f);
  if (shape_.task_dim > 0) heads.task = at::zeros({shape_.task_dim, features}, f);
  for (Block& block : heads.blocks)
    for (size_t l = 0; l < block.widths.size(); ++l) {
      const auto vector = [&] { return at::zeros({1, block.nets, block.widths[l]}, f); };
      block.layers.push_back(l == 0 ? Side{.gain = vector(), .shift = vector()}
                                    : side(block.nets, block.widths[l - 1], block.widths[l]));
    }
  return heads;
}

void DevicePlanner::publish(const WorldModel& model, const at::Tensor& params) {
  at::NoGradGuard no_grad;
  publish_heads(model);
  publish_values(model.layout(), params);
}

void DevicePlanner::publish_heads(const WorldModel& model) {
  const int64_t D = shape_.latent, A = shape_.actions;
  // of a first layer's weights the first `own` inputs, then 0 up to `heads`'; the task's are apart
  auto hidden = [](Heads& heads, int64_t net, const Mlp& mlp, int64_t own) {
    Block& block =
        *std::ranges::find_if(heads.blocks, [&](const Block& b) { return net < b.begin + b.nets; });
    const int64_t g = net - block.begin, width = block.widths.front();
    const int64_t column = block.column + g * width;
    const Layer& first = *mlp.layers[0];
    auto columns = heads.first.narrow(1, column, width);
    columns.narrow(0, 0, own).copy_(first.weight.narrow(1, 0, own).t());
    if (own < columns.size(0)) columns.narrow(0, own, columns.size(0) - own).zero_();
    if (heads.task.defined())
      heads.task.narrow(1, column, width)
          .copy_(first.weight.narrow(1, own, heads.task.size(0)).t());
    heads.start[0].narrow(0, column, width).copy_(first.bias);
    for (size_t l = 0; l < block.layers.size(); ++l) {
      const Layer& layer = *mlp.layers[l];
      Side& side = block.layers[l];
      side.gain[0][g].copy_(layer.gain), side.shift[0][g].copy_(layer.shift);
      if (l > 0) side.weight[g].copy_(layer.weight.t()), side.start[0][g].copy_(layer.bias);
    }
  };
  auto out = [](Out& to, const Mlp& mlp) {
    to.weight.copy_(mlp.layers.back()->weight.t());
    to.start.copy_(mlp.layers.back()->bias);
  };
  hidden(step_, 0, model.dynamics_head(), D + A);
  hidden(step_, 1, model.reward_head(), D + A);
  hidden(policy_, 0, model.policy_head(), D);
  if (shape_.episodic) {
    hidden(step_, 2, *model.termination_head(), D);
    hidden(policy_, 1, *model.termination_head(), D);
    out(termination_out_, *model.termination_head());
  }
  // last layers: each head has its own
  const Layer& latent = *model.dynamics_head().layers.back();
  dynamics_out_.weight[0].copy_(latent.weight.t());
  dynamics_out_.start[0][0].copy_(latent.bias);
  dynamics_out_.gain[0][0].copy_(latent.gain), dynamics_out_.shift[0][0].copy_(latent.shift);
  out(reward_out_, model.reward_head());
  out(policy_out_, model.policy_head());
}

void DevicePlanner::publish_values(const ModelLayout& layout, const at::Tensor& params) {
  const int64_t D = shape_.latent, A = shape_.actions, nq = shape_.num_q;
  const auto q = stacked(params.narrow(0, layout.q_begin(), layout.q_end() - layout.q_begin()),
                         layout.q[0], nq);
  int64_t offset = 0;
  const auto put = [&](const at::Tensor& vector) {
    q_vectors_.narrow(1, offset, vector.size(2)).copy_(vector.squeeze(1));
    offset += vector.size(2);
  };
  for (size_t l = 0; l < q.size(); ++l) {
    const int64_t own = l == 0 ? D + A : q[l].weight.size(2), line = l == 0 ? ld_ : own;
    q_weights_[l]
        .view({nq, -1, line})
        .narrow(1, 0, q[l].weight.size(1))
        .narrow(2, 0, own)
        .copy_(q[l].weight.narrow(2, 0, own));
    put(q[l].bias);
    if (q[l].gain.defined()) put(q[l].gain), put(q[l].shift);
  }
  // products with the embedding are one product for all value networks
  if (q_task_.defined()) {
    q_task_.view({shape_.task_dim, nq, -1})
        .copy_(q[0].weight.narrow(2, D + A, shape_.task_dim).permute({2, 0, 1}));
    embedding_.copy_(params.narrow(0, layout.embedding, embedding_.numel()).view_as(embedding_));
  }
}

std::vector<at::Tensor> DevicePlanner::weights() const {
  const int64_t D = shape_.latent, A = shape_.actions, nq = shape_.num_q;
  std::vector<at::Tensor> all{q_weights_.front().view({nq, -1, ld_}).narrow(2, 0, D + A)};
  for (size_t l = 1; l < q_weights_.size(); ++l)
    all.push_back(q_weights_[l].view({nq, -1, shape_.hidden.q[l - 1]}));
  all.back() = all.back().narrow(1, 0, kBins);
  for (const Heads* heads : {&step_, &policy_}) {
    all.push_back(heads->first);
    for (const Block& block : heads->blocks)
      for (size_t l = 1; l < block.layers.size(); ++l) all.push_back(block.layers[l].weight);
  }
  all.push_back(dynamics_out_.weight);
  for (const Out* out : {&reward_out_, &policy_out_, &termination_out_})
    if (out->weight.defined()) all.push_back(out->weight);
  return all;
}

}  // namespace maglev::tdmpc2
