#include "algos/tdmpc2/panels/stack.h"

#include <algorithm>

#include <ATen/ATen.h>

#include "base/core/error.h"
#include "kernels/dense_grad/dense_grad.h"

namespace maglev::tdmpc2 {
namespace {

// multiply-adds of a weight task: enough that a thread's start does not show, few enough that
// threads end together
constexpr int64_t kTaskWork = int64_t(1) << 25;
constexpr int64_t kLeastTaskRows = 24;

}  // namespace

float* PanelMemory::take(int64_t floats) {
  blocks_.push_back(at::zeros({floats}));
  return blocks_.back().data_ptr<float>();
}

PanelStack::PanelStack(const MlpPlaces& places, DenseEnd last, const float* flat, int64_t stride)
    : stride_(stride) {
  for (const auto& place : places) {
    const bool end = &place == &places.back();
    layers_.push_back({.in = place.in,
                       .out = place.out,
                       .end = end ? last : DenseEnd::mish,
                       .place = place,
                       .weight = flat + place.weight(),
                       .bias = flat + place.bias(),
                       .gain = flat + place.gain(),
                       .shift = flat + place.shift(),
                       .small_at = small_});
    if (place.normed) small_ += 2 * place.out;
  }
}

PanelStack::Saved PanelStack::inference(PanelMemory& memory) const {
  Saved saved;
  // the last layer writes where forward() is told to
  for (const auto& layer : layers_) {
    saved.y.push_back(&layer == &layers_.back() ? nullptr : memory.take(layer.out * stride_));
    saved.xhat.push_back(nullptr), saved.rstd.push_back(nullptr);
  }
  return saved;
}

PanelStack::Saved PanelStack::training(PanelMemory& memory) const {
  Saved saved = inference(memory);
  for (size_t l = 0; l < layers_.size(); ++l) {
    // layers without a norm need nothing saved
    if (layers_[l].end == DenseEnd::none) continue;
    saved.xhat[l] = memory.take(layers_[l].out * stride_);
    saved.rstd[l] = memory.take(stride_);
  }
  return saved;
}

void PanelStack::forward(const float* x, const Saved& saved, const float* factor,
                         float* out) const {
  for (size_t l = 0; l < layers_.size(); ++l) {
    const Layer& layer = layers_[l];
    const DenseSegment segment{x, 0, layer.in};
    float* y = l + 1 == layers_.size() ? out : saved.y[l];
    // weights as torch keeps them: they change with every update
    dense_cpu({.weight = layer.weight,
               .packed = false,
               .in = layer.in,
               .out = layer.out,
               .start = layer.bias,
               .segments = {&segment, 1},
               .end = layer.end,
               .gain = layer.gain,
               .shift = layer.shift,
               .factor = l == 0 ? factor : nullptr,
               .y = y,
               .xhat = saved.xhat[l],
               .rstd = saved.rstd[l],
               .stride = stride_,
               .rows = stride_});
    x = y;
  }
}

PanelStack::Waiting PanelStack::waiting(PanelMemory& memory, int64_t panels, int64_t parts,
                                        const Waiting* shared) const {
  MAGLEV_ASSERT(panels % parts == 0, "parts have as many panels each");
  Waiting waiting{.panels = panels, .shared = shared != nullptr, .parts = parts};
  for (const auto& layer : layers_) {
    waiting.columns.push_back(shared && &layer == &layers_.front()
                                  ? shared->columns.front()
                                  : memory.take(panels * dense_columns_size(layer.in, stride_)));
    waiting.dz.push_back(memory.take(panels * layer.out * stride_));
  }
  waiting.small = memory.take(std::max<int64_t>(1, parts * small_));
  return waiting;
}

void PanelStack::begin_part(const Waiting& waiting, int64_t part) const {
  std::fill_n(waiting.small + part * small_, small_, 0.f);
}

void PanelStack::aim(const Waiting& waiting, int64_t panel, Back& back) const {
  for (size_t l = 0; l < layers_.size(); ++l) {
    const Layer& layer = layers_[l];
    back.dz[l] = waiting.dz[l] + panel * layer.out * stride_;
    back.columns[l] = l == 0 && waiting.shared
                          ? nullptr
                          : waiting.columns[l] + panel * dense_columns_size(layer.in, stride_);
  }
  // panels of a part follow one another
  back.small = waiting.small + panel / (waiting.panels / waiting.parts) * small_;
}

PanelStack::Back PanelStack::passing(PanelMemory& memory) const {
  Back back = back_buffers();
  for (size_t l = 0; l < layers_.size(); ++l) back.dz[l] = memory.take(layers_[l].out * stride_);
  return back;
}

void PanelStack::backward(const float* x, const Saved& saved, const float* factor, const float* out,
                          const Back& back, const Inputs& inputs) const {
  for (size_t l = layers_.size(); l-- > 0;) {
    const Layer& layer = layers_[l];
    const float* input = l ? saved.y[l - 1] : x;
    // through the end and its norm: dy becomes dz where it lies
    if (layer.end != DenseEnd::none)
      dense_end_grad_cpu({.end = layer.end,
                          .out = layer.out,
                          .gain = layer.gain,
                          .shift = layer.shift,
                          .y = l + 1 == layers_.size() ? out : saved.y[l],
                          .xhat = saved.xhat[l],
                          .rstd = saved.rstd[l],
                          .factor = l == 0 ? factor : nullptr,
                          .dy = back.dz[l],
                          .d_gain = back.small ? back.small + layer.small_at : nullptr,
                          .d_shift = back.small ? back.small + layer.small_at + layer.out : nullptr,
                          .stride = stride_});
    // the layer's inputs stay for its weights' gradient
    if (back.columns[l])
      dense_columns_cpu(
          {.x = input, .in = layer.in, .stride = stride_, .columns = back.columns[l]});
    // on to the layer below; of the network's inputs only those that are asked for
    if (l == 0 && !inputs.dx) return;
    dense_input_grad_cpu({.weight = layer.weight,
                          .in = layer.in,
                          .out = layer.out,
                          .dz = back.dz[l],
                          .first = l ? 0 : inputs.first,
                          .features = l ? layer.in : inputs.features,
                          .dx = l ? back.dz[l - 1] : inputs.dx,
                          .add = l ? false : inputs.add,
                          .stride = stride_});
  }
}

void PanelStack::append_tasks(const Waiting& waiting, std::vector<Task>& tasks) const {
  for (size_t l = 0; l < layers_.size(); ++l) {
    const Layer& layer = layers_[l];
    // multiply-adds of one output's weights over all panels
    const int64_t row = layer.in * waiting.panels * stride_;
    // whole tiles of outputs, and enough of them to be worth a task
    const int64_t rows =
        std::max(kLeastTaskRows, kTaskWork / row / kLeastTaskRows * kLeastTaskRows);
    for (int64_t first = 0; first < layer.out; first += rows)
      tasks.push_back({this, &waiting, l, first, std::min(rows, layer.out - first)});
  }
}

void PanelStack::run(const Task& task, float* grad) {
  const PanelStack& stack = *task.stack;
  const Waiting& waiting = *task.waiting;
  const Layer& layer = stack.layers_[task.layer];
  dense_weight_grad_cpu({.columns = waiting.columns[task.layer],
                         .columns_step = dense_columns_size(layer.in, stack.stride_),
                         .dz = waiting.dz[task.layer],
                         .dz_step = layer.out * stack.stride_,
                         .panels = waiting.panels,
                         .stride = stack.stride_,
                         .in = layer.in,
                         .first = task.first,
                         .count = task.count,
                         .d_weight = grad + layer.place.weight(),
                         .d_bias = grad + layer.place.bias()});
  // gains and shifts go with the layer's first task, parts in order
  if (task.first > 0 || !layer.place.normed) return;
  for (int64_t i = 0; i < 2 * layer.out; ++i) {
    float sum = 0;
    for (int64_t part = 0; part < waiting.parts; ++part)
      sum += waiting.small[part * stack.small_ + layer.small_at + i];
    grad[layer.place.gain() + i] = sum;
  }
}

}  // namespace maglev::tdmpc2
