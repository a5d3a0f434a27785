// Every environment's device code on the emulated device against the CPU: the same seeds and
// actions give the same rows, to the bit, for both use the host's arithmetic.

#include <algorithm>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include "base/env/host_envs.h"
#include "base/env/totals.h"
#include "tests/emulation/device.h"

namespace maglev {
namespace {

// two blocks of threads, the second one nearly empty
constexpr int64_t kCount = 130;
constexpr int kSteps = 256;

/// What a step reads and writes, on the device.
class DeviceEnvs {
 public:
  explicit DeviceEnvs(const HostEnvs& host) : batch_(host.batch()), io_(host.io()) {
    const size_t rows = size_t(host.rows());
    const EnvEntry& env = host.entry();
    slot_bytes_ = size_t(host.slot(kCount) - host.slot(0));
    batch_.params = upload(batch_.params, env.params_bytes);
    if (const size_t bytes = env.asset_bytes(host.batch().params))
      batch_.assets = upload(batch_.assets, bytes);
    batch_.slots = static_cast<std::byte*>(allocate(slot_bytes_));
    cudaMemset(batch_.slots, 0, slot_bytes_);
    io_.reward = static_cast<float*>(allocate(rows * 4));
    io_.terminated = static_cast<uint8_t*>(allocate(rows));
    io_.truncated = static_cast<uint8_t*>(allocate(rows));
    io_.is_first = static_cast<uint8_t*>(allocate(rows));
    if (io_.mask) io_.mask = static_cast<uint8_t*>(allocate(host.mask.size()));
    action_bytes_ = rows * size_t(io_.action_dims) * 4;
    actions_ = allocate(action_bytes_);
    if (io_.action_i32) io_.action_i32 = static_cast<const int32_t*>(actions_);
    if (io_.action_f32) io_.action_f32 = static_cast<const float*>(actions_);
    for (size_t c = 0; c < host.spec().observations.size(); ++c)
      io_.obs[c] = static_cast<std::byte*>(allocate(rows * size_t(io_.obs_row_bytes[c])));
  }
  ~DeviceEnvs() {
    for (void* memory : memory_) cudaFree(memory);
  }
  DeviceEnvs(const DeviceEnvs&) = delete;
  DeviceEnvs& operator=(const DeviceEnvs&) = delete;

  void put_actions(const HostEnvs& host) {
    const void* from = io_.action_i32 ? static_cast<const void*>(host.actions_i32.data())
                                      : host.actions_f32.data();
    cudaMemcpy(actions_, from, action_bytes_, cudaMemcpyHostToDevice);
  }
  /// What a step wrote, into `host`; `stepped`: with the columns that a reset leaves alone.
  void fetch(HostEnvs& host, bool stepped) {
    const auto get = [](void* to, const void* from, size_t bytes) {
      if (bytes > 0) cudaMemcpy(to, from, bytes, cudaMemcpyDeviceToHost);
    };
    const size_t rows = size_t(host.rows());
    if (stepped) {
      get(host.reward.data(), io_.reward, rows * 4);
      get(host.terminated.data(), io_.terminated, rows);
      get(host.truncated.data(), io_.truncated, rows);
    }
    get(host.is_first.data(), io_.is_first, rows);
    get(host.mask.data(), io_.mask, host.mask.size());
    for (size_t c = 0; c < host.spec().observations.size(); ++c)
      get(host.io().obs[c], io_.obs[c], rows * size_t(io_.obs_row_bytes[c]));
  }
  EpisodeTotals take_totals() {
    void *into = allocate(sizeof(EpisodeTotals)),
         *partial = allocate(size_t(totals_parts(kCount)) * sizeof(EpisodeTotals));
    EXPECT_EQ(take_totals_cuda(batch_, static_cast<EpisodeTotals*>(partial),
                               static_cast<EpisodeTotals*>(into), kCount, nullptr),
              0);
    EpisodeTotals totals;
    cudaMemcpy(&totals, into, sizeof totals, cudaMemcpyDeviceToHost);
    return totals;
  }

  const EnvBatch& batch() const { return batch_; }
  const StepIo& io() const { return io_; }

 private:
  void* allocate(size_t bytes) {
    void* memory = nullptr;
    EXPECT_EQ(cudaMalloc(&memory, bytes), cudaSuccess);
    memory_.push_back(memory);
    return memory;
  }
  void* upload(const void* from, size_t bytes) {
    void* to = allocate(bytes);
    cudaMemcpy(to, from, bytes, cudaMemcpyHostToDevice);
    return to;
  }

  EnvBatch batch_;
  StepIo io_;
  size_t slot_bytes_ = 0, action_bytes_ = 0;
  void* actions_ = nullptr;
  std::vector<void*> memory_;
};

void expect_same(const EpisodeTotals& a, const EpisodeTotals& b) {
  // added in another order
  EXPECT_NEAR(a.return_sum, b.return_sum, 1e-9 * (1 + std::abs(a.return_sum)));
  EXPECT_EQ(a.length_sum, b.length_sum);
  EXPECT_EQ(a.return_min, b.return_min);
  EXPECT_EQ(a.return_max, b.return_max);
  EXPECT_EQ(a.episodes, b.episodes);
  EXPECT_EQ(a.steps, b.steps);
  for (int k = 0; k < kMaxEvents; ++k)
    EXPECT_NEAR(a.events[k], b.events[k], 1e-9 * (1 + std::abs(a.events[k])));
}

using EnvSettings = std::vector<std::pair<std::string, std::string>>;

void expect_rows_of_the_cpu(const EnvEntry& env, const EnvSettings& settings, int steps) {
  ASSERT_NE(env.step_cuda, nullptr) << "no device code";
  HostEnvs host(env, kCount, 1, settings), fetched(env, kCount, 1, settings);
  DeviceEnvs device(host);
  host.reset(), fetched.reset();
  ASSERT_EQ(env.reset_cuda(device.batch(), device.io(), kCount, nullptr), 0);
  device.fetch(fetched, false);
  ASSERT_EQ(host.hash(), fetched.hash()) << "after the reset";
  Rng draws(1, stream_id(Purpose::act, 0), 0);
  for (int t = 0; t < steps; ++t) {
    host.random_actions(draws);
    host.step();
    device.put_actions(host);
    ASSERT_EQ(env.step_cuda(device.batch(), device.io(), kCount, nullptr), 0);
    device.fetch(fetched, true);
    ASSERT_EQ(host.hash(), fetched.hash()) << "step " << t;
  }
  expect_same(host.take_totals(), device.take_totals());
}

class EmulatedEnv : public testing::TestWithParam<std::string> {};

TEST_P(EmulatedEnv, gives_the_rows_of_the_cpu) {
  expect_rows_of_the_cpu(find_env(GetParam()), {}, kSteps);
}

// a step of the device draws pictures, then sees them: stacked over the ends of episodes
TEST(EmulatedEnvs, see_pictures_as_the_cpu_does) {
  // two episodes and the begin of a third
  constexpr int kSeen = 16;
  for (const EnvSettings& seen :
       {EnvSettings{{"image.resize", "23"}}, EnvSettings{{"image.grey", "true"}},
        EnvSettings{{"image.stack", "3"}},
        EnvSettings{{"image.resize", "80"}, {"image.grey", "true"}, {"image.stack", "4"}}}) {
    EnvSettings settings = seen;
    settings.emplace_back("max_steps", "7");
    expect_rows_of_the_cpu(find_env("pendulum_pixels"), settings, kSeen);
  }
}

std::vector<std::string> stepped_on_devices() {
  std::vector<std::string> names;
  for (const EnvEntry& env : env_table())
    if (!env.host_only) names.emplace_back(env.name);
  return names;
}

INSTANTIATE_TEST_SUITE_P(Table, EmulatedEnv, testing::ValuesIn(stepped_on_devices()),
                         [](const auto& info) { return info.param; });

TEST(EmulatedEnvs, are_all_that_step_on_devices) {
  const size_t count = stepped_on_devices().size();
  EXPECT_GT(count, 0u);
  std::printf("%zu environments of %zu\n", count, env_table().size());
}

}  // namespace
}  // namespace maglev
