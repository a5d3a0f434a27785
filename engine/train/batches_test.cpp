#include "engine/train/batches.h"

#include <ATen/ATen.h>

#include <gtest/gtest.h>

#include "base/core/error.h"

namespace maglev {
namespace {

constexpr int64_t kRows = 3, kSlots = 40, kLength = 5, kBatch = 16;

EnvSpec numbers() {
  EnvSpec spec;
  spec.observations = {{.name = "vector", .shape = {2}}};
  spec.action.low = {-1}, spec.action.high = {1};
  return spec;
}

/// A full ring of numbered rows, whose updates write a column back.
std::unique_ptr<Replay> ring() {
  const std::vector<ExtraColumn> columns{{.name = "latent", .shape = {2}, .rewritten = true},
                                         {.name = "value"}};
  auto replay =
      std::make_unique<Replay>(numbers(),
                               ReplayShape{.window = {.T = 2, .rows = kRows, .block_rows = 3},
                                           .capacity = kRows * kSlots,
                                           .length = kLength,
                                           .batch = kBatch,
                                           .crossing = true},
                               columns, at::kCPU);
  Batch& all = replay->columns();
  for (at::Tensor* column : {&all.obs[0], &all.reward, &all.extra[0], &all.extra[1]})
    column->copy_(at::arange(column->numel()).view(column->sizes()));
  replay->hold(7, 7 + kSlots - 1);
  return replay;
}

/// What updates learned from, and the ring afterwards. `another`: whether one follows, as a trainer
/// says.
std::vector<at::Tensor> learned(bool ahead, bool dropping) {
  auto replay = ring();
  Batches batches(*replay, ahead);
  ThreadPool pool(1);
  std::vector<at::Tensor> seen;
  for (int64_t k = 0; k < 60; ++k) {
    const Batch& batch = batches.get({.seed = 4, .number = k}, pool);
    if (k % 7 != 6) batches.draw_ahead({.seed = 4, .number = k + 1});
    for (const at::Tensor& column : {batch.obs[0], batch.reward, batch.extra[0], batch.extra[1]})
      seen.push_back(column.clone());
    // an update whose states depend on those it was given
    batch.extra[0].mul_(0.5).add_(double(k));
    batches.put_back();
    if (dropping && k % 5 == 0) batches.drop();
  }
  seen.push_back(replay->columns().extra[0].clone());
  return seen;
}

TEST(Batches, drawn_ahead_are_those_that_would_be_drawn_later) {
  const auto plain = learned(false, false);
  for (bool dropping : {false, true}) {
    const auto ahead = learned(true, dropping);
    ASSERT_EQ(ahead.size(), plain.size());
    for (size_t i = 0; i < plain.size(); ++i) ASSERT_TRUE(at::equal(ahead[i], plain[i])) << i;
  }
}

TEST(Batches, another_one_than_was_drawn_ahead_is_drawn_when_it_is_asked_for) {
  auto replay = ring();
  Batches ahead(*replay, true), plain(*replay, false);
  ThreadPool pool(1);
  for (int64_t number : {3, 9, 4}) {
    ahead.draw_ahead({.seed = 1, .number = 100});
    EXPECT_TRUE(at::equal(ahead.get({.seed = 1, .number = number}, pool).obs[0],
                          plain.get({.seed = 1, .number = number}, pool).obs[0]));
  }
}

}  // namespace
}  // namespace maglev
