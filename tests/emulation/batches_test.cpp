// Batches drawn ahead on a stream of their own, on the emulated device: those that a processor
// draws, eager and as graphs, and in an order that holds whatever a device does at once.

#include "engine/train/batches.h"

#include <ATen/ATen.h>

#include <gtest/gtest.h>

#include "engine/device/step_graph.h"

namespace maglev {
namespace {

constexpr int64_t kRows = 3, kSlots = 40, kLength = 5, kBatch = 16, kUpdates = 5;

EnvSpec numbers() {
  EnvSpec spec;
  spec.observations = {{.name = "vector", .shape = {2}}};
  spec.action.low = {-1}, spec.action.high = {1};
  return spec;
}

/// Rounds of steps and updates over a ring of numbered rows, whose updates write a column back.
struct Learner {
  Learner(at::Device device, bool ahead, std::optional<double> priorities)
      : device(device),
        ring(numbers(),
             {.window = {.T = 2, .rows = kRows, .block_rows = kRows},
              .capacity = kRows * kSlots,
              .length = kLength,
              .batch = kBatch,
              .crossing = true,
              .priorities = priorities},
             {{.name = "latent", .shape = {2}, .rewritten = true}, {.name = "value"}}, device,
             {.pinned = true}),
        batches(ring, ahead),
        updates(at::zeros({1}, at::TensorOptions(at::kLong).device(device))),
        pool(1) {
    Batch& all = ring.columns();
    for (at::Tensor* column : {&all.obs[0], &all.reward, &all.extra[0], &all.extra[1]})
      column->copy_(at::arange(column->numel()).view(column->sizes()));
    ring.hold(7, 7 + kSlots - 1);
  }

  // an update whose states depend on those it was given; `seen` adds up what it was given
  void update(bool another) {
    const ReplayKey key{.seed = 4, .base = updates.const_data_ptr<int64_t>()};
    const Batch& batch = batches.get(key, pool);
    if (another) batches.draw_ahead({.seed = key.seed, .number = key.number + 1, .base = key.base});
    const auto sum = batch.obs[0].sum() + 3 * batch.reward.sum() + 5 * batch.extra[0].sum() +
                     7 * batch.extra[1].sum();
    seen = seen.defined() ? seen.mul_(0.5).add_(sum) : sum.clone();
    batch.extra[0].mul_(0.5).add_(seen * 1e-5);
    if (batch.chance.defined()) {
      seen.add_(batch.chance.sum().mul_(1000).floor_());
      batch.priority.copy_(batch.extra[1][0]);
    }
    batches.put_back();
    updates.add_(1);
  }
  void step() {
    if (device.is_cpu()) batches.drop(), ring.begin();
    for (int64_t t = 0; t < 2; ++t) {
      ring.window().reward(t).fill_(double(100 + t));
      for (const TimeStep& part : ring.window().step(t + 1).blocks) part.obs[0].fill_(-1.5);
      for (const TimeStep& part : ring.window().step(t).blocks)
        for (const at::Tensor& column : part.extra) column.fill_(double(t));
    }
    if (device.is_cuda()) batches.drop();
    ring.commit();
  }

  at::Device device;
  Replay ring;
  Batches batches;
  at::Tensor updates, seen;
  ThreadPool pool;
};

/// What updates saw, and the ring afterwards.
std::vector<at::Tensor> learned(at::Device device, bool ahead, bool captured,
                                std::optional<double> priorities = {}) {
  Learner learner(device, ahead, priorities);
  GraphPool pool(device);
  StepGraph last("last"), other("other");
  pool.on_side_stream([&] {
    for (int round = 0; round < 6; ++round) {
      learner.step();
      for (int64_t k = 0; k < kUpdates; ++k) {
        // also one behind which steps come, which drop what was drawn
        const bool another = k + 1 < kUpdates || round % 2;
        (another ? other : last).run([&] { learner.update(another); });
      }
      if (!captured || round != 1) continue;
      last.capture(pool, [&] { learner.update(false); });
      other.capture(pool, [&] { learner.update(true); });
    }
  });
  return {learner.seen.cpu(), learner.ring.columns().extra[0].cpu(),
          learner.ring.columns().obs[0].cpu(), learner.updates.cpu()};
}

TEST(Batches, of_an_emulated_device_drawn_ahead_are_a_processors_on_cuda) {
  const auto plain = learned(at::kCPU, false, false);
  for (const bool ahead : {false, true})
    for (const bool captured : {false, true}) {
      const auto device = learned(at::Device("cuda:0"), ahead, captured);
      for (size_t i = 0; i < plain.size(); ++i)
        EXPECT_TRUE(at::equal(device[i], plain[i])) << ahead << captured << i << "\n"
                                                    << device[i] << plain[i];
    }
}

TEST(Batches, by_priorities_of_an_emulated_device_are_a_processors_on_cuda) {
  const auto plain = learned(at::kCPU, false, false, 0.6);
  EXPECT_FALSE(at::equal(plain[0], learned(at::kCPU, false, false)[0]));
  for (const bool captured : {false, true}) {
    const auto device = learned(at::Device("cuda:0"), false, captured, 0.6);
    for (size_t i = 0; i < plain.size(); ++i)
      EXPECT_TRUE(at::equal(device[i], plain[i])) << captured << i << "\n" << device[i] << plain[i];
  }
}

}  // namespace
}  // namespace maglev
