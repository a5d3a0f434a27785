#include "engine/train/memory_plan.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <fstream>
#include <malloc.h>
#include <thread>

#include <ATen/ATen.h>
#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>

#include <gtest/gtest.h>

#include "engine/run/stored_experiment.h"
#include "engine/train/trainer.h"
#include "tests/errors.h"
#include "tests/folder.h"

namespace maglev {
namespace {

// "VmRSS" (now) or "VmHWM" (its peak) of this process
int64_t process_bytes(const std::string& which) {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;)
    if (word == which + ":") {
      int64_t kib = 0;
      status >> kib;
      return kib * 1024;
    }
  return 0;
}

struct Run {
  const char *algo, *env;
  std::vector<std::string> settings, small = {};
  int iterations = 0;
  int threads = 2;
};

std::unique_ptr<Experiment> experiment_of(const Run& run) {
  auto experiment = std::make_unique<Experiment>(run.algo, run.env);
  for (const auto& setting : run.settings) experiment->table().override_with(setting);
  return experiment;
}

// What MKL keeps for the products of each of its threads (8 to 25 MiB, more or less by the
// processor and by how threads happen to meet): no plan knows it. 0 where torch comes with another
// library.
int64_t bytes_kept_by_mkl() {
  static const auto mem_stat =
      reinterpret_cast<int64_t (*)(int*)>(dlsym(RTLD_DEFAULT, "mkl_serv_mem_stat"));
  int buffers = 0;
  return mem_stat ? mem_stat(&buffers) : 0;
}

// bytes that this process has of malloc, whoever but MKL asked for them
int64_t bytes_in_use() {
  const struct mallinfo2 info = mallinfo2();
  return int64_t(info.uordblks + info.hblkhd) - bytes_kept_by_mkl();
}

/// The most that is in use while it looks: whenever a tensor was given its memory, which no thread
/// that waits for a processor misses, and for what is no tensor a few thousand times a second.
class PeakWatch : public c10::Allocator {
 public:
  PeakWatch()
      : looking_([this](const std::stop_token& stop) {
          while (!stop.stop_requested()) {
            look();
            std::this_thread::sleep_for(std::chrono::microseconds(200));
          }
        }) {
    c10::SetCPUAllocator(this, /*priority=*/3);
  }
  int64_t end() {
    c10::SetCPUAllocator(&tensors_, /*priority=*/3);
    looking_.request_stop();
    looking_.join();
    look();
    return peak_;
  }

  c10::DataPtr allocate(size_t bytes) override {
    c10::DataPtr memory = tensors_.allocate(bytes);
    look();
    return memory;
  }
  c10::DeleterFnPtr raw_deleter() const override { return tensors_.raw_deleter(); }
  void copy_data(void* to, const void* from, size_t bytes) const override {
    std::memcpy(to, from, bytes);
  }

 private:
  void look() {
    const int64_t now = bytes_in_use();
    for (int64_t most = peak_; most < now && !peak_.compare_exchange_weak(most, now);) {
    }
  }

  c10::Allocator& tensors_ = *c10::GetDefaultCPUAllocator();
  std::atomic<int64_t> peak_{0};
  std::jthread looking_;
};

// leaves with status 0 where the most a run has in use is within 5 % of its plan
[[noreturn]] void compare_and_exit(const Run& run) {
  claim_threads();
  // tensors straight from malloc: what the engine's own allocator keeps or rounds up is no page
  // that a run touches
  c10::SetCPUAllocator(c10::GetDefaultCPUAllocator(), /*priority=*/2);
  const Placement placement{.device = at::kCPU, .threads = run.threads};
  {
    // libraries set themselves up in a small run
    Run small = run;
    small.settings.insert(small.settings.end(), run.small.begin(), run.small.end());
    const auto experiment = experiment_of(small);
    Trainer trainer(*experiment, placement);
    trainer.warm_up();
    for (int i = 0; i < run.iterations; ++i) trainer.iterate();
  }
  const auto experiment = experiment_of(run);
  const MemoryPlan plan = plan_memory(*experiment, placement);
  const int64_t before = bytes_in_use();
  PeakWatch watch;
  Trainer trainer(*experiment, placement);
  trainer.warm_up();
  for (int i = 0; i < run.iterations; ++i) trainer.iterate();
  const double peak = double(watch.end() - before), planned = double(plan.total());
  std::fprintf(stderr, "had %.2f MiB, %.3f of the plan; %s\n", peak / (1 << 20), peak / planned,
               plan.text().c_str());
  std::exit(peak > 0.95 * planned && peak < 1.05 * planned ? 0 : 1);
}

class Planned : public testing::Test {
 protected:
  // each in a process of its own, whose memory is not yet in use
  void SetUp() override { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
};

TEST_F(Planned, memory_of_ppo_is_what_it_takes) {
  EXPECT_EXIT(
      compare_and_exit({"ppo",
                        "cartpole",
                        {"env.count=4096", "ppo.rollout=256", "ppo.epochs=1", "ppo.minibatch=4096"},
                        {"env.count=8", "ppo.minibatch=512"},
                        2}),
      testing::ExitedWithCode(0), "had ");
}

TEST_F(Planned, memory_of_a_wide_network_is_what_it_takes_once_its_weights_are_drawn) {
  EXPECT_EXIT(compare_and_exit({"ppo",
                                "cartpole",
                                {"ppo.network.hidden=[2048,2048]", "env.count=8", "ppo.rollout=32",
                                 "ppo.epochs=1", "ppo.minibatch=256"},
                                {"ppo.network.hidden=[64,64]"},
                                2}),
              testing::ExitedWithCode(0), "had ");
}

TEST_F(Planned, memory_of_a_warm_up_is_what_it_takes) {
  EXPECT_EXIT(compare_and_exit({"ppo",
                                "cartpole",
                                {"ppo.network.hidden=[2048,2048]", "env.count=8", "ppo.rollout=32",
                                 "ppo.epochs=1", "ppo.minibatch=256", "train.warmup=1"},
                                {"ppo.network.hidden=[64,64]"},
                                2}),
              testing::ExitedWithCode(0), "had ");
}

TEST_F(Planned, memory_of_a_network_is_summed_up_without_any_of_it) {
  const auto experiment = experiment_of({"ppo", "cartpole", {"ppo.network.hidden=[65536,65536]"}});
  const int64_t before = process_bytes("VmHWM");
  const MemoryPlan plan = plan_memory(*experiment, {.device = at::kCPU, .threads = 1});
  EXPECT_GT(plan.total(), int64_t(100) << 30);
  EXPECT_LT(process_bytes("VmHWM") - before, int64_t(64) << 20);
}

TEST_F(Planned, memory_of_tdmpc2_is_what_it_takes) {
  EXPECT_EXIT(compare_and_exit({"tdmpc2",
                                "pendulum",
                                {"env.count=8", "tdmpc2.mpc=false", "tdmpc2.seed_steps=8",
                                 "tdmpc2.updates_per_step=0.01", "train.replay_capacity=4000"},
                                {"tdmpc2.latent_dim=64", "tdmpc2.mlp_dim=64", "tdmpc2.enc_dim=64",
                                 "tdmpc2.batch=16"},
                                220}),
              testing::ExitedWithCode(0), "had ");
}

TEST_F(Planned, memory_of_wide_convolutions_is_what_they_take) {
  EXPECT_EXIT(
      compare_and_exit({"ppo",
                        "minatar_breakout",
                        {"env.count=32", "ppo.rollout=16", "ppo.epochs=1", "ppo.minibatch=256",
                         "ppo.network.kind=cnn", "ppo.network.activation=relu",
                         "ppo.network.shared=true", "ppo.network.cnn.channels=[256,256]"},
                        {"env.count=8", "ppo.minibatch=32", "ppo.network.hidden=[16]"},
                        2,
                        /*threads=*/1}),
      testing::ExitedWithCode(0), "had ");
}

// the gradient of the layer behind convolutions is made beside where it is added
TEST_F(Planned, memory_of_a_wide_layer_behind_convolutions_is_what_it_takes) {
  EXPECT_EXIT(
      compare_and_exit({"ppo",
                        "minatar_breakout",
                        {"env.count=16", "ppo.rollout=16", "ppo.epochs=1", "ppo.minibatch=256",
                         "ppo.shard_rows=64", "ppo.network.kind=cnn", "ppo.network.activation=relu",
                         "ppo.network.shared=true", "ppo.network.cnn.channels=[32,64,64]",
                         "ppo.network.hidden=[1024]", "ppo.network.critic_hidden=[64]"},
                        {"ppo.network.hidden=[16]"},
                        2,
                        /*threads=*/1}),
      testing::ExitedWithCode(0), "had ");
}

TEST_F(Planned, memory_of_convolutions_is_what_they_take) {
  for (const char* winograd : {"true", "false"})
    EXPECT_EXIT(compare_and_exit({"ppo",
                                  "minatar_breakout",
                                  {"env.count=256", "ppo.rollout=16", "ppo.epochs=1",
                                   "ppo.minibatch=1024", "ppo.network.kind=cnn",
                                   "ppo.network.activation=relu", "ppo.network.shared=true",
                                   std::string("ppo.network.cnn.winograd=") + winograd},
                                  {"env.count=8", "ppo.minibatch=32"},
                                  2,
                                  /*threads=*/1}),
                testing::ExitedWithCode(0), "had ")
        << winograd;
}

TEST_F(Planned, memory_of_dreamer_is_what_it_takes) {
  EXPECT_EXIT(compare_and_exit({"dreamer",
                                "pendulum",
                                {"env.count=4", "dreamer.size=1m", "dreamer.length=16",
                                 "dreamer.train_ratio=16", "train.replay_capacity=4000"},
                                {"dreamer.deter=64", "dreamer.batch=4", "dreamer.length=4"},
                                80}),
              testing::ExitedWithCode(0), "had ");
}

TEST_F(Planned, memory_of_dreamer_in_parts_is_what_it_takes) {
  EXPECT_EXIT(compare_and_exit(
                  {"dreamer",
                   "pendulum",
                   {"env.count=4", "dreamer.size=1m", "dreamer.length=16", "dreamer.train_ratio=16",
                    "dreamer.micro_batch=4", "train.replay_capacity=4000"},
                   {"dreamer.deter=64", "dreamer.batch=4", "dreamer.length=4"},
                   80}),
              testing::ExitedWithCode(0), "had ");
}

TEST_F(Planned, memory_of_dreamer_in_finer_shards_is_what_it_takes) {
  EXPECT_EXIT(
      compare_and_exit({"dreamer",
                        "pendulum",
                        {"env.count=4", "dreamer.size=1m", "dreamer.length=16",
                         "dreamer.train_ratio=16", "dreamer.shard=3", "train.replay_capacity=4000"},
                        {"dreamer.deter=64", "dreamer.batch=4", "dreamer.length=4"},
                        80}),
      testing::ExitedWithCode(0), "had ");
}

// pictures that halve, and pictures that are filled up
TEST_F(Planned, memory_of_dreamer_from_pictures_is_what_it_takes) {
  for (const char* env : {"pendulum_pixels", "minatar_breakout"})
    EXPECT_EXIT(compare_and_exit({"dreamer",
                                  env,
                                  {"env.count=4", "dreamer.size=1m", "dreamer.length=16",
                                   "dreamer.train_ratio=16", "train.replay_capacity=4000"},
                                  {"dreamer.deter=64", "dreamer.batch=4", "dreamer.length=4"},
                                  80,
                                  /*threads=*/1}),
                testing::ExitedWithCode(0), "had ")
        << env;
}

// shards of 6 and of 5 sequences, in parts of three and of one
TEST_F(Planned, memory_of_dreamer_in_uneven_parts_is_what_it_takes) {
  EXPECT_EXIT(compare_and_exit({"dreamer",
                                "pendulum",
                                {"env.count=4", "dreamer.size=1m", "dreamer.length=16",
                                 "dreamer.batch=11", "dreamer.train_ratio=11",
                                 "dreamer.micro_batch=3", "train.replay_capacity=4000"},
                                {"dreamer.deter=64", "dreamer.batch=4", "dreamer.length=4"},
                                80}),
              testing::ExitedWithCode(0), "had ");
}

TEST_F(Planned, memory_of_tdmpc2_in_parts_is_what_it_takes) {
  EXPECT_EXIT(
      compare_and_exit(
          {"tdmpc2",
           "pendulum",
           {"env.count=8", "tdmpc2.mpc=false", "tdmpc2.fused=off", "tdmpc2.micro_batch=64",
            "tdmpc2.seed_steps=8", "tdmpc2.updates_per_step=0.002", "train.replay_capacity=4000"},
           {"tdmpc2.latent_dim=64", "tdmpc2.mlp_dim=64", "tdmpc2.enc_dim=64", "tdmpc2.batch=16"},
           220}),
      testing::ExitedWithCode(0), "had ");
}

TEST_F(Planned, memory_of_tdmpc2_by_autograd_is_what_it_takes) {
  EXPECT_EXIT(
      compare_and_exit(
          {"tdmpc2",
           "pendulum",
           {"env.count=8", "tdmpc2.mpc=false", "tdmpc2.fused=off", "tdmpc2.seed_steps=8",
            "tdmpc2.updates_per_step=0.002", "train.replay_capacity=4000"},
           {"tdmpc2.latent_dim=64", "tdmpc2.mlp_dim=64", "tdmpc2.enc_dim=64", "tdmpc2.batch=16"},
           220}),
      testing::ExitedWithCode(0), "had ");
}

TEST(MemoryPlan, of_an_evaluation_is_that_of_a_policy_alone) {
  const auto experiment = experiment_of({"tdmpc2", "pendulum", {"train.eval_every=1000"}});
  const MemoryPlan plan = plan_memory(*experiment, {.device = at::kCPU, .threads = 1});
  const auto part = [&](const std::string& name) {
    for (const MemoryPart& p : plan.parts)
      if (p.name == name) return p.bytes;
    return int64_t(0);
  };
  // the same weights as training acts with; no gradients, no optimiser, no batch
  EXPECT_GE(part("evaluation"), part("weights to act with"));
  EXPECT_LT(part("evaluation"), part("weights to act with") + (int64_t(16) << 20));
}

int64_t bytes_before_warm_up(const MemoryPlan& plan) {
  for (const MemoryPart& p : plan.parts)
    if (p.name == "state before a warm-up") return p.bytes;
  return 0;
}

TEST(MemoryPlan, of_a_captured_run_is_that_of_an_eager_one_and_its_state_before) {
  const Placement gpu{.device = at::Device(at::kCUDA, 0), .threads = 1};
  const auto plan = [&](const char* graph) {
    const auto experiment = experiment_of({"ppo", "cartpole", {"env.count=4096", graph}});
    return plan_memory(*experiment, gpu);
  };
  const MemoryPlan captured = plan("train.graph=on"), eager = plan("train.graph=off");
  EXPECT_GT(bytes_before_warm_up(captured), captured.collected);
  EXPECT_EQ(captured.total(), eager.total() + bytes_before_warm_up(captured));
}

TEST(MemoryPlan, of_a_warm_up_has_the_state_twice_where_it_learns) {
  const auto plan = [](const char* algo, const char* env, const char* warmup) {
    const auto experiment = experiment_of({algo, env, {warmup}});
    return plan_memory(*experiment, {.device = at::kCPU, .threads = 1});
  };
  const MemoryPlan cold = plan("ppo", "cartpole", "train.warmup=0"),
                   warm = plan("ppo", "cartpole", "train.warmup=1");
  EXPECT_EQ(bytes_before_warm_up(cold), 0);
  EXPECT_GT(bytes_before_warm_up(warm), warm.collected);
  EXPECT_EQ(warm.total(), cold.total() + bytes_before_warm_up(warm));
  // a replay is empty then, until its first steps are there
  EXPECT_EQ(bytes_before_warm_up(plan("tdmpc2", "pendulum", "train.warmup=1")), 0);
  EXPECT_GT(bytes_before_warm_up(plan("tdmpc2", "pendulum", "train.warmup=1000000")), 0);
}

// layers of trunks leave 16 bits a number; what norms and embeddings of the prover leave stays f32
TEST(MemoryPlan, of_a_gpu_counts_activations_in_the_precision_they_are_kept_in) {
  using Settings = std::vector<std::string>;
  const auto part = [](const char* env, const Settings& settings, Precision precision,
                       const std::string& name) {
    const Placement gpu{.device = at::Device(at::kCUDA, 0),
                        .threads = 1,
                        .precision = precision,
                        .device_bytes = int64_t(80) << 30};
    for (const MemoryPart& p : plan_memory(*experiment_of({"ppo", env, settings}), gpu).parts)
      if (p.name == name) return double(p.bytes);
    return 0.;
  };
  // in fp32 the second is on panels, which hold less than a minibatch: tf32 has the same layers
  for (const auto& [env, settings] :
       {std::pair{"goodhart", Settings{"ppo.network.kind=cnn", "ppo.minibatch=4096"}},
        {"cartpole", Settings{"ppo.network.hidden=[256,256,256]", "ppo.minibatch=4096"}}}) {
    const double wide = part(env, settings, Precision::tf32, "activations");
    EXPECT_EQ(part(env, settings, Precision::tf32, "rounded weights"), 0) << env;
    for (const Precision low : {Precision::bf16, Precision::fp16}) {
      EXPECT_GT(part(env, settings, low, "activations"), 0.5 * wide) << env;
      EXPECT_LT(part(env, settings, low, "activations"), 0.7 * wide) << env;
      EXPECT_GT(part(env, settings, low, "rounded weights"), 0) << env;
    }
  }
  const Settings proof{"env.data=countries_s1", "ppo.network.kind=proof"};
  EXPECT_EQ(part("kg", proof, Precision::bf16, "activations"),
            part("kg", proof, Precision::tf32, "activations"));
}

TEST(MemoryPlan, sizes_are_read_with_their_unit) {
  EXPECT_EQ(parse_bytes("512MiB"), int64_t(512) << 20);
  EXPECT_EQ(parse_bytes("1.5 G"), int64_t(3) << 29);
  EXPECT_EQ(parse_bytes("4194304"), 4 << 20);
  EXPECT_EQ(parse_bytes("4 KiB"), 4096);
  EXPECT_TRUE(contains(error_of([] { parse_bytes("8"); }), "so many bytes: give a unit, 8GiB"));
  for (const char* wrong : {"", "much", "4 parsecs", "-1G", "0"})
    EXPECT_TRUE(contains(error_of([&] { parse_bytes(wrong); }), "e.g. 4GiB")) << wrong;
}

TEST(MemoryPlan, of_a_ring_larger_than_memory_or_disk_is_refused_in_one_line) {
  const auto refused = [](const char* folder) {
    auto experiment = experiment_of(
        {"tdmpc2", "pendulum_pixels", {"train.replay_capacity=10000000000000", folder}});
    std::string note;
    return error_of([&] { fit_memory(*experiment, {.device = at::kCPU, .threads = 1}, &note); });
  };
  const std::string memory = refused("train.replay_folder=");
  EXPECT_TRUE(contains(memory, "[memory]") && contains(memory, "train.replay_capacity")) << memory;
  const std::string folder = test_folder(),
                    disk = refused(("train.replay_folder=" + folder).c_str());
  EXPECT_TRUE(contains(disk, "does not fit the disk") && contains(disk, folder)) << disk;
  for (const std::string& told : {memory, disk}) EXPECT_FALSE(contains(told, "\n"));
}

TEST(MemoryPlan, of_a_ring_on_a_disk_leaves_its_pictures_out) {
  const auto planned = [](const std::string& folder) {
    const auto experiment = experiment_of(
        {"tdmpc2", "pendulum_pixels", {"train.replay_capacity=100000", folder.c_str()}});
    return plan_memory(*experiment, {.device = at::kCPU, .threads = 1});
  };
  const MemoryPlan here = planned("train.replay_folder="),
                   there = planned("train.replay_folder=" + test_folder());
  EXPECT_EQ(there.disk, int64_t(100'000) / 64 * 64 * 64 * 64 * 3);
  EXPECT_EQ(here.total() - there.total(), there.disk);
  EXPECT_TRUE(contains(there.text(), "on a disk"));
}

TEST(MemoryPlan, of_a_ring_in_pinned_memory_counts_what_torchs_allocator_rounds_up_to) {
  const Placement gpu{
      .device = at::Device(at::kCUDA, 0), .threads = 1, .device_bytes = int64_t(80) << 30};
  const auto experiment =
      experiment_of({"tdmpc2",
                     "pendulum_pixels",
                     {"train.replay_memory=pinned", "train.replay_capacity=100000"}});
  // pictures of 64 x 64 x 3 bytes: 1.2 GB of them take 2 GiB
  const int64_t pinned = plan_memory(*experiment, gpu).pinned;
  EXPECT_GE(pinned, int64_t(2) << 30);
  EXPECT_LT(pinned, int64_t(2) << 30 | int64_t(64) << 20);
  // three numbers, an action and a reward take 2 MiB, 512 KiB each, three flags 128 KiB each
  const auto small = experiment_of(
      {"tdmpc2", "pendulum", {"train.replay_memory=pinned", "train.replay_capacity=100000"}});
  EXPECT_EQ(plan_memory(*small, gpu).pinned, (2 << 20) + 2 * (512 << 10) + 3 * (128 << 10));
}

TEST(MemoryPlan, of_a_run_over_its_limit_says_what_takes_how_much) {
  const auto experiment =
      experiment_of({"ppo", "cartpole", {"env.count=4096", "train.memory_limit=1MiB"}});
  std::string note;
  const std::string error =
      error_of([&] { fit_memory(*experiment, {.device = at::kCPU, .threads = 1}, &note); });
  EXPECT_TRUE(contains(error, "rollout 18 MiB")) << error;
  EXPECT_TRUE(contains(error, "the limit is 1 MiB (train.memory_limit)")) << error;
  EXPECT_TRUE(contains(error, "--memory-limit")) << error;
}

}  // namespace
}  // namespace maglev
