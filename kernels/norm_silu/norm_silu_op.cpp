#include "kernels/norm_silu/norm_silu_op.h"

#include <string>

#include <ATen/ATen.h>

#include "base/core/error.h"
#include "engine/device/kernel.h"
#include "engine/device/launch.h"
#include "kernels/norm_silu/norm_silu.h"

namespace maglev {
namespace {

struct NormSiluSizes {
  int64_t rows, blocks, width;
};

// [rows, n] seen as [blocks, rows, width], or that itself
template <class T>
BlockRows<T> block_rows_of(const at::Tensor& t, const NormSiluSizes& s) {
  MAGLEV_ASSERT(t.scalar_type() == at::kFloat && t.stride(-1) == 1,
                "rows of f32 that lie together");
  MAGLEV_ASSERT(t.numel() == s.rows * s.blocks * s.width, "one size for all");
  const int64_t block_stride = t.dim() == 3 ? t.stride(0) : s.width;
  return {t.data_ptr<float>(), t.stride(-2), block_stride};
}

NormSiluSizes norm_silu_sizes(const at::Tensor& rows, const at::Tensor& other) {
  const int64_t blocks = rows.dim() == 3 ? rows.size(0) : other.dim() == 3 ? other.size(0) : 1;
  const int64_t count = rows.numel() / rows.size(-2);
  return {rows.size(-2), blocks, rows.dim() == 3 ? rows.size(2) : count / blocks};
}

// as the recurrent model has it: products whose blocks come apart
KernelCase norm_silu_case(int64_t rows, int64_t blocks, int64_t width, at::Device device) {
  constexpr double kEps = 1e-4;
  auto gen = at::make_generator<at::CPUGeneratorImpl>(uint64_t(rows * 100 + width));
  const int64_t n = blocks * width;
  const auto randn = [&](at::IntArrayRef sizes) { return at::randn(sizes, gen).to(device); };
  const auto x = randn({rows, n}), bias = 0.5 * randn({n}), scale = 1 + 0.3 * randn({n});
  const auto addend = blocks > 1 ? randn({blocks, rows, width}) : at::Tensor();
  const auto run = [=](const Tensors& in, at::Tensor& pre, at::Tensor& inverse) {
    auto out = blocks > 1 ? at::empty_like(addend) : at::empty_like(x);
    pre = in[0].detach().clone(), inverse = at::empty({rows}, x.options());
    norm_silu_(pre, addend, in[1], in[2], kEps, out, inverse);
    return out;
  };
  // [blocks, rows, width] as [rows, n]
  const auto side_by_side = [=](const at::Tensor& t) {
    return t.dim() == 3 ? t.transpose(0, 1).reshape({rows, n}) : t;
  };
  return {.name = "rows=" + std::to_string(rows) + " n=" + std::to_string(blocks) + "x" +
                  std::to_string(width),
          .inputs = {x, bias, scale},
          .reference =
              [=](const Tensors& in) {
                auto pre = in[0] + in[1];
                if (addend.defined()) pre = pre + side_by_side(addend).to(pre.dtype());
                return Tensors{norm_silu_reference(pre, in[2], kEps)};
              },
          .fused =
              [=](const Tensors& in) {
                at::Tensor pre, inverse;
                return Tensors{side_by_side(run(in, pre, inverse))};
              },
          .backward =
              [=](const Tensors& in, const Tensors& grad) {
                at::Tensor pre, inverse;
                run(in, pre, inverse);
                auto d_pre = at::empty_like(pre), d_scale = at::empty_like(pre);
                // blocks come back as they went
                const auto d_out =
                    blocks > 1 ? grad[0].reshape({rows, blocks, width}).transpose(0, 1).contiguous()
                               : grad[0].contiguous();
                norm_silu_back({pre, inverse, in[2], d_out}, d_pre, d_scale);
                return Tensors{d_pre, d_pre.sum(0), d_scale.sum(0)};
              },
          .tolerance = Tolerance::of_sums(2 * n + rows + 20),
          .bytes = rows * n * (blocks > 1 ? 16 : 12),
          .flops = rows * n * 24,
          .repeat_fused =
              [=, pre = x.clone(), out = at::empty_like(blocks > 1 ? addend : x),
               inverse = at::empty({rows}, x.options())]() mutable {
                norm_silu_(pre, addend, bias, scale, kEps, out, inverse);
              }};
}

std::vector<KernelCase> norm_silu_cases(at::Device device) {
  // a single element is its sign whatever it is: nothing would be left of its gradient
  return {norm_silu_case(1, 1, 3, device), norm_silu_case(5, 1, 7, device),
          norm_silu_case(3, 4, 5, device), norm_silu_case(8, 8, 64, device),
          norm_silu_case(64, 1, 64, device)};
}

}  // namespace

void norm_silu_(at::Tensor& x, const at::Tensor& addend, const at::Tensor& bias,
                const at::Tensor& scale, double eps, at::Tensor& out, at::Tensor& inverse) {
  const at::Device device = device_of("norm_silu", x, addend, bias, scale, out, inverse);
  const NormSiluSizes s = norm_silu_sizes(x, out);
  NormSiluArgs args{.rows = s.rows,
                    .blocks = s.blocks,
                    .width = s.width,
                    .x = block_rows_of<float>(x, s),
                    .addend = {},
                    .bias = bias.const_data_ptr<float>(),
                    .scale = scale.const_data_ptr<float>(),
                    .eps = float(eps),
                    .out = block_rows_of<float>(out, s),
                    .inverse = inverse.data_ptr<float>()};
  if (addend.defined()) args.addend = block_rows_of<const float>(addend, s);
  launch<norm_silu_cuda>("norm_silu", device, norm_silu_cpu, args);
}

void norm_silu_back(const NormSiluGrad& a, at::Tensor& d_pre, at::Tensor& d_scale) {
  const at::Device device =
      device_of("norm_silu", a.pre, a.inverse, a.scale, a.d_out, d_pre, d_scale);
  const NormSiluSizes s = norm_silu_sizes(a.d_out, a.pre);
  const NormSiluBack args{.rows = s.rows,
                          .blocks = s.blocks,
                          .width = s.width,
                          .pre = block_rows_of<const float>(a.pre, s),
                          .inverse = a.inverse.const_data_ptr<float>(),
                          .scale = a.scale.const_data_ptr<float>(),
                          .d_out = block_rows_of<const float>(a.d_out, s),
                          .d_pre = block_rows_of<float>(d_pre, s),
                          .d_scale = block_rows_of<float>(d_scale, s)};
  launch<norm_silu_back_cuda>("norm_silu", device, norm_silu_back_cpu, args);
}

at::Tensor norm_silu_reference(const at::Tensor& pre, const at::Tensor& scale, double eps) {
  return at::silu(at::rms_norm(pre, {pre.size(-1)}, scale, eps));
}

namespace kernels::norm_silu {
KernelEntry entry() {
  return {"norm_silu",
          "SiLU behind a root-mean-square norm of a product and its bias, with gradients",
          norm_silu_cases};
}
}  // namespace kernels::norm_silu

}  // namespace maglev
