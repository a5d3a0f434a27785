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

struct NormSiluShape {
  int64_t rows, blocks, width, groups = 1;
};

// as the recurrent model has it: what goes on may be cut into blocks, inputs take turns
KernelCase norm_silu_case(const NormSiluShape& s, at::Device device) {
  constexpr double kEps = 1e-4;
  const auto [rows, blocks, width, groups] = s;
  auto gen = at::make_generator<at::CPUGeneratorImpl>(uint64_t(rows * 100 + width));
  const int64_t n = blocks * width;
  const auto randn = [&](at::IntArrayRef sizes) { return at::randn(sizes, gen).to(device); };
  const auto x = randn({rows, n}), bias = 0.5 * randn({groups, n});
  const auto scale = 1 + 0.3 * randn({groups, n});
  // rows [rows, n] as [blocks, rows, width] and back
  const auto cut = [rows = rows, blocks = blocks, width = width](const at::Tensor& t) {
    if (blocks == 1) return t.contiguous();
    return t.reshape({rows, blocks, width}).transpose(0, 1).contiguous();
  };
  const auto joined = [rows = rows, n](const at::Tensor& t) {
    return t.dim() == 3 ? t.transpose(0, 1).reshape({rows, n}) : t;
  };
  const auto run = [=](const Tensors& in, at::Tensor& pre, at::Tensor& inverse) {
    auto out = at::empty_like(cut(x));
    pre = in[0].detach().clone(), inverse = at::empty({x.size(0)}, x.options());
    norm_silu_(pre, in[1], in[2], kEps, out, inverse);
    return out;
  };
  // rows of each group by themselves
  const auto by_group = [rows = rows, groups = groups, n](const at::Tensor& t) {
    return t.view({rows / groups, groups, n});
  };
  return {.name = "rows=" + std::to_string(rows) + " n=" + std::to_string(blocks) + "x" +
                  std::to_string(width) + (groups > 1 ? " groups=" + std::to_string(groups) : ""),
          .inputs = {x, bias, scale},
          .reference =
              [=](const Tensors& in) {
                const auto pre = by_group(in[0]) + in[1];
                Tensors of_groups;
                for (int64_t k = 0; k < in[1].size(0); ++k)
                  of_groups.push_back(norm_silu_reference(pre.select(1, k), in[2][k], kEps));
                return Tensors{at::stack(of_groups, 1).view(in[0].sizes())};
              },
          .fused =
              [=](const Tensors& in) {
                at::Tensor pre, inverse;
                return Tensors{joined(run(in, pre, inverse))};
              },
          .backward =
              [=](const Tensors& in, const Tensors& grad) {
                at::Tensor pre, inverse;
                run(in, pre, inverse);
                auto d_pre = at::empty_like(pre), d_scale = at::empty_like(pre);
                norm_silu_back({pre, inverse, in[2], cut(grad[0])}, d_pre, d_scale);
                return Tensors{d_pre, by_group(d_pre).sum(0), by_group(d_scale).sum(0)};
              },
          .tolerance = Tolerance::of_sums(2 * n + rows + 20),
          .bytes = rows * n * 12,
          .flops = rows * n * 24,
          .repeat_fused =
              [=, pre = x.clone(), out = at::empty_like(cut(x)),
               inverse = at::empty({rows}, x.options())]() mutable {
                norm_silu_(pre, bias, scale, kEps, out, inverse);
              }};
}

std::vector<KernelCase> norm_silu_cases(at::Device device) {
  // a single element is its sign whatever it is: nothing would be left of its gradient
  std::vector<KernelCase> cases;
  for (const NormSiluShape& s : {NormSiluShape{1, 1, 3},
                                 {5, 1, 7},
                                 {3, 4, 5},
                                 {8, 8, 64},
                                 {64, 1, 64},
                                 {12, 1, 9, 3},
                                 {1024, 1, 64, 2}})
    cases.push_back(norm_silu_case(s, device));
  return cases;
}

}  // namespace

void norm_silu_(at::Tensor& x, const at::Tensor& bias, const at::Tensor& scale, double eps,
                at::Tensor& out, at::Tensor& inverse) {
  const at::Device device = device_of("norm_silu", x, bias, scale, out, inverse);
  const NormSiluSizes s = norm_silu_sizes(x, out);
  MAGLEV_ASSERT(bias.numel() == scale.numel() && bias.is_contiguous() && scale.is_contiguous(),
                "a bias and a scale for each group");
  const NormSiluArgs args{.rows = s.rows,
                          .blocks = s.blocks,
                          .width = s.width,
                          .x = block_rows_of<float>(x, s),
                          .groups = scale.numel() / (s.blocks * s.width),
                          .bias = bias.const_data_ptr<float>(),
                          .scale = scale.const_data_ptr<float>(),
                          .eps = float(eps),
                          .out = block_rows_of<float>(out, s),
                          .inverse = inverse.data_ptr<float>()};
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
                          .groups = a.scale.numel() / (s.blocks * s.width),
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
