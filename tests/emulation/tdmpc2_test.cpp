// Updates of TD-MPC2 as they run on a GPU, on the emulated device: held to autograd's on the
// processor, and everything that one update asks of a device counted.

#include <cstdio>
#include <functional>
#include <map>
#include <string>

#include <ATen/ATen.h>

#include <gtest/gtest.h>

#include "algos/tdmpc2/device/learner.h"
#include "algos/tdmpc2/reference/learner.h"
#include "tests/emulation/counted.h"
#include "tests/emulation/device.h"
#include "tests/tdmpc2_learners.h"

namespace maglev::tdmpc2 {
namespace {

using emulation::CountedOperations;
using emulation::kEmulatedDevice;

TEST(EmulatedTdmpc2, learns_as_autograd_does_on_the_cpu) {
  Setting setting{.B = 11, .alignment = 16};
  Made<ReferenceLearner> reference(setting);
  setting.device = kEmulatedDevice;
  Made<DeviceLearner> device(setting);
  for (uint64_t seed : {3, 4}) {
    reference.learner.update(sequences(reference.options, seed), reference.figures);
    device.learner.update(sequences(reference.options, seed, kEmulatedDevice), device.figures);
  }
  EXPECT_TRUE(close(device.state.params.data().cpu(), reference.state.params.data(), 1e-6));
  EXPECT_TRUE(close(device.state.target_q.cpu(), reference.state.target_q, 1e-6));
  EXPECT_TRUE(close(device.figures.cpu(), reference.figures, 5e-5));
}

/// What a stage asks of a device: launches of ours and operations of ATen.
int64_t asked(const char* stage, const std::function<void()>& run) {
  emulation::clear_launches();
  std::map<std::string, int64_t> all;
  {
    const CountedOperations counted;
    run();
    all = counted.of();
  }
  for (const auto& [name, count] : emulation::launches())
    all[emulation::without_arguments(name)] += count;
  int64_t sum = 0;
  for (const auto& [name, count] : all) {
    sum += count;
    std::printf("  %4ld %s\n", long(count), name.c_str());
  }
  std::printf("%s: %ld\n", stage, long(sum));
  return sum;
}

template <class Learner>
int64_t asked_of_an_update(Precision precision) {
  // steps and networks of configs/tdmpc2/hockey_report.yaml; widths change no launch
  Made<Learner> made({.B = 4,
                      .H = 8,
                      .dropout = 0.01,
                      .alignment = 16,
                      .precision = precision,
                      .device = kEmulatedDevice});
  const Sequences batch = sequences(made.options, 3, kEmulatedDevice);
  made.learner.update(batch, made.figures);
  at::Tensor latents;
  asked("model", [&] { latents = made.learner.model_gradients(batch, 4, made.figures); });
  asked("policy", [&] { made.learner.policy_gradients(latents, batch, 4, made.figures); });
  return asked("an update", [&] { made.learner.update(batch, made.figures); });
}

// autograd takes more than twice as many
TEST(EmulatedTdmpc2, takes_at_most_300_launches_and_operations_an_update) {
  const int64_t count = asked_of_an_update<DeviceLearner>(Precision::fp32);
  EXPECT_LE(count, 300);
  EXPECT_GT(asked_of_an_update<ReferenceLearner>(Precision::fp32), 2 * count);
}

// what enters a product is rounded: a copy of the weights and casts around losses come besides
TEST(EmulatedTdmpc2, takes_at_most_320_in_bf16) {
  const int64_t count = asked_of_an_update<DeviceLearner>(Precision::bf16);
  EXPECT_LE(count, 320);
  EXPECT_GT(asked_of_an_update<ReferenceLearner>(Precision::bf16), 2 * count);
}

}  // namespace
}  // namespace maglev::tdmpc2
