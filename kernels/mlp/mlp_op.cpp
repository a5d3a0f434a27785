#include "kernels/mlp/mlp.h"

#include <algorithm>
#include <string>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "base/simd/pairs.h"
#include "engine/device/kernel.h"

namespace maglev {
namespace {

// a stack over any number of rows, panel by panel as the engine drives it; memory made once
class PanelStack {
 public:
  // parameters: weight, bias of each layer; wide layers take pairs of bfloat16 where asked
  PanelStack(const Tensors& parameters, Activation activation, int64_t rows, bool pairs)
      : rows_(rows), options_(parameters[0].options()) {
    for (size_t i = 0; i < parameters.size(); i += 2) {
      const auto &weight = parameters[i], &bias = parameters[i + 1];
      const bool last = i + 2 == parameters.size();
      layers_.push_back({weight.data_ptr<float>(), bias.data_ptr<float>(), weight.size(1),
                         weight.size(0), last ? Activation::none : activation});
      words_.push_back(nullptr);
      if (pairs && pairs_pay(weight.size(1), weight.size(0))) take_pairs();
      grads_.push_back(at::zeros_like(weight));
      grads_.push_back(at::zeros_like(bias));
      into_.push_back({grads_[i].data_ptr<float>(), grads_[i + 1].data_ptr<float>()});
      for (auto* part : {&y_, &dy_, &slope_}) part->push_back(make(weight.size(0)));
    }
    x_ = make(layers_[0].in), dx_ = make(layers_[0].in);
    int64_t widest = 0;
    for (const auto& layer : layers_) widest = std::max(widest, panel_stride(layer.in));
    scratch_ = make(widest);
    y_at_ = pointers(y_);
  }

  void forward(const at::Tensor& x, at::Tensor* out) {
    each_panel([&](int64_t first, int64_t count) {
      panel_forward(x, first, count);
      if (out) read(y_.back(), layers_.back().out, first, count, *out);
    });
  }

  // the panel that was loaded last
  void forward_again() {
    mlp_forward_cpu({.layers = layers_,
                     .x = x_.data_ptr<float>(),
                     .y = y_at_.data(),
                     .slope = nullptr,
                     .stride = panel_stride(rows_),
                     .rows = rows_,
                     .words = words_.data()});
  }

  // gradients of x and the parameters
  void backward(const at::Tensor& x, const at::Tensor& d_out, at::Tensor* dx) {
    for (auto& grad : grads_) grad.zero_();
    each_panel([&](int64_t first, int64_t count) {
      panel_forward(x, first, count);
      write(d_out, first, count, dy_.back());
      const auto y = pointers(y_), slope = pointers(slope_), dy = pointers(dy_);
      mlp_backward_cpu({.layers = layers_,
                        .grad = into_,
                        .x = x_.data_ptr<float>(),
                        .y = y.data(),
                        .slope = slope.data(),
                        .dy = dy.data(),
                        .dx = dx_.data_ptr<float>(),
                        .dx_features = layers_[0].in,
                        .scratch = scratch_.data_ptr<float>(),
                        .stride = panel_stride(count),
                        .rows = count,
                        .words = words_.data(),
                        .pair_scratch = pair_scratch_});
      if (dx) read(dx_, layers_[0].in, first, count, *dx);
    });
  }

  const Tensors& grads() const { return grads_; }

 private:
  at::Tensor make(int64_t features) const {
    return at::zeros({features * panel_stride(kPanelRows)}, options_);
  }
  static std::vector<float*> pointers(const Tensors& tensors) {
    std::vector<float*> list;
    for (const auto& t : tensors) list.push_back(t.data_ptr<float>());
    return list;
  }

  uint32_t* make_words(int64_t count) {
    word_memory_.push_back(at::zeros({count}, options_.dtype(at::kInt)));
    return reinterpret_cast<uint32_t*>(word_memory_.back().data_ptr<int32_t>());
  }
  // the last layer's
  void take_pairs() {
    DenseLayer& layer = layers_.back();
    layer.pairs = {make_words(pair_blocks_size(layer.out, words_of_features(layer.in))),
                   make_words(pair_blocks_size(layer.in, words_of_features(layer.out)))};
    for (PairSide side : {PairSide::forward, PairSide::back}) round_to_pairs(layer, side);
    words_.back() = make_words(words_of_features(layer.in) * kPanelRows);
    const int64_t wanted = pair_scratch_size(layer.in, layer.out);
    if (wanted > pair_scratch_words_)
      pair_scratch_ = make_words(wanted), pair_scratch_words_ = wanted;
  }

  template <class Work>
  void each_panel(Work&& work) {
    for (int64_t first = 0; first < rows_; first += kPanelRows)
      work(first, std::min(kPanelRows, rows_ - first));
  }

  void panel_forward(const at::Tensor& x, int64_t first, int64_t count) {
    write(x, first, count, x_);
    const auto y = pointers(y_), slope = pointers(slope_);
    mlp_forward_cpu({.layers = layers_,
                     .x = x_.data_ptr<float>(),
                     .y = y.data(),
                     .slope = slope.data(),
                     .stride = panel_stride(count),
                     .rows = count,
                     .words = words_.data()});
  }

  // rows [first, first + count) of [rows, features] -> panel with zeros in padding columns, and
  // back
  static void write(const at::Tensor& from, int64_t first, int64_t count, at::Tensor& panel) {
    auto to = panel.narrow(0, 0, from.size(1) * panel_stride(count)).view({from.size(1), -1});
    to.zero_().narrow(1, 0, count).copy_(from.narrow(0, first, count).t());
  }
  static void read(const at::Tensor& panel, int64_t features, int64_t first, int64_t count,
                   at::Tensor& into) {
    auto from = panel.narrow(0, 0, features * panel_stride(count)).view({features, -1});
    into.narrow(0, first, count).copy_(from.narrow(1, 0, count).t());
  }

  int64_t rows_;
  at::TensorOptions options_;
  std::vector<DenseLayer> layers_;
  std::vector<DenseGrad> into_;
  Tensors grads_, y_, dy_, slope_;
  std::vector<float*> y_at_;
  at::Tensor x_, dx_, scratch_;
  std::vector<uint32_t*> words_;
  uint32_t* pair_scratch_ = nullptr;
  int64_t pair_scratch_words_ = 0;
  Tensors word_memory_;
};

Tensors mlp_reference(const Tensors& in, Activation activation) {
  auto x = in[0];
  for (size_t i = 1; i < in.size(); i += 2) {
    x = at::linear(x, in[i], in[i + 1]);
    if (i + 2 == in.size()) break;
    x = activation == Activation::tanh   ? at::tanh(x)
        : activation == Activation::relu ? at::relu(x)
                                         : at::silu(x);
  }
  return {x};
}

const char* name_of(Activation activation) {
  return activation == Activation::tanh ? "tanh" : activation == Activation::relu ? "relu" : "silu";
}

std::vector<KernelCase> mlp_cases(at::Device device) {
  std::vector<KernelCase> list;
  if (!device.is_cpu()) return list;
  struct Shape {
    int64_t rows;
    std::vector<int64_t> sizes;
    Activation activation;
    bool pairs = false;
  };
  std::vector<Shape> shapes{
      Shape{8, {4, 64, 64, 2}, Activation::tanh}, {64, {4, 64, 64, 2}, Activation::tanh},
      {256, {4, 64, 64, 1}, Activation::tanh},    {100, {37, 128, 70, 19}, Activation::relu},
      {67, {17, 33, 5}, Activation::silu},        {256, {24, 256, 256, 8}, Activation::relu}};
  if (pair_products_available())
    for (const Shape& s : {Shape{64, {4, 64, 64, 2}, Activation::tanh, true},
                           {5, {16, 16, 16, 3}, Activation::tanh, true},
                           {100, {37, 128, 71, 19}, Activation::relu, true},
                           {67, {17, 33, 20, 5}, Activation::silu, true},
                           {256, {24, 256, 256, 8}, Activation::relu, true}})
      shapes.push_back(s);
  for (const Shape& s : shapes) {
    // numbers that are bfloat16 already: then what a layer of pairs reads is what its reference
    // reads
    const auto rounded = [&](const at::Tensor& t) {
      return s.pairs ? t.to(at::kBFloat16).to(at::kFloat) : t;
    };
    auto gen = at::make_generator<at::CPUGeneratorImpl>(uint64_t(s.rows));
    Tensors inputs{rounded(at::randn({s.rows, s.sizes[0]}, gen))};
    std::string name = std::to_string(s.sizes[0]);
    int64_t macs = 0, parameters = 0, sums = 0;
    for (size_t l = 1; l < s.sizes.size(); ++l) {
      const int64_t in = s.sizes[l - 1], out = s.sizes[l];
      inputs.push_back(rounded(at::randn({out, in}, gen) / std::sqrt(double(in))));
      auto bias = at::randn({out}, gen) * 0.1;
      // a sum near relu's corner would take the other side of it when it is rounded
      if (s.pairs && s.activation == Activation::relu) bias = at::sign(bias) * std::pow(4, l);
      inputs.push_back(bias);
      name += "-" + std::to_string(out);
      macs += in * out, parameters += in * out + out;
      // forward over inputs, back over outputs
      sums += in + out;
    }
    const auto activation = s.activation;
    const int64_t rows = s.rows;
    const Tensors parameters_of(inputs.begin() + 1, inputs.end());
    const bool pairs = s.pairs;
    auto stack = std::make_shared<PanelStack>(parameters_of, activation, rows, pairs);
    auto d_out = at::randn({rows, s.sizes.back()}, gen);
    auto leaves = std::make_shared<Tensors>();
    for (const auto& in : inputs) leaves->push_back(in.clone().set_requires_grad(true));
    const std::string label = name_of(activation) + (" " + name) + (pairs ? " bf16" : "");
    // on its way through a layer every term of a sum is rounded by itself, forward and back, which
    // moves the sum as one rounding of a number of its size does
    const auto bf16 = Tolerance::of_sums(2 * int64_t(s.sizes.size() - 1), kRoundBf16);
    list.push_back(
        {.name = label + " rows=" + std::to_string(rows),
         .inputs = inputs,
         .reference = [activation](const Tensors& in) { return mlp_reference(in, activation); },
         .fused =
             [activation, rows, pairs](const Tensors& in) {
               PanelStack panels({in.begin() + 1, in.end()}, activation, rows, pairs);
               auto out = at::empty({rows, in.back().size(0)}, in[0].options());
               panels.forward(in[0], &out);
               return Tensors{out};
             },
         .backward =
             [activation, rows, pairs](const Tensors& in, const Tensors& output_grads) {
               PanelStack panels({in.begin() + 1, in.end()}, activation, rows, pairs);
               auto dx = at::empty_like(in[0]);
               panels.backward(in[0], output_grads[0].contiguous(), &dx);
               Tensors grads{dx};
               for (const auto& grad : panels.grads()) grads.push_back(grad);
               return grads;
             },
         .tolerance = pairs ? bf16 : Tolerance::of_sums(sums + rows),
         .bytes = 4 * (2 * parameters + rows * (2 * s.sizes[0] + s.sizes.back())),
         .flops = 6 * macs * rows,
         // forward and backward
         .repeat_reference =
             [leaves, activation, d_out] {
               at::AutoGradMode with_gradients(true);
               mlp_reference(*leaves, activation)[0].backward(d_out);
             },
         .repeat_fused = [stack, x = inputs[0], d_out] { stack->backward(x, d_out, nullptr); }});
    // what acting waits for: one panel as it lies in memory, without the way to and from rows
    if (s.rows > kPanelRows) continue;
    list.push_back({.name = label + " forward rows=" + std::to_string(rows),
                    .reference = [inputs, activation](
                                     const Tensors&) { return mlp_reference(inputs, activation); },
                    .fused =
                        [inputs, stack](const Tensors&) {
                          auto out = at::empty({inputs[0].size(0), inputs.back().size(0)});
                          stack->forward(inputs[0], &out);
                          return Tensors{out};
                        },
                    .tolerance = pairs ? bf16 : Tolerance::of_sums(sums),
                    .bytes = 4 * (parameters + rows * (s.sizes[0] + s.sizes.back())),
                    .flops = 2 * macs * rows,
                    .repeat_fused = [stack] { stack->forward_again(); }});
  }
  return list;
}

}  // namespace

namespace kernels::mlp {
KernelEntry entry() {
  return {"mlp", "small fully connected networks, forward and backward in one cache", mlp_cases};
}
}  // namespace kernels::mlp

}  // namespace maglev
