// Every environment on the GPU against the CPU: the same seeds and actions give the same rows. Cell
// codes, flags and whole numbers must be equal to the bit; floats within the tolerance of one step,
// for the two libraries' sines differ in the last place. Built where device code is built; skipped,
// saying so, where there is no device.

#if defined(MAGLEV_DEVICE_CODE)

#include <algorithm>
#include <cmath>
#include <string_view>

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include "base/env/host_envs.h"

namespace maglev {
namespace {

constexpr int64_t kCount = 256;
constexpr int kSteps = 600;

#define ASSERT_CUDA(call) \
  ASSERT_EQ(cudaGetErrorString(cudaError_t(call)), std::string("no error")) << #call

/// Device memory that goes with its owner.
class DeviceBytes {
 public:
  DeviceBytes() = default;
  ~DeviceBytes() { cudaFree(data_); }
  DeviceBytes(const DeviceBytes&) = delete;
  DeviceBytes& operator=(const DeviceBytes&) = delete;

  template <class T>
  T* allocate(size_t bytes) {
    if (cudaMalloc(&data_, bytes) != cudaSuccess) return nullptr;
    cudaMemset(data_, 0, bytes);
    return static_cast<T*>(data_);
  }

 private:
  void* data_ = nullptr;
};

class CudaEnv : public testing::TestWithParam<std::string> {};

std::vector<std::string> with_device_code() {
  std::vector<std::string> all;
  for (const auto& e : env_table()) all.emplace_back(e.name);
  return all;
}

INSTANTIATE_TEST_SUITE_P(Table, CudaEnv, testing::ValuesIn(with_device_code()),
                         [](const testing::TestParamInfo<std::string>& info) {
                           return info.param;
                         });

TEST_P(CudaEnv, gives_the_rows_of_the_cpu) {
  int devices = 0;
  if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0)
    GTEST_SKIP() << "no CUDA device on this machine";

  const EnvEntry& env = find_env(GetParam());
  if (env.host_only) GTEST_SKIP() << env.name << " steps on the host only";
  HostEnvs host(env, kCount, 1), from_device(env, kCount, 1);
  const int64_t rows = host.rows();
  const bool exact = GetParam() == "goodhart" || GetParam() == "kg";
  // pictures of what moves by floating point
  const bool drawn = std::string_view(GetParam()).ends_with("_pixels");

  // the host's pointers, each replaced by its twin on the device
  const size_t slot_bytes = size_t(host.slot(kCount) - host.slot(0));
  DeviceBytes params, assets, slots, reward, terminated, truncated, is_first, mask, actions,
      obs[kMaxObsColumns];
  EnvBatch batch = host.batch();
  StepIo io = host.io();
  void* device_params = params.allocate<void>(env.params_bytes);
  ASSERT_NE(device_params, nullptr);
  ASSERT_CUDA(cudaMemcpy(device_params, batch.params, env.params_bytes, cudaMemcpyHostToDevice));
  batch.params = device_params;
  if (const size_t bytes = env.asset_bytes(host.batch().params)) {
    void* device_assets = assets.allocate<void>(bytes);
    ASSERT_NE(device_assets, nullptr);
    ASSERT_CUDA(cudaMemcpy(device_assets, batch.assets, bytes, cudaMemcpyHostToDevice));
    batch.assets = device_assets;
  }
  ASSERT_NE(batch.slots = slots.allocate<std::byte>(slot_bytes), nullptr);
  ASSERT_NE(io.reward = reward.allocate<float>(size_t(rows) * 4), nullptr);
  ASSERT_NE(io.terminated = terminated.allocate<uint8_t>(size_t(rows)), nullptr);
  ASSERT_NE(io.truncated = truncated.allocate<uint8_t>(size_t(rows)), nullptr);
  ASSERT_NE(io.is_first = is_first.allocate<uint8_t>(size_t(rows)), nullptr);
  if (io.mask) {
    ASSERT_NE(io.mask = mask.allocate<uint8_t>(host.mask.size()), nullptr);
  }
  const size_t action_bytes = size_t(rows * io.action_dims) * 4;
  void* device_actions = actions.allocate<void>(action_bytes);
  ASSERT_NE(device_actions, nullptr);
  if (io.action_i32) io.action_i32 = static_cast<const int32_t*>(device_actions);
  if (io.action_f32) io.action_f32 = static_cast<const float*>(device_actions);
  for (size_t c = 0; c < host.spec().observations.size(); ++c)
    ASSERT_NE(io.obs[c] = obs[c].allocate<std::byte>(size_t(rows * io.obs_row_bytes[c])), nullptr);

  host.reset();
  ASSERT_CUDA(env.reset_cuda(batch, io, kCount, nullptr));
  Rng draws(1, stream_id(Purpose::act, 0), 0);
  for (int t = 0; t < kSteps; ++t) {
    host.random_actions(draws);
    const void* host_actions =
        io.action_i32 ? static_cast<const void*>(host.actions_i32.data()) : host.actions_f32.data();
    if (!exact) {
      // float dynamics drift apart and some are chaotic: each step begins from the host's states
      ASSERT_CUDA(cudaMemcpy(batch.slots, host.slot(0), slot_bytes, cudaMemcpyHostToDevice));
    }
    host.step();
    ASSERT_CUDA(cudaMemcpy(device_actions, host_actions, action_bytes, cudaMemcpyHostToDevice));
    ASSERT_CUDA(env.step_cuda(batch, io, kCount, nullptr));

    auto fetch = [](void* to, const void* from, size_t bytes) {
      return cudaMemcpy(to, from, bytes, cudaMemcpyDeviceToHost);
    };
    ASSERT_CUDA(fetch(from_device.reward.data(), io.reward, size_t(rows) * 4));
    ASSERT_CUDA(fetch(from_device.terminated.data(), io.terminated, size_t(rows)));
    ASSERT_CUDA(fetch(from_device.truncated.data(), io.truncated, size_t(rows)));
    ASSERT_CUDA(fetch(from_device.is_first.data(), io.is_first, size_t(rows)));
    if (io.mask) {
      ASSERT_CUDA(fetch(from_device.mask.data(), io.mask, host.mask.size()));
    }
    for (size_t c = 0; c < host.spec().observations.size(); ++c)
      ASSERT_CUDA(fetch(from_device.io().obs[c], io.obs[c], size_t(rows * io.obs_row_bytes[c])));

    if (exact) {
      ASSERT_EQ(host.hash(), from_device.hash()) << "step " << t;
      continue;
    }
    ASSERT_EQ(host.truncated, from_device.truncated) << "step " << t;
    ASSERT_EQ(host.is_first, from_device.is_first) << "step " << t;
    ASSERT_EQ(host.mask, from_device.mask) << "step " << t;
    // a state within rounding of the line may end on one side only: rare, and never many
    int64_t ends_apart = 0;
    for (int64_t row = 0; row < rows; ++row) {
      ends_apart += host.terminated[size_t(row)] != from_device.terminated[size_t(row)];
      for (size_t c = 0; c < host.spec().observations.size(); ++c) {
        const int64_t n = host.spec().observations[c].elements();
        if (drawn) {
          // a last place of the dynamics moves a smooth edge by a shade
          int64_t apart = 0, most = 0;
          for (int64_t k = 0; k < n; ++k) {
            const int a = host.obs<uint8_t>(int(c), row)[k];
            const int by = std::abs(a - from_device.obs<uint8_t>(int(c), row)[k]);
            apart += by > 0, most = std::max<int64_t>(most, by);
          }
          ASSERT_LE(most, 4) << "step " << t << " row " << row;
          ASSERT_LE(apart, n / 100) << "step " << t << " row " << row;
          continue;
        }
        if (host.spec().observations[c].dtype != DType::f32) {
          ASSERT_EQ(
              std::memcmp(host.obs<std::byte>(int(c), row), from_device.obs<std::byte>(int(c), row),
                          size_t(host.io().obs_row_bytes[c])),
              0);
          continue;
        }
        for (int64_t k = 0; k < n; ++k) {
          const float a = host.obs<float>(int(c), row)[k],
                      b = from_device.obs<float>(int(c), row)[k];
          ASSERT_LE(std::abs(a - b), 1e-3f * (1.f + std::abs(a)))
              << "step " << t << " row " << row << " value " << k;
        }
      }
    }
    ASSERT_LE(ends_apart, 1) << "step " << t;
  }
}

}  // namespace
}  // namespace maglev

#endif
