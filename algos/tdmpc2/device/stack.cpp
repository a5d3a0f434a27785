#include "algos/tdmpc2/device/stack.h"

#include <utility>

#include <ATen/ATen.h>

#include "base/core/error.h"
#include "kernels/dense_grad/dense_grad.h"
#include "kernels/dense_grad/dense_grad_op.h"

namespace maglev::tdmpc2 {
namespace {

// [n, rows, features] as the ends take them, [1, rows, n, features]; vectors [n, 1, features] as
// [1, n, features]
at::Tensor as_ends(const at::Tensor& x) { return x.transpose(0, 1).unsqueeze(0); }
at::Tensor as_vector(const at::Tensor& x) { return x.transpose(0, 1); }

}  // namespace

DeviceStack::DeviceStack(StackedMlp weights, StackedMlp vectors, DenseEnd last, double dropout)
    : weights_(std::move(weights)),
      vectors_(std::move(vectors)),
      last_(last),
      dropout_(dropout),
      n_(weights_.front().weight.size(0)) {}

DeviceStack::DeviceStack(StackedMlp weights, StackedMlp vectors, DenseEnd last, double dropout,
                         Gradients gradients)
    : DeviceStack(std::move(weights), std::move(vectors), last, dropout) {
  gradients_ = std::move(gradients);
  one_ = at::ones({1, 1, 1}, weights_.front().weight.options());
}

DenseEnd DeviceStack::end_of(size_t layer) const {
  return layer + 1 < weights_.size() ? DenseEnd::mish : last_;
}

at::Tensor DeviceStack::inputs(const StackRun& run, size_t layer, int64_t first,
                               int64_t count) const {
  if (layer > 0) return run.output[layer - 1].narrow(1, first, count);
  // all networks read the same
  const auto x = run.input.narrow(0, first, count);
  return x.unsqueeze(0).expand({n_, count, x.size(1)});
}

DenseEndTensors DeviceStack::end(const StackRun& run, size_t layer, int64_t first,
                                 int64_t count) const {
  const StackedLayer& vectors = vectors_[layer];
  DenseEndTensors in{.x = as_ends(run.product[layer].narrow(1, first, count)),
                     .start = as_vector(vectors.bias),
                     .gain = as_vector(vectors.gain),
                     .shift = as_vector(vectors.shift),
                     .end = end_of(layer)};
  if (layer == 0 && run.uniform.defined())
    in.uniform = run.uniform.narrow(1, first, count), in.share = dropout_;
  return in;
}

StackRun DeviceStack::run(const at::Tensor& input, const at::Tensor& output) const {
  StackRun run{.input = input};
  const size_t layers = weights_.size();
  for (size_t l = 0; l < layers; ++l) {
    const std::vector<int64_t> sizes{n_, input.size(0), weights_[l].weight.size(1)};
    const auto fresh = [&] { return at::empty(sizes, weights_[l].weight.options()); };
    run.product.push_back(end_of(l) == DenseEnd::none ? at::Tensor() : fresh());
    run.output.push_back(l + 1 == layers && output.defined() ? output : fresh());
  }
  return run;
}

void DeviceStack::forward(StackRun& run, int64_t first, int64_t count) const {
  for (size_t l = 0; l < weights_.size(); ++l) {
    const auto x = inputs(run, l, first, count), weight = weights_[l].weight.transpose(1, 2);
    auto y = run.output[l].narrow(1, first, count);
    if (end_of(l) == DenseEnd::none) {
      at::baddbmm_out(y, weights_[l].bias, x, weight);
      continue;
    }
    auto z = run.product[l].narrow(1, first, count);
    at::bmm_out(z, x, weight);
    // the bias is added with the end
    const bool exact = l + 1 == weights_.size() && run.exact.defined();
    dense_end_(as_ends(y), end(run, l, first, count),
               exact ? run.exact.narrow(0, first, count) : at::Tensor());
  }
}

const at::Tensor& DeviceStack::forward(StackRun& run) const {
  forward(run, 0, run.input.size(0));
  return run.output.back();
}

void DeviceStack::begin_back(StackRun& run, const at::Tensor& gradient, int64_t rows_each) const {
  const int64_t rows = gradient.size(1), parts = end_grad_parts(rows_each);
  MAGLEV_ASSERT(rows % rows_each == 0 && (n_ == 1 || rows == rows_each), "rows in equal parts");
  run.rows_each = rows_each;
  for (size_t l = 0; l < weights_.size(); ++l) {
    const int64_t out = weights_[l].weight.size(1);
    const bool last = l + 1 == weights_.size();
    run.gradient.push_back(last ? gradient
                                : at::empty({n_, rows, out}, weights_[l].weight.options()));
    run.parts.push_back(
        learns() && end_of(l) != DenseEnd::none
            ? at::empty({rows / rows_each * parts, n_, 3, out}, vectors_[l].bias.options())
            : at::Tensor());
  }
}

void DeviceStack::back(StackRun& run, int64_t first) const {
  const int64_t count = run.rows_each, parts = end_grad_parts(count);
  for (size_t l = weights_.size(); l-- > 0;) {
    const auto d = run.gradient[l].narrow(1, first, count);
    if (end_of(l) != DenseEnd::none)
      dense_end_grad_(as_ends(d), end(run, l, first, count),
                      run.parts[l].defined() ? run.parts[l].narrow(0, first / count * parts, parts)
                                             : at::Tensor());
    if (l == 0) break;
    auto below = run.gradient[l - 1].narrow(1, first, count);
    at::bmm_out(below, d, weights_[l].weight);
  }
}

void DeviceStack::input_gradient(const StackRun& run, int64_t first, int64_t column,
                                 const at::Tensor& into, bool add) const {
  for (int64_t net = 0; net < n_; ++net) {
    const auto d = run.gradient[0].select(0, net).narrow(0, first, into.size(0));
    const auto weight = weights_[0].weight.select(0, net).narrow(1, column, into.size(1));
    into.addmm_(d, weight, /*beta=*/add || net > 0 ? 1 : 0);
  }
}

void DeviceStack::learn(const StackRun& run) const {
  const int64_t rows = run.gradient.back().size(1);
  for (size_t l = 0; l < weights_.size(); ++l) {
    const StackedLayer &weights = gradients_.weights[l], &vectors = gradients_.vectors[l];
    const auto& d = run.gradient[l];
    weights.weight.baddbmm_(d.transpose(1, 2), inputs(run, l, 0, rows));
    if (end_of(l) == DenseEnd::none) weights.bias.baddbmm_(one_.expand({n_, 1, rows}), d);
    else dense_end_fold(run.parts[l], vectors.bias, vectors.gain, vectors.shift);
  }
}

}  // namespace maglev::tdmpc2
