// What the small runs of the table do not reach, on each device: images, several tasks, opponents,
// agents that end apart, environments of the host, updates beside steps, files, a ring that wraps,
// every normaliser. A run is the same as a graph and continues as if it had never stopped, to the
// bit; on a GPU under train.deterministic.

#include <filesystem>

#include <ATen/ATen.h>
#include <torch/cuda.h>

#include <gtest/gtest.h>

#include "engine/device/launch.h"
#include "engine/run/checkpoint.h"
#include "engine/train/dataset.h"
#include "engine/train/trainer.h"
#include "tests/folder.h"
#include "tests/small_plans.h"

namespace maglev {
namespace {

struct DeviceRun {
  const char *name, *algo, *env;
  std::vector<std::string> settings;
  bool from_files = false;
  Precision precision = Precision::fp32;
};

constexpr int kDeviceIterations = 6;

// until the policy has moved too far, and entropy is too small
const std::vector<std::string> kSchedules{"ppo.lr_end=0.1",        "ppo.clip_end=0.5",
                                          "ppo.entropy=0.01",      "ppo.entropy_end=0",
                                          "ppo.entropy_floor=0.7", "ppo.entropy_floor_penalty=0.1",
                                          "ppo.target_kl=0.001",   "train.steps=4000"};

using Settings = std::vector<std::string>;

Settings together(Settings one, const Settings& other) {
  one.insert(one.end(), other.begin(), other.end());
  return one;
}

// few rows, each with its successors, for an emulated device takes its time. Goals of a minibatch of
// 40 are numbered by two blocks
const Settings kSmallProof{"ppo.network.proof.embedding=16", "ppo.network.proof.width=32"},
    kGoals = together(kSmallProof, {"env.count=5", "ppo.rollout=16", "ppo.minibatch=40"}),
    kFewGoals = together(kSmallProof, {"env.count=4", "ppo.rollout=8", "ppo.minibatch=16"});
const Settings kSmallImages{"env.count=2", "ppo.minibatch=16",
                            "ppo.network.cnn.channels=[4, 8, 8]"};

const Settings kShortPlans = together(kSmallPlans, kShortEpisodes);

// behind the algorithm's own small run
const std::vector<DeviceRun>& device_runs() {
  static const std::vector<DeviceRun> list{
      {"images", "ppo", "goodhart", kSmallImages},
      {"images_in_bf16", "ppo", "goodhart", kSmallImages, false, Precision::bf16},
      {"images_in_fp16", "ppo", "goodhart", kSmallImages, false, Precision::fp16},
      {"everything_normalized",
       "ppo",
       "pendulum",
       {"ppo.network.normalize_obs=true", "ppo.normalize_reward=true",
        "ppo.network.value_head=popart", "ppo.optimizer=muon", "ppo.clip_grad=module"}},
      {"every_schedule", "ppo", "cartpole", kSchedules},
      {"every_schedule_of_the_reference", "ppo", "cartpole",
       together(kSchedules, {"ppo.fused=false"})},
      {"values_clipped",
       "ppo",
       "pendulum",
       {"ppo.value_clip=0.2", "ppo.value_clip_loss=max", "ppo.normalize_advantage=batch",
        "ppo.weight_decay=0.01"}},
      {"a_gated_network", "ppo", "pendulum", {"ppo.network.kind=gated"}},
      {"a_memory",
       "ppo",
       "cartpole",
       {"env.velocities=false", "ppo.network.memory=8", "ppo.sequence=8"}},
      {"a_memory_in_aten",
       "ppo",
       "pendulum",
       {"ppo.network.memory=8", "ppo.network.fused_memory=false", "ppo.network.shared=true",
        "ppo.network.normalize_obs=true"}},
      {"a_residual_network", "ppo", "cartpole", {"ppo.network.kind=residual"}},
      {"successors", "ppo", "ring", kGoals},
      {"successors_by_attention", "ppo", "ring",
       together(kFewGoals,
                {"ppo.network.proof.goals=transformer", "ppo.network.proof.atoms=attention"})},
      {"successors_in_a_room", "ppo", "ring", together(kFewGoals, {"ppo.network.proof.room=4"})},
      {"a_rollout_in_pinned_memory", "ppo", "pendulum", {"train.rollout_memory=pinned"}},
      {"opponents", "ppo", "tug", {"train.opponents=idle,heavy,past", "train.past_every=400"}},
      {"agents_that_end_apart", "ppo", "door", {"env.count=8", "ppo.network.normalize_obs=true"}},
      {"opponents_that_end_apart",
       "ppo",
       "door",
       {"env.walkers=2", "env.late=0", "env.race=true", "train.opponents=walker,stander,past",
        "train.past_every=400"}},
      {"a_world_model_of_agents_that_end_apart", "tdmpc2", "door",
       together(kSmallPlans, {"env.pushes=true"})},
      {"dreams_of_agents_that_end_apart", "dreamer", "door", {}},
      {"steps_of_the_host", "ppo", "hosted", {}},
      {"steps_of_the_host_in_blocks", "ppo", "hosted", {"train.collect=blocks"}},
      {"several_tasks", "tdmpc2", "points", together(kSmallPlans, {"env.tasks=true"})},
      {"images_of_a_world_model", "tdmpc2", "points", together(kSmallPlans, {"env.image=true"})},
      {"a_world_model", "tdmpc2", "pendulum", kShortPlans},
      {"the_policy_of_a_world_model_alone", "tdmpc2", "pendulum",
       together(kShortPlans, {"tdmpc2.mpc=false", "tdmpc2.dropout=0.1", "tdmpc2.episodic=on"})},
      {"a_ring_in_pinned_memory", "tdmpc2", "pendulum",
       together(kShortPlans, {"train.replay_memory=pinned"})},
      {"batches_drawn_ahead", "tdmpc2", "pendulum",
       together(kShortPlans, {"train.replay_memory=pinned", "train.prefetch=on",
                              "tdmpc2.updates_per_step=0.15"})},
      {"a_world_model_beside_steps_of_the_host", "tdmpc2", "hosted", kShortPlans},
      {"updates_beside_steps", "tdmpc2", "pendulum", together(kShortPlans, {"train.overlap=true"})},
      {"updates_beside_steps_of_the_host", "tdmpc2", "hosted",
       together(kShortPlans, {"train.overlap=true", "train.replay_memory=pinned",
                              "train.prefetch=on", "tdmpc2.updates_per_step=0.15"})},
      {"dreams_beside_steps", "dreamer", "hosted", {"train.overlap=true", "train.collect=blocks"}},
      {"a_ring_that_wraps", "tdmpc2", "pendulum",
       together(kShortPlans, {"train.replay_capacity=60"})},
      {"files", "tdmpc2", "pendulum", kShortPlans, /*from_files=*/true},
      {"states_beside_files", "dreamer", "pendulum", {}, /*from_files=*/true}};
  return list;
}

class OnDevice : public testing::TestWithParam<std::tuple<size_t, const char*>> {
 protected:
  void SetUp() override {
    if (device().is_cuda() && !torch::cuda::is_available())
      GTEST_SKIP() << "no CUDA device on this machine";
    if (device().is_cpu() && run().precision == Precision::fp16)
      GTEST_SKIP() << "a processor computes nothing in fp16";
    claim_threads();
    if (!run().from_files) return;
    // rows that the same algorithm has collected
    const std::string path = test_folder() + "/rows.safetensors";
    std::filesystem::remove(path);
    const auto made = experiment({});
    Trainer collecting(*made, {.device = at::kCPU, .threads = 1});
    for (int i = 0; i < kDeviceIterations; ++i) collecting.iterate();
    write_dataset(path, run().env, collecting.envs().spec(), *collecting.store().replay());
    files_ = {"train.dataset=" + path};
  }
  const DeviceRun& run() const { return device_runs()[std::get<0>(GetParam())]; }
  at::Device device() const { return at::Device(std::get<1>(GetParam())); }

  std::unique_ptr<Experiment> experiment(const std::vector<std::string>& settings) const {
    auto made = std::make_unique<Experiment>(run().algo, run().env);
    for (const auto* some : {&made->algo().small.settings, &run().settings, &files_, &settings})
      for (const auto& setting : *some) made->table().override_with(setting);
    if (device().is_cuda()) made->table().override_with("train.deterministic=true");
    return made;
  }
  std::unique_ptr<Trainer> trainer(const Experiment& experiment) const {
    return std::make_unique<Trainer>(
        experiment, Placement{.device = device(), .threads = 2, .precision = run().precision});
  }
  static std::string hash_of(Trainer& trainer) {
    return state_hash([&](StateVisitor& v) { trainer.visit_state(v); });
  }

 private:
  std::vector<std::string> files_;
};

TEST_P(OnDevice, as_a_graph_equals_the_eager_one) {
  std::vector<std::vector<std::string>> ways{{"train.graph=off"}, {"train.graph=on"}};
  // older devices have no such launches
  if (has_dependent_launch(device()))
    ways.push_back({"train.graph=on", "train.dependent_launch=true"});
  std::vector<std::string> hashes;
  for (const auto& settings : ways) {
    const auto made = experiment(settings);
    const auto one = trainer(*made);
    one->warm_up();
    for (int i = 0; i < kDeviceIterations; ++i) one->iterate();
    EXPECT_GT(one->updates(), 0);
    EXPECT_EQ(one->captured(), device().is_cuda() && made->run.graph.value_or(false))
        << one->graph_note();
    hashes.push_back(hash_of(*one));
  }
  for (const std::string& hash : hashes) EXPECT_EQ(hash, hashes[0]);
}

TEST_P(OnDevice, continues_from_a_checkpoint_as_the_unbroken_run_does) {
  const auto made = experiment({});
  const CheckpointIdentity identity{.algo = run().algo, .env = run().env};
  const auto whole = trainer(*made), second = trainer(*made);
  whole->warm_up();
  for (int i = 0; i < kDeviceIterations / 2; ++i) whole->iterate();
  const auto path = save_checkpoint(test_folder() + "/" + run().name, identity,
                                    [&](StateVisitor& v) { whole->visit_state(v); });
  const std::string saved = hash_of(*whole);
  load_checkpoint(path, identity, [&](StateVisitor& v) { second->visit_state(v); });
  EXPECT_EQ(hash_of(*second), saved);
  second->warm_up();
  for (Trainer* one : {whole.get(), second.get()})
    for (int i = kDeviceIterations / 2; i < kDeviceIterations; ++i) one->iterate();
  EXPECT_NE(hash_of(*whole), saved);
  EXPECT_EQ(hash_of(*second), hash_of(*whole));
}

INSTANTIATE_TEST_SUITE_P(Runs, OnDevice,
                         testing::Combine(testing::Range<size_t>(0, device_runs().size()),
                                          testing::Values("cpu", "cuda:0")),
                         [](const auto& info) {
                           const std::string device = std::get<1>(info.param);
                           return device_runs()[std::get<0>(info.param)].name +
                                  std::string("_on_") + device.substr(0, device.find(':'));
                         });

}  // namespace
}  // namespace maglev
