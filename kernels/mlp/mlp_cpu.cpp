#include "kernels/mlp/mlp.h"

#include <algorithm>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/mlp/mlp_cpu.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "base/simd/order-inl.h"
#include "base/simd/product-inl.h"
#include "base/simd/sum-inl.h"
#include "base/simd/tanh-inl.h"
#include "base/trace/span.h"
#include "kernels/mlp/mlp_pairs.h"

HWY_BEFORE_NAMESPACE();
namespace maglev {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// sums over a panel's rows are kept in this many parts, row r in part r % kSumParts
constexpr int kSumParts = 16;

// layers up to which a weight gradient is taken as sums over rows: with few inputs the columns of
// the product would leave most of a vector empty, with few outputs it would not pay for turning the
// inputs
constexpr int64_t kFewInputs = 8, kFewOutputs = 4;

// the gradient of a layer's inputs, times the slope of the activation that gave them
template <Activation kActivation>
struct WriteInputGrad {
  const float* x;  // what the layer below gave
  const float* slope;
  float* dx;
  int64_t stride;

  template <class D>
  HWY_INLINE hn::Vec<D> begin(D d, int64_t) const {
    return hn::Zero(d);
  }
  template <class D>
  HWY_INLINE void end(D d, int64_t o, int64_t c, hn::Vec<D> sum) const {
    const int64_t at = o * stride + c;
    // slopes of tanh and relu follow from what they gave, silu's was kept
    if constexpr (kActivation == Activation::tanh) {
      const auto y = hn::Load(d, x + at);
      sum = sum * hn::NegMulAdd(y, y, hn::Set(d, 1.f));
    } else if constexpr (kActivation == Activation::relu) {
      sum = hn::IfThenElseZero(hn::Load(d, x + at) > hn::Zero(d), sum);
    } else if constexpr (kActivation == Activation::silu) {
      sum = sum * hn::Load(d, slope + at);
    }
    hn::Store(sum, d, dx + at);
  }
};

// a layer's outputs, their activation taken while its sum lies in a register
template <Activation kActivation>
struct WriteActivated : WriteSums {
  template <class D>
  HWY_INLINE void end(D d, int64_t o, int64_t c, hn::Vec<D> sum) const {
    if constexpr (kActivation == Activation::tanh) sum = tanh_vector(d, sum);
    // Max gives its second operand where one is NaN: a NaN stays one
    if constexpr (kActivation == Activation::relu) sum = larger_of(hn::Zero(d), sum);
    hn::Store(sum, d, y + o * stride + c);
  }
};

// silu(z) = z sigmoid(z), sigmoid(z) = (1 + tanh(z / 2)) / 2, and its slope where it is asked for
template <class D>
void silu(D d, float* y, float* slope, int64_t out, int64_t stride, int64_t rows) {
  const int64_t lanes = int64_t(hn::Lanes(d));
  const auto one = hn::Set(d, 1.f), half = hn::Set(d, 0.5f);
  for (int64_t o = 0; o < out; ++o)
    for (int64_t c = 0; c < rows; c += lanes) {
      float* at = y + o * stride + c;
      const auto z = hn::Load(d, at), share = half * (one + tanh_vector(d, half * z));
      hn::Store(z * share, d, at);
      if (slope) hn::Store(share * hn::MulAdd(z, one - share, one), d, slope + o * stride + c);
    }
}

// the activation of sums that lie in memory
template <class D>
void activate(D d, Activation activation, float* y, float* slope, int64_t out, int64_t stride,
              int64_t rows) {
  if (activation == Activation::silu) return silu(d, y, slope, out, stride, rows);
  const auto pass = [&](const auto& end) HWY_ATTR {
    for (int64_t o = 0; o < out; ++o)
      for (int64_t c = 0; c < rows; c += int64_t(hn::Lanes(d)))
        end.end(d, o, c, hn::Load(d, y + o * stride + c));
  };
  const WriteSums sums{nullptr, 0, y, stride};
  if (activation == Activation::tanh) pass(WriteActivated<Activation::tanh>{sums});
  if (activation == Activation::relu) pass(WriteActivated<Activation::relu>{sums});
}

void forward(const MlpForward& f) {
  const hn::ScalableTag<float> d;
  const hn::CappedTag<float, 8> narrow;
  const float* x = f.x;
  for (size_t l = 0; l < f.layers.size(); ++l) {
    const DenseLayer& layer = f.layers[l];
    float* y = f.y[l];
    float* slope = f.slope ? f.slope[l] : nullptr;
    if (layer.pairs.forward) {
      multiply_forward(layer, x, f.stride, f.words[l], y);
      activate(d, layer.activation, y, slope, layer.out, f.stride, f.stride);
      x = y;
      continue;
    }
    // W x + b, the inputs as they lie
    const Product product{.a = layer.weight,
                          .a_row = layer.in,
                          .a_column = 1,
                          .b = x,
                          .b_row = f.stride,
                          .rows = layer.out,
                          .columns = f.rows,
                          .depth = layer.in};
    const WriteSums sums{layer.bias, 1, y, f.stride};
    switch (layer.activation) {
      case Activation::tanh:
        multiply(product, WriteActivated<Activation::tanh>{sums});
        break;
      case Activation::relu:
        multiply(product, WriteActivated<Activation::relu>{sums});
        break;
      case Activation::none:
        multiply(product, sums);
        break;
      case Activation::silu: {
        multiply(product, sums);
        // few rows take narrower vectors, as their product does
        if (f.rows <= 8) silu(narrow, y, slope, layer.out, f.stride, f.rows);
        else silu(d, y, slope, layer.out, f.stride, f.rows);
      }
    }
    x = y;
  }
}

// sums over rows of kCount features of dz, or of their products with the features of x, to be
// added side by side: folded together
template <int kCount>
HWY_INLINE void add_sums(const float* dz, int64_t stride, float* to) {
  PartedSum<float, kSumParts> sum[kCount];
#pragma GCC unroll 4
  for (int i = 0; i < kCount; ++i) sum[i].add(dz + i * stride, stride);
  add_folded(sum, to);
}
template <int kCount>
HWY_INLINE void add_product_sums(const float* dz, const float* x, int64_t stride, float* to) {
  PartedSum<float, kSumParts> sum[kCount];
#pragma GCC unroll 4
  for (int i = 0; i < kCount; ++i) sum[i].add_products(dz, x + i * stride, stride);
  add_folded(sum, to);
}

void add_bias_grad(const float* dz, int64_t out, int64_t stride, float* grad) {
  int64_t o = 0;
  for (; o + 4 <= out; o += 4) add_sums<4>(dz + o * stride, stride, grad + o);
  for (; o < out; ++o) add_sums<1>(dz + o * stride, stride, grad + o);
}

void add_narrow_weight_grad(const float* dz, const float* x, int64_t out, int64_t in,
                            int64_t stride, float* grad) {
  for (int64_t o = 0; o < out; ++o, dz += stride, grad += in) {
    int64_t k = 0;
    for (; k + 4 <= in; k += 4) add_product_sums<4>(dz, x + k * stride, stride, grad + k);
    switch (in - k) {
      case 3:
        add_product_sums<3>(dz, x + k * stride, stride, grad + k);
        break;
      case 2:
        add_product_sums<2>(dz, x + k * stride, stride, grad + k);
        break;
      case 1:
        add_product_sums<1>(dz, x + k * stride, stride, grad + k);
    }
  }
}

template <class End>
void write_input_grad(const DenseLayer& layer, const float* dz, int64_t features, int64_t stride,
                      const End& end) {
  // W^T dz: the same product, the weight read by columns
  multiply({.a = layer.weight,
            .a_row = 1,
            .a_column = layer.in,
            .b = dz,
            .b_row = stride,
            .rows = features,
            .columns = stride,
            .depth = layer.out},
           end);
}

// dy *= d y / d z
void multiply_slope(Activation activation, const float* y, const float* slope, float* dy,
                    int64_t count) {
  const hn::ScalableTag<float> d;
  const auto pass = [&](const auto& end) HWY_ATTR {
    for (int64_t i = 0; i < count; i += int64_t(hn::Lanes(d)))
      end.end(d, 0, i, hn::Load(d, dy + i));
  };
  if (activation == Activation::tanh) pass(WriteInputGrad<Activation::tanh>{y, slope, dy, 0});
  if (activation == Activation::relu) pass(WriteInputGrad<Activation::relu>{y, slope, dy, 0});
  if (activation == Activation::silu) pass(WriteInputGrad<Activation::silu>{y, slope, dy, 0});
}

// the gradient of the inputs of a layer with pairs, from `dz` in pairs, times the slope below it
void pair_input_grad(const MlpBackward& b, size_t l, const PairGrad& dz) {
  const DenseLayer& layer = b.layers[l];
  if (l == 0) {
    if (b.dx) multiply_back(layer, dz, b.dx_features, b.stride, b.dx);
    return;
  }
  multiply_back(layer, dz, layer.in, b.stride, b.dy[l - 1]);
  multiply_slope(b.layers[l - 1].activation, b.y[l - 1], b.slope ? b.slope[l - 1] : nullptr,
                 b.dy[l - 1], layer.in * b.stride);
}

void backward(const MlpBackward& b) {
  const size_t last = b.layers.size() - 1;
  // the last layer's slope; any other comes with the gradient of the layer above
  multiply_slope(b.layers[last].activation, b.y[last], b.slope ? b.slope[last] : nullptr,
                 b.dy[last], b.layers[last].out * b.stride);
  for (size_t l = b.layers.size(); l-- > 0;) {
    const DenseLayer& layer = b.layers[l];
    const float* x = l ? b.y[l - 1] : b.x;
    const float* dz = b.dy[l];
    if (layer.pairs.forward) {
      const PairGrad pairs =
          add_pair_grads(layer, b.words[l], dz, b.stride, b.pair_scratch, b.grad[l]);
      pair_input_grad(b, l, pairs);
      continue;
    }
    if (layer.in <= kFewInputs || layer.out <= kFewOutputs) {
      add_narrow_weight_grad(dz, x, layer.out, layer.in, b.stride, b.grad[l].weight);
    } else {
      // inputs turned, so that a row of the product is a row of the weight's gradient
      const int64_t width = panel_stride(layer.in), depth = (b.rows + 3) / 4 * 4;
      transpose(x, layer.in, b.stride, depth, b.scratch, width);
      multiply({.a = dz,
                .a_row = b.stride,
                .a_column = 1,
                .b = b.scratch,
                .b_row = width,
                .rows = layer.out,
                .columns = layer.in,
                .depth = b.rows},
               WriteRows<true>{b.grad[l].weight, layer.in, layer.in});
    }
    add_bias_grad(dz, layer.out, b.stride, b.grad[l].bias);
    // into the layer below; of the network's inputs as many as are asked for
    if (l == 0) {
      if (b.dx)
        write_input_grad(layer, dz, b.dx_features, b.stride,
                         WriteInputGrad<Activation::none>{x, nullptr, b.dx, b.stride});
      continue;
    }
    const float* slope = b.slope ? b.slope[l - 1] : nullptr;
    float* dx = b.dy[l - 1];
    switch (b.layers[l - 1].activation) {
      case Activation::tanh:
        write_input_grad(layer, dz, layer.in, b.stride,
                         WriteInputGrad<Activation::tanh>{x, slope, dx, b.stride});
        break;
      case Activation::relu:
        write_input_grad(layer, dz, layer.in, b.stride,
                         WriteInputGrad<Activation::relu>{x, slope, dx, b.stride});
        break;
      case Activation::silu:
        write_input_grad(layer, dz, layer.in, b.stride,
                         WriteInputGrad<Activation::silu>{x, slope, dx, b.stride});
        break;
      case Activation::none:
        write_input_grad(layer, dz, layer.in, b.stride,
                         WriteInputGrad<Activation::none>{x, slope, dx, b.stride});
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace maglev
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace maglev {

HWY_EXPORT(forward);
HWY_EXPORT(backward);

namespace {

// of the products forward, two a weight and row; back there are twice as many
int64_t operations(std::span<const DenseLayer> layers, int64_t rows) {
  int64_t weights = 0;
  for (const DenseLayer& layer : layers) weights += layer.in * layer.out;
  return 2 * weights * rows;
}

}  // namespace

void mlp_forward_cpu(const MlpForward& args) {
  const auto span = trace::kernel("mlp_forward", operations(args.layers, args.rows));
  HWY_DYNAMIC_DISPATCH(forward)(args);
}

void mlp_backward_cpu(const MlpBackward& args) {
  const auto span = trace::kernel("mlp_backward", 2 * operations(args.layers, args.rows));
  HWY_DYNAMIC_DISPATCH(backward)(args);
}

}  // namespace maglev
#endif
