// Iterations as they are captured against iterations as they are called. On a GPU the first are
// replays of graphs; on a processor they are plain calls whose counters live in memory, as a
// graph's do, and must not differ by a bit either.

#include <ATen/ATen.h>
#include <torch/cuda.h>

#include <gtest/gtest.h>

#include "engine/run/checkpoint.h"
#include "engine/run/stored_experiment.h"
#include "engine/train/trainer.h"
#ifdef MAGLEV_DEVICE_CODE
#include <c10/cuda/CUDAFunctions.h>
#endif

namespace maglev {
namespace {

using Settings = std::vector<std::string>;

std::unique_ptr<Experiment> experiment_of(const Settings& settings, at::Device device) {
  claim_threads();
  auto experiment = std::make_unique<Experiment>("ppo", "cartpole");
  for (const char* common : {"env.count=24", "ppo.rollout=16", "ppo.minibatch=96", "ppo.epochs=2",
                             "ppo.network.hidden=[16]", "ppo.lr_end=0.1", "seed=11"})
    experiment->table().override_with(common);
  experiment->run.device = device.str();
  for (const auto& setting : settings) experiment->table().override_with(setting);
  return experiment;
}

struct Outcome {
  std::string hash;
  std::vector<std::pair<std::string, double>> figures;  ///< of learning, without times
  bool captured;
  std::string note;
};

Outcome train(const Settings& settings, at::Device device, int iterations = 6) {
  auto experiment = experiment_of(settings, device);
  Trainer trainer(*experiment, {.device = device, .threads = 1});
  trainer.warm_up();
  for (int i = 0; i < iterations; ++i) trainer.iterate();
  Outcome outcome{.captured = trainer.captured(), .note = trainer.graph_note()};
  for (auto& figure : trainer.flush().values)
    if (!figure.first.starts_with("time/")) outcome.figures.push_back(figure);
  outcome.hash = state_hash([&](StateVisitor& v) { trainer.visit_state(v); });
  return outcome;
}

void expect_same(const Outcome& a, const Outcome& b) {
  EXPECT_EQ(a.hash, b.hash);
  ASSERT_EQ(a.figures.size(), b.figures.size());
  for (size_t i = 0; i < a.figures.size(); ++i) {
    EXPECT_EQ(a.figures[i].first, b.figures[i].first);
    const double x = a.figures[i].second, y = b.figures[i].second;
    EXPECT_TRUE(x == y || (std::isnan(x) && std::isnan(y))) << a.figures[i].first;
  }
}

class Iteration : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (device().is_cuda() && !torch::cuda::is_available())
      GTEST_SKIP() << "no CUDA device on this machine";
  }
  at::Device device() const { return at::Device(GetParam()); }
};

TEST_P(Iteration, as_a_graph_equals_the_eager_one) {
  for (const char* learner : {"ppo.fused=true", "ppo.fused=false"}) {
    const auto graph = train({"train.graph=on", learner}, device());
    EXPECT_EQ(graph.captured, device().is_cuda()) << graph.note;
    expect_same(graph, train({"train.graph=off", learner}, device()));
  }
}

TEST_P(Iteration, of_a_run_that_was_warmed_up_equals_a_cold_runs) {
  for (const char* graph : {"train.graph=on", "train.graph=off"}) {
    const auto cold = train({"train.graph=off"}, device());
    expect_same(train({"train.warmup=3", graph}, device()), cold);
  }
}

TEST_P(Iteration, continues_from_a_saved_state_as_the_unbroken_run_does) {
  const auto whole = train({"train.graph=on"}, device(), 6);
  auto experiment = experiment_of({"train.graph=on"}, device());
  Trainer first(*experiment, {.device = device(), .threads = 1});
  for (int i = 0; i < 3; ++i) first.iterate();
  const std::string folder = testing::TempDir() + "graph_checkpoint";
  const CheckpointIdentity identity{.algo = "ppo", .env = "cartpole"};
  const auto path = save_checkpoint(folder, identity, [&](auto& v) { first.visit_state(v); });
  Trainer second(*experiment, {.device = device(), .threads = 1});
  load_checkpoint(path, identity, [&](auto& v) { second.visit_state(v); });
  second.warm_up();
  for (int i = 0; i < 3; ++i) second.iterate();
  second.flush();
  // the unbroken run flushed once, at its end
  EXPECT_EQ(state_hash([&](auto& v) { second.visit_state(v); }), whole.hash);
}

#ifdef MAGLEV_DEVICE_CODE
TEST(IterationOnAGpu, waits_for_nothing) {
  if (!torch::cuda::is_available()) GTEST_SKIP() << "no CUDA device on this machine";
  for (const char* graph : {"train.graph=on", "train.graph=off"}) {
    auto experiment = experiment_of({graph}, at::Device(at::kCUDA, 0));
    Trainer trainer(*experiment, {.device = at::Device(at::kCUDA, 0), .threads = 1});
    trainer.warm_up();
    trainer.iterate();
    auto& state = c10::cuda::warning_state();
    state.set_sync_debug_mode(c10::cuda::SyncDebugMode::L_ERROR);
    EXPECT_NO_THROW(for (int i = 0; i < 3; ++i) trainer.iterate(), trainer.begin_flush());
    state.set_sync_debug_mode(c10::cuda::SyncDebugMode::L_DISABLED);
  }
}
#endif

INSTANTIATE_TEST_SUITE_P(
    Devices, Iteration, testing::Values("cpu", "cuda:0"), [](const auto& info) {
      return std::string(info.param).substr(0, std::string(info.param).find(':'));
    });

}  // namespace
}  // namespace maglev
