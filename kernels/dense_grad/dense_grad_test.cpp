#include "kernels/dense_grad/dense_grad.h"

#include <ATen/ATen.h>

#include <gtest/gtest.h>

#include "tests/close.h"

namespace maglev {
namespace {

at::Tensor weight_grad(const std::vector<int64_t>& cuts, int64_t panels) {
  at::manual_seed(1);
  const int64_t in = 70, out = 50, stride = 32;
  auto columns = at::zeros({panels, dense_columns_size(in, stride)});
  auto x = at::randn({panels, in, stride}), dz = at::randn({panels, out, stride});
  for (int64_t p = 0; p < panels; ++p)
    dense_columns_cpu({.x = x[p].const_data_ptr<float>(),
                       .in = in,
                       .stride = stride,
                       .columns = columns[p].data_ptr<float>()});
  auto grad = at::zeros({out, in}), bias = at::zeros({out});
  for (size_t i = 0; i + 1 < cuts.size(); ++i)
    dense_weight_grad_cpu({.columns = columns.const_data_ptr<float>(),
                           .columns_step = columns.size(1),
                           .dz = dz.const_data_ptr<float>(),
                           .dz_step = out * stride,
                           .panels = panels,
                           .stride = stride,
                           .in = in,
                           .first = cuts[i],
                           .count = cuts[i + 1] - cuts[i],
                           .d_weight = grad.data_ptr<float>(),
                           .d_bias = bias.data_ptr<float>()});
  EXPECT_TRUE(close(grad, at::einsum("por,pir->oi", {dz, x}), 1e-4));
  EXPECT_TRUE(close(bias, dz.sum(at::IntArrayRef{0, 2}), 1e-4));
  return grad;
}

TEST(DenseGrad, a_weights_gradient_is_the_same_however_its_outputs_are_cut) {
  EXPECT_TRUE(close(weight_grad({0, 7, 31, 50}, 5), weight_grad({0, 50}, 5), 0));
}

// more panels than one pass over the columns takes
TEST(DenseGrad, many_panels_are_all_summed) { weight_grad({0, 50}, 60); }

TEST(DenseGrad, rows_without_a_gradient_pass_none_on) {
  at::manual_seed(2);
  const int64_t out = 16, stride = 16;
  auto xhat = at::randn({out, stride}), rstd = at::rand({stride}) + 1,
       dy = at::randn({out, stride});
  auto gain = at::randn({out}), shift = at::randn({out});
  dy.narrow(1, 5, 11).zero_();
  dense_end_grad_cpu({.end = DenseEnd::mish,
                      .out = out,
                      .gain = gain.const_data_ptr<float>(),
                      .shift = shift.const_data_ptr<float>(),
                      .xhat = xhat.const_data_ptr<float>(),
                      .rstd = rstd.const_data_ptr<float>(),
                      .dy = dy.data_ptr<float>(),
                      .stride = stride});
  EXPECT_EQ(dy.narrow(1, 5, 11).abs().max().item<float>(), 0);
  EXPECT_GT(dy.narrow(1, 0, 5).abs().min().item<float>(), 0);
}

}  // namespace
}  // namespace maglev
