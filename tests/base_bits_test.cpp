// A small network learns by our own kernels alone, without torch: its bits are those that are
// written here, on every processor with multiply-adds, of any kind.

#include <algorithm>
#include <array>
#include <vector>

#include <gtest/gtest.h>
#include <hwy/targets.h>

#include "base/core/hash.h"
#include "base/core/philox.h"
#include "base/core/thread_pool.h"
#include "base/simd/panel.h"
#include "base/simd/targets.h"
#include "kernels/mlp/mlp.h"
#include "kernels/noise/noise.h"
#include "tests/adam_optimiser.h"

namespace maglev {
namespace {

constexpr int64_t kRows = 64, kSteps = 30;
constexpr std::array<int64_t, 4> kSizes{5, 33, 48, 3};
constexpr std::array kActivations{Activation::tanh, Activation::relu, Activation::none};
constexpr int64_t kLayers = 3;

struct alignas(64) Line {
  float f[16];
};
// floats of a buffer that begins at 64 bytes
struct Floats {
  explicit Floats(int64_t count) : lines(size_t(count + 15) / 16) {}
  float* data() { return lines.data()->f; }
  std::vector<Line> lines;
};

// the hash of what it has learned and of its optimiser's moments
std::string learned() {
  const int64_t stride = panel_stride(kRows);
  int64_t P = 0, widest = 0;
  for (int64_t l = 0; l < kLayers; ++l) {
    P += kSizes[size_t(l)] * kSizes[size_t(l) + 1] + kSizes[size_t(l) + 1];
    widest = std::max(widest, (kSizes[size_t(l)] + 15) / 16 * 16);
  }
  Floats weights(P), grads(P);
  Rng rng(7, 1, 0);
  for (int64_t i = 0; i < P; ++i) weights.data()[i] = rng.uniform(-0.4f, 0.4f);

  std::vector<DenseLayer> layers;
  std::vector<DenseGrad> to;
  std::vector<Floats> y, dy, slope;
  for (int64_t l = 0, at = 0; l < kLayers; ++l) {
    const int64_t in = kSizes[size_t(l)], out = kSizes[size_t(l) + 1];
    layers.push_back(
        {weights.data() + at, weights.data() + at + in * out, in, out, kActivations[size_t(l)]});
    to.push_back({grads.data() + at, grads.data() + at + in * out});
    at += in * out + out;
    for (auto* column : {&y, &dy, &slope}) column->emplace_back(out * stride);
  }
  std::array<float*, kLayers> y_at, dy_at, slope_at;
  for (size_t l = 0; l < size_t(kLayers); ++l)
    y_at[l] = y[l].data(), dy_at[l] = dy[l].data(), slope_at[l] = slope[l].data();
  Floats x(kSizes.front() * stride), scratch(kPanelRows * widest);

  ThreadPool pool(1);
  AdamOptimiser adam(P, /*lanes=*/1, {{0, P}});
  adam.args.data = weights.data(), adam.args.grad = grads.data();

  for (int64_t n = 0; n < kSteps; ++n) {
    noise_normal_cpu(
        {.seed = 3, .stream = uint64_t(n), .first = 0, .rows = 1, .count = kSizes.front() * stride},
        x.data());
    mlp_forward_cpu({.layers = layers,
                     .x = x.data(),
                     .y = y_at.data(),
                     .slope = slope_at.data(),
                     .stride = stride,
                     .rows = kRows,
                     .words = nullptr});
    // output k is to come near the product of inputs k and k + 1
    for (int64_t k = 0; k < kSizes.back(); ++k)
      for (int64_t r = 0; r < kRows; ++r) {
        const float* from = x.data() + k * stride + r;
        dy_at.back()[k * stride + r] =
            (y_at.back()[k * stride + r] - from[0] * from[stride]) / float(kRows);
      }
    std::fill_n(grads.data(), P, 0.f);
    mlp_backward_cpu({.layers = layers,
                      .grad = to,
                      .x = x.data(),
                      .y = y_at.data(),
                      .slope = slope_at.data(),
                      .dy = dy_at.data(),
                      .dx = nullptr,
                      .dx_features = 0,
                      .scratch = scratch.data(),
                      .stride = stride,
                      .rows = kRows,
                      .words = nullptr,
                      .pair_scratch = nullptr});
    adam.update(pool);
  }
  Hash hash;
  for (const float* learned : {weights.data(), adam.first.data(), adam.second.data()})
    hash.add(learned, size_t(P) * sizeof(float));
  return hash.hex();
}

TEST(Bits, of_a_network_that_learns_are_the_same_on_every_kind_of_processor_with_multiply_adds) {
  for (int64_t target : hwy::SupportedAndGeneratedTargets()) {
    const SimdTargets used(target);
    if (!simd_has_fma()) continue;
    EXPECT_EQ(learned(), "ba66710d0debde7cfc87004e69322986") << hwy::TargetName(target);
  }
}

}  // namespace
}  // namespace maglev
