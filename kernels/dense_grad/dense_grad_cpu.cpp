#include "kernels/dense_grad/dense_grad.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/dense_grad/dense_grad_cpu.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "base/simd/order-inl.h"
#include "base/simd/product-inl.h"
#include "base/simd/sum-inl.h"
#include "base/trace/span.h"
#include "kernels/dense/end-inl.h"
#include "kernels/dense/product-inl.h"

HWY_BEFORE_NAMESPACE();
namespace maglev {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// derivative of x tanh(softplus(x)): with w = e^x and n = w (w + 2), tanh(softplus(x)) is
// n / (n + 2), its derivative 4 w (w + 1) / (n + 2)^2
template <class D, class V = hn::Vec<D>>
HWY_INLINE V mish_slope(D d, V x) {
  const V w = exp_in_range(d, larger_of(smaller_of(x, hn::Set(d, 20.f)), hn::Set(d, -87.f)));
  const V two = hn::Set(d, 2.f), n = w * (w + two), inverse = hn::Set(d, 1.f) / (n + two);
  const V rise = hn::Set(d, 4.f) * w * (w + hn::Set(d, 1.f)) * inverse * inverse;
  return hn::MulAdd(x, rise, n * inverse);
}

// sums over a panel's rows are kept in this many parts, row r in part r % kSumParts
constexpr int kSumParts = 16;

// the gradient arriving at gain and shift of feature f takes the place of dy: u = gain xhat + shift
template <int kVectors, class D>
HWY_INLINE void affine_grad(D d, const DenseEndGrad& a, int64_t f, int64_t c,
                            const hn::Vec<D> (&du)[kVectors], hn::Vec<D> (&mean)[kVectors],
                            hn::Vec<D> (&mean_xhat)[kVectors]) {
  using V = hn::Vec<D>;
  const int64_t lanes = int64_t(hn::Lanes(d));
  const V gain = hn::Set(d, a.gain[f]);
  PartedSum<float, kSumParts> d_gain, d_shift;
#pragma GCC unroll 8
  for (int v = 0; v < kVectors; ++v) {
    const int64_t at = f * a.stride + c + v * lanes;
    const V xhat = hn::Load(d, a.xhat + at), grad = du[v] * gain;
    d_gain.of(v) = hn::MulAdd(du[v], xhat, d_gain.of(v));
    d_shift.of(v) = d_shift.of(v) + du[v];
    mean[v] = mean[v] + grad;
    mean_xhat[v] = hn::MulAdd(grad, xhat, mean_xhat[v]);
    hn::Store(grad, d, a.dy + at);
  }
  if (!a.d_gain) return;
  a.d_gain[f] += d_gain.fold();
  a.d_shift[f] += d_shift.fold();
}

template <int kVectors, class D>
HWY_NOINLINE void end_grad_strip(D d, const DenseEndGrad& a, int64_t c) {
  using V = hn::Vec<D>;
  const int64_t lanes = int64_t(hn::Lanes(d));
  V mean[kVectors], mean_xhat[kVectors];
  for (int v = 0; v < kVectors; ++v) mean[v] = mean_xhat[v] = hn::Zero(d);
  if (a.end == DenseEnd::mish) {
    for (int64_t f = 0; f < a.out; ++f) {
      V du[kVectors];
#pragma GCC unroll 8
      for (int v = 0; v < kVectors; ++v) {
        const int64_t at = f * a.stride + c + v * lanes;
        const V u =
            hn::MulAdd(hn::Load(d, a.xhat + at), hn::Set(d, a.gain[f]), hn::Set(d, a.shift[f]));
        du[v] = hn::Load(d, a.dy + at) * mish_slope(d, u);
      }
      affine_grad<kVectors>(d, a, f, c, du, mean, mean_xhat);
    }
  } else {
    for (int64_t first = 0; first < a.out; first += kSimNormGroup) {
      V common[kVectors];
#pragma GCC unroll 8
      for (int v = 0; v < kVectors; ++v) {
        common[v] = hn::Zero(d);
        for (int64_t f = first; f < first + kSimNormGroup; ++f) {
          const int64_t at = f * a.stride + c + v * lanes;
          common[v] = hn::MulAdd(hn::Load(d, a.y + at), hn::Load(d, a.dy + at), common[v]);
        }
      }
      for (int64_t f = first; f < first + kSimNormGroup; ++f) {
        V du[kVectors];
#pragma GCC unroll 8
        for (int v = 0; v < kVectors; ++v) {
          const int64_t at = f * a.stride + c + v * lanes;
          du[v] = hn::Load(d, a.y + at) * (hn::Load(d, a.dy + at) - common[v]);
        }
        affine_grad<kVectors>(d, a, f, c, du, mean, mean_xhat);
      }
    }
  }
  const V share = hn::Set(d, 1.f / float(a.out));
  for (int v = 0; v < kVectors; ++v) mean[v] = mean[v] * share, mean_xhat[v] = mean_xhat[v] * share;
  for (int64_t f = 0; f < a.out; ++f)
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) {
      const int64_t at = f * a.stride + c + v * lanes;
      const V centred = hn::Load(d, a.dy + at) - mean[v];
      V dz = hn::NegMulAdd(hn::Load(d, a.xhat + at), mean_xhat[v], centred) *
             hn::Load(d, a.rstd + c + v * lanes);
      if (a.factor) dz = dz * hn::Load(d, a.factor + at);
      hn::Store(dz, d, a.dy + at);
    }
}

// strips of as many rows whatever a vector's width: each adds its sums once
void end_grad(const DenseEndGrad& a) {
  const hn::CappedTag<float, 16> d;
  constexpr int kOf16 = 16 / int(hn::MaxLanes(hn::CappedTag<float, 16>()));
  int64_t c = 0;
  for (; c + 64 <= a.stride; c += 64) end_grad_strip<4 * kOf16>(d, a, c);
  for (; c + 32 <= a.stride; c += 32) end_grad_strip<2 * kOf16>(d, a, c);
  for (; c < a.stride; c += 16) end_grad_strip<kOf16>(d, a, c);
}

template <class End>
void input_grad_to(const DenseInputGrad& a, const End& end) {
  if (a.transpose && a.first == 0) {
    const DenseSegment segment{a.dz, 0, a.out};
    return packed_product({.weight = a.transpose,
                           .in = a.out,
                           .out = a.features,
                           .segments = {&segment, 1},
                           .stride = a.stride,
                           .rows = a.stride},
                          end);
  }
  const Product product{.a = a.weight + a.first,
                        .a_row = 1,
                        .a_column = a.in,
                        .b = a.dz,
                        .b_row = a.stride,
                        .rows = a.features,
                        .columns = a.stride,
                        .depth = a.out};
  multiply(product, end);
}

void input_grad(const DenseInputGrad& a) {
  if (a.add) input_grad_to(a, WritePanel<true>{a.dx, a.stride});
  else input_grad_to(a, WritePanel<false>{a.dx, a.stride});
}

void columns(const DenseColumns& a) {
  for (int64_t f = 0; f < a.in; f += kColumnBlock) {
    const int64_t features = std::min(kColumnBlock, a.in - f);
    transpose(a.x + f * a.stride, features, a.stride, a.stride, a.columns + f * a.stride,
              (features + 15) / 16 * 16);
  }
}

// panels whose inputs of one block stay in a core's second cache beside the gradients: 16 KiB each
constexpr int64_t kPanelsAtOnce = 24;

void weight_grad(const DenseWeightGrad& a) {
  // the first panels write, later ones add
  for (int64_t panel = 0; panel < a.panels; panel += kPanelsAtOnce)
    for (int64_t f = 0; f < a.in; f += kColumnBlock) {
      const int64_t features = std::min(kColumnBlock, a.in - f);
      const Product product{.a = a.dz + panel * a.dz_step + a.first * a.stride,
                            .a_row = a.stride,
                            .a_column = 1,
                            .b = a.columns + panel * a.columns_step + f * a.stride,
                            .b_row = (features + 15) / 16 * 16,
                            .rows = a.count,
                            .columns = features,
                            .depth = a.stride,
                            .pieces = std::min(kPanelsAtOnce, a.panels - panel),
                            .a_piece = a.dz_step,
                            .b_piece = a.columns_step};
      float* grad = a.d_weight + a.first * a.in + f;
      if (panel == 0) multiply(product, WriteRows<false>{grad, a.in, features});
      else multiply(product, WriteRows<true>{grad, a.in, features});
    }
  for (int64_t o = a.first; o < a.first + a.count; ++o) {
    PartedSum<float, kSumParts> sum;
    for (int64_t panel = 0; panel < a.panels; ++panel)
      sum.add(a.dz + panel * a.dz_step + o * a.stride, a.stride);
    a.d_bias[o] = sum.fold();
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace maglev
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace maglev {

HWY_EXPORT(end_grad);
HWY_EXPORT(input_grad);
HWY_EXPORT(columns);
HWY_EXPORT(weight_grad);

void dense_end_grad_cpu(const DenseEndGrad& args) {
  const auto span = trace::kernel("dense_end_grad");
  HWY_DYNAMIC_DISPATCH(end_grad)(args);
}
void dense_input_grad_cpu(const DenseInputGrad& args) {
  const auto span = trace::kernel("dense_input_grad", 2 * args.features * args.out * args.stride);
  HWY_DYNAMIC_DISPATCH(input_grad)(args);
}
void dense_columns_cpu(const DenseColumns& args) {
  const auto span = trace::kernel("dense_columns");
  HWY_DYNAMIC_DISPATCH(columns)(args);
}
void dense_weight_grad_cpu(const DenseWeightGrad& args) {
  const auto span =
      trace::kernel("dense_weight_grad", 2 * args.in * args.count * args.panels * args.stride);
  HWY_DYNAMIC_DISPATCH(weight_grad)(args);
}

}  // namespace maglev
#endif
