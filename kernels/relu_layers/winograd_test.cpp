#include <limits>
#include <set>
#include <string>
#include <utility>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <gtest/gtest.h>

#include "kernels/relu_layers/relu_layers_op.h"
#include "kernels/relu_layers/winograd_op.h"
#include "tests/span_names.h"

namespace maglev {
namespace {

struct Layer {
  at::Tensor x, weight, bias;
};

Layer layer_of(int64_t images, int64_t channels, int64_t side, int64_t outs) {
  auto gen = at::make_generator<at::CPUGeneratorImpl>(uint64_t(11));
  return {at::randn({images, channels, side, side}, gen), at::randn({outs, channels, 3, 3}, gen),
          at::randn({outs}, gen)};
}

TEST(Winograd, an_image_does_not_depend_on_those_around_it) {
  // 7 x 9 tiles: blocks begin within images
  const auto [x, weight, bias] = layer_of(7, 32, 11, 16);
  const auto all = winograd_conv_relu(x, weight, bias);
  for (int64_t i = 0; i < x.size(0); ++i)
    EXPECT_TRUE(at::equal(winograd_conv_relu(x.narrow(0, i, 1), weight, bias)[0], all[i])) << i;
}

TEST(Winograd, rounds_some_millionths_of_what_it_adds) {
  const auto [x, weight, bias] = layer_of(4, 64, 12, 64);
  const auto exact =
      at::conv2d(x.to(at::kDouble), weight.to(at::kDouble), bias.to(at::kDouble), 1, 1);
  const auto added = at::conv2d(x.abs(), weight.abs(), bias.abs(), 1, 1);
  const auto wrong = (winograd_conv_relu(x, weight, bias) - exact.relu()).abs() / added;
  EXPECT_LT(wrong.max().item<double>(), 6e-6);
  EXPECT_LT(wrong.mean().item<double>(), 2e-7);
}

TEST(Winograd, is_right_for_images_that_a_tile_is_larger_than) {
  for (const auto& [height, width] : {std::pair{1, 1}, {1, 9}, {9, 1}, {2, 2}}) {
    auto [x, weight, bias] = layer_of(3, 16, 9, 32);
    x = x.narrow(2, 0, height).narrow(3, 0, width).contiguous();
    const auto tiles = winograd_conv_relu(x, weight, bias);
    EXPECT_TRUE(at::allclose(tiles, at::conv2d(x, weight, bias, 1, 1).relu(), 1e-4, 1e-4))
        << height << " x " << width;
  }
}

TEST(Winograd, is_right_for_images_without_padding_and_with_more) {
  for (const int64_t padding : {0, 2})
    for (const auto& [height, width] : {std::pair{3, 3}, {3, 9}, {7, 5}, {9, 9}}) {
      auto [x, weight, bias] = layer_of(3, 16, 9, 32);
      x = x.narrow(2, 0, height).narrow(3, 0, width).contiguous();
      const auto tiles = winograd_conv_relu(x, weight, bias, padding);
      const auto direct = at::conv2d(x, weight, bias, 1, padding).relu();
      ASSERT_EQ(tiles.sizes(), direct.sizes());
      EXPECT_TRUE(at::allclose(tiles, direct, 1e-4, 1e-4))
          << height << " x " << width << ", padding " << padding;
    }
}

TEST(Winograd, acting_computes_what_learning_does) {
  // few outputs of many images, which without gradients would suit lanes
  const auto [x, weight, bias] = layer_of(32, 32, 10, 16);
  const LayerWeights layer{weight.clone().requires_grad_(), bias, {}, {}};
  const auto learning = conv_relu(x, layer);
  EXPECT_TRUE(learning.requires_grad());
  const at::NoGradGuard no_grad;
  EXPECT_TRUE(at::equal(conv_relu(x, layer), learning));
}

TEST(Winograd, is_for_layers_that_it_is_faster_for) {
  EXPECT_TRUE(suits_winograd({1, 11, 11, 64, 64}));
  EXPECT_TRUE(suits_winograd({1, 3, 3, 64, 64}));
  EXPECT_TRUE(suits_winograd({1, 9, 9, 64, 64, 0})) << "the third of those for pictures";
  EXPECT_FALSE(suits_winograd({1, 3, 3, 64, 64, 0})) << "one place";
  EXPECT_FALSE(suits_winograd({1, 2, 9, 64, 64, 0})) << "no place";
  EXPECT_FALSE(suits_winograd({1, 9, 9, 64, 64, 3})) << "padding";
  EXPECT_FALSE(suits_winograd({1, 11, 11, 64, 60})) << "outputs";
  EXPECT_FALSE(suits_winograd({1, 1, 9, 64, 64})) << "tiles outside of the image";
  EXPECT_FALSE(suits_winograd({64, 5, 5, 64, 64})) << "tiles outside of the image";
  EXPECT_FALSE(suits_winograd({1, 11, 11, 512, 512})) << "weights of 36 points";
}

TEST(Winograd, leaves_to_a_library_what_does_not_fit_together) {
  const auto [x, weight, bias] = layer_of(2, 32, 8, 32);
  const auto narrow = weight.narrow(1, 0, 16).contiguous();
  EXPECT_ANY_THROW(conv_relu(x, {narrow, bias, {}, {}}));
  EXPECT_ANY_THROW(conv_relu(x, {weight, bias.narrow(0, 0, 16), {}, {}}));
  // a bias with gaps is read where it lies
  const auto gaps = at::randn({64}).slice(0, 0, 64, 2);
  EXPECT_TRUE(at::equal(conv_relu(x, {weight, gaps, {}, {}}),
                        conv_relu(x, {weight, gaps.clone(), {}, {}})));
}

TEST(Winograd, what_is_no_number_stays_none) {
  auto [x, weight, bias] = layer_of(1, 16, 9, 16);
  x[0][3][4][4] = std::numeric_limits<float>::quiet_NaN();
  x.requires_grad_(), weight.requires_grad_();
  const auto y = winograd_conv_relu(x, weight, bias);
  EXPECT_TRUE(y.isnan().narrow(2, 3, 3).narrow(3, 3, 3).all().item<bool>());
  y.sum().backward();
  EXPECT_TRUE(weight.grad().select(1, 3).isnan().all().item<bool>());
}

TEST(ReluLayers, are_named_in_a_trace_on_both_ways) {
  using Names = std::set<std::string>;
  const auto both_ways = [](const Layer& made, bool winograd, bool images_learn) {
    return span_names([&] {
      const auto x = made.x.clone().requires_grad_(images_learn);
      const LayerWeights layer{made.weight.clone().requires_grad_(), made.bias, {}, {}};
      const auto y = made.x.dim() == 4 ? conv_relu(x, layer, {}, winograd) : linear_relu(x, layer);
      y.sum().backward();
    });
  };
  EXPECT_EQ(both_ways(layer_of(2, 16, 8, 16), true, true),
            (Names{"winograd_forward", "winograd_backward"}));
  EXPECT_EQ(both_ways(layer_of(17, 4, 8, 16), false, false),
            (Names{"conv_lanes_forward", "conv_lanes_backward"}));
  // oneDNN's, where it is; else torch's own layers have no names here
  if (!at::hasMKLDNN()) return;
  EXPECT_EQ(both_ways(layer_of(2, 4, 8, 16), false, true),
            (Names{"conv_forward", "conv_backward"}));
  EXPECT_EQ(both_ways({at::randn({3, 20}), at::randn({8, 20}), at::randn({8})}, false, false),
            (Names{"linear_forward", "linear_backward"}));
}

TEST(Winograd, gradients_of_weights_need_none_of_images) {
  auto [x, weight, bias] = layer_of(5, 16, 10, 32);
  weight.requires_grad_(), bias.requires_grad_();
  winograd_conv_relu(x, weight, bias).sum().backward();
  const auto alone = weight.grad().clone(), bias_alone = bias.grad().clone();
  weight.mutable_grad().reset(), bias.mutable_grad().reset();
  x.requires_grad_();
  winograd_conv_relu(x, weight, bias).sum().backward();
  EXPECT_TRUE(at::equal(alone, weight.grad()));
  EXPECT_TRUE(at::equal(bias_alone, bias.grad()));
  EXPECT_TRUE(x.grad().defined());
}

}  // namespace
}  // namespace maglev
