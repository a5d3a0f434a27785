// Updates of Dreamer as they run on a GPU, on the emulated device: held to the CPU's, and
// everything that one update asks of a device counted.

#include "algos/dreamer/dreamer.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <string>
#include <tuple>
#include <vector>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <gtest/gtest.h>

#include "algos/dreamer/fused/learner.h"
#include "algos/dreamer/fused/stack.h"
#include "algos/dreamer/memory.h"
#include "algos/dreamer/work.h"
#include "base/simd/pairs.h"
#include "engine/device/step_graph.h"
#include "tests/close.h"
#include "tests/emulation/counted.h"
#include "tests/emulation/device.h"
#include "tests/emulation/torch_memory.h"
#include "tests/random_sequences.h"

namespace maglev::dreamer {
namespace {

using emulation::CountedOperations;
using emulation::kEmulatedDevice;

// parameters lie further apart on a device
at::Tensor parameters(const LearnerState& state) {
  std::vector<at::Tensor> all;
  for (const auto& p : state.networks->parameters()) all.push_back(p.detach().flatten());
  return at::cat(all).cpu();
}

TEST(EmulatedDreamer, learns_as_the_cpu_does) {
  // a vector; with pictures that halve and pictures that do not
  for (int64_t side : {0, 16, 10}) {
    const bool images = side > 0;
    Setting setting{.B = 5, .T = 4, .side = side, .images = images, .categories = images};
    Made<FusedLearner> cpu(setting);
    setting.device = kEmulatedDevice;
    Made<FusedLearner> device(setting);
    // the same weights, wherever they lie
    const auto ours = device.state.networks->parameters();
    const auto theirs = cpu.state.networks->parameters();
    for (size_t i = 0; i < ours.size(); ++i) ours[i].detach().copy_(theirs[i].detach());
    const auto slow = device.state.slow_value->parameters();
    const auto their_slow = cpu.state.slow_value->parameters();
    for (size_t i = 0; i < slow.size(); ++i) slow[i].detach().copy_(their_slow[i].detach());
    for (uint64_t seed : {3, 4}) {
      cpu.learner.update(sequences(cpu.options, seed), cpu.figures);
      device.learner.update(sequences(cpu.options, seed, kEmulatedDevice), device.figures);
    }
    EXPECT_TRUE(close(parameters(device.state), parameters(cpu.state), 1e-5));
    EXPECT_TRUE(close(device.figures.cpu(), cpu.figures, 2e-4));
  }
}

/// What one update asks of a device: launches of ours and operations of ATen.
int64_t asked_of_dreamer(const Setting& setting) {
  Made<FusedLearner> made(setting);
  const Sequences batch = sequences(made.options, 3, kEmulatedDevice);
  made.learner.update(batch, made.figures);
  emulation::clear_launches();
  int64_t launches = 0, operations = 0;
  {
    const CountedOperations counted;
    made.learner.update(batch, made.figures);
    for (const auto& [name, count] : counted.of()) {
      operations += count;
      std::printf("  %4ld %s\n", long(count), name.c_str());
    }
  }
  for (const auto& [name, count] : emulation::launches()) {
    launches += count;
    std::printf("  %4ld %s\n", long(count), name.c_str());
  }
  std::printf("%ld launches and %ld operations of ATen an update\n", long(launches),
              long(operations));
  return launches + operations;
}

// of as many steps and blocks as the published settings have; in fp32 widths change no launch
const Setting kPublishedSteps{
    .B = 1, .T = 64, .H = 15, .side = 64, .blocks = 8, .images = true, .device = kEmulatedDevice};

TEST(EmulatedDreamer, takes_at_most_2600_launches_and_operations_an_update) {
  // the loop and the loop back take 12 a step each, a step of the dream 23
  EXPECT_LE(asked_of_dreamer(kPublishedSteps), 2600);
}

TEST(EmulatedDreamer, an_update_asks_for_what_plan_counts) {
  for (const bool redundancy : {false, true})
    for (const auto& [images, vectors, side] :
         {std::tuple{false, true, 64}, {true, false, 64}, {true, true, 64}, {true, false, 16}}) {
      Setting setting{.B = 2,
                      .T = 9,
                      .H = 4,
                      .side = side,
                      .images = images,
                      .redundancy = redundancy,
                      .device = kEmulatedDevice};
      setting.vectors = vectors;
      ThreadPool pool(1);
      const LearnerOptions options = learner_options(setting, pool);
      EXPECT_EQ(asked_of_dreamer(setting), update_launches(options.options, options.shape))
          << images << vectors << side << redundancy;
    }
}

// what enters a product is rounded: a step of the dream takes 8 more, convolutions are cast
TEST(EmulatedDreamer, takes_at_most_2900_in_bf16) {
  Setting setting = kPublishedSteps;
  // wide enough that all that are rounded in published sizes are
  setting.precision = Precision::bf16;
  setting.deter = 384, setting.hidden = 48, setting.units = 48;
  EXPECT_LE(asked_of_dreamer(setting), 2900);
}

// sizes at which factors are rounded, in a processor's shards too
Setting wide_setting(Precision precision, at::Device device = kEmulatedDevice) {
  return {.B = 16,
          .T = 12,
          .deter = 64,
          .hidden = 32,
          .units = 32,
          .precision = precision,
          .device = device};
}

double relative_distance(const at::Tensor& a, const at::Tensor& b) {
  return ((a - b).norm() / b.norm()).item<double>();
}

// a stack there and back: what comes out, the gradient of the inputs and of every weight
std::vector<at::Tensor> stack_there_and_back(Precision precision) {
  Initializer init(3);
  Head head({.in = 70, .layers = 2, .units = 48, .out = 51, .scale = 1}, init);
  head.to(kEmulatedDevice);
  // as products on a device have them: in one buffer
  FlatParams params(head, flat_alignment(kEmulatedDevice));
  const at::Tensor gradient = at::zeros_like(params.data());
  for (size_t i = 0; auto& p : head.parameters()) {
    const FlatRange range = params.ranges()[i++];
    p.mutable_grad() = gradient.narrow(0, range.begin, range.count).view(p.sizes());
  }
  WeightRows weights(precision, kEmulatedDevice);
  Stack stack(head, {.rows = 100, .slots = 2}, weights);
  weights.copy();
  at::manual_seed(5);
  const at::Tensor x = at::randn({200, 70}).to(kEmulatedDevice),
                   d_out = at::randn({200, 51}).to(kEmulatedDevice);
  at::Tensor d_x = at::zeros_like(x);
  BackScratch scratch(200, 48, d_x.options());
  at::NoGradGuard no_grad;
  for (int64_t slot : {0, 1}) stack.forward(slot, x.narrow(0, 100 * slot, 100));
  stack.back(d_out, x, scratch, d_x);
  std::vector<at::Tensor> all{stack.all_out().cpu(), d_x.cpu()};
  for (const FlatRange& range : params.ranges())
    all.push_back(gradient.narrow(0, range.begin, range.count).cpu());
  return all;
}

TEST(EmulatedDreamer, takes_a_stack_there_and_back_in_bf16_as_in_fp32_but_for_rounded_factors) {
  const auto low = stack_there_and_back(Precision::bf16),
             full = stack_there_and_back(Precision::fp32);
  // three products there and three back, two factors each
  const auto bound = Tolerance::of_sums(12, kRoundBf16);
  for (size_t i = 0; i < low.size(); ++i) {
    EXPECT_TRUE(close(low[i], full[i], bound)) << i;
    // the output's bias gets sums alone
    if (i < 2) {
      EXPECT_FALSE(at::equal(low[i], full[i])) << i << " was not rounded";
    }
  }
}

// the same products round the same factors as on a processor, so draws fall alike
TEST(EmulatedDreamer, has_the_gradients_of_a_processor_in_bf16) {
  if (!pair_products_available()) GTEST_SKIP() << "nothing here multiplies pairs of bfloat16";
  Made<FusedLearner> cpu(wide_setting(Precision::bf16, at::kCPU)),
      device(wide_setting(Precision::bf16)), full(wide_setting(Precision::fp32, at::kCPU));
  const auto equal_weights = [&](const torch::nn::Module& to, const torch::nn::Module& from) {
    const auto ours = to.parameters(), theirs = from.parameters();
    for (size_t i = 0; i < ours.size(); ++i) ours[i].detach().copy_(theirs[i].detach());
  };
  equal_weights(*device.state.networks, *cpu.state.networks);
  equal_weights(*device.state.slow_value, *cpu.state.slow_value);
  const auto ours =
      device.learner.gradients(sequences(cpu.options, 3, kEmulatedDevice)).cpu().clone();
  const auto theirs = cpu.learner.gradients(sequences(cpu.options, 3)).clone();
  const auto exact = full.learner.gradients(sequences(cpu.options, 3)).clone();
  const auto names = cpu.state.networks->named_parameters().keys();
  for (size_t i = 0; i < names.size(); ++i) {
    const auto of = [i](const LearnerState& state, const at::Tensor& all) {
      return all.narrow(0, state.params.ranges()[i].begin, state.params.ranges()[i].count);
    };
    // of what differs in the last bit some is rounded the other way
    EXPECT_LT(relative_distance(of(device.state, ours), of(cpu.state, theirs)), 0.01) << names[i];
  }
  EXPECT_GT(relative_distance(theirs, exact), 0);
}

// draws near a threshold fall otherwise, so there is no bound element by element
TEST(EmulatedDreamer, has_losses_in_bf16_beside_those_in_fp32) {
  constexpr int kUpdates = 4;
  Setting low_setting = wide_setting(Precision::bf16), full_setting = wide_setting(Precision::fp32);
  low_setting.images = full_setting.images = true;
  Made<FusedLearner> low(low_setting), full(full_setting);
  const Sequences batch = sequences(low.options, 3, kEmulatedDevice);
  at::Tensor sums = at::zeros({2, int64_t(kFigures)}, at::kDouble);
  for (int u = 0; u < kUpdates; ++u) {
    low.learner.update(batch, low.figures), full.learner.update(batch, full.figures);
    sums[0] += low.figures.cpu(), sums[1] += full.figures.cpu();
  }
  EXPECT_FALSE(at::equal(low.state.params.data().cpu(), full.state.params.data().cpu()));
  for (Figure f : {kObservation, kReward, kContinue, kDynamics, kValue, kReplayValue, kTotal}) {
    const double ours = sums[0][f].item<double>(), theirs = sums[1][f].item<double>();
    EXPECT_LT(std::abs(ours - theirs), 0.1 * std::abs(theirs)) << f;
  }
  EXPECT_LT(relative_distance(parameters(low.state), parameters(full.state)), 0.02);
}

// images themselves, there and back; acting, which asks for no precision, stays as it is
TEST(EmulatedDreamer, rounds_the_convolutions_of_images_in_bf16) {
  for (int64_t side : {16, 10}) {
    Setting setting = wide_setting(Precision::fp32);
    setting.B = 2, setting.images = true, setting.side = side;
    Made<FusedLearner> made(setting);
    const auto seen = sequences(made.options, 3, kEmulatedDevice).seen.rows();
    const auto& networks = *made.state.networks;
    const int64_t rows = seen.image.size(0);
    at::manual_seed(5);
    const auto deter = at::randn({rows, made.options.shape.deter}).to(kEmulatedDevice);
    const auto stoch = at::rand({rows, made.options.shape.flat_stoch()}).to(kEmulatedDevice);
    const auto both = [&](Precision products) {
      const auto h = deter.clone().set_requires_grad(true);
      const auto tokens = networks.encoder->forward(seen, products);
      const auto losses = networks.decoder->loss({h, stoch}, seen, products);
      std::vector<at::Tensor> of;
      for (const auto& network : {networks.encoder->parameters(), networks.decoder->parameters()})
        of.insert(of.end(), network.begin(), network.end());
      for (auto& p : of) p.mutable_grad() = at::zeros_like(p);
      (tokens.square().sum() + losses.sum()).backward();
      std::vector<at::Tensor> all{tokens.detach().cpu(), losses.detach().cpu(), h.grad().cpu()};
      for (const auto& p : of) all.push_back(p.grad().cpu());
      return all;
    };
    const auto low = both(Precision::bf16), full = both(Precision::fp32);
    for (size_t i = 0; i < low.size(); ++i) {
      EXPECT_EQ(low[i].scalar_type(), at::kFloat) << i;
      // the first layer's weights the most: a norm takes most of what comes back to them out again
      EXPECT_LT(relative_distance(low[i], full[i]), 0.25) << i;
    }
    for (size_t i : {0, 1}) EXPECT_GT(relative_distance(low[i], full[i]), 0) << i;
  }
}

TEST(EmulatedDreamer, updates_in_bf16_as_a_graph_are_the_eager_ones) {
  Setting setting = wide_setting(Precision::bf16);
  setting.B = 8, setting.images = true;
  Made<FusedLearner> eager(setting), replayed(setting);
  const Sequences batch = sequences(eager.options, 3, kEmulatedDevice);
  const auto update = [&batch](auto& made) { made.learner.update(batch, made.figures); };
  GraphPool pool(kEmulatedDevice);
  StepGraph graph("update");
  pool.on_side_stream([&] {
    for (int u = 0; u < 4; ++u) update(eager);
    for (int u = 0; u < 2; ++u) update(replayed);
    graph.capture(pool, [&] { update(replayed); });
    for (int u = 0; u < 2; ++u) graph.run([] {});
  });
  EXPECT_TRUE(at::equal(replayed.state.params.data().cpu(), eager.state.params.data().cpu()));
  EXPECT_TRUE(at::equal(replayed.figures.cpu(), eager.figures.cpu()));
}

TEST(EmulatedDreamer, plans_the_memory_that_bf16_takes_besides) {
  const auto held = [](Precision precision) {
    Made<FusedLearner> made(wide_setting(precision));
    const Sequences batch = sequences(made.options, 3, kEmulatedDevice);
    made.learner.update(batch, made.figures);
    return double(emulation::memory_in_use().held);
  };
  const double taken = held(Precision::bf16) - held(Precision::fp32);
  ThreadPool pool((claim_threads(), 1));
  const LearnerOptions o = learner_options(wide_setting(Precision::bf16), pool);
  const AlgoContext context{.rows = 1, .device = kEmulatedDevice, .precision = Precision::bf16};
  const auto plan = double(rounded_bytes(o.options, o.shape, context));
  EXPECT_NEAR(plan, taken, 0.15 * taken);
}

}  // namespace
}  // namespace maglev::dreamer
