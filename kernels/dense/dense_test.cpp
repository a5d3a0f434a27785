#include "kernels/dense/dense.h"

#include <vector>

#include <ATen/ATen.h>

#include <gtest/gtest.h>

#include "base/core/error.h"
#include "kernels/dense/dense_bf16.h"
#include "kernels/dense/dense_op.h"
#include "tests/close.h"

namespace maglev {
namespace {

// a layer of 24 inputs and 40 outputs in memory of its own
struct Layer {
  int64_t in = 24, out = 40;
  at::Tensor weight = at::randn({out, in}), bias = at::randn({out}), gain = at::randn({out}),
             shift = at::randn({out}), packed = at::empty({packed_dense_size(out, in)});

  Layer() {
    pack_dense({.weight = weight.data_ptr<float>(),
                .out = out,
                .in = in,
                .out_step = in,
                .in_step = 1,
                .packed = packed.data_ptr<float>()});
  }
  // y [out, stride] of x [in, stride]
  at::Tensor forward(const at::Tensor& x, int64_t rows, DenseEnd end, float fill = 0) const {
    const DenseSegment all{x.data_ptr<float>(), 0, in};
    auto y = at::full({out, x.size(1)}, fill);
    dense_cpu({.weight = packed.data_ptr<float>(),
               .in = in,
               .out = out,
               .start = bias.data_ptr<float>(),
               .segments = {&all, 1},
               .end = end,
               .gain = gain.data_ptr<float>(),
               .shift = shift.data_ptr<float>(),
               .y = y.data_ptr<float>(),
               .stride = x.size(1),
               .rows = rows});
    return y;
  }
};

TEST(Dense, a_row_does_not_depend_on_its_place_nor_on_its_neighbours) {
  const Layer layer;
  auto x = at::randn({24, 64});
  for (auto end : {DenseEnd::none, DenseEnd::mish, DenseEnd::simnorm}) {
    auto whole = layer.forward(x, 64, end);
    auto moved = layer.forward(x.roll(5, 1).contiguous(), 64, end);
    EXPECT_TRUE(close(moved.roll(-5, 1).contiguous(), whole, 0));
    for (int64_t rows : {1, 16, 24, 40})
      EXPECT_TRUE(
          close(layer.forward(x, rows, end).narrow(1, 0, rows), whole.narrow(1, 0, rows), 0))
          << rows << " rows";
  }
}

TEST(DenseBf16, a_row_does_not_depend_on_its_place_nor_on_its_neighbours) {
  if (!pair_products_available()) GTEST_SKIP() << "no products of bfloat16 pairs here";
  const Layer layer;
  auto packed = at::zeros({pair_blocks_size(40, 12)}, at::kInt);
  auto* weight = reinterpret_cast<uint32_t*>(packed.data_ptr<int32_t>());
  pack_dense_bf16({.weight = layer.weight.data_ptr<float>(),
                   .out = 40,
                   .in = 24,
                   .out_step = 24,
                   .in_step = 1,
                   .pairs = 12,
                   .first = 0,
                   .packed = weight});
  const auto forward = [&](const at::Tensor& x, int64_t rows) {
    auto words = at::zeros({12, 64}, at::kInt), y = at::zeros({20, 64}, at::kInt);
    auto sums = at::zeros({40, 64});
    auto* pairs = reinterpret_cast<uint32_t*>(words.data_ptr<int32_t>());
    panel_to_pairs(x.data_ptr<float>(), 24, 64, rows, pairs);
    const DenseSegmentBf16 all{pairs, 0, 12};
    dense_bf16_cpu({.weight = weight,
                    .pairs = 12,
                    .out = 40,
                    .start = layer.bias.data_ptr<float>(),
                    .segments = {&all, 1},
                    .end = DenseEnd::mish,
                    .gain = layer.gain.data_ptr<float>(),
                    .shift = layer.shift.data_ptr<float>(),
                    .sums = sums.data_ptr<float>(),
                    .y = reinterpret_cast<uint32_t*>(y.data_ptr<int32_t>()),
                    .stride = 64,
                    .rows = rows});
    return y;
  };
  auto x = at::randn({24, 64}), whole = forward(x, 64);
  EXPECT_TRUE(at::equal(forward(x.roll(5, 1).contiguous(), 64).roll(-5, 1), whole));
  for (int64_t rows : {1, 16, 24, 40})
    EXPECT_TRUE(at::equal(forward(x, rows).narrow(1, 0, rows), whole.narrow(1, 0, rows)))
        << rows << " rows";
}

TEST(Dense, lanes_behind_a_narrow_panel_are_left_alone) {
  const Layer layer;
  auto y = layer.forward(at::randn({24, 64}), 20, DenseEnd::mish, 7.f);
  EXPECT_TRUE(at::all(y.narrow(1, 32, 32) == 7.f).item<bool>());
}

// what rows have in common is multiplied once: the start of their sums
TEST(Dense, sums_that_start_with_a_segments_share_equal_the_whole_layer) {
  const Layer layer;
  auto shared = at::randn({20, 1}), own = at::randn({4, 64});
  auto whole = layer.forward(at::cat({shared.expand({20, 64}), own}), 64, DenseEnd::mish);
  auto start = at::zeros({40, 16}), wide = at::zeros({20, 16});
  wide.narrow(1, 0, 1).copy_(shared);
  const DenseSegment of_all{wide.data_ptr<float>(), 0, 20}, of_each{own.data_ptr<float>(), 20, 4};
  dense_cpu({.weight = layer.packed.data_ptr<float>(),
             .in = 24,
             .out = 40,
             .start = layer.bias.data_ptr<float>(),
             .segments = {&of_all, 1},
             .y = start.data_ptr<float>(),
             .stride = 16,
             .rows = 1});
  auto y = at::empty({40, 64});
  dense_cpu({.weight = layer.packed.data_ptr<float>(),
             .in = 24,
             .out = 40,
             .start = start.data_ptr<float>(),
             .start_step = 16,
             .segments = {&of_each, 1},
             .end = DenseEnd::mish,
             .gain = layer.gain.data_ptr<float>(),
             .shift = layer.shift.data_ptr<float>(),
             .y = y.data_ptr<float>(),
             .stride = 64,
             .rows = 64});
  EXPECT_TRUE(close(y, whole, 1e-5));
}

TEST(Dense, dropout_scales_the_product_before_its_statistics) {
  const Layer layer;
  auto x = at::randn({24, 32}), y = at::empty({40, 32});
  auto factor = (at::rand({40, 32}) > 0.3).to(at::kFloat) / 0.7;
  const DenseSegment all{x.data_ptr<float>(), 0, 24};
  dense_cpu({.weight = layer.packed.data_ptr<float>(),
             .in = 24,
             .out = 40,
             .start = layer.bias.data_ptr<float>(),
             .segments = {&all, 1},
             .end = DenseEnd::mish,
             .gain = layer.gain.data_ptr<float>(),
             .shift = layer.shift.data_ptr<float>(),
             .factor = factor.data_ptr<float>(),
             .y = y.data_ptr<float>(),
             .stride = 32,
             .rows = 32});
  auto z = at::linear(x.t(), layer.weight, layer.bias) * factor.t();
  EXPECT_TRUE(close(y.t().contiguous(),
                    dense_end_reference(z, layer.gain, layer.shift, DenseEnd::mish), 1e-5));
}

// a backward pass multiplies with the transpose
TEST(Dense, weights_and_their_transpose_are_packed_tile_by_tile) {
  // whole vectors of inputs and what is left of them, tiles without all outputs, more tiles than
  // are copied at once
  for (const auto& [out, in] :
       {std::pair<int64_t, int64_t>{24, 48}, {37, 101}, {101, 37}, {7, 5}}) {
    const auto weight = at::randn({out, in});
    const auto expected = [](const at::Tensor& w) {
      auto whole = at::zeros({(w.size(0) + kDenseTile - 1) / kDenseTile * kDenseTile, w.size(1)});
      whole.narrow(0, 0, w.size(0)).copy_(w);
      return whole.view({-1, kDenseTile, w.size(1)}).transpose(1, 2).reshape({-1});
    };
    for (bool transpose : {false, true}) {
      const int64_t rows = transpose ? in : out, columns = transpose ? out : in;
      auto packed = at::full({packed_dense_size(rows, columns)}, NAN);
      pack_dense({.weight = weight.data_ptr<float>(),
                  .out = rows,
                  .in = columns,
                  .out_step = transpose ? 1 : in,
                  .in_step = transpose ? in : 1,
                  .packed = packed.data_ptr<float>()});
      EXPECT_TRUE(at::equal(packed, expected(transpose ? weight.t() : weight)))
          << out << " x " << in << (transpose ? " transposed" : "");
    }
  }
}

TEST(DenseEnd, extreme_numbers_stay_finite) {
  auto x = at::randn({4, 64});
  x.select(1, 3).fill_(1e6), x.select(1, 9).fill_(-1e6);
  auto gain = at::full({64}, 30.), shift = at::zeros({64});
  for (auto end : {DenseEnd::mish, DenseEnd::simnorm}) {
    auto y = at::empty_like(x);
    dense_end_(y.view({1, 4, 1, 64}), x.view({1, 4, 1, 64}), {}, gain.view({1, 1, 64}),
               shift.view({1, 1, 64}), end);
    EXPECT_TRUE(at::isfinite(y).all().item<bool>());
    EXPECT_TRUE(close(y, dense_end_reference(x, gain, shift, end), 1e-5));
  }
}

TEST(DenseEnd, widths_that_are_no_whole_groups_are_refused) {
  auto x = at::zeros({1, 2, 1, 12}), gain = at::ones({1, 1, 12});
  EXPECT_THROW(dense_end_(x, x, {}, gain, gain, DenseEnd::mish), Error);
}

}  // namespace
}  // namespace maglev
