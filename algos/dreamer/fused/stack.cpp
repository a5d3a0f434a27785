#include "algos/dreamer/fused/stack.h"

#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>

#include "algos/dreamer/layers.h"
#include "kernels/norm_silu/norm_silu_op.h"
#include "kernels/products/products_op.h"

namespace maglev::dreamer {

BackScratch::BackScratch(int64_t rows, int64_t width, const at::TensorOptions& options)
    : d(at::empty({rows * width}, options)),
      d_pre(at::empty_like(d)),
      ones(at::ones({rows}, options)) {}

Stack::Stack(const torch::nn::Module& head, const StackRows& r, WeightRows& weights)
    : last_(dense_of(head, "out", weights)) {
  const auto parameters = head.named_parameters();
  const auto f32 = last_.weight.options();
  const int64_t all = r.rows * r.slots;
  const auto name = [](const char* kind, size_t layer) {
    return std::string("hidden.") + kind + std::to_string(layer);
  };
  for (size_t l = 0; parameters.contains(name("dense", l) + ".weight"); ++l) {
    Layer layer{.dense = dense_of(head, name("dense", l), weights),
                .norm = norm_of(head, name("norm", l))};
    const int64_t units = layer.dense.weight.size(0);
    layer.pre = at::empty({all, units}, f32), layer.active = at::empty_like(layer.pre);
    layer.inverse = at::empty({all}, f32);
    layers_.push_back(layer);
  }
  out_ = at::empty({all, last_.weight.size(0)}, f32);
  for (int64_t s = 0; s < r.slots; ++s) {
    const auto rows = [&](const at::Tensor& t) { return t.narrow(0, s * r.rows, r.rows); };
    Slot slot{.out = rows(out_)};
    for (const Layer& layer : layers_) {
      slot.pre.push_back(rows(layer.pre)), slot.active.push_back(rows(layer.active));
      slot.inverse.push_back(rows(layer.inverse));
    }
    slots_.push_back(slot);
  }
}

void Stack::forward(int64_t s, const at::Tensor& x) {
  Slot& slot = slots_[size_t(s)];
  const at::Tensor* in = &x;
  for (size_t l = 0; l < layers_.size(); ++l) {
    const Layer& layer = layers_[l];
    write_product(slot.pre[l], *in, layer.dense.forward, layer.dense.products);
    norm_silu_(slot.pre[l], layer.dense.bias, layer.norm.scale, kNormEps, slot.active[l],
               slot.inverse[l]);
    in = &slot.active[l];
  }
  write_product(slot.out, *in, last_.forward, last_.products);
}

void Stack::back(const at::Tensor& d_out, const at::Tensor& x, BackScratch& scratch,
                 at::Tensor d_x) {
  c10::InferenceMode guard;
  const int64_t R = d_out.size(0);
  const auto first = [R](const at::Tensor& t) { return t.narrow(0, 0, R); };
  last_.add_gradients(d_out, first(layers_.back().active), scratch.ones);
  const at::Tensor* d_product = &d_out;
  const at::Tensor* weight = &last_.back;
  at::Tensor d_pre;
  for (size_t l = layers_.size(); l-- > 0;) {
    Layer& layer = layers_[l];
    const int64_t units = layer.pre.size(1);
    const auto sized = [&](const at::Tensor& t) {
      return t.narrow(0, 0, R * units).view({R, units});
    };
    // of what the layer gives, then of its product; the scale's parts take the first one's place
    at::Tensor d = sized(scratch.d);
    write_product(d, *d_product, *weight, last_.products);
    d_pre = sized(scratch.d_pre);
    norm_silu_back({first(layer.pre), first(layer.inverse), layer.norm.scale, d}, d_pre, d);
    add_rows(layer.norm.d_scale, d, scratch.ones);
    layer.dense.add_gradients(d_pre, l > 0 ? first(layers_[l - 1].active) : x, scratch.ones);
    d_product = &d_pre, weight = &layer.dense.back;
  }
  if (d_x.defined()) add_product(d_x, *d_product, *weight, last_.products);
}

}  // namespace maglev::dreamer
