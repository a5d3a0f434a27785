#include "python/bindings/replay_memory.h"

#include <filesystem>

#include <ATen/ATen.h>
#include <torch/cuda.h>

#include <gtest/gtest.h>

#include "base/core/error.h"

namespace maglev::python {
namespace {

constexpr int64_t kReplayRows = 3;

ReplayRequest small_replay(at::Device device, std::optional<double> priorities) {
  ReplayRequest request{.shape = {.capacity = kReplayRows * 20,
                                  .length = 4,
                                  .batch = 16,
                                  .by_start = true,
                                  .running = true,
                                  .priorities = priorities},
                        .rows = kReplayRows,
                        .columns = {{.name = "value", .shape = {2}, .rewritten = true}},
                        .placement = {.device = device, .threads = 1}};
  request.spec.observations = {{.name = "time", .dtype = DType::i32, .shape = {2}},
                               {.name = "image", .dtype = DType::u8, .shape = {3, 3}}};
  request.spec.action.low = {-1}, request.spec.action.high = {1};
  return request;
}

/// Step `t` of rows whose episodes have seven transitions, which say when and whose they are.
GivenStep step_at(int64_t t) {
  const at::Tensor row = at::arange(kReplayRows), phase = (row * 2 + t) % 8;
  const at::Tensor time = at::full_like(row, t);
  return {.obs = {at::stack({time, row}, 1), phase.view({-1, 1, 1}).expand({-1, 3, 3})},
          .mask = {},
          .is_first = phase == 0,
          .action = phase.to(at::kFloat) / 8,
          .reward = (row + t).to(at::kDouble),
          .terminated = phase == 6,
          .truncated = at::zeros_like(phase, at::kBool),
          .columns = {{"value", at::stack({row, time}, 1)}}};
}

std::vector<at::Tensor> columns_in(const ReplayBuffer& buffer) {
  std::vector<at::Tensor> all = buffer.batch.obs;
  for (const at::Tensor& column :
       {buffer.batch.is_first, buffer.batch.action, buffer.batch.reward, buffer.batch.terminated,
        buffer.batch.truncated, buffer.batch.extra[0], buffer.slices})
    all.push_back(column);
  if (buffer.batch.chance.defined()) all.push_back(buffer.batch.chance);
  for (at::Tensor& column : all) column = column.cpu();
  return all;
}

void expect_same_batch(ReplayMemory& a, ReplayMemory& b) {
  ReplayBuffer of_a = a.make_buffer(), of_b = b.make_buffer();
  a.sample(of_a, {}), b.sample(of_b, {});
  const auto from_a = columns_in(of_a), from_b = columns_in(of_b);
  for (size_t c = 0; c < from_a.size(); ++c)
    EXPECT_TRUE(at::equal(from_a[c], from_b[c])) << "column " << c;
  // some of it goes back, changed
  a.update(of_a, {{"value", of_a.batch.extra[0] + 100}}, /*first=*/1);
  b.update(of_b, {{"value", of_b.batch.extra[0] + 100}}, /*first=*/1);
  if (!of_a.batch.chance.defined()) return;
  // errors of the slices, or of all their steps
  const bool each = of_a.slices[0][0].item<int64_t>() % 2;
  a.prioritise(of_a, each ? of_a.batch.reward : of_a.batch.reward[0], 1e-6);
  b.prioritise(of_b, each ? of_b.batch.reward : of_b.batch.reward[0], 1e-6);
}

void expect_alike(std::optional<double> priorities) {
  const auto host_request = small_replay(at::kCPU, priorities);
  const auto device_request = small_replay(at::kCUDA, priorities);
  ReplayMemory host(host_request), device(device_request);
  for (int64_t t = 0; t < 70; ++t) {
    host.add(step_at(t)), device.add(step_at(t));
    EXPECT_EQ(device.held(), host.held());
    EXPECT_EQ(device.episodes(), host.episodes());
    if (t > 10 && t % 4 == 0) expect_same_batch(host, device);
  }
  EXPECT_EQ(host.held(), kReplayRows * 20);
  EXPECT_EQ(device.faults(), 0);
  const std::string folder = testing::TempDir() + "maglev_python_replay";
  std::filesystem::remove_all(folder);
  device.save(folder, "about");
  EXPECT_EQ(ReplayMemory::about(folder), "about");
  ReplayMemory loaded(host_request), again(device_request);
  loaded.load(folder), again.load(folder);
  std::filesystem::remove_all(folder);
  for (int64_t t = 70; t < 80; ++t) {
    for (ReplayMemory* replay : {&host, &device, &loaded, &again}) replay->add(step_at(t));
    expect_same_batch(host, device);
    expect_same_batch(loaded, again);
  }
}

TEST(PythonReplay, adds_and_draws_on_cuda_as_on_the_processor) {
  if (!torch::cuda::is_available()) GTEST_SKIP() << "no CUDA device on this machine";
  expect_alike({});
}

TEST(PythonReplay, draws_by_priorities_on_cuda_as_on_the_processor) {
  if (!torch::cuda::is_available()) GTEST_SKIP() << "no CUDA device on this machine";
  expect_alike(0.6);
}

}  // namespace
}  // namespace maglev::python
