// Kernels that come onto the device early, behind all that may stand ahead of them in a capture.

#include <ATen/ATen.h>
#include <torch/cuda.h>

#include <gtest/gtest.h>

#include "engine/device/device.h"
#include "engine/device/event.h"
#include "engine/device/launch.h"
#include "engine/device/side_stream.h"
#include "engine/device/step_graph.h"
#include "kernels/gather/gather_op.h"
#include "kernels/noise/noise_op.h"

namespace maglev {
namespace {

constexpr int64_t kSide = 64;

// a kernel of ours that writes, and one that reads what is ahead of it
void draw(at::Tensor& square, uint64_t seed) {
  at::Tensor row = square.view({-1});
  noise_uniform_(row, {.seed = seed, .stream = 0, .first = 0, .rows = 1, .count = 0});
}
at::Tensor turned(const at::Tensor& square, const at::Tensor& back) {
  return gather_rows({square}, back)[0];
}

TEST(DependentLaunch_on_cuda,
     replayed_behind_fills_marks_joins_copies_and_libraries_is_the_eager_one) {
  const at::Device gpu(at::kCUDA, 0);
  if (!kDeviceCode || !torch::cuda::is_available() || !has_dependent_launch(gpu))
    GTEST_SKIP() << "no CUDA device on this machine, or none with dependent launches";
  const auto floats = at::TensorOptions(at::kFloat).device(gpu);
  at::Tensor x = at::zeros({kSide, kSide}, floats), y = at::zeros_like(x), z = at::zeros_like(x),
             product = at::zeros_like(x), copied = at::zeros_like(x), result = at::zeros_like(x);
  const at::Tensor back = at::arange(kSide - 1, -1, -1, floats.dtype(at::kLong));
  DeviceEvent mark(/*timed=*/true);
  SideStream side(gpu);
  const auto stage = [&] {
    x.zero_();
    draw(x, 1);  // behind a fill
    mark.record();
    const at::Tensor behind_mark = turned(x, back);
    side.fork([&] { draw(z, 2); });
    draw(y, 3);
    side.join();
    const at::Tensor behind_join = turned(z, back) + y;
    at::mm_out(product, behind_mark, behind_join);
    copied.copy_(turned(product, back));  // behind a library, then a copy
    result.copy_(turned(copied, back));
  };
  GraphPool pool(gpu);
  StepGraph graph("stage");
  pool.on_side_stream([&] {
    stage();
    stage();
    const at::Tensor eager = result.cpu();
    const DependentLaunch dependent(true, gpu);
    stage();
    EXPECT_TRUE(at::equal(result.cpu(), eager));
    graph.capture(pool, stage);
    for (int replay = 0; replay < 200; ++replay) {
      for (at::Tensor* t : {&x, &y, &z, &product, &copied, &result}) t->fill_(replay);
      graph.run([] {});
      ASSERT_TRUE(at::equal(result.cpu(), eager)) << replay;
    }
  });
}

}  // namespace
}  // namespace maglev
