#include "algos/tdmpc2/panels/stack.h"

#include <algorithm>
#include <utility>

#include <ATen/ATen.h>

#include "base/core/error.h"
#include "base/core/mapped_file.h"
#include "kernels/dense_grad/dense_grad_bf16.h"

namespace maglev::tdmpc2 {
namespace {

// multiply-adds of a weight task: enough that a thread's start does not show, few enough that
// threads end together
constexpr int64_t kTaskWork = int64_t(1) << 25;
// whole tiles of outputs and, in bfloat16, whole blocks
constexpr int64_t kLeastTaskRows = 48;

}  // namespace

float* PanelMemory::block(int64_t floats) {
  // large pages are given where nothing was written to yet
  blocks_.push_back(at::empty({floats}));
  if (slab_ > 0) prefer_large_pages(blocks_.back().data_ptr(), int64_t(blocks_.back().nbytes()));
  return blocks_.back().data_ptr<float>();
}

float* PanelMemory::take(int64_t floats) {
  // of a slab a piece begins at a line of the cache, and panels of one size each a line further into
  // a page: they would fall on each other in the first cache
  constexpr int64_t kLine = 16;
  const int64_t wanted = (floats / kLine + 2) * kLine;
  float* piece = nullptr;
  if (4 * wanted > slab_) {
    piece = block(floats);
  } else {
    // the first slab with room for it
    auto room =
        std::ranges::find_if(rooms_, [&](const Room& r) { return r.end - r.begin >= wanted; });
    if (room == rooms_.end()) {
      float* slab = block(slab_);
      room = rooms_.insert(rooms_.end(), {slab, slab + slab_});
    }
    piece = std::exchange(room->begin, room->begin + wanted);
  }
  std::fill_n(piece, floats, 0.f);
  return piece;
}

StackScratch StackScratch::make(PanelMemory& memory, int64_t widest, int64_t stride) {
  const int64_t panel = widest * stride;
  return {.sums = memory.take(panel),
          .dz = {memory.take(panel), memory.take(panel)},
          .dz_pairs = pairs_at(memory.take((widest + 1) / 2 * stride))};
}

PanelStack::PanelStack(const MlpPlaces& places, DenseEnd last, const float* flat, int64_t stride,
                       bool bf16, PanelMemory& memory, Passes passes)
    : bf16_(bf16), stride_(stride) {
  for (const auto& place : places) {
    const bool end = &place == &places.back(), begin = &place == &places.front();
    const bool passed = passes == Passes::inputs || (passes == Passes::layers && !begin);
    layers_.push_back(
        {.in = place.in,
         .out = place.out,
         .end = end ? last : DenseEnd::mish,
         .place = place,
         .weight = flat + place.weight(),
         .bias = flat + place.bias(),
         .gain = flat + place.gain(),
         .shift = flat + place.shift(),
         .small_at = small_,
         .packed = memory.take(packed_words(place.out, place.in)),
         .transpose = passed ? memory.take(packed_words(place.in, place.out)) : nullptr});
    // gain and shift, in bfloat16 the bias behind them
    small_ += ((place.normed ? 2 : 0) + (bf16 ? 1 : 0)) * place.out;
  }
}

int64_t PanelStack::packed_words(int64_t out, int64_t in) const {
  return bf16_ ? pair_blocks_size(out, (in + 1) / 2) : packed_dense_size(out, in);
}

void PanelStack::pack(size_t l) const {
  const Layer& layer = layers_[l];
  const auto pack_side = [&](float* to, int64_t out, int64_t in, int64_t out_step,
                             int64_t in_step) {
    if (bf16_)
      return pack_dense_bf16({.weight = layer.weight,
                              .out = out,
                              .in = in,
                              .out_step = out_step,
                              .in_step = in_step,
                              .pairs = (in + 1) / 2,
                              .first = 0,
                              .packed = pairs_at(to)});
    pack_dense({.weight = layer.weight,
                .out = out,
                .in = in,
                .out_step = out_step,
                .in_step = in_step,
                .packed = to});
  };
  pack_side(layer.packed, layer.out, layer.in, layer.in, 1);
  // back to the inputs outputs are the depth
  if (layer.transpose) pack_side(layer.transpose, layer.in, layer.out, 1, layer.in);
}

int64_t PanelStack::columns_words(const Layer& layer) const {
  return dense_columns_size(layer.in, stride_) / (bf16_ ? 2 : 1);
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

void PanelStack::forward(const float* x, const Saved& saved, const StackScratch& scratch,
                         const float* factor, float* out) const {
  for (size_t l = 0; l < layers_.size(); ++l) {
    float* y = l + 1 == layers_.size() ? out : saved.y[l];
    if (bf16_) forward_bf16(l, x, saved, scratch, l == 0 ? factor : nullptr, y);
    else forward_f32(l, x, saved, l == 0 ? factor : nullptr, y);
    x = y;
  }
}

void PanelStack::forward_f32(size_t l, const float* x, const Saved& saved, const float* factor,
                             float* y) const {
  const Layer& layer = layers_[l];
  const DenseSegment segment{x, 0, layer.in};
  dense_cpu({.weight = layer.packed,
             .in = layer.in,
             .out = layer.out,
             .start = layer.bias,
             .segments = {&segment, 1},
             .end = layer.end,
             .gain = layer.gain,
             .shift = layer.shift,
             .factor = factor,
             .y = y,
             .xhat = saved.xhat[l],
             .rstd = saved.rstd[l],
             .stride = stride_,
             .rows = stride_});
}

void PanelStack::forward_bf16(size_t l, const float* x, const Saved& saved,
                              const StackScratch& scratch, const float* factor, float* y) const {
  const Layer& layer = layers_[l];
  const int64_t pairs = (layer.in + 1) / 2;
  const DenseSegmentBf16 segment{pairs_at(x), 0, pairs};
  // the last layer's result is f32, any other's is the next one's words
  const bool last = l + 1 == layers_.size();
  float* sums = last ? y : scratch.sums;
  dense_bf16_cpu({.weight = pairs_at(layer.packed),
                  .pairs = pairs,
                  .out = layer.out,
                  .start = layer.bias,
                  .segments = {&segment, 1},
                  .sums = sums,
                  .stride = stride_,
                  .rows = stride_});
  if (layer.end == DenseEnd::none) return;
  dense_panel_end_cpu({.end = layer.end,
                       .out = layer.out,
                       .gain = layer.gain,
                       .shift = layer.shift,
                       .factor = factor,
                       .z = sums,
                       .pairs = last ? nullptr : pairs_at(y),
                       .xhat = saved.xhat[l],
                       .rstd = saved.rstd[l],
                       .stride = stride_,
                       .rows = stride_});
}

PanelStack::Waiting PanelStack::waiting(PanelMemory& memory, int64_t panels, int64_t parts,
                                        const Waiting* shared) const {
  MAGLEV_ASSERT(panels % parts == 0, "parts have as many panels each");
  Waiting waiting{.panels = panels, .shared = shared != nullptr, .parts = parts};
  for (const auto& layer : layers_) {
    waiting.columns.push_back(shared && &layer == &layers_.front()
                                  ? shared->columns.front()
                                  : memory.take(panels * columns_words(layer)));
    const bool last = &layer == &layers_.back();
    waiting.dz.push_back(bf16_ && !last ? nullptr : memory.take(panels * layer.out * stride_));
    waiting.rows.push_back(bf16_ ? memory.take(panels * rows_words(layer)) : nullptr);
  }
  waiting.small = memory.take(std::max<int64_t>(1, parts * small_));
  return waiting;
}

void PanelStack::begin_part(const Waiting& waiting, int64_t part) const {
  std::fill_n(waiting.small + part * small_, small_, 0.f);
}

PanelStack::Back PanelStack::back_buffers(const StackScratch& scratch) const {
  const std::vector<float*> none(layers());
  Back back{none, none, none};
  // in bfloat16 what waits is rounded, and gradients of hidden layers take turns
  for (size_t l = 0; bf16_ && l + 1 < layers(); ++l) back.dz[l] = scratch.dz[l % 2];
  return back;
}

void PanelStack::aim(const Waiting& waiting, int64_t panel, Back& back) const {
  for (size_t l = 0; l < layers_.size(); ++l) {
    const Layer& layer = layers_[l];
    if (waiting.dz[l]) back.dz[l] = waiting.dz[l] + panel * layer.out * stride_;
    if (waiting.rows[l]) back.rows[l] = waiting.rows[l] + panel * rows_words(layer);
    back.columns[l] =
        l == 0 && waiting.shared ? nullptr : waiting.columns[l] + panel * columns_words(layer);
  }
  // panels of a part follow one another
  back.small = waiting.small + panel / (waiting.panels / waiting.parts) * small_;
}

PanelStack::Back PanelStack::passing(PanelMemory& memory, const StackScratch& scratch) const {
  Back back = back_buffers(scratch);
  for (size_t l = 0; l < layers_.size(); ++l)
    if (!back.dz[l]) back.dz[l] = memory.take(layers_[l].out * stride_);
  return back;
}

void PanelStack::backward(const float* x, const Saved& saved, const StackScratch& scratch,
                          const float* factor, const float* out, const Back& back,
                          const Inputs& inputs) const {
  for (size_t l = layers_.size(); l-- > 0;) {
    const Layer& layer = layers_[l];
    const float* input = l ? saved.y[l - 1] : x;
    float* small = back.small ? back.small + layer.small_at : nullptr;
    // through the end and its norm: dy becomes dz where it lies
    if (layer.end != DenseEnd::none)
      dense_end_grad_cpu({.end = layer.end,
                          .out = layer.out,
                          .gain = layer.gain,
                          .shift = layer.shift,
                          .y = layer.end == DenseEnd::simnorm ? out : nullptr,
                          .xhat = saved.xhat[l],
                          .rstd = saved.rstd[l],
                          .factor = l == 0 ? factor : nullptr,
                          .dy = back.dz[l],
                          .d_gain = small,
                          .d_shift = small ? small + layer.out : nullptr,
                          .stride = stride_});
    const bool passes = l > 0 || inputs.dx;
    if (bf16_)
      dense_grad_pairs_cpu(
          {.dz = back.dz[l],
           .out = layer.out,
           .stride = stride_,
           .pairs = passes ? scratch.dz_pairs : nullptr,
           .rows = back.rows[l] ? pairs_at(back.rows[l]) : nullptr,
           .d_bias = small ? small + (layer.place.normed ? 2 * layer.out : 0) : nullptr});
    // the layer's inputs stay for its weights' gradient
    if (back.columns[l] && bf16_)
      dense_columns_bf16_cpu({.x = pairs_at(input),
                              .in = layer.in,
                              .stride = stride_,
                              .columns = pairs_at(back.columns[l])});
    else if (back.columns[l])
      dense_columns_cpu(
          {.x = input, .in = layer.in, .stride = stride_, .columns = back.columns[l]});
    // on to the layer below; of the network's inputs only those that are asked for
    if (passes) input_grad(l, scratch, back, inputs);
  }
}

void PanelStack::input_grad(size_t l, const StackScratch& scratch, const Back& back,
                            const Inputs& inputs) const {
  const Layer& layer = layers_[l];
  MAGLEV_ASSERT(layer.transpose, "the stack was made to go back");
  const Inputs hidden{.dx = l ? back.dz[l - 1] : nullptr, .features = layer.in};
  const Inputs& to = l ? hidden : inputs;
  if (bf16_)
    return dense_input_grad_bf16_cpu({.weight = pairs_at(layer.transpose),
                                      .out = layer.out,
                                      .dz = scratch.dz_pairs,
                                      .first = to.first,
                                      .features = to.features,
                                      .dx = to.dx,
                                      .add = to.add,
                                      .stride = stride_});
  dense_input_grad_cpu({.weight = layer.weight,
                        .transpose = layer.transpose,
                        .in = layer.in,
                        .out = layer.out,
                        .dz = back.dz[l],
                        .first = to.first,
                        .features = to.features,
                        .dx = to.dx,
                        .add = to.add,
                        .stride = stride_});
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
  const size_t l = task.layer;
  if (stack.bf16_)
    dense_weight_grad_bf16_cpu({.columns = pairs_at(waiting.columns[l]),
                                .columns_step = stack.columns_words(layer),
                                .dz = pairs_at(waiting.rows[l]),
                                .dz_step = stack.rows_words(layer),
                                .panels = waiting.panels,
                                .stride = stack.stride_,
                                .in = layer.in,
                                .first = task.first,
                                .count = task.count,
                                .d_weight = grad + layer.place.weight()});
  else
    dense_weight_grad_cpu({.columns = waiting.columns[l],
                           .columns_step = stack.columns_words(layer),
                           .dz = waiting.dz[l],
                           .dz_step = layer.out * stack.stride_,
                           .panels = waiting.panels,
                           .stride = stack.stride_,
                           .in = layer.in,
                           .first = task.first,
                           .count = task.count,
                           .d_weight = grad + layer.place.weight(),
                           .d_bias = grad + layer.place.bias()});
  // what is summed panel by panel goes with the layer's first task, parts in order
  if (task.first > 0) return;
  const auto add_parts = [&](int64_t from, float* to) {
    for (int64_t i = 0; i < layer.out; ++i) {
      float sum = 0;
      for (int64_t part = 0; part < waiting.parts; ++part)
        sum += waiting.small[part * stack.small_ + layer.small_at + from + i];
      to[i] = sum;
    }
  };
  const int64_t norms = layer.place.normed ? 2 * layer.out : 0;
  if (layer.place.normed) {
    add_parts(0, grad + layer.place.gain());
    add_parts(layer.out, grad + layer.place.shift());
  }
  if (stack.bf16_) add_parts(norms, grad + layer.place.bias());
}

}  // namespace maglev::tdmpc2
