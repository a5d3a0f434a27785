#include "engine/group/nccl_group.h"

#include <ATen/ATen.h>
#include <torch/cuda.h>

#include <gtest/gtest.h>

#include "engine/device/device.h"
#include "engine/device/step_graph.h"
#include "tests/errors.h"

namespace maglev {
namespace {

const at::Device kFirstGpu("cuda:0");

TEST(NcclGroup, without_its_library_says_where_that_comes_from) {
  const std::string error = error_of([] { NcclGroup::make_id("/nowhere/libnccl.so.2"); });
  EXPECT_TRUE(error.starts_with("[group] several processes on GPUs need libnccl.so.2")) << error;
  EXPECT_TRUE(contains(error, "device=cpu (/nowhere/libnccl.so.2: cannot open")) << error;
}

TEST(NcclGroup, refuses_a_library_that_is_another) {
  const std::string error = error_of([] { NcclGroup::make_id("libm.so.6"); });
  EXPECT_TRUE(contains(error, "[group] libm.so.6 is no NCCL")) << error;
}

TEST(NcclGroup, is_refused_by_a_build_without_device_code) {
  if (kDeviceCode) GTEST_SKIP() << "this build has device code";
  const std::string error = error_of([] { NcclGroup(0, 2, kFirstGpu, NcclId{}); });
  EXPECT_TRUE(contains(error, "[group] has tensors on cuda:0, and this build has no")) << error;
}

// what torch's own NCCL takes; of a group of one all is as it was
TEST(NcclGroup, of_one_process_on_cuda_keeps_values_eagerly_and_captured) {
  if (!torch::cuda::is_available()) GTEST_SKIP() << "no CUDA device on this machine";
  NcclGroup group(0, 1, kFirstGpu, NcclGroup::make_id());
  GraphPool pool(kFirstGpu);
  StepGraph graph("stage");
  for (const at::ScalarType dtype : {at::kFloat, at::kDouble, at::kBFloat16}) {
    const at::Tensor x = at::arange(6, at::TensorOptions(dtype).device(kFirstGpu));
    at::Tensor all = at::zeros({1, 6}, x.options());
    const auto stage = [&] {
      group.sum(x);
      all.copy_(group.gather(x));
    };
    pool.on_side_stream([&] {
      stage();
      EXPECT_TRUE(at::equal(all[0], at::arange(6, x.options())));
      graph.capture(pool, stage);
      x.add_(1);
      graph.run([] {});
      EXPECT_TRUE(at::equal(all[0], at::arange(1, 7, x.options())));
    });
    graph.reset();
  }
  group.check();
}

}  // namespace
}  // namespace maglev
