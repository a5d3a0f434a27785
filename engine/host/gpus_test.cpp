#include "engine/host/gpus.h"

#include <cstdlib>

#include <gtest/gtest.h>

#include "tests/places.h"

namespace maglev {
namespace {

const std::string kFake = fake_library("gpus");

TEST(Gpus, nvml_tells_name_memory_capability_driver_use_and_lanes) {
  const auto gpus = probe_gpus({.nvml = kFake});
  ASSERT_EQ(gpus.size(), 1u);
  EXPECT_EQ(gpus[0].name, "Fake H100");
  EXPECT_EQ(gpus[0].memory_total, int64_t(80) << 30);
  EXPECT_EQ(gpus[0].memory_free, int64_t(70) << 30);
  EXPECT_EQ(gpus[0].capability, "9.0");
  EXPECT_EQ(gpus[0].driver, "550.54");
  EXPECT_EQ(gpus[0].busy, 97);
  EXPECT_EQ(gpus[0].lanes, 4);
  EXPECT_EQ(gpus[0].lanes_at_most, 16);
}

TEST(Gpus, rocm_smi_tells_its_own_and_what_it_lacks_stays_unknown) {
  const auto gpus = probe_gpus({.rocm_smi = kFake});
  ASSERT_EQ(gpus.size(), 2u);
  EXPECT_EQ(gpus[0].name, "Fake MI300X");
  EXPECT_EQ(gpus[1].name, "Fake MI210");
  EXPECT_EQ(gpus[1].memory_total, int64_t(64) << 30);
  EXPECT_EQ(gpus[1].memory_free, int64_t(60) << 30);
  EXPECT_EQ(gpus[0].driver, "6.3.6");
  EXPECT_TRUE(gpus[0].capability.empty());
  EXPECT_EQ(gpus[0].busy, -1);
}

TEST(Gpus, both_libraries_add_up) {
  EXPECT_EQ(probe_gpus({.nvml = kFake, .rocm_smi = kFake}).size(), 3u);
}

TEST(Gpus, a_library_that_is_missing_or_no_library_or_does_not_start_has_none) {
  EXPECT_TRUE(probe_gpus({}).empty());
  EXPECT_TRUE(probe_gpus({.nvml = "/nowhere/libnvml.so", .rocm_smi = "/etc/passwd"}).empty());
  // one that is there without a single function of theirs
  EXPECT_TRUE(probe_gpus({.nvml = "libm.so.6", .rocm_smi = "libm.so.6"}).empty());
  setenv("MAGLEV_FAKE_GPUS", "broken", 1);
  EXPECT_TRUE(probe_gpus({.nvml = kFake, .rocm_smi = kFake}).empty());
  unsetenv("MAGLEV_FAKE_GPUS");
}

TEST(Gpus, variables_name_the_libraries_and_an_empty_one_hides_them) {
  setenv("MAGLEV_NVML", kFake.c_str(), 1);
  setenv("MAGLEV_ROCM_SMI", "", 1);
  const GpuLibraries named = gpu_libraries();
  unsetenv("MAGLEV_NVML");
  unsetenv("MAGLEV_ROCM_SMI");
  EXPECT_EQ(named.nvml, kFake);
  EXPECT_EQ(named.rocm_smi, "");
  EXPECT_EQ(gpu_libraries().nvml, "libnvidia-ml.so.1");
}

TEST(Gpus, capability_says_which_precisions_there_are) {
  using Names = std::vector<std::string>;
  EXPECT_EQ(precisions_of_capability("9.0"), (Names{"fp32", "tf32", "bf16", "fp16", "fp8"}));
  EXPECT_EQ(precisions_of_capability("8.6"), (Names{"fp32", "tf32", "bf16", "fp16"}));
  EXPECT_EQ(precisions_of_capability("7.5"), (Names{"fp32", "fp16"}));
  EXPECT_EQ(precisions_of_capability("6.1"), (Names{"fp32"}));
  EXPECT_EQ(precisions_of_capability("12.0").size(), 5u);
  EXPECT_TRUE(precisions_of_capability("").empty());
}

}  // namespace
}  // namespace maglev
