// Every fused operation against its reference, over the cases it lists, on each device.

#include <algorithm>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include <ATen/ATen.h>

#include <gtest/gtest.h>
#include <hwy/targets.h>

#include "base/simd/targets.h"
#include "engine/device/kernel.h"
#include "engine/host/machine.h"
#include "verbs/kernels/gradient.h"
#include "verbs/kernels/parity.h"
#include "verbs/kernels/results.h"

namespace maglev {
namespace {

using verbs::kernels::case_devices;
using verbs::kernels::check_gradient;
using verbs::kernels::check_parity;
using verbs::kernels::compare;
using verbs::kernels::fused_results;
using verbs::kernels::GradientCheck;
using verbs::kernels::kDifferenceTolerance;
using verbs::kernels::Parity;
using verbs::kernels::parity_text;
using verbs::kernels::reference_results;
using verbs::kernels::Results;
using verbs::kernels::tolerance_scale;

class KernelOnDevice : public testing::TestWithParam<std::tuple<size_t, const char*>> {
 protected:
  static void SetUpTestSuite() { claim_threads(); }
  void SetUp() override {
    const auto devices = case_devices();
    if (std::find(devices.begin(), devices.end(), device()) == devices.end())
      GTEST_SKIP() << "no CUDA device on this machine, or no device code in this build";
    cases_ = kernel().cases(device());
    // one without a CUDA twin may still be written in operations of ATen
    if (device().is_cuda() && !kernel().cuda && cases_.empty())
      GTEST_SKIP() << kernel().name << " is of the processor alone";
    if (device().is_cpu() && kernel().device_only)
      GTEST_SKIP() << kernel().name << " is of a device alone";
    ASSERT_FALSE(cases_.empty()) << kernel().name << " lists no case";
  }
  const KernelEntry& kernel() const { return kernel_table()[std::get<0>(GetParam())]; }
  at::Device device() const { return at::Device(std::get<1>(GetParam())); }

  std::vector<KernelCase> cases_;
};

TEST_P(KernelOnDevice, gives_what_its_reference_gives) {
  for (const auto& c : cases_) {
    const Parity parity = check_parity(c, tolerance_scale());
    EXPECT_TRUE(parity.ok) << c.name << ": "
                           << parity_text(parity, c.tolerance * tolerance_scale());
  }
}

TEST_P(KernelOnDevice, has_the_gradients_of_its_reference) {
  for (const auto& c : cases_) {
    const GradientCheck check = check_gradient(c, tolerance_scale());
    EXPECT_TRUE(check.reference.ok || !check.has_gradient)
        << c.name << ", reference: " << parity_text(check.reference, kDifferenceTolerance);
    EXPECT_TRUE(check.fused.ok || !check.has_gradient)
        << c.name << ": " << parity_text(check.fused, c.tolerance * tolerance_scale());
  }
}

INSTANTIATE_TEST_SUITE_P(OfTheTable, KernelOnDevice,
                         testing::Combine(testing::Range<size_t>(0, kernel_table().size()),
                                          testing::Values("cpu", "cuda:0")),
                         [](const auto& info) {
                           const std::string device = std::get<1>(info.param);
                           return kernel_table()[std::get<0>(info.param)].name +
                                  std::string("_on_") + device.substr(0, device.find(':'));
                         });

class Kernel : public testing::TestWithParam<size_t> {
 protected:
  // ATen's, which no choice of instructions of ours changes: once a case
  const Results& reference(const KernelCase& c) {
    const auto [found, is_new] = references_.try_emplace(c.name);
    if (is_new) found->second = reference_results(c);
    return found->second;
  }

 private:
  std::map<std::string, Results> references_;
};

// vectors of every width, and processors without fused multiply-add
TEST_P(Kernel, gives_it_with_every_instruction_set_of_this_processor) {
  for (int64_t target : hwy::SupportedAndGeneratedTargets()) {
    const SimdTargets used(target);
    for (const auto& c : kernel_table()[GetParam()].cases(at::kCPU)) {
      const Parity parity = check_parity(c, reference(c), tolerance_scale());
      EXPECT_TRUE(parity.ok) << hwy::TargetName(target) << ", " << c.name << ": "
                             << parity_text(parity, c.tolerance * tolerance_scale());
    }
  }
}

// so a seed is the same run on each of them
TEST_P(Kernel, gives_the_same_bits_with_every_instruction_set_that_fuses_multiply_and_add) {
  std::map<std::string, Results> first;
  for (int64_t target : hwy::SupportedAndGeneratedTargets()) {
    const SimdTargets used(target);
    if (!simd_has_fma()) continue;
    for (const auto& c : kernel_table()[GetParam()].cases(at::kCPU)) {
      const Results now = fused_results(c, reference(c).output_grads);
      const Results& then = first.try_emplace(c.name, now).first->second;
      for (auto [a, b] :
           {std::pair{&then.outputs, &now.outputs}, {&then.gradients, &now.gradients}}) {
        const Parity same = compare(*a, *b, 0, "result");
        EXPECT_TRUE(same.ok) << hwy::TargetName(target) << ", " << c.name << ": "
                             << parity_text(same, 0);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Cpu, Kernel, testing::Range<size_t>(0, kernel_table().size()),
                         [](const auto& info) {
                           return std::string(kernel_table()[info.param].name);
                         });

}  // namespace
}  // namespace maglev
