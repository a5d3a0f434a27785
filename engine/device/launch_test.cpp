#include "engine/device/launch.h"

#include <string_view>

#include <ATen/ATen.h>

#include <gtest/gtest.h>

#include "engine/device/kernel.h"
#include "tests/errors.h"

namespace maglev {
namespace {

int* last_on_device = nullptr;

void add_one_cpu(int* value) { *value += 1; }
int add_one_cuda(int* value, void*) {
  last_on_device = value;
  return 0;
}

TEST(Launch, on_the_cpu_it_calls_the_cpu_function) {
  int value = 1;
  launch<add_one_cuda>("add_one", at::kCPU, add_one_cpu, &value);
  EXPECT_EQ(value, 2);
  EXPECT_EQ(last_on_device, nullptr);
}

TEST(Launch, names_its_work_for_a_profiler) {
  static std::string seen;
  const auto handle =
      at::addThreadLocalCallback(at::RecordFunctionCallback([](const at::RecordFunction& f) {
                                   seen += f.name();
                                   return std::unique_ptr<at::ObserverContext>();
                                 }).scopes({at::RecordScope::FUNCTION}));
  int value = 1;
  launch<add_one_cuda>("add_one", at::kCPU, add_one_cpu, &value);
  at::removeCallback(handle);
  EXPECT_EQ(seen, "maglev::add_one");
}

TEST(Launch, a_device_without_kernels_is_refused_in_one_line) {
  int value = 1;
  const auto on = [&](at::Device device) {
    return error_of([&] { launch<add_one_cuda>("add_one", device, add_one_cpu, &value); });
  };
  EXPECT_EQ(on(at::kMeta),
            "[add_one] runs on cpu and cuda, got tensors on meta; move them to one of these");
  if (!kDeviceCode) {
    EXPECT_NE(on(at::Device(at::kCUDA, 0)).find("this build has no device code; use device=cpu"),
              std::string::npos);
  }
  EXPECT_EQ(value, 1);
}

TEST(Launch, tensors_on_two_devices_are_refused) {
  const auto here = at::zeros({2}), nowhere = at::zeros({2}, at::kMeta);
  EXPECT_EQ(device_of("add", here, at::Tensor(), here), at::Device(at::kCPU));
  EXPECT_EQ(error_of([&] { device_of("add", here, here, nowhere); }),
            "[add] needs its tensors on one device, got some on cpu and some on meta; move them "
            "to one");
}

TEST(Launch, dependent_launches_are_for_devices_that_have_them) {
  const DependentLaunch none(true, at::kCPU);
  if (kDeviceCode) return;
  EXPECT_EQ(error_of([] { DependentLaunch(true, at::Device(at::kCUDA, 0)); }),
            "[train.dependent_launch] needs a GPU of capability 9.0 or later, got cuda:0 of 0.0; "
            "leave it off");
}

constexpr const char* kByTorch = "refused by torch";

// what a case of `kernel` on a device without kernels ends in
std::string refused(const KernelEntry& kernel) {
  try {
    return error_of([&] {
      for (const KernelCase& one : kernel.cases(at::kMeta)) one.fused(one.inputs);
    });
  } catch (const c10::Error&) {
    // what is ATen's elsewhere, and a case that asks for pointers itself
    return kByTorch;
  }
}

TEST(Launch, every_kernel_refuses_tensors_it_cannot_reach) {
  int refused_by_us = 0;
  for (const KernelEntry& kernel : kernel_table()) {
    // PPO's still choose their device themselves
    if (std::string_view(kernel.name).starts_with("ppo_")) continue;
    const std::string error = refused(kernel);
    // a kernel of the CPU alone lists no case there
    if (error.empty()) continue;
    EXPECT_TRUE(contains(error, "got tensors on meta") || error == kByTorch)
        << kernel.name << ": " << error;
    refused_by_us += contains(error, "got tensors on meta");
  }
  EXPECT_GE(refused_by_us, 10);
}

}  // namespace
}  // namespace maglev
