// A run on a device tells of its GPU what the library says that knows the device by its address.

#include <cstdlib>
#include <map>
#include <string>

#include <gtest/gtest.h>

#include "engine/train/session.h"
#include "tests/folder.h"

namespace maglev {
namespace {

// the last row's figures of a short run, with `library` in NVML's place
std::map<std::string, double> figures_with(const char* library) {
  setenv("MAGLEV_NVML", library, 1);
  Experiment experiment("ppo", "cartpole");
  for (const char* setting :
       {"train.steps=256", "train.log_every=64", "train.monitor_every=1e-9", "env.count=4",
        "ppo.rollout=16", "ppo.minibatch=64", "ppo.epochs=1", "ppo.network.hidden=[8]"})
    experiment.table().override_with(setting);
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
  auto figures = figures_with(MAGLEV_FAKE_GPU_LIBRARY);
  EXPECT_DOUBLE_EQ(figures["machine/gpu_busy"], 0.2);
  EXPECT_DOUBLE_EQ(figures["machine/gpu_celsius"], 61);
  figures = figures_with("");
  EXPECT_TRUE(figures.contains("machine/processors"));
  EXPECT_FALSE(figures.contains("machine/gpu_busy"));
}

}  // namespace
}  // namespace maglev
