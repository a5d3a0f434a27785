#include "algos/dreamer/networks.h"

#include <ATen/ATen.h>

#include <gtest/gtest.h>

#include "base/core/error.h"
#include "tests/close.h"
#include "tests/errors.h"

namespace maglev::dreamer {
namespace {

EnvSpec walker_spec() {
  EnvSpec spec;
  spec.action.low.assign(6, -1.f), spec.action.high.assign(6, 1.f);
  return spec;
}
EnvSpec pixels(int64_t height = 64, int64_t width = 64) {
  EnvSpec spec = walker_spec();
  spec.observations = {{.name = "image", .dtype = DType::u8, .shape = {height, width, 3}}};
  return spec;
}
EnvSpec proprioception() {
  EnvSpec spec = walker_spec();
  spec.observations = {{.name = "orientations", .shape = {14}},
                       {.name = "height", .shape = {1}},
                       {.name = "velocity", .shape = {9}}};
  return spec;
}
Options of_size(ModelSize size) {
  Options o;
  o.size = size;
  return o;
}
int64_t elements(const torch::nn::Module& module) {
  int64_t count = 0;
  for (const auto& p : module.parameters()) count += p.numel();
  return count;
}

// counted in the published JAX code and in a PyTorch port of it, network by network
TEST(DreamerNetworks, have_the_published_parameters) {
  const Networks nets(model_shape(of_size(ModelSize::m1), pixels()), Initializer::shapes());
  EXPECT_EQ(elements(*nets.rssm), 376'704);
  EXPECT_EQ(elements(*nets.policy), 50'316);
  EXPECT_EQ(elements(*nets.value), 66'111);
  EXPECT_EQ(elements(*nets.reward), 57'663);
  EXPECT_EQ(elements(*nets.going_on), 41'153);
  EXPECT_EQ(elements(*nets.encoder), 14'304);
  EXPECT_EQ(elements(*nets.decoder), 80'595);
  EXPECT_EQ(elements(nets), 686'846);
  EXPECT_EQ(parameter_count(model_shape(of_size(ModelSize::m1), proprioception())), 640'867);
  // in the decoder's place one matrix from features to tokens
  Options without = of_size(ModelSize::m1);
  without.objective = Objective::redundancy;
  EXPECT_EQ(parameter_count(model_shape(without, pixels())), 686'846 - 80'595 + (512 + 128) * 256);
}

// by the layers of the published code: inputs times outputs, a bias and a scale each
int64_t counted(int64_t D, int64_t hidden, int64_t C, int64_t depth, int64_t units) {
  const int64_t S = 32, blocks = 8, actions = 6, bins = 255, z = S * C, feature = D + z;
  const auto layer = [](int64_t in, int64_t out) { return in * out + 2 * out; };
  const auto output = [](int64_t in, int64_t out) { return in * out + out; };
  const auto hidden_layers = [&](int64_t in, int64_t layers, int64_t width) {
    return layer(in, width) + (layers - 1) * layer(width, width);
  };
  const int64_t channels[] = {3, 2 * depth, 3 * depth, 4 * depth, 4 * depth}, token = 64 * depth;
  int64_t encoder = 0, decoder = 0;
  for (int i = 0; i < 4; ++i) encoder += layer(25 * channels[i], channels[i + 1]);
  decoder +=
      D * token / blocks + token + layer(z, 2 * units) + output(2 * units, token) + 4 * depth;
  for (int i = 3; i > 0; --i) decoder += layer(25 * channels[i + 1], channels[i]);
  decoder += output(25 * channels[1], 3);
  const int64_t mixed = D + blocks * 3 * hidden;
  const int64_t rssm = layer(D, hidden) + layer(z, hidden) + layer(actions, hidden) +
                       mixed * D / blocks + 2 * D + D * 3 * D / blocks + 3 * D +
                       layer(D + token, hidden) + output(hidden, z) + hidden_layers(D, 2, hidden) +
                       output(hidden, z);
  const int64_t heads = hidden_layers(feature, 3, units) + output(units, 2 * actions) +
                        hidden_layers(feature, 3, units) + output(units, bins) +
                        layer(feature, units) + output(units, bins) + layer(feature, units) +
                        output(units, 1);
  return encoder + decoder + rssm + heads;
}

TEST(DreamerNetworks, of_every_size_have_the_parameters_of_its_widths) {
  EXPECT_EQ(counted(512, 64, 4, 4, 64), 686'846);
  const std::pair<ModelSize, int64_t> sizes[] = {
      {ModelSize::m12, counted(2048, 256, 16, 16, 256)},
      {ModelSize::m25, counted(3072, 384, 24, 24, 384)},
      {ModelSize::m50, counted(4096, 512, 32, 32, 512)},
      {ModelSize::m100, counted(6144, 768, 48, 48, 768)},
      {ModelSize::m200, counted(8192, 1024, 64, 64, 1024)},
      {ModelSize::m400, counted(12288, 1536, 96, 96, 1536)}};
  for (const auto& [size, parameters] : sizes)
    EXPECT_EQ(parameter_count(model_shape(of_size(size), pixels())), parameters) << name_of(size);
}

TEST(DreamerNetworks, that_act_come_first_and_begin_alike) {
  const ModelShape shape = model_shape(of_size(ModelSize::m1), proprioception());
  Initializer init(5);
  const ActingNetworks acting(shape, init);
  const Networks all(shape, Initializer(5));
  const auto few = acting.named_parameters(), many = all.named_parameters();
  for (size_t i = 0; i < few.size(); ++i) {
    EXPECT_EQ(few[i].key(), many[i].key());
    EXPECT_TRUE(at::equal(few[i].value(), many[i].value())) << few[i].key();
  }
}

TEST(DreamerNetworks, begin_with_outputs_of_nothing_and_actions_alike) {
  const ModelShape shape = model_shape(of_size(ModelSize::m1), proprioception());
  const Networks nets(shape, Initializer(5));
  const auto feature = at::randn({7, shape.feature()});
  EXPECT_EQ(nets.reward->forward(feature).abs().max().item<float>(), 0);
  EXPECT_EQ(nets.value->forward(feature).abs().max().item<float>(), 0);
  EXPECT_LT(nets.policy->forward(feature).abs().max().item<float>(), 0.1);
  EXPECT_GT(nets.policy->forward(feature).abs().max().item<float>(), 0);
}

TEST(DreamerNetworks, see_images_of_other_sizes_and_more_than_one) {
  EnvSpec spec = pixels(32, 80);
  spec.observations.push_back({.name = "depth", .dtype = DType::u8, .shape = {32, 80, 1}});
  spec.observations.push_back({.name = "vector", .shape = {5}});
  const ModelShape shape = model_shape(of_size(ModelSize::m1), spec);
  EXPECT_EQ(shape.channels, 4);
  const Networks nets(shape, Initializer(1));
  const Observation seen{at::randint(0, 256, {3, 32, 80, 4}).to(at::kByte), at::randn({3, 5})};
  EXPECT_EQ(nets.encoder->forward(seen).sizes(), at::IntArrayRef({3, shape.token()}));
  const auto made =
      nets.decoder->forward({at::randn({3, shape.deter}), at::randn({3, shape.flat_stoch()})});
  EXPECT_EQ(made.logits.sizes(), seen.image.sizes());
  EXPECT_EQ(made.vector.sizes(), seen.vector.sizes());
  EXPECT_EQ(reconstruction_loss(made, seen).sizes(), at::IntArrayRef({3}));
}

TEST(DreamerNetworks, redundancy_is_least_where_each_number_agrees_with_its_own) {
  at::manual_seed(2);
  const auto token = at::randn({200, 5}, at::kDouble);
  const auto whitened = std::get<0>(at::linalg_qr(token - token.mean(0))) * std::sqrt(200.0);
  // scale and shift of a number change nothing
  const auto same = whitened * at::arange(1, 6) + 3;
  EXPECT_NEAR(redundancy_loss(same, whitened, 0.5).item<double>(), 0, 1e-6);
  // no correlation on the diagonal, two of 1 beside it
  const auto swapped = whitened.index_select(1, at::tensor({1, 0, 2, 3, 4}));
  EXPECT_NEAR(redundancy_loss(swapped, whitened, 0.5).item<double>(), 2 + 0.5 * 2, 1e-6);
  // a number that never changes tells nothing
  const auto flat = at::zeros_like(token).requires_grad_();
  const auto loss = redundancy_loss(flat, whitened, 0.5);
  EXPECT_NEAR(loss.item<double>(), 5, 1e-9);
  loss.backward();
  EXPECT_TRUE(at::isfinite(flat.grad()).all().item<bool>());
}

TEST(DreamerNetworks, redundancy_of_weighted_rows_is_that_of_those_that_count) {
  at::manual_seed(2);
  const auto token = at::randn({30, 5}, at::kDouble), projected = at::randn({30, 5}, at::kDouble);
  const auto weight = at::cat({at::full({20}, 1.5, at::kDouble), at::zeros({10}, at::kDouble)});
  const auto first = [](const at::Tensor& x) { return x.narrow(0, 0, 20); };
  EXPECT_NEAR(redundancy_loss(projected, token, 0.5, weight).item<double>(),
              redundancy_loss(first(projected), first(token), 0.5).item<double>(), 1e-9);
}

TEST(DreamerNetworks, see_images_on_kernels_as_by_atens_operations) {
  EnvSpec spec = pixels(32, 32);
  spec.observations.push_back({.name = "vector", .shape = {5}});
  ModelShape shape = model_shape(of_size(ModelSize::m1), spec);
  at::manual_seed(2);
  const Observation seen{at::randint(0, 256, {9, 32, 32, 3}).to(at::kByte), at::randn({9, 5})};
  const Latent latent{at::randn({9, shape.deter}), at::randn({9, shape.flat_stoch()})};
  const auto weight = at::randn({9});
  std::vector<std::vector<at::Tensor>> results;
  for (bool fused : {false, true}) {
    shape.fused_images = fused;
    const Networks nets(shape, Initializer(1));
    const auto tokens = nets.encoder->forward(seen), loss = nets.decoder->loss(latent, seen);
    (tokens.square().sum() + (loss * weight).sum()).backward();
    results.push_back({tokens.detach(), loss.detach()});
    for (const auto& p : nets.encoder->parameters()) results.back().push_back(p.grad());
    for (const auto& p : nets.decoder->parameters()) results.back().push_back(p.grad());
  }
  // over windows and places of all images
  const Tolerance tolerance = Tolerance::of_sums(9 * 32 * 32 + 4 * 25 * 32);
  for (size_t i = 0; i < results[0].size(); ++i)
    EXPECT_TRUE(close(results[1][i], results[0][i], tolerance)) << i;
}

// reference, kernels on one panel and more; what lies beyond the image is nobody's loss
TEST(DreamerNetworks, are_told_of_cells_in_nats_and_of_pictures_by_squares) {
  const CellCoding cells{.bits = 2, .grid = {11, 11}, .channels = 2, .policy = {0, 0, 1, 0, 0, 1}};
  EnvSpec spec = walker_spec();
  spec.observations = {{.name = "map", .dtype = DType::u8, .shape = {31}, .cells = cells}};
  ModelShape shape = model_shape(of_size(ModelSize::m1), spec);
  EXPECT_TRUE(shape.cells);
  at::manual_seed(2);
  const Observation seen{at::randint(0, 256, {17, 11, 11, 2}).to(at::kByte), {}};
  const Latent latent{at::randn({17, shape.deter}), at::randn({17, shape.flat_stoch()})};
  std::vector<std::vector<at::Tensor>> results;
  for (bool fused : {false, true}) {
    shape.fused_images = fused;
    const Networks nets(shape, Initializer(1));
    const auto loss = nets.decoder->loss(latent, seen);
    loss.sum().backward();
    results.push_back({loss.detach()});
    for (const auto& p : nets.decoder->parameters()) results.back().push_back(p.grad());
    // as it is defined, of probabilities
    const auto made = at::sigmoid(nets.decoder->forward(latent).logits.detach().to(at::kDouble));
    const auto target = seen.image.to(at::kDouble) / 255;
    const auto nats = -(target * made.log() + (1 - target) * (1 - made).log()).flatten(1).sum(1);
    EXPECT_TRUE(close(loss.detach(), nats.to(at::kFloat), 1e-3));
  }
  const Tolerance tolerance = Tolerance::of_sums(17 * 11 * 11 + 4 * 25 * 32);
  for (size_t i = 0; i < results[0].size(); ++i)
    EXPECT_TRUE(close(results[1][i], results[0][i], tolerance)) << i;
  // beside pictures cells are such
  spec.observations.push_back({.name = "image", .dtype = DType::u8, .shape = {11, 11, 3}});
  EXPECT_FALSE(model_shape(of_size(ModelSize::m1), spec).cells);
}

TEST(DreamerNetworks, see_images_whose_sides_do_not_halve) {
  struct Size {
    int64_t height, width, channels, stages;
  };
  // MinAtar's games, odd ones, the smallest of four halvings, Atari's
  for (const auto& [height, width, channels, stages] :
       {Size{10, 10, 4, 2}, Size{10, 10, 6, 2}, Size{10, 10, 7, 2}, Size{10, 10, 10, 2},
        Size{8, 17, 3, 1}, Size{2, 30, 3, 1}, Size{32, 40, 3, 3}, Size{33, 40, 3, 4},
        Size{84, 84, 1, 4}}) {
    EnvSpec spec = walker_spec();
    spec.observations = {{.name = "image", .dtype = DType::u8, .shape = {height, width, channels}}};
    ModelShape shape = model_shape(of_size(ModelSize::m1), spec);
    EXPECT_EQ(shape.stages(), stages);
    EXPECT_EQ(shape.small_height(), filled_side(height, stages) >> stages);
    EXPECT_EQ(shape.small_width(), filled_side(width, stages) >> stages);
    at::manual_seed(2);
    const Observation seen{at::randint(0, 256, {17, height, width, channels}).to(at::kByte), {}};
    const Latent latent{at::randn({17, shape.deter}), at::randn({17, shape.flat_stoch()})};
    const auto weight = at::randn({17});
    std::vector<std::vector<at::Tensor>> results;
    for (bool fused : {false, true}) {
      shape.fused_images = fused;
      const Networks nets(shape, Initializer(1));
      const auto tokens = nets.encoder->forward(seen), loss = nets.decoder->loss(latent, seen);
      EXPECT_EQ(tokens.sizes(), at::IntArrayRef({17, shape.token()}));
      const auto made = nets.decoder->forward(latent);
      EXPECT_EQ(made.logits.sizes(), seen.image.sizes());
      EXPECT_TRUE(close(loss.detach(), reconstruction_loss(made, seen).detach(),
                        1e-5 * double(height * width * channels)));
      (tokens.square().sum() + (loss * weight).sum()).backward();
      results.push_back({tokens.detach(), loss.detach()});
      for (const auto& p : nets.encoder->parameters()) results.back().push_back(p.grad());
      for (const auto& p : nets.decoder->parameters()) results.back().push_back(p.grad());
    }
    const Tolerance tolerance = Tolerance::of_sums(17 * height * width + 4 * 25 * 32);
    for (size_t i = 0; i < results[0].size(); ++i)
      EXPECT_TRUE(close(results[1][i], results[0][i], tolerance)) << height << " " << i;
  }
}

TEST(DreamerNetworks, say_what_they_cannot_see_or_do) {
  const Options o = of_size(ModelSize::m1);
  const auto refused = [&](const EnvSpec& spec, const Options& options = of_size(ModelSize::m1)) {
    return error_of([&] { model_shape(options, spec); });
  };
  EnvSpec spec = pixels();
  spec.observations.push_back({.name = "other", .dtype = DType::u8, .shape = {32, 32, 3}});
  EXPECT_TRUE(contains(refused(spec), "of one size, 64 x 64 as the first, and column 'other'"));
  spec.observations[1] = {.name = "map",
                          .dtype = DType::u8,
                          .shape = {31},
                          .cells = {.bits = 2, .grid = {11, 11}, .channels = 2}};
  EXPECT_TRUE(contains(refused(spec), "column 'map' is 11 x 11"));
  spec = proprioception();
  spec.observations.push_back({.name = "words", .dtype = DType::i32, .shape = {3}});
  EXPECT_TRUE(contains(refused(spec), "not column 'words'"));
  spec = proprioception();
  spec.action = {.heads = {3}, .masked = true};
  EXPECT_TRUE(contains(refused(spec), "with masks"));
  spec = proprioception();
  spec.action.high[2] = INFINITY;
  EXPECT_TRUE(contains(refused(spec), "has none"));
  spec = walker_spec();
  EXPECT_TRUE(contains(refused(spec), "shows nothing"));
  Options odd = o;
  odd.deter = 20;
  EXPECT_TRUE(contains(refused(pixels(), odd), "a multiple of dreamer.blocks = 8"));
  odd = o, odd.depth = 3;
  EXPECT_TRUE(contains(refused(pixels(), odd), "dreamer.depth must be even"));
  odd = o, odd.blocks = 7;
  EXPECT_TRUE(contains(refused(pixels(), odd), "must divide"));
}

}  // namespace
}  // namespace maglev::dreamer
