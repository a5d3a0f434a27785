// What a run on a device tells: of its GPU what the library says that knows the device by its
// address, how long it warmed up, and that it stands still.

#include <chrono>
#include <cstdlib>
#include <map>
#include <string>
#include <thread>
#include <utility>

#include <gtest/gtest.h>

#include "base/core/file.h"
#include "engine/train/session.h"
#include "python/bindings/monitoring.h"
#include "tests/emulation/torch_memory.h"
#include "tests/errors.h"
#include "tests/folder.h"
#include "tests/places.h"

namespace maglev {
namespace {

void make_short(Experiment& experiment) {
  for (const char* setting :
       {"train.steps=256", "train.log_every=64", "train.monitor_every=1e-9", "env.count=4",
        "ppo.rollout=16", "ppo.minibatch=64", "ppo.epochs=1", "ppo.network.hidden=[8]"})
    experiment.table().override_with(setting);
}

// the last row's figures of a short run, with `library` in NVML's place
std::map<std::string, double> figures_with(const std::string& library) {
  setenv("MAGLEV_NVML", library.c_str(), 1);
  Experiment experiment("ppo", "cartpole");
  make_short(experiment);
  std::map<std::string, double> figures;
  Hooks hooks;
  hooks.row = [&](const MetricRow& row) { figures = {row.values.begin(), row.values.end()}; };
  RunTrace trace(experiment.trace, /*with_device=*/false);
  Trainer trainer(experiment, Placement{.device = at::Device("cuda:0"), .threads = 1});
  RunDir dir = RunDir::create(
      {.out = test_folder() + "/gpu", .algo = "ppo", .env = "cartpole", .overwrite = true});
  Session(trainer, dir, {.sinks = {"jsonl"}, .hooks = hooks}, trace, /*resumed_at=*/-1).run();
  unsetenv("MAGLEV_NVML");
  return figures;
}

TEST(Monitored, a_run_on_cuda_tells_what_its_gpu_does_where_its_driver_knows_it) {
  auto figures = figures_with(fake_library("gpus"));
  EXPECT_DOUBLE_EQ(figures["machine/gpu_busy"], 0.2);
  EXPECT_DOUBLE_EQ(figures["machine/gpu_busy_min"], 0.1);
  EXPECT_DOUBLE_EQ(figures["machine/gpu_busy_max"], 0.3);
  EXPECT_DOUBLE_EQ(figures["machine/gpu_celsius"], 61);
  figures = figures_with("");
  EXPECT_TRUE(figures.contains("machine/processors"));
  EXPECT_FALSE(figures.contains("machine/gpu_busy"));
}

TEST(Monitored, a_loop_of_pythons_own_on_cuda_tells_what_its_gpu_does) {
  const at::Device cuda("cuda:0");
  setenv("MAGLEV_NVML", fake_library("gpus").c_str(), 1);
  python::LoopMonitor monitor(/*every_s=*/0, /*planned=*/0, cuda);
  unsetenv("MAGLEV_NVML");
  const at::Tensor held = at::empty({1 << 20}, at::TensorOptions().device(cuda));
  auto sample = monitor.sample(/*step=*/1000);
  std::map<std::string, double> figures(sample.figures.begin(), sample.figures.end());
  EXPECT_DOUBLE_EQ(figures["machine/gpu_celsius"], 61);
  EXPECT_GE(figures["memory/device_mib"], 4);
  // a loop beside the GPU asks for nothing of it
  python::LoopMonitor host(/*every_s=*/0, /*planned=*/0, at::kCPU);
  for (const auto& [name, value] : host.sample(-1).figures) {
    EXPECT_FALSE(contains(name, "gpu")) << name;
    EXPECT_FALSE(contains(name, "device")) << name;
  }
}

TEST(Monitored, a_run_on_cuda_that_stands_still_tells_of_its_stream) {
  Experiment experiment("ppo", "cartpole");
  make_short(experiment);
  experiment.table().override_with("train.stall=0.05");
  RunTrace trace(experiment.trace, /*with_device=*/false);
  Trainer trainer(experiment, Placement{.device = at::Device("cuda:0"), .threads = 1});
  RunDir dir = RunDir::create(
      {.out = test_folder() + "/still", .algo = "ppo", .env = "cartpole", .overwrite = true});
  const auto log = [&] { return read_file(dir.path() + "/log.txt", 1 << 20); };
  const std::string told = "flush > hook row; the GPU's stream has no work";
  Hooks hooks;
  hooks.row = [&](const MetricRow& row) {
    for (int i = 0; row.step == 128 && i < 10'000 && !contains(log(), told); ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
  };
  Session(trainer, dir, {.sinks = {"jsonl"}, .hooks = hooks}, trace, /*resumed_at=*/-1).run();
  EXPECT_TRUE(contains(log(), told)) << log();
}

TEST(Monitored, a_run_on_cuda_that_is_refused_memory_says_what_held_it_on_cuda) {
  Experiment experiment("ppo", "cartpole");
  make_short(experiment);
  experiment.table().override_with("train.graph=off");
  RunTrace trace(experiment.trace, /*with_device=*/false);
  Trainer trainer(experiment, Placement{.device = at::Device("cuda:0"), .threads = 1});
  RunDir dir = RunDir::create(
      {.out = test_folder() + "/refused", .algo = "ppo", .env = "cartpole", .overwrite = true});
  Hooks hooks;
  hooks.iteration_start = [](int64_t step) {
    // nothing more than there is
    if (step == 128) emulation::limit_memory(emulation::memory_in_use().held + 1);
  };
  const std::string told = error_of([&] {
    Session(trainer, dir, {.sinks = {"jsonl"}, .hooks = hooks}, trace, /*resumed_at=*/-1).run();
  });
  emulation::limit_memory(0);
  EXPECT_TRUE(contains(told, "ppo asked for more than cuda:0 has: CUDA out of memory")) << told;
  EXPECT_FALSE(contains(told, "tensors held 0 KiB")) << told;
  EXPECT_EQ(read_file(dir.path() + "/out_of_memory.pickle", 100), "blocks");
  // before that it said what it held, of which the peak is the device's
  const std::string memory = read_file(dir.path() + "/memory.json", 1 << 20);
  EXPECT_TRUE(contains(memory, "measured")) << memory;
}

TEST(Monitored, a_warm_up_that_was_long_is_told_though_nobody_asked_for_it_on_cuda) {
  Experiment experiment("ppo", "cartpole");
  make_short(experiment);
  ASSERT_EQ(experiment.run.warmup, 0);
  RunTrace trace(experiment.trace, /*with_device=*/false);
  Trainer trainer(experiment, Placement{.device = at::Device("cuda:0"), .threads = 1});
  RunDir dir = RunDir::create(
      {.out = test_folder() + "/warm", .algo = "ppo", .env = "cartpole", .overwrite = true});
  Session session(trainer, dir, {.sinks = {"jsonl"}}, trace, /*resumed_at=*/-1);
  // before each iteration the trainer asks whether to go on: the first, of the warm-up, is slow
  trainer.stop_when([slow = true]() mutable {
    if (std::exchange(slow, false)) std::this_thread::sleep_for(std::chrono::milliseconds(1100));
    return false;
  });
  session.run();
  const std::string log = read_file(dir.path() + "/log.txt", 1 << 20);
  EXPECT_TRUE(contains(log, "warming up took ")) << log;
}

}  // namespace
}  // namespace maglev
