// Every fused operation against its reference, over the cases it lists.

#include <torch/torch.h>

#include <gtest/gtest.h>

#include "engine/algo/kernel.h"
#include "tests/close.h"

namespace maglev {
namespace {

class Kernel : public testing::TestWithParam<size_t> {};

TEST_P(Kernel, gives_what_its_reference_gives) {
  at::NoGradGuard no_grad;
  const KernelEntry& kernel = kernel_table()[GetParam()];
  auto cases = kernel.cases(at::kCPU);
  ASSERT_FALSE(cases.empty()) << kernel.name << " lists no case";
  for (const auto& c : cases) {
    auto fused = c.fused(), reference = c.reference();
    ASSERT_EQ(fused.size(), reference.size()) << c.name;
    for (size_t i = 0; i < fused.size(); ++i)
      EXPECT_TRUE(close(fused[i], reference[i], c.tolerance)) << c.name << ", output " << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Cpu, Kernel, testing::Range<size_t>(0, kernel_table().size()),
                         [](const auto& info) {
                           return std::string(kernel_table()[info.param].name);
                         });

}  // namespace
}  // namespace maglev
