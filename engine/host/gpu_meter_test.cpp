#include "engine/host/gpu_meter.h"

#include <cmath>
#include <cstdlib>

#include <gtest/gtest.h>

#include "tests/places.h"

namespace maglev {
namespace {

const std::string kFakeMeters = fake_library("gpus");
const std::string kNvidiaPlace = "0000:17:00.0";

// what is wrong with the fake libraries while it lives
struct Wrong {
  explicit Wrong(const char* state) { setenv("MAGLEV_FAKE_GPUS", state, 1); }
  ~Wrong() { unsetenv("MAGLEV_FAKE_GPUS"); }
};

// of a device for which nothing but the time is told
bool says_nothing(const GpuUsage& usage) {
  const GpuShares& shares = usage.shares;
  for (const double figure :
       {usage.busy, usage.busy_min, usage.busy_max, usage.joules, usage.watts, usage.celsius,
        usage.mhz, usage.memory, shares.multiprocessors, shares.tensor_cores, shares.bandwidth})
    if (!std::isnan(figure)) return false;
  return true;
}

TEST(GpuMeter, nvml_tells_what_the_device_at_an_address_does) {
  GpuMeter meter(kNvidiaPlace, {.nvml = kFakeMeters, .rocm_smi = kFakeMeters});
  ASSERT_TRUE(meter.known());
  const GpuUsage before = meter.sample(), after = meter.sample();
  EXPECT_DOUBLE_EQ(after.celsius, 61);
  EXPECT_DOUBLE_EQ(after.mhz, 1410);
  EXPECT_DOUBLE_EQ(after.memory, 10.0 * (1 << 30));
  EXPECT_DOUBLE_EQ(after.joules - before.joules, 30);
}

TEST(GpuMeter, busy_is_the_mean_of_what_came_since_the_sample_before) {
  GpuMeter meter(kNvidiaPlace, {.nvml = kFakeMeters});
  EXPECT_DOUBLE_EQ(meter.sample().busy, 1);
  const GpuUsage usage = meter.sample();
  EXPECT_DOUBLE_EQ(usage.busy, 0.2);
  EXPECT_DOUBLE_EQ(usage.busy_min, 0.1);
  EXPECT_DOUBLE_EQ(usage.busy_max, 0.3);
}

TEST(GpuMeter, counters_tell_of_the_time_since_the_sample_before) {
  GpuMeter meter(kNvidiaPlace, {.nvml = kFakeMeters});
  EXPECT_TRUE(std::isnan(meter.sample().shares.multiprocessors)) << "there is none before";
  // the fake counts 10, 30 and 50 % more each time
  GpuShares shares = meter.sample().shares;
  EXPECT_DOUBLE_EQ(shares.multiprocessors, 0.1);
  EXPECT_DOUBLE_EQ(shares.tensor_cores, 0.3);
  EXPECT_DOUBLE_EQ(shares.bandwidth, 0.5);
  {
    // one that is not told, and a look that fails: the next has none before it
    const Wrong state("nonsense");
    EXPECT_TRUE(std::isnan(meter.sample().shares.tensor_cores));
  }
  {
    const Wrong state("silent");
    EXPECT_TRUE(std::isnan(meter.sample().shares.multiprocessors));
  }
  EXPECT_TRUE(std::isnan(meter.sample().shares.multiprocessors));
  EXPECT_DOUBLE_EQ(meter.sample().shares.multiprocessors, 0.1);
  // a device of before Hopper
  const Wrong state("uncounted");
  GpuMeter older(kNvidiaPlace, {.nvml = kFakeMeters});
  older.sample();
  EXPECT_TRUE(std::isnan(older.sample().shares.multiprocessors));
}

TEST(GpuMeter, a_device_without_history_tells_of_its_last_moment) {
  const Wrong state("uncounted");
  GpuMeter meter(kNvidiaPlace, {.nvml = kFakeMeters});
  const GpuUsage usage = meter.sample();
  EXPECT_DOUBLE_EQ(usage.busy, 0.97);
  EXPECT_TRUE(std::isnan(usage.busy_min) && std::isnan(usage.busy_max));
  EXPECT_TRUE(std::isnan(usage.joules));
  EXPECT_DOUBLE_EQ(usage.watts, 212.5);
}

// one of two, and what its library lacks stays unknown
TEST(GpuMeter, rocm_smi_tells_of_the_device_at_the_address_alone) {
  GpuMeter meter("0000:43:00.0", {.nvml = kFakeMeters, .rocm_smi = kFakeMeters});
  ASSERT_TRUE(meter.known());
  const GpuUsage before = meter.sample(), after = meter.sample();
  EXPECT_DOUBLE_EQ(after.celsius, 71);
  EXPECT_NEAR(after.joules - before.joules, 2, 1e-6);
  EXPECT_DOUBLE_EQ(after.memory, 4.0 * (1 << 30));
  EXPECT_TRUE(std::isnan(after.busy));
  EXPECT_TRUE(std::isnan(after.mhz));
}

TEST(GpuMeter, a_device_that_is_not_told_apart_is_not_known) {
  const GpuLibraries both{.nvml = kFakeMeters, .rocm_smi = kFakeMeters};
  for (const char* address : {"", "0000:18:00.0", "0001:23:00.0", "cuda:0"})
    EXPECT_FALSE(GpuMeter(address, both).known()) << address;
  EXPECT_FALSE(GpuMeter(kNvidiaPlace, {}).known());
  // one that is there without a single function of theirs
  EXPECT_FALSE(GpuMeter(kNvidiaPlace, {.nvml = "libm.so.6", .rocm_smi = "libm.so.6"}).known());
  for (const auto& [state, address] : {std::pair{"broken", "0000:17:00.0"},
                                       {"instances", "0000:17:00.0"},
                                       {"parts", "0000:23:00.0"}}) {
    const Wrong wrong(state);
    GpuMeter meter(address, both);
    EXPECT_FALSE(meter.known()) << state;
    EXPECT_TRUE(says_nothing(meter.sample())) << state;
  }
}

TEST(GpuMeter, figures_that_cannot_be_and_errors_are_no_figures) {
  const GpuLibraries both{.nvml = kFakeMeters, .rocm_smi = kFakeMeters};
  for (const char* address : {"0000:17:00.0", "0000:23:00.0"}) {
    GpuMeter meter(address, both);
    {
      const Wrong silent("silent");
      GpuUsage usage = meter.sample();
      // memory of AMD's is told in any state
      usage.memory = GpuUsage::kUnknown;
      EXPECT_TRUE(says_nothing(usage)) << address;
    }
    const Wrong nonsense("nonsense");
    const GpuUsage before = meter.sample(), after = meter.sample();
    EXPECT_TRUE(std::isnan(after.busy)) << address;
    EXPECT_TRUE(std::isnan(after.celsius)) << address;
    EXPECT_TRUE(std::isnan(after.mhz)) << address;
    EXPECT_TRUE(std::isnan(watts_between(before, after))) << address;
  }
}

TEST(GpuMeter, watts_are_the_mean_of_the_energy_or_else_those_of_the_moment) {
  GpuUsage before{.at_s = 10, .joules = 1000}, after{.at_s = 20, .joules = 4000};
  EXPECT_DOUBLE_EQ(joules_between(before, after), 3000);
  EXPECT_DOUBLE_EQ(watts_between(before, after), 300);
  // a counter that began anew, stands still or leaps
  for (const double joules : {500.0, 1000.0, 1e9}) {
    after.joules = joules;
    EXPECT_TRUE(std::isnan(watts_between(before, after))) << joules;
  }
  after.joules = GpuUsage::kUnknown, after.watts = 250;
  EXPECT_DOUBLE_EQ(watts_between(before, after), 250);
  EXPECT_TRUE(std::isnan(joules_between(before, after)));
}

}  // namespace
}  // namespace maglev
