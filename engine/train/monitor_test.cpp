#include "engine/train/monitor.h"

#include <cmath>

#include <gtest/gtest.h>

namespace maglev {
namespace {

constexpr int64_t kMiB = 1 << 20;

// a machine that is what the test says, every sample a second after the one before
class Fake {
 public:
  Monitor monitor(int64_t planned, double every_s = 1) {
    return monitor(Monitor::Planned{.host = planned}, every_s);
  }
  Monitor monitor(const Monitor::Planned& planned, double every_s = 1) {
    return {every_s, planned, free, [this] { return ++now.at_s, now; }, [this] { return tensors; },
            gpu,     parts};
  }
  Usage now{.resident = 100 * kMiB, .memory_pressure = 0.25};
  TensorMemory tensors{.host = 7 * kMiB};
  std::function<GpuUsage()> gpu;
  std::function<std::vector<MemoryPart>()> parts;
  Load free{.threads = 2, .usable = 2, .rows = 1024, .block_rows = 64};
};

MetricRow row_at(Monitor& monitor, int64_t step) {
  MetricRow row{.step = step, .seconds = double(step)};
  monitor.add_to(row);
  return row;
}

double value(const MetricRow& row, const std::string& name) {
  for (const auto& [key, value] : row.values)
    if (key == name) return value;
  ADD_FAILURE() << "no " << name;
  return 0;
}

TEST(Monitor, tells_of_the_time_since_the_sample_before) {
  Fake machine;
  machine.now.energy = {{0, 1'000'000'000}};
  Monitor monitor = machine.monitor(0);
  row_at(monitor, 1000);
  machine.now.processor_s += 1.5;
  machine.now.energy[0].count += 30'000'000;
  machine.tensors = {.host = 9 * kMiB, .device = kMiB, .device_reserved = 2 * kMiB};
  const MetricRow row = row_at(monitor, 3000);
  EXPECT_DOUBLE_EQ(value(row, "memory/process_mib"), 100);
  EXPECT_DOUBLE_EQ(value(row, "memory/tensors_mib"), 9);
  EXPECT_DOUBLE_EQ(value(row, "memory/device_reserved_mib"), 2);
  EXPECT_DOUBLE_EQ(value(row, "memory/pressure"), 0.25);
  EXPECT_NEAR(value(row, "machine/processors"), 1.5, 1e-6);
  EXPECT_NEAR(value(row, "machine/watts"), 30, 1e-4);
  EXPECT_NEAR(value(row, "machine/joules_per_million_steps"), 15000, 1e-6);
}

// a GPU that draws 300 W while it has work a quarter of the time
TEST(Monitor, tells_of_the_gpu_what_its_driver_does_and_nothing_else) {
  Fake machine;
  machine.gpu = [gpu = GpuUsage{.busy = 0.25,
                                .shares = {.multiprocessors = 0.1, .bandwidth = 0.05},
                                .joules = 5000,
                                .celsius = 61}]() mutable {
    gpu.at_s += 2, gpu.joules += 600;
    return gpu;
  };
  Monitor monitor = machine.monitor(0);
  const MetricRow first = row_at(monitor, 1000), row = row_at(monitor, 3000);
  EXPECT_DOUBLE_EQ(value(row, "machine/gpu_busy"), 0.25);
  EXPECT_DOUBLE_EQ(value(row, "machine/gpu_sm"), 0.1);
  EXPECT_DOUBLE_EQ(value(row, "machine/gpu_dram"), 0.05);
  EXPECT_DOUBLE_EQ(value(row, "machine/gpu_watts"), 300);
  EXPECT_DOUBLE_EQ(value(row, "machine/gpu_joules_per_million_steps"), 300'000);
  EXPECT_DOUBLE_EQ(value(row, "machine/gpu_celsius"), 61);
  for (const auto& [name, figure] : first.values)
    EXPECT_NE(name, "machine/gpu_joules_per_million_steps") << figure;
  for (const auto& [name, figure] : row.values) {
    EXPECT_NE(name, "machine/gpu_mhz") << figure;
    EXPECT_NE(name, "machine/gpu_mib") << figure;
    EXPECT_NE(name, "machine/gpu_tensor") << figure;
  }
}

TEST(Monitor, names_a_gpu_that_idles) {
  Fake machine;
  GpuUsage gpu{.busy = 0.06};
  machine.gpu = [&gpu] { return gpu; };
  machine.free.on_device = true, machine.now.memory_pressure = 0;
  Monitor monitor = machine.monitor(0);
  row_at(monitor, 1);
  MetricRow row{.step = 2, .seconds = 2, .values = {{"time/policy", 0.9}}};
  monitor.add_to(row);
  EXPECT_TRUE(row.bound_by.starts_with("idle GPU, 94 % of the time, while")) << row.bound_by;
  // one that nothing is known of is not idle
  gpu.busy = GpuUsage::kUnknown;
  MetricRow unknown{.step = 3, .seconds = 3, .values = {{"time/policy", 0.9}}};
  monitor.add_to(unknown);
  EXPECT_TRUE(unknown.bound_by.starts_with("policy, 90 % of the time")) << unknown.bound_by;
}

// rows of 1, 2 and 5 seconds between two samples, weighed by them; the first is of what came before
TEST(Monitor, judges_the_time_since_the_sample_before) {
  Fake machine;
  Monitor monitor = machine.monitor(0, /*every_s=*/8);
  MetricRow first{.step = 0, .seconds = 100, .values = {{"time/policy", 1}}};
  monitor.add_to(first);
  EXPECT_EQ(first.bound_by, "");
  machine.now.processor_s += 2, machine.now.memory_pressure = 0;
  MetricRow learning{.step = 10, .seconds = 101, .values = {{"time/learn", 1}}};
  MetricRow stepping{.step = 20, .seconds = 103, .values = {{"time/environment", 0.5}}};
  MetricRow mixed{.step = 30, .seconds = 108, .values = {{"time/environment", 0.8}}};
  monitor.add_to(learning);
  monitor.add_to(stepping);
  monitor.add_to(mixed);
  EXPECT_EQ(mixed.bound_by.substr(0, 32), "environment, 63 % of the time: a") << mixed.bound_by;
}

TEST(Monitor, tells_an_environment_that_is_waited_for) {
  Fake machine;
  machine.now.memory_pressure = 0, machine.now.processor_pressure = 0.9, machine.now.queued_s = 5;
  machine.now.programs = {.running = 2, .on_processor_s = 3, .queued_s = 1};
  Monitor monitor = machine.monitor(0);
  row_at(monitor, 1);
  machine.now.processor_s += 0.1, machine.now.queued_s += 0.1;
  machine.now.programs = {.running = 2, .on_processor_s = 3.1, .queued_s = 1.2};
  MetricRow row{.step = 2, .seconds = 2, .values = {{"time/environment", 0.9}}};
  monitor.add_to(row);
  EXPECT_TRUE(row.bound_by.starts_with("waits for the environment, 90 %")) << row.bound_by;
}

TEST(Monitor, tells_hooks_from_the_learning_they_lie_in) {
  Fake machine;
  Monitor monitor = machine.monitor(0, /*every_s=*/8);
  MetricRow first{.step = 0, .seconds = 100};
  monitor.add_to(first);
  machine.now.processor_s += 2, machine.now.memory_pressure = 0;
  MetricRow row{.step = 10, .seconds = 110, .values = {{"time/learn", 0.9}}};
  monitor.beside() = {.hooks = 7, .hooks_in_learn = 7};
  monitor.add_to(row);
  EXPECT_EQ(row.bound_by.substr(0, 23), "hooks, 70 % of the time") << row.bound_by;
  EXPECT_EQ(monitor.beside().hooks, 0);
}

TEST(Monitor, samples_no_more_often_than_it_was_told) {
  Fake machine;
  Monitor hourly = machine.monitor(0, 3600), never = machine.monitor(0, 0);
  EXPECT_FALSE(row_at(hourly, 1).values.empty());
  EXPECT_TRUE(row_at(hourly, 2).values.empty());
  EXPECT_FALSE(row_at(hourly, 3601).values.empty());
  EXPECT_TRUE(row_at(never, 1).values.empty());
}

TEST(Monitor, warns_once_of_memory_that_grows_past_the_plan) {
  Fake machine;
  Monitor monitor = machine.monitor(10 * kMiB);
  std::string said;
  int warnings = 0;
  for (int i = 0; i < 40; ++i) {
    machine.now.resident += kMiB;
    ASSERT_FALSE(row_at(monitor, i).values.empty());
    const std::string warning = monitor.take_warning();
    warnings += !warning.empty();
    if (said.empty()) said = warning;
  }
  EXPECT_EQ(warnings, 1);
  EXPECT_NE(said.find("takes 3.5 GiB more an hour"), std::string::npos) << said;
}

TEST(Monitor, warns_of_tensors_on_a_device_that_grow_past_the_plan_and_not_below_it) {
  Fake machine;
  machine.tensors = {.device = 50 * kMiB, .device_reserved = 512 * kMiB};
  Monitor monitor = machine.monitor(Monitor::Planned{.device = 70 * kMiB});
  std::string said;
  int warnings = 0;
  for (int i = 0; i < 40; ++i) {
    machine.tensors.device += kMiB;
    const MetricRow row = row_at(monitor, i);
    const std::string warning = monitor.take_warning();
    if (i >= 12) {
      EXPECT_NEAR(value(row, "memory/device_growth_mib_per_hour"), 3600, 1e-6);
    }
    if (i < 20) {
      EXPECT_EQ(warning, "") << i;
    }
    warnings += !warning.empty();
    if (said.empty()) said = warning;
  }
  EXPECT_EQ(warnings, 1);
  EXPECT_NE(said.find("tensors on the GPU hold 71"), std::string::npos) << said;
  EXPECT_NE(said.find("take 3.5 GiB more an hour"), std::string::npos) << said;
  // what learners and graphs take once, after their first updates
  machine.tensors.device = 0;
  Monitor taken = machine.monitor(Monitor::Planned{});
  for (int i = 0; i < 60; ++i) {
    machine.tensors.device = (i < 5 ? 10 : 30) * kMiB;
    row_at(taken, i);
    EXPECT_EQ(taken.take_warning(), "") << i;
  }
}

TEST(Monitor, tells_of_programs_and_warns_where_they_grow) {
  Fake machine;
  machine.now.programs = {.running = 2, .on_processor_s = 3, .resident = 80 * kMiB};
  Monitor monitor = machine.monitor(0);
  std::string said;
  for (int i = 0; i < 40; ++i) {
    machine.now.programs.on_processor_s += 1.25;
    const MetricRow row = row_at(monitor, i);
    EXPECT_DOUBLE_EQ(value(row, "memory/programs_mib"), 80 + i);
    if (i > 0) {
      EXPECT_NEAR(value(row, "machine/programs_processors"), 1.25, 1e-6);
    }
    machine.now.programs.resident += kMiB;
    if (const std::string warning = monitor.take_warning(); !warning.empty()) {
      // a quarter more than at first
      EXPECT_GT(i, 20);
      said += warning;
    }
  }
  EXPECT_EQ(
      said,
      "memory grows: the processes of its environments hold 101 MiB, more than the 100 MiB of "
      "the beginning and the plan, and take 3.5 GiB more an hour; memory/* in metrics.jsonl "
      "shows since when");
}

// what a monitor says of a machine that `grows` a little between two samples
std::string said_of_growth(Fake& machine, const Monitor::Planned& planned,
                           const std::function<void()>& grows) {
  Monitor monitor = machine.monitor(planned);
  std::string said;
  for (int i = 0; i < 40 && said.empty(); ++i) {
    row_at(monitor, i);
    grows();
    said = monitor.take_warning();
  }
  return said;
}

TEST(Monitor, names_the_part_that_grew) {
  Fake heap;
  EXPECT_NE(said_of_growth(heap, {}, [&] { heap.now.resident += kMiB; })
                .find("(11 MiB so far) in no tensor: of the environment"),
            std::string::npos);
  Fake tensors;
  int64_t past_selves = 0;
  tensors.parts = [&] {
    return std::vector<MemoryPart>{{"rollout or replay", 5 * kMiB}, {"opponents", past_selves}};
  };
  const auto grows = [&] { past_selves += kMiB; };
  EXPECT_NE(said_of_growth(tensors, {},
                           [&] {
                             grows();
                             tensors.now.resident += kMiB, tensors.tensors.host += kMiB;
                           })
                .find("MiB so far) in opponents; memory/*"),
            std::string::npos);
  // the same on a device, whose parts say nothing of what the process holds
  tensors.tensors.device_reserved = 512 * kMiB;
  EXPECT_NE(said_of_growth(tensors, {}, [&] { grows(), tensors.tensors.device += kMiB; })
                .find("MiB so far) in opponents; memory/*"),
            std::string::npos);
  EXPECT_NE(said_of_growth(tensors, {},
                           [&] {
                             grows();
                             tensors.now.resident += kMiB, tensors.tensors.host += kMiB;
                           })
                .find("MiB so far) in tensors; memory/*"),
            std::string::npos);
}

TEST(Monitor, tells_of_growth_in_the_words_of_whose_loop_it_is) {
  Fake machine;
  const GrowthWords words{.in_no_tensor = "somewhere", .shown = "look there"};
  Monitor monitor(
      1, {}, machine.free, [&] { return ++machine.now.at_s, machine.now; },
      [&] { return machine.tensors; }, {}, {}, words);
  std::string said;
  for (int i = 0; i < 40 && said.empty(); ++i) {
    machine.now.resident += kMiB;
    row_at(monitor, i);
    said = monitor.take_warning();
  }
  EXPECT_TRUE(said.ends_with("so far) somewhere; look there")) << said;
}

TEST(Monitor, is_quiet_while_memory_fills_what_was_planned_or_only_wavers) {
  Fake machine;
  Monitor filling = machine.monitor(100 * kMiB);
  for (int i = 0; i < 60; ++i) {
    machine.now.resident += kMiB;
    row_at(filling, i);
    EXPECT_EQ(filling.take_warning(), "");
  }
  // what rises once, as a library does when it is first asked
  Monitor risen = machine.monitor(0);
  for (int i = 0; i < 200; ++i) {
    machine.now.resident += (i == 60 ? 200 : 0) * kMiB + (i % 3 - 1) * kMiB / 16;
    row_at(risen, i);
    EXPECT_EQ(risen.take_warning(), "") << i;
  }
  Monitor wavering = machine.monitor(0);
  for (int i = 0; i < 60; ++i) {
    machine.now.resident += i % 2 ? -4 * kMiB : 4 * kMiB;
    row_at(wavering, i);
    EXPECT_EQ(wavering.take_warning(), "");
  }
}

}  // namespace
}  // namespace maglev
