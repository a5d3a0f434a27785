#include "engine/nn/panel_network.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include <ATen/ATen.h>

#include "base/core/error.h"
#include "base/simd/pairs.h"
#include "engine/nn/obs_encoder.h"

namespace maglev {
namespace {

// rows index[r], or first + r, of a column of T -> to [elements][stride]
template <class T>
void rows_to_features(const std::byte* from, int64_t row_bytes, const int64_t* index, int64_t first,
                      int64_t rows, int64_t elements, int64_t stride, float* to) {
  for (int64_t r = 0; r < rows; ++r) {
    const T* row = reinterpret_cast<const T*>(from + (index ? index[r] : first + r) * row_bytes);
    for (int64_t d = 0; d < elements; ++d) to[d * stride + r] = float(row[d]);
  }
}

}  // namespace

std::string PanelNetwork::obstacle(const ActorCritic& network, const EnvSpec& spec) {
  if (!network.dense()) return "the network is more than fully connected layers";
  for (const auto& o : spec.observations)
    if (is_image(o)) return "observation '" + o.name + "' is an image";
  return "";
}

PanelNetwork::Stack PanelNetwork::stack(const std::vector<DenseTensors>& layers,
                                        const at::Tensor& flat) {
  Stack stack;
  const float* base = flat.data_ptr<float>();
  for (const auto& layer : layers) {
    const float *weight = layer.weight.data_ptr<float>(), *bias = layer.bias.data_ptr<float>();
    MAGLEV_ASSERT(weight >= base && bias < base + flat.numel(), "layers lie in the flat buffer");
    stack.layers.push_back(
        {weight, bias, layer.weight.size(1), layer.weight.size(0), layer.activation});
    stack.weight_at.push_back(weight - base);
    stack.bias_at.push_back(bias - base);
    stack.slopes |= layer.activation == Activation::silu;
  }
  if (!layers.empty()) stack.in = layers.front().weight.size(1);
  return stack;
}

PanelNetwork::Gradients PanelNetwork::gradients(float* grad) const {
  auto of = [&](const Stack& stack) {
    std::vector<DenseGrad> grads;
    for (size_t l = 0; l < stack.layers.size(); ++l)
      grads.push_back({grad + stack.weight_at[l], grad + stack.bias_at[l]});
    return grads;
  };
  return {of(shared_), of(policy_), of(value_)};
}

void PanelNetwork::take_pairs() {
  // sizes first, then all in one piece of memory
  std::vector<std::pair<uint32_t**, int64_t>> wanted;
  int64_t total = 0;
  const auto want = [&](uint32_t*& pointer, int64_t words) {
    wanted.emplace_back(&pointer, words);
    total += words;
  };
  for (Stack* stack : {&shared_, &policy_, &value_})
    for (DenseLayer& layer : stack->layers) {
      if (!pairs_pay(layer.in, layer.out)) continue;
      want(layer.pairs.forward, pair_blocks_size(layer.out, words_of_features(layer.in)));
      want(layer.pairs.back, pair_blocks_size(layer.in, words_of_features(layer.out)));
      paired_.push_back(&layer);
    }
  pairs_ = at::zeros({total}, at::kInt);
  auto* next = reinterpret_cast<uint32_t*>(pairs_.data_ptr<int32_t>());
  for (const auto& [pointer, words] : wanted) *pointer = next, next += words;
}

void PanelNetwork::round_weights(ThreadPool& pool) {
  // both sides of each layer: none waits for another
  pool.run(2 * int64_t(paired_.size()), [&](int64_t i) {
    round_to_pairs(*paired_[size_t(i / 2)], i % 2 == 0 ? PairSide::forward : PairSide::back);
  });
}

PanelNetwork::PanelNetwork(const ActorCritic& network, const EnvSpec& spec, const at::Tensor& flat,
                           bool pairs) {
  MAGLEV_ASSERT(obstacle(network, spec).empty(), "ask obstacle first");
  const DenseStacks stacks = *network.dense();
  MAGLEV_ASSERT(stacks.norms.empty() || stacks.norms.size() == spec.observations.size(),
                "running statistics of every observation column, or of none");
  shared_ = stack(stacks.shared, flat);
  policy_ = stack(stacks.policy, flat);
  value_ = stack(stacks.value, flat);
  if (pairs) take_pairs();
  // what both see comes first, what only the critic sees behind it
  for (bool privileged : {false, true})
    for (size_t i = 0; i < spec.observations.size(); ++i) {
      const ObsColumn& o = spec.observations[i];
      if ((o.audience == Audience::critic) != privileged) continue;
      const RunningNorm* norm = stacks.norms.empty() ? nullptr : stacks.norms[i];
      columns_.push_back({.index = i,
                          .dtype = o.dtype,
                          .elements = o.elements(),
                          .row_bytes = o.row_bytes(),
                          .offset = visible_ + privileged_,
                          .privileged = privileged,
                          .mean = norm ? norm->mean().data_ptr<float>() : nullptr,
                          .var = norm ? norm->var().data_ptr<float>() : nullptr,
                          .clip = norm ? float(norm->clip()) : 0.f});
      (privileged ? privileged_ : visible_) += o.elements();
    }
  MAGLEV_ASSERT((shared() ? shared_ : policy_).in == visible_,
                "the first layer takes what is seen");
}

PanelNetwork::Panel::Panel(const PanelNetwork& network) {
  std::vector<std::pair<float**, int64_t>> wanted;
  auto want = [&](float*& pointer, int64_t features) {
    wanted.emplace_back(&pointer, features * kPanelRows);
  };
  int64_t widest = 0, pair_scratch = 0;
  std::vector<std::pair<uint32_t**, int64_t>> wanted_words;
  auto want_stack = [&](Stack& stack, const PanelNetwork::Stack& of, int64_t more) {
    const size_t count = of.layers.size();
    stack.y.resize(count), stack.dy.resize(count), stack.slope.resize(count);
    stack.words.resize(count);
    for (size_t l = 0; l < count; ++l) {
      want(stack.y[l], of.layers[l].out + (l + 1 == count ? more : 0));
      want(stack.dy[l], of.layers[l].out);
      if (of.slopes) want(stack.slope[l], of.layers[l].out);
      widest = std::max(widest, panel_stride(of.layers[l].in));
      if (!of.layers[l].pairs.forward) continue;
      wanted_words.emplace_back(&stack.words[l], words_of_features(of.layers[l].in) * kPanelRows);
      pair_scratch = std::max(pair_scratch, pair_scratch_size(of.layers[l].in, of.layers[l].out));
    }
  };
  want(input_, network.visible_ + network.privileged_);
  want_stack(shared_, network.shared_, network.privileged_);
  want_stack(policy_, network.policy_, 0);
  want_stack(value_, network.value_, 0);
  want(d_features_, network.shared() ? network.shared_.layers.back().out : 0);
  want(scratch_, widest);
  wanted_words.emplace_back(&pair_scratch_, pair_scratch);
  // numbers, and behind them words, which are as large
  int64_t total = 0;
  for (const auto& [pointer, count] : wanted) total += count;
  for (const auto& [pointer, count] : wanted_words) total += count;
  memory_ = at::zeros({total});
  float* next = memory_.data_ptr<float>();
  for (const auto& [pointer, count] : wanted) *pointer = next, next += count;
  for (const auto& [pointer, count] : wanted_words)
    *pointer = reinterpret_cast<uint32_t*>(next), next += count;
  shared_.x = input_;
  policy_.x = value_.x = network.shared() ? shared_.y.back() : input_;
}

void PanelNetwork::load(Panel& panel, const ObsRows& obs, const int64_t* index, int64_t first,
                        int64_t rows) const {
  MAGLEV_ASSERT(rows >= 1 && rows <= kPanelRows, "a panel has 1 to 64 rows");
  const int64_t stride = panel_stride(rows);
  panel.rows_ = rows, panel.stride_ = stride;
  for (const Column& c : columns_) {
    float* to = panel.input_ + c.offset * stride;
    const std::byte* from = obs.column[c.index];
    const auto copy = [&]<class T>(T) {
      rows_to_features<T>(from, c.row_bytes, index, first, rows, c.elements, stride, to);
    };
    switch (c.dtype) {
      case DType::f32:
        copy(float());
        break;
      case DType::i32:
        copy(int32_t());
        break;
      case DType::u8:
        copy(uint8_t());
        break;
    }
    for (int64_t d = 0; d < c.elements; ++d) {
      float* feature = to + d * stride;
      if (c.mean) {
        const float mean = c.mean[d], scale = 1.f / std::sqrt(c.var[d] + 1e-8f);
        for (int64_t r = 0; r < rows; ++r)
          feature[r] = std::min(std::max((feature[r] - mean) * scale, -c.clip), c.clip);
      }
      // padding must be finite, or nothing times it would not be nothing
      for (int64_t r = rows; r < stride; ++r) feature[r] = 0;
    }
  }
  if (shared() && privileged_ > 0)
    std::memcpy(panel.shared_.y.back() + shared_.layers.back().out * stride,
                panel.input_ + visible_ * stride, size_t(privileged_ * stride) * sizeof(float));
}

void PanelNetwork::fetch(const ObsRows& obs, const int64_t* index, int64_t rows) const {
  constexpr int64_t kLine = 64;
  for (const Column& c : columns_)
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t at = 0; at < c.row_bytes; at += kLine)
        __builtin_prefetch(obs.column[c.index] + index[r] * c.row_bytes + at);
}

void PanelNetwork::forward(Panel& panel, bool policy, bool value) const {
  auto run = [&](const Stack& stack, Panel::Stack& memory) {
    mlp_forward_cpu({.layers = stack.layers,
                     .x = memory.x,
                     .y = memory.y.data(),
                     .slope = stack.slopes ? memory.slope.data() : nullptr,
                     .stride = panel.stride_,
                     .rows = panel.rows_,
                     .words = memory.words.data()});
  };
  if (shared()) run(shared_, panel.shared_);
  if (policy) run(policy_, panel.policy_);
  if (value) run(value_, panel.value_);
}

void PanelNetwork::backward(Panel& panel, const Gradients& grad) const {
  auto run = [&](const Stack& stack, Panel::Stack& memory, const std::vector<DenseGrad>& into,
                 float* dx) {
    mlp_backward_cpu({.layers = stack.layers,
                      .grad = into,
                      .x = memory.x,
                      .y = memory.y.data(),
                      .slope = stack.slopes ? memory.slope.data() : nullptr,
                      .dy = memory.dy.data(),
                      .dx = dx,
                      .dx_features = dx ? shared_.layers.back().out : 0,
                      .scratch = panel.scratch_,
                      .stride = panel.stride_,
                      .rows = panel.rows_,
                      .words = memory.words.data(),
                      .pair_scratch = panel.pair_scratch_});
  };
  if (!shared()) {
    run(policy_, panel.policy_, grad.policy, nullptr);
    run(value_, panel.value_, grad.value, nullptr);
    return;
  }
  float* d_shared = panel.shared_.dy.back();
  run(policy_, panel.policy_, grad.policy, d_shared);
  run(value_, panel.value_, grad.value, panel.d_features_);
  const int64_t count = shared_.layers.back().out * panel.stride_;
  for (int64_t i = 0; i < count; ++i) d_shared[i] += panel.d_features_[i];
  run(shared_, panel.shared_, grad.shared, nullptr);
}

}  // namespace maglev
