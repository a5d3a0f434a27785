#include "engine/device/host_copy.h"

#include <ATen/ATen.h>
#include <torch/cuda.h>

#include <gtest/gtest.h>

namespace maglev {
namespace {

class Copied : public testing::TestWithParam<at::DeviceType> {};

TEST_P(Copied, parts_are_what_they_were_when_the_copy_began) {
  if (GetParam() == at::kCUDA && !torch::cuda::is_available())
    GTEST_SKIP() << "no CUDA device on this machine";
  const at::Device device(GetParam());
  auto floats = at::arange(5, at::TensorOptions(at::kFloat).device(device));
  auto bytes = at::full({3}, 7, at::TensorOptions(at::kByte).device(device));
  HostCopy copy(device);
  for (int turn = 0; turn < 3; ++turn) {
    copy.start({floats, bytes});
    floats.add_(1);
    bytes.zero_();
    copy.wait();
    EXPECT_TRUE(copy.ready());
    for (int i = 0; i < 5; ++i) EXPECT_EQ(copy.part<float>(0)[i], float(turn + i));
    for (int i = 0; i < 3; ++i) EXPECT_EQ(copy.part<uint8_t>(1)[i], turn ? 0 : 7);
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, Copied, testing::Values(at::kCPU, at::kCUDA),
                         [](const auto& info) { return info.param == at::kCPU ? "cpu" : "cuda"; });

}  // namespace
}  // namespace maglev
