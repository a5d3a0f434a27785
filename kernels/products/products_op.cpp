#include "kernels/products/products_op.h"

#include <algorithm>
#include <memory>
#include <string>

#include <ATen/ATen.h>

#include "base/core/error.h"
#include "base/simd/pairs.h"
#include "base/trace/span.h"
#include "engine/device/kernel.h"
#include "engine/device/launch.h"
#include "kernels/products/products.h"

namespace maglev {
namespace {

void library_product(at::Tensor c, const at::Tensor& a, const at::Tensor& b, bool add) {
  if (c.dim() == 3) add ? at::baddbmm_out(c, c, a, b) : at::bmm_out(c, a, b);
  else add ? at::addmm_out(c, c, a, b) : at::mm_out(c, a, b);
}

// of bf16, with sums and results in f32
void library_product_of_bf16(at::Tensor c, const at::Tensor& a, const at::Tensor& b, bool add) {
  constexpr auto kTo = at::kFloat;
  if (c.dim() == 3) add ? at::baddbmm_out(c, c, a, b, kTo) : at::bmm_out(c, a, b, kTo);
  else add ? at::addmm_out(c, c, a, b, kTo) : at::mm_out(c, a, b, kTo);
}

void product_on_cuda(const at::Tensor& c, const at::Tensor& a, const at::Tensor& b,
                     const ProductPrecision& in, bool add) {
  if (in.precision != Precision::bf16 || !product_pairs_pay(c.size(-2), c.size(-1), a.size(-1)))
    return library_product(c, a, b, add);
  MAGLEV_ASSERT(in.factors, "a device rounds factors somewhere");
  library_product_of_bf16(c, in.factors->left(a), in.factors->right(b), add);
}

void product(const at::Tensor& c, const at::Tensor& a, const at::Tensor& b,
             const ProductPrecision& in, bool add) {
  const at::Device device = device_of("products", c, a, b);
  if (device.is_cuda()) return product_on_cuda(c, a, b, in, add);
  const bool batches = c.dim() == 3;
  MAGLEV_ASSERT(a.size(-1) == b.size(-2) && a.size(-2) == c.size(-2) && b.size(-1) == c.size(-1),
                "[rows, depth], [depth, columns], [rows, columns]");
  MAGLEV_ASSERT((b.stride(-1) == 1 || b.size(-1) == 1) && (c.stride(-1) == 1 || c.size(-1) == 1),
                "rows of b and c lie together");
  const RowProduct rows{.a = a.const_data_ptr<float>(),
                        .a_row = a.stride(-2),
                        .a_column = a.stride(-1),
                        .b = b.const_data_ptr<float>(),
                        .b_row = b.stride(-2),
                        .c = c.data_ptr<float>(),
                        .c_row = c.stride(-2),
                        .rows = c.size(-2),
                        .columns = c.size(-1),
                        .depth = a.size(-1),
                        .add = add,
                        .batch = batches ? c.size(0) : 1,
                        .a_batch = batches ? a.stride(0) : 0,
                        .b_batch = batches ? b.stride(0) : 0,
                        .c_batch = batches ? c.stride(0) : 0};
  const bool pairs =
      in.precision == Precision::bf16 && product_pairs_pay(rows.rows, rows.columns, rows.depth);
  const auto span = trace::kernel(pairs ? "products_bf16" : "products",
                                  2 * rows.batch * rows.rows * rows.depth * rows.columns);
  if (pairs) product_pairs_cpu(rows);
  else product_cpu(rows);
}

struct ProductShape {
  int64_t rows, depth, columns;
  int64_t batch = 0;    ///< 0: without that dimension
  bool turned = false;  ///< a as the transpose of what lies together, as for weights' gradients
  bool add = false;
  Precision precision = Precision::fp32;
};

KernelCase product_case(const ProductShape& s, at::Device device) {
  auto gen = at::make_generator<at::CPUGeneratorImpl>(uint64_t(s.rows * 1000 + s.columns));
  const auto randn = [&](int64_t rows, int64_t columns) {
    if (s.batch == 0) return at::randn({rows, columns}, gen).to(device);
    return at::randn({s.batch, rows, columns}, gen).to(device);
  };
  const auto a = s.turned ? randn(s.depth, s.rows) : randn(s.rows, s.depth);
  const auto b = randn(s.depth, s.columns), before = randn(s.rows, s.columns);
  const auto shown = [turned = s.turned](const at::Tensor& a) {
    return turned ? a.transpose(-1, -2) : a;
  };
  const auto multiply = [precision = s.precision, factors = std::make_shared<RoundedFactors>()](
                            const at::Tensor& c, const at::Tensor& a, const at::Tensor& b,
                            bool add) {
    (add ? add_product : write_product)(c, a, b, {precision, factors.get()});
  };
  const auto run = [=, add = s.add](const at::Tensor& a, const at::Tensor& b) {
    auto c = before.clone();
    multiply(c, shown(a), b, add);
    return c;
  };
  return {
      .name = (s.batch ? std::to_string(s.batch) + " of " : "") + std::to_string(s.rows) + "x" +
              std::to_string(s.depth) + "x" + std::to_string(s.columns) +
              (s.turned ? " turned" : "") + (s.add ? " added" : "") +
              (s.precision == Precision::bf16 ? " bf16" : ""),
      .inputs = {a, b},
      .reference =
          [=, add = s.add](const Tensors& in) {
            const auto product = at::matmul(shown(in[0]), in[1]);
            return Tensors{add ? before.to(product.dtype()) + product : product};
          },
      .fused = [=](const Tensors& in) { return Tensors{run(in[0].detach(), in[1].detach())}; },
      // the two products that the way back of a layer has
      .backward =
          [=](const Tensors& in, const Tensors& grad) {
            const auto dc = grad[0].contiguous(), a = in[0].detach(), b = in[1].detach();
            auto da = at::empty_like(shown(a).contiguous()), db = at::empty_like(b);
            multiply(da, dc, b.transpose(-1, -2).contiguous(), false);
            multiply(db, shown(a).transpose(-1, -2), dc, false);
            return Tensors{shown(da).contiguous(), db};
          },
      .tolerance = s.precision == Precision::bf16
                       ? Tolerance::of_sums(2, kRoundBf16)
                       : Tolerance::of_sums(s.rows + s.depth + s.columns),
      .bytes = 4 * (a.numel() + b.numel() + (s.add ? 2 : 1) * before.numel()),
      .flops = 2 * a.numel() * s.columns,
      .repeat_reference = [=, add = s.add,
                           c = before.clone()]() { library_product(c, shown(a), b, add); },
      .repeat_fused = [=, add = s.add, c = before.clone()]() { multiply(c, shown(a), b, add); }};
}

std::vector<KernelCase> product_cases(at::Device device) {
  std::vector<KernelCase> cases;
  for (const ProductShape& s :
       {ProductShape{.rows = 1, .depth = 1, .columns = 1},
        {.rows = 5, .depth = 130, .columns = 67, .add = true},
        {.rows = 70, .depth = 131, .columns = 1},
        {.rows = 49, .depth = 257, .columns = 13, .turned = true, .add = true},
        // of Dreamer: a step of the loop and of a dream, the blocks of the recurrent state, a head,
        // the gradient of its weights
        {.rows = 8, .depth = 512, .columns = 64},
        {.rows = 512, .depth = 128, .columns = 512, .add = true},
        {.rows = 8, .depth = 64, .columns = 192, .batch = 8},
        {.rows = 512, .depth = 64, .columns = 255},
        {.rows = 64, .depth = 2048, .columns = 640, .turned = true, .add = true}})
    cases.push_back(product_case(s, device));
  // in bf16: tails of every kind, and those of Dreamer
  if (products_in_bf16(device) && std::ranges::count(precisions_of(device), Precision::bf16))
    for (ProductShape s :
         {ProductShape{.rows = 49, .depth = 17, .columns = 16},
          {.rows = 70, .depth = 531, .columns = 67, .add = true},
          {.rows = 530, .depth = 271, .columns = 33, .turned = true, .add = true},
          {.rows = 512, .depth = 640, .columns = 64},
          {.rows = 512, .depth = 64, .columns = 192, .batch = 8},
          {.rows = 512, .depth = 64, .columns = 255},
          {.rows = 512, .depth = 128, .columns = 512, .add = true},
          {.rows = 64, .depth = 2048, .columns = 640, .turned = true, .add = true},
          {.rows = 255, .depth = 7680, .columns = 64, .turned = true, .add = true}}) {
      s.precision = Precision::bf16;
      cases.push_back(product_case(s, device));
    }
  return cases;
}

}  // namespace

bool products_in_bf16(at::Device device) {
  return device.is_cpu() ? pair_products_available() : device.is_cuda();
}

void write_product(const at::Tensor& c, const at::Tensor& a, const at::Tensor& b,
                   const ProductPrecision& in) {
  product(c, a, b, in, /*add=*/false);
}

void add_product(const at::Tensor& c, const at::Tensor& a, const at::Tensor& b,
                 const ProductPrecision& in) {
  product(c, a, b, in, /*add=*/true);
}

at::Tensor aligned_rows(const at::Tensor& like) {
  if (like.device().is_cuda()) return like;
  constexpr int64_t kFloats = 16;
  auto sizes = like.sizes().vec();
  const int64_t columns = sizes.back();
  sizes.back() = (columns + kFloats - 1) / kFloats * kFloats;
  return at::zeros(sizes, like.options()).narrow(-1, 0, columns);
}

namespace kernels::products {
KernelEntry entry() {
  return {"products", "products of matrices whose rows lie together; on CUDA ATen's",
          product_cases};
}
}  // namespace kernels::products

}  // namespace maglev
