// Updates of Dreamer as they run on a GPU, on the emulated device: held to the CPU's, and
// everything that one update asks of a device counted.

#include <algorithm>
#include <cstdio>

#include <ATen/ATen.h>

#include <gtest/gtest.h>

#include "algos/dreamer/fused/learner.h"
#include "tests/close.h"
#include "tests/emulation/counted.h"
#include "tests/emulation/device.h"
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

// of as many steps and blocks as the published settings have; widths change no launch
TEST(EmulatedDreamer, takes_at_most_2600_launches_and_operations_an_update) {
  Made<FusedLearner> made({.B = 1,
                           .T = 64,
                           .H = 15,
                           .side = 64,
                           .blocks = 8,
                           .images = true,
                           .device = kEmulatedDevice});
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
  // the loop and the loop back take 12 a step each, a step of the dream 23
  EXPECT_LE(launches + operations, 2600);
}

}  // namespace
}  // namespace maglev::dreamer
