#include "engine/nn/panel_network.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include <ATen/ATen.h>

#include "base/core/error.h"
#include "base/simd/pairs.h"
#include "engine/nn/obs_encoder.h"
#include "kernels/products/transpose.h"

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
  Gradients all{of(shared_), of(policy_), of(value_), {}, {}};
  for (const Cell& cell : cells_) {
    all.gates.push_back(of(cell.gates));
    all.memory.push_back(grad + cell.weight_at);
  }
  return all;
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

void PanelNetwork::take_cells(const DenseStacks& stacks, const at::Tensor& flat) {
  constexpr int64_t kFloats = 16;  // 64 bytes
  const auto padded = [](int64_t columns) { return (columns + kFloats - 1) / kFloats * kFloats; };
  int64_t total = kFloats;
  for (const DenseCell& cell : stacks.cells) {
    const int64_t units = cell.memory_weight.size(1);
    const float* given = cell.memory_weight.const_data_ptr<float>();
    cells_.push_back({.gates = stack(cell.gates, flat),
                      .units = units,
                      .weight_at = given - flat.const_data_ptr<float>(),
                      .given = given,
                      .weight = nullptr,
                      .weight_t = nullptr,
                      .weight_row = padded(units),
                      .weight_t_row = padded(3 * units)});
    total += 3 * units * padded(units) + units * padded(3 * units);
  }
  if (cells_.empty()) return;
  // all in one piece of memory
  cell_weights_ = at::zeros({total});
  float* next = cell_weights_.data_ptr<float>();
  for (Cell& cell : cells_) {
    cell.weight = next, next += 3 * cell.units * cell.weight_row;
    cell.weight_t = next, next += cell.units * cell.weight_t_row;
  }
}

void PanelNetwork::round_weights(ThreadPool& pool) {
  // both sides of each layer: none waits for another
  pool.run(2 * int64_t(paired_.size()), [&](int64_t i) {
    round_to_pairs(*paired_[size_t(i / 2)], i % 2 == 0 ? PairSide::forward : PairSide::back);
  });
  pool.run(int64_t(cells_.size()), [&](int64_t c) {
    const Cell& cell = cells_[size_t(c)];
    const int64_t H = cell.units;
    for (int64_t o = 0; o < 3 * H; ++o)
      std::copy_n(cell.given + o * H, H, cell.weight + o * cell.weight_row);
    transpose_cpu({.from = cell.given,
                   .from_row = H,
                   .to = cell.weight_t,
                   .to_row = cell.weight_t_row,
                   .rows = 3 * H,
                   .columns = H});
  });
}

int64_t PanelNetwork::head_features() const {
  if (!cells_.empty()) return cells_[0].units;
  return shared_.layers.empty() ? 0 : shared_.layers.back().out;
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
  take_cells(stacks, flat);
  MAGLEV_ASSERT(!pairs || cells_.empty(), "a memory is in f32");
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
  const Stack& first = !cells_.empty()          ? cells_[0].gates
                       : shared_.layers.empty() ? policy_
                                                : shared_;
  MAGLEV_ASSERT(first.in == visible_, "the first layer takes what is seen");
}

/// What is to lie in a panel's memory: pointers to be set, and how much each wants.
struct PanelNetwork::Panel::Wanted {
  std::vector<std::pair<float**, int64_t>> numbers;
  std::vector<std::pair<uint32_t**, int64_t>> words;
  int64_t widest = 0, pair_words = 0;  ///< scratch that layers take, of so many features and words
  float* scratch = nullptr;            ///< of all stacks but cells'
  uint32_t* pair_scratch = nullptr;

  void add(float*& pointer, int64_t features) {
    numbers.emplace_back(&pointer, features * kPanelRows);
  }
  // of `count` layers, and `more` behind the last one's
  void add_outputs(Stack& stack, const PanelNetwork::Stack& of, size_t count, int64_t more) {
    stack.y.resize(of.layers.size()), stack.slope.resize(of.layers.size());
    for (size_t l = 0; l < count; ++l) {
      add(stack.y[l], of.layers[l].out + (l + 1 == of.layers.size() ? more : 0));
      if (of.slopes) add(stack.slope[l], of.layers[l].out);
    }
  }
  // what the way back takes, and its gradients
  void add_back(Stack& stack, const PanelNetwork::Stack& of, size_t count) {
    stack.dy.resize(of.layers.size()), stack.words.resize(of.layers.size());
    for (size_t l = 0; l < of.layers.size(); ++l) {
      if (l < count) add(stack.dy[l], of.layers[l].out);
      widest = std::max(widest, panel_stride(of.layers[l].in));
      if (!of.layers[l].pairs.forward) continue;
      words.emplace_back(&stack.words[l], words_of_features(of.layers[l].in) * kPanelRows);
      pair_words = std::max(pair_words, pair_scratch_size(of.layers[l].in, of.layers[l].out));
    }
  }
};

void PanelNetwork::Panel::want_own(const PanelNetwork& network, Wanted& wanted) {
  wanted.add(input_, network.visible_ + network.privileged_);
  for (size_t c = 0; c < cells_.size(); ++c) {
    const PanelNetwork::Stack& of = network.cells_[c].gates;
    wanted.add_outputs(cells_[c].gates, of, of.layers.size() - 1, 0);
  }
}

void PanelNetwork::Panel::want_shared(const PanelNetwork& network, Wanted& wanted) {
  // privileged inputs join what both heads see
  const int64_t joining = network.joined() ? network.privileged_ : 0;
  for (size_t c = 0; c < cells_.size(); ++c) {
    const PanelNetwork::Stack& of = network.cells_[c].gates;
    // the gates' pre-activations are gone when their gradients come
    wanted.add(cells_[c].gates.y.back(), of.layers.back().out);
    wanted.add_back(cells_[c].gates, of, of.layers.size() - 1);
    wanted.add(cells_[c].gates.scratch, std::exchange(wanted.widest, 0));
    wanted.add(cells_[c].remembered, network.cells_[c].units + joining);
    wanted.add(cells_[c].d_remembered, network.cells_[c].units);
  }
  const auto add_stack = [&](Stack& stack, const PanelNetwork::Stack& of, int64_t more) {
    wanted.add_outputs(stack, of, of.layers.size(), more);
    wanted.add_back(stack, of, of.layers.size());
  };
  add_stack(shared_, network.shared_, joining);
  add_stack(policy_, network.policy_, 0);
  add_stack(value_, network.value_, 0);
  wanted.add(d_features_, network.joined() ? network.head_features() : 0);
  wanted.add(wanted.scratch, wanted.widest);
  wanted.words.emplace_back(&wanted.pair_scratch, wanted.pair_words);
}

void PanelNetwork::Panel::lay_out(const Wanted& wanted) {
  // numbers, and behind them words, which are as large
  int64_t total = 0;
  for (const auto& [pointer, count] : wanted.numbers) total += count;
  for (const auto& [pointer, count] : wanted.words) total += count;
  memory_ = at::zeros({total});
  float* next = memory_.data_ptr<float>();
  for (const auto& [pointer, count] : wanted.numbers) *pointer = next, next += count;
  for (const auto& [pointer, count] : wanted.words)
    *pointer = reinterpret_cast<uint32_t*>(next), next += count;
}

PanelNetwork::Panel::Panel(const PanelNetwork& network, const Panel* other) {
  MAGLEV_ASSERT(!other || !network.cells_.empty(), "panels go through cells together");
  if (other) *this = *other, shared_memory_ = other->memory_;
  cells_.resize(network.cells_.size());
  Wanted wanted;
  want_own(network, wanted);
  if (!other) want_shared(network, wanted);
  lay_out(wanted);

  // where each stack begins
  for (Cell& cell : cells_) cell.gates.x = input_;
  if (other) return;
  for (Cell& cell : cells_) {
    cell.gates.dy.back() = cell.gates.y.back();
    cell.gates.pair_scratch = nullptr;
  }
  for (Stack* stack : {&shared_, &policy_, &value_})
    stack->scratch = wanted.scratch, stack->pair_scratch = wanted.pair_scratch;
  shared_.x = input_;
  policy_.x = value_.x = network.shared_.layers.empty() ? input_ : shared_.y.back();
  if (!cells_.empty()) policy_.x = cells_.front().remembered, value_.x = cells_.back().remembered;
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
}

void PanelNetwork::fetch(const ObsRows& obs, const int64_t* index, int64_t rows) const {
  constexpr int64_t kLine = 64;
  for (const Column& c : columns_)
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t at = 0; at < c.row_bytes; at += kLine)
        __builtin_prefetch(obs.column[c.index] + index[r] * c.row_bytes + at);
}

void PanelNetwork::run(const Stack& stack, Panel::Stack& memory, const Panel& panel) {
  mlp_forward_cpu({.layers = stack.layers,
                   .x = memory.x,
                   .y = memory.y.data(),
                   .slope = stack.slopes ? memory.slope.data() : nullptr,
                   .stride = panel.stride_,
                   .rows = panel.rows_,
                   .words = memory.words.data()});
}

void PanelNetwork::run_back(const Stack& stack, Panel::Stack& memory, const Panel& panel,
                            const std::vector<DenseGrad>& into, float* dx, int64_t dx_features) {
  mlp_backward_cpu({.layers = stack.layers,
                    .grad = into,
                    .x = memory.x,
                    .y = memory.y.data(),
                    .slope = stack.slopes ? memory.slope.data() : nullptr,
                    .dy = memory.dy.data(),
                    .dx = dx,
                    .dx_features = dx ? dx_features : 0,
                    .scratch = memory.scratch,
                    .stride = panel.stride_,
                    .rows = panel.rows_,
                    .words = memory.words.data(),
                    .pair_scratch = memory.pair_scratch});
}

void PanelNetwork::forward_gates(Panel& panel, size_t cell) const {
  run(cells_[cell].gates, panel.cells_[cell].gates, panel);
}

void PanelNetwork::backward_gates(Panel& panel, size_t cell, const Gradients& grad) const {
  run_back(cells_[cell].gates, panel.cells_[cell].gates, panel, grad.gates[cell], nullptr, 0);
}

void PanelNetwork::forward(Panel& panel, bool policy, bool value) const {
  if (!shared_.layers.empty()) run(shared_, panel.shared_, panel);
  // what only the critic sees, behind what both do
  if (joined() && privileged_ > 0)
    std::copy_n(panel.input_ + visible_ * panel.stride_, privileged_ * panel.stride_,
                panel.value_.x + head_features() * panel.stride_);
  if (policy) run(policy_, panel.policy_, panel);
  if (value) run(value_, panel.value_, panel);
}

void PanelNetwork::backward(Panel& panel, const Gradients& grad) const {
  // where the gradients of what heads see go; of what both see they are added up
  float *d_policy = nullptr, *d_value = nullptr;
  if (!shared_.layers.empty()) d_policy = panel.shared_.dy.back();
  if (!cells_.empty())
    d_policy = panel.cells_.front().d_remembered, d_value = panel.cells_.back().d_remembered;
  if (joined()) d_value = panel.d_features_;
  const int64_t features = head_features();
  run_back(policy_, panel.policy_, panel, grad.policy, d_policy, features);
  run_back(value_, panel.value_, panel, grad.value, d_value, features);
  if (!joined()) return;
  for (int64_t i = 0; i < features * panel.stride_; ++i) d_policy[i] += d_value[i];
  if (!shared_.layers.empty())
    run_back(shared_, panel.shared_, panel, grad.shared, /*dx=*/nullptr, 0);
}

}  // namespace maglev
