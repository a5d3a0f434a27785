#include "engine/data/replay.h"

#include <atomic>
#include <cmath>
#include <cstring>
#include <thread>

#include <ATen/ATen.h>

#include <gtest/gtest.h>

#include "base/core/error.h"
#include "engine/data/vec_env.h"
#include "engine/run/snapshot.h"

namespace maglev {
namespace {

EnvSpec marked_rows() {
  EnvSpec spec;
  spec.observations = {{.name = "mark", .dtype = DType::i32, .shape = {3}},
                       {.name = "image", .dtype = DType::u8, .shape = {5, 2}}};
  spec.action.low = {-1, -1}, spec.action.high = {1, 1};
  return spec;
}

/// Writes rows that say what they are, (environment row, episode, step in it), as environments that
/// end at different times would.
class Script {
 public:
  Script(int64_t rows, uint64_t seed, int64_t longest)
      : rng_(seed, stream_id(Purpose::env, 0), 0), longest_(longest), lanes_(size_t(rows)) {
    for (Lane& lane : lanes_) lane.left = draw();
  }

  void reset(const StepIo& io) {
    for (size_t r = 0; r < lanes_.size(); ++r) observe(io, r, 1);
  }

  void collect(Replay& replay) {
    replay.begin();
    StepWindow& window = replay.window();
    for (int64_t t = 0; t < window.shape().T; ++t) {
      for (TimeStep& block : window.step(t).blocks) {
        auto action = block.action.accessor<float, 2>();
        for (int64_t i = 0; i < block.rows(); ++i)
          action[i][0] = float(block.first + i), action[i][1] = float(lane(block.first + i).step);
      }
      step(window.io(t));
    }
    replay.commit();
  }

 private:
  struct Lane {
    int32_t episode = 0, step = 0;
    int64_t left = 0;
  };

  Lane& lane(int64_t r) { return lanes_[size_t(r)]; }
  int64_t draw() { return 1 + int64_t(rng_.below(uint32_t(longest_))); }

  void step(const StepIo& io) {
    for (size_t r = 0; r < lanes_.size(); ++r) {
      Lane& l = lanes_[r];
      const bool resets = l.left == 0;
      io.reward[r] = resets ? 0.f : float(l.step);
      io.terminated[r] = io.truncated[r] = 0;
      if (resets) {
        ++l.episode, l.step = 0, l.left = draw();
      } else {
        ++l.step;
        if (--l.left == 0) (rng_.below(2) ? io.terminated : io.truncated)[r] = 1;
      }
      observe(io, r, resets);
    }
  }

  void observe(const StepIo& io, size_t r, uint8_t first) {
    const int32_t mark[3] = {int32_t(r), lanes_[r].episode, lanes_[r].step};
    std::memcpy(io.obs[0] + int64_t(r) * io.obs_row_bytes[0], mark, sizeof mark);
    std::memset(io.obs[1] + int64_t(r) * io.obs_row_bytes[1], lanes_[r].step % 251, 10);
    io.is_first[r] = first;
  }

  Rng rng_;
  int64_t longest_;
  std::vector<Lane> lanes_;
};

// every sequence is one stretch of one episode of one row, in every column
void expect_one_episode_each(const Batch& batch) {
  const auto mark = batch.obs[0].accessor<int32_t, 3>();
  const auto image = batch.obs[1].accessor<uint8_t, 4>();
  const auto action = batch.action.accessor<float, 3>();
  const auto reward = batch.reward.accessor<float, 2>();
  const auto first = batch.is_first.accessor<uint8_t, 2>();
  const auto terminated = batch.terminated.accessor<uint8_t, 2>();
  const auto truncated = batch.truncated.accessor<uint8_t, 2>();
  const int64_t L = batch.reward.size(0);
  for (int64_t b = 0; b < batch.reward.size(1); ++b)
    for (int64_t l = 0; l <= L; ++l) {
      ASSERT_EQ(mark[l][b][0], mark[0][b][0]);
      ASSERT_EQ(mark[l][b][1], mark[0][b][1]);
      ASSERT_EQ(mark[l][b][2], mark[0][b][2] + l);
      ASSERT_EQ(image[l][b][4][1], mark[l][b][2] % 251);
      ASSERT_EQ(first[l][b], mark[l][b][2] == 0);
      if (l == L) continue;
      ASSERT_EQ(action[l][b][0], float(mark[l][b][0]));
      ASSERT_EQ(action[l][b][1], float(mark[l][b][2]));
      ASSERT_EQ(reward[l][b], float(mark[l][b][2]));
      if (l + 1 < L) {
        ASSERT_FALSE(terminated[l][b] || truncated[l][b]);
      }
    }
}

ReplayShape shape_of(int64_t rows, int64_t T, int64_t slots, int64_t length, bool by_start,
                     bool running) {
  return {.window = {.T = T, .rows = rows, .block_rows = 3},
          .capacity = rows * slots,
          .length = length,
          .batch = 32,
          .by_start = by_start,
          .running = running};
}

TEST(Replay, gives_stretches_of_one_episode_of_one_row_whatever_the_sizes) {
  Rng rng(21, stream_id(Purpose::env, 1), 0);
  ThreadPool pool(2);
  for (int repeat = 0; repeat < 60; ++repeat) {
    const int64_t rows = repeat % 3 == 0 ? 1 : 1 + rng.below(64), T = 1 + rng.below(4);
    const int64_t length = 1 + rng.below(9), slots = length + T + 2 + rng.below(60);
    const int64_t longest = 1 + rng.below(uint32_t(3 * slots));
    Replay replay(marked_rows(), shape_of(rows, T, slots, length, repeat % 2, repeat / 2 % 2), {},
                  at::kCPU);
    Script script(rows, uint64_t(repeat), longest);
    script.reset(replay.window().first_io());
    ReplayBuffer buffer = replay.make_buffer();
    for (int64_t i = 0; i < 5 * slots / T; ++i) {
      script.collect(replay);
      if (!replay.drawable()) continue;
      replay.sample(buffer, {.seed = 3, .number = i}, pool);
      ASSERT_NO_FATAL_FAILURE(expect_one_episode_each(buffer.batch))
          << rows << " rows, T=" << T << ", " << slots << " slots, L=" << length;
    }
  }
}

TEST(Replay, can_be_sampled_by_several_threads_while_steps_are_collected) {
  for (bool by_start : {false, true}) {
    Replay replay(marked_rows(), shape_of(7, 3, 40, 4, by_start, true), {}, at::kCPU);
    Script script(7, 5, 25);
    script.reset(replay.window().first_io());
    for (int i = 0; i < 20; ++i) script.collect(replay);
    std::atomic<bool> stop{false};
    std::atomic<int64_t> batches{0};
    std::vector<std::thread> samplers;
    for (int64_t s = 0; s < 3; ++s)
      samplers.emplace_back([&, s] {
        ThreadPool pool(1);
        ReplayBuffer buffer = replay.make_buffer();
        for (int64_t i = 0; !stop; ++i) {
          replay.sample(buffer, {.seed = uint64_t(s), .number = i}, pool);
          ASSERT_NO_FATAL_FAILURE(expect_one_episode_each(buffer.batch));
          ++batches;
        }
      });
    for (int i = 0; i < 3000 || batches < 300; ++i) script.collect(replay);
    stop = true;
    for (auto& sampler : samplers) sampler.join();
  }
}

// what it gives after begin() is what it gave before it, less what the steps will overwrite
TEST(Replay, draws_the_same_while_steps_are_collected_whatever_they_are) {
  ThreadPool pool(1);
  std::vector<at::Tensor> given;
  for (uint64_t seed : {1, 2}) {
    Replay replay(marked_rows(), shape_of(4, 2, 30, 3, false, false), {}, at::kCPU);
    Script same(4, 9, 12), other(4, seed, 12);
    same.reset(replay.window().first_io());
    for (int i = 0; i < 40; ++i) same.collect(replay);
    replay.begin();
    replay.window().step(1).obs[0].fill_(int64_t(seed));
    ReplayBuffer buffer = replay.make_buffer();
    replay.sample(buffer, {.seed = 1, .number = 3}, pool);
    given.push_back(buffer.batch.obs[0].clone());
  }
  EXPECT_TRUE(at::equal(given[0], given[1]));
}

/// Priorities for batch `number` that follow from what is in it.
ReplayBuffer learn_from(Replay& replay, int64_t number) {
  ThreadPool pool(1);
  ReplayBuffer buffer = replay.make_buffer();
  replay.sample(buffer, {.seed = 6, .number = number}, pool);
  buffer.batch.priority.copy_(buffer.batch.obs[0][0].sum(1) % 13);
  replay.put_back(buffer);
  return buffer;
}

TEST(Replay, that_was_put_back_goes_on_as_if_nothing_had_happened) {
  ThreadPool pool(1);
  for (const char* way : {"trajectory", "start", "priorities"}) {
    ReplayShape shape = shape_of(5, 2, 40, 3, way == std::string("start"), true);
    if (way == std::string("priorities")) shape.priorities = 0.6;
    Replay replay(marked_rows(), shape, {}, at::kCPU);
    Script script(5, 4, 20);
    script.reset(replay.window().first_io());
    for (int i = 0; i < 55; ++i) {
      script.collect(replay);
      if (shape.priorities && replay.drawable()) learn_from(replay, i);
    }
    const StateSnapshot saved([&](StateVisitor& v) { replay.visit_state(v); });
    const Script then = script;

    auto go_on = [&](Replay& from) {
      Script again = then;
      ReplayBuffer buffer = from.make_buffer();
      std::vector<at::Tensor> given;
      for (int i = 0; i < 30; ++i) {
        from.sample(buffer, {.seed = 2, .number = i}, pool);
        given.push_back(buffer.slices.clone());
        given.push_back(buffer.batch.obs[0].clone());
        if (shape.priorities) learn_from(from, 100 + i);
        again.collect(from);
      }
      return at::cat([&] {
        for (auto& g : given) g = g.to(at::kLong).flatten();
        return given;
      }());
    };
    const auto unbroken = go_on(replay);
    Replay fresh(marked_rows(), shape, {}, at::kCPU);
    saved.restore([&](StateVisitor& v) { fresh.visit_state(v); });
    EXPECT_TRUE(at::equal(go_on(fresh), unbroken)) << way;
    saved.restore([&](StateVisitor& v) { replay.visit_state(v); });
    EXPECT_TRUE(at::equal(go_on(replay), unbroken)) << way;
  }
}

TEST(Replay, undoes_steps_from_the_rows_they_overwrote_alone) {
  ThreadPool pool(1);
  Replay replay(marked_rows(), shape_of(3, 2, 25, 3, true, false), {}, at::kCPU);
  Script script(3, 4, 10);
  script.reset(replay.window().first_io());
  for (int i = 0; i < 40; ++i) script.collect(replay);
  ReplayBuffer buffer = replay.make_buffer();
  replay.sample(buffer, {.seed = 2, .number = 1}, pool);
  const auto before = buffer.batch.obs[0].clone();
  const auto ahead = [&](StateVisitor& v) { replay.visit_ahead(v, 6); };
  const StateSnapshot saved(ahead);
  for (int i = 0; i < 3; ++i) script.collect(replay);
  saved.restore(ahead);
  replay.sample(buffer, {.seed = 2, .number = 1}, pool);
  EXPECT_TRUE(at::equal(buffer.batch.obs[0], before));
}

TEST(Replay, undoes_priorities_and_the_largest_of_them) {
  ThreadPool pool(1);
  ReplayShape shape = shape_of(3, 2, 25, 3, true, true);
  shape.priorities = 1;
  Replay replay(marked_rows(), shape, {}, at::kCPU);
  Script script(3, 4, 10);
  script.reset(replay.window().first_io());
  for (int i = 0; i < 40; ++i) script.collect(replay);
  learn_from(replay, 1);
  const EpisodeCounters before = replay.counters();
  const auto ahead = [&](StateVisitor& v) { replay.visit_ahead(v, 6); };
  const StateSnapshot saved(ahead);
  ReplayBuffer buffer = replay.make_buffer();
  replay.sample(buffer, {.seed = 2, .number = 1}, pool);
  const auto drawn = buffer.slices.clone(), chance = buffer.batch.chance.clone();
  buffer.batch.priority.fill_(100);
  replay.put_back(buffer);
  EXPECT_GT(replay.counters().largest, before.largest);
  for (int i = 0; i < 3; ++i) script.collect(replay);
  saved.restore(ahead);
  EXPECT_EQ(replay.counters().largest, before.largest);
  EXPECT_EQ(replay.counters().weight, before.weight);
  replay.sample(buffer, {.seed = 2, .number = 1}, pool);
  EXPECT_TRUE(at::equal(buffer.slices, drawn) && at::equal(buffer.batch.chance, chance));
}

TEST(Replay, that_forgot_gives_only_what_came_afterwards) {
  ThreadPool pool(1);
  Replay replay(marked_rows(), shape_of(2, 1, 60, 2, false, false), {}, at::kCPU);
  Script script(2, 4, 6);
  script.reset(replay.window().first_io());
  for (int i = 0; i < 30; ++i) script.collect(replay);
  replay.forget();
  EXPECT_FALSE(replay.drawable());
  const int64_t now = replay.counters().now;
  while (!replay.drawable()) script.collect(replay);
  ReplayBuffer buffer = replay.make_buffer();
  replay.sample(buffer, {.seed = 2, .number = 1}, pool);
  EXPECT_GE(buffer.slices.select(1, 0).min().item<int64_t>(), now);
}

ReplayShape crossing_shape(int64_t rows, int64_t T, int64_t slots, int64_t length) {
  ReplayShape shape = shape_of(rows, T, slots, length, false, false);
  shape.crossing = true;
  return shape;
}

TEST(Replay, sequences_that_cross_follow_a_row_over_the_ends_of_episodes) {
  ThreadPool pool(1);
  // most episodes are shorter than a sequence
  Replay replay(marked_rows(), crossing_shape(4, 2, 40, 12), {}, at::kCPU);
  Script script(4, 9, 7);
  script.reset(replay.window().first_io());
  ReplayBuffer buffer = replay.make_buffer();
  int64_t crossed = 0, next = 0;
  for (int64_t i = 0; i < 200; ++i) {
    script.collect(replay);
    if (!replay.drawable()) continue;
    replay.sample(buffer, {.seed = 3, .number = i}, pool);
    const auto mark = buffer.batch.obs[0].accessor<int32_t, 3>();
    const auto first = buffer.batch.is_first.accessor<uint8_t, 2>();
    const auto reward = buffer.batch.reward.accessor<float, 2>();
    for (int64_t b = 0; b < 32; ++b)
      for (int64_t l = 0; l < 12; ++l) {
        const bool begins = first[l + 1][b];
        (begins ? crossed : next) += 1;
        ASSERT_EQ(mark[l + 1][b][0], mark[l][b][0]);
        ASSERT_EQ(mark[l + 1][b][1], mark[l][b][1] + begins);
        ASSERT_EQ(mark[l + 1][b][2], begins ? 0 : mark[l][b][2] + 1);
        ASSERT_EQ(reward[l][b], begins ? 0.f : float(mark[l][b][2]));
      }
  }
  EXPECT_GT(crossed, 1000);
  EXPECT_GT(next, crossed);
}

TEST(Replay, sequences_that_cross_begin_everywhere_alike) {
  ThreadPool pool(1);
  Replay replay(marked_rows(), crossing_shape(3, 1, 16, 4), {}, at::kCPU);
  Script script(3, 9, 5);
  script.reset(replay.window().first_io());
  for (int i = 0; i < 40; ++i) script.collect(replay);
  // 16 slots, of which one step may overwrite one: starts 26 to 36 of 3 rows
  const int64_t starts = (replay.counters().now - replay.counters().oldest - 3) * 3;
  auto seen = at::zeros({64, 3}, at::kLong);
  ReplayBuffer buffer = replay.make_buffer();
  constexpr int64_t kBatches = 1000;
  for (int64_t i = 0; i < kBatches; ++i) {
    replay.sample(buffer, {.seed = 5, .number = i}, pool);
    for (int64_t b = 0; b < 32; ++b)
      seen[buffer.slices[b][0].item<int64_t>()][buffer.slices[b][1].item<int64_t>()] += 1;
  }
  const double mean = 32.0 * kBatches / double(starts);
  EXPECT_EQ(seen.count_nonzero().item<int64_t>(), starts);
  // a count's deviation is below its mean's root; six of them
  const auto counts = seen.masked_select(seen > 0).to(at::kDouble);
  EXPECT_LT((counts - mean).abs().max().item<double>(), 6 * std::sqrt(mean));
}

// a batch of what 40 rounds of the script have left
ReplayBuffer drawn_behind(Script& script, Replay& replay) {
  ThreadPool pool(1);
  script.reset(replay.window().first_io());
  for (int i = 0; i < 40; ++i) script.collect(replay);
  ReplayBuffer buffer = replay.make_buffer();
  replay.sample(buffer, {.seed = 1, .number = 3}, pool);
  return buffer;
}

TEST(Replay, takes_back_what_an_update_wrote_where_it_still_has_the_row) {
  const std::vector<ExtraColumn> columns{{.name = "latent", .shape = {2}, .rewritten = true},
                                         {.name = "value"}};
  Replay replay(marked_rows(), crossing_shape(3, 2, 30, 5), columns, at::kCPU);
  Script script(3, 9, 9);
  ReplayBuffer buffer = drawn_behind(script, replay);
  ASSERT_EQ(buffer.batch.extra[0].size(0), 5);
  // what is written says where it belongs
  const auto time = buffer.slices.select(1, 0).unsqueeze(0) + at::arange(5).unsqueeze(1);
  buffer.batch.extra[0].select(2, 0).copy_(time);
  buffer.batch.extra[0].select(2, 1).copy_(buffer.slices.select(1, 1).expand({5, 32}));
  buffer.batch.extra[1].fill_(1);
  // six steps later some of it is overwritten
  const auto saved = StateSnapshot([&](StateVisitor& v) { replay.visit_ahead(v, 8); });
  for (int i = 0; i < 3; ++i) script.collect(replay);
  replay.begin();
  replay.put_back(buffer);

  const int64_t oldest = replay.counters().oldest;
  const Batch& ring = replay.columns();
  auto expected = at::zeros_like(ring.extra[0]);
  for (int64_t b = 0; b < 32; ++b)
    for (int64_t l = 1; l < 5; ++l) {
      const int64_t t = time[l][b].item<int64_t>(), row = buffer.slices[b][1].item<int64_t>();
      if (t < oldest) continue;
      expected[t % 30][row][0] = t, expected[t % 30][row][1] = row;
    }
  EXPECT_TRUE(at::equal(ring.extra[0], expected));
  EXPECT_GT(expected.count_nonzero().item<int64_t>(), 0);
  EXPECT_LT((time < oldest).sum().item<int64_t>(), 100);
  EXPECT_GT((time < oldest).sum().item<int64_t>(), 0);
  EXPECT_EQ(ring.extra[1].count_nonzero().item<int64_t>(), 0);

  // what is undone is undone there too
  saved.restore([&](StateVisitor& v) { replay.visit_ahead(v, 8); });
  EXPECT_EQ(ring.extra[0].count_nonzero().item<int64_t>(), 0);
}

TEST(Replay, takes_back_the_columns_and_rows_it_is_given_alone) {
  const std::vector<ExtraColumn> columns{{.name = "latent", .shape = {2}, .rewritten = true},
                                         {.name = "value", .rewritten = true}};
  Replay replay(marked_rows(), crossing_shape(3, 2, 30, 5), columns, at::kCPU);
  Script script(3, 9, 9);
  ReplayBuffer buffer = drawn_behind(script, replay);
  buffer.batch.extra[0].fill_(1);
  buffer.batch.extra[1] = at::Tensor();
  replay.put_back(buffer, /*first=*/0);
  const Batch& ring = replay.columns();
  for (int64_t b = 0; b < 32; ++b) {
    const int64_t begin = buffer.slices[b][0].item<int64_t>();
    const auto row = ring.extra[0].select(1, buffer.slices[b][1].item<int64_t>());
    for (int64_t t = begin; t < begin + 5; ++t) EXPECT_EQ(row[t % 30][0].item<float>(), 1) << b;
  }
  EXPECT_EQ(ring.extra[1].count_nonzero().item<int64_t>(), 0);
}

TEST(Replay, that_holds_no_slice_says_so) {
  ThreadPool pool(1);
  Replay replay(marked_rows(), shape_of(3, 1, 30, 5, /*by_start=*/true, /*running=*/false), {},
                at::kCPU);
  ReplayBuffer buffer = replay.make_buffer();
  try {
    replay.sample(buffer, {.seed = 1}, pool);
    ADD_FAILURE() << "an empty replay gave a batch";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(),
                 "[replay] nothing can be drawn: no finished episode that is held has the 5 "
                 "transitions of a slice; add more steps first");
  }
}

TEST(Replay, too_small_for_a_sequence_says_what_it_needs) {
  try {
    Replay replay(marked_rows(), shape_of(8, 1, 5, 3, false, false), {}, at::kCPU);
    FAIL() << "took it";
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("raise the capacity to at least 48"), std::string::npos)
        << e.what();
  }
}

TEST(Replay, allocates_what_it_says) {
  const auto shape = shape_of(8, 1, 1000, 3, true, false);
  Replay replay(marked_rows(), shape, {}, at::kCPU);
  const Batch& ring = replay.columns();
  size_t bytes = 0;
  for (const auto& c : {ring.obs[0], ring.obs[1], ring.is_first, ring.action, ring.reward,
                        ring.terminated, ring.truncated})
    bytes += c.nbytes();
  EXPECT_GE(Replay::bytes(marked_rows(), shape, {}), int64_t(bytes));
  EXPECT_LT(Replay::bytes(marked_rows(), shape, {}), int64_t(bytes) * 4 / 3);
}

TEST(Replay, gathers_rows_of_any_size) {
  constexpr int64_t kRows = 3, kSlots = 20, kLength = 4, kBatch = 8;
  ThreadPool pool(1);
  for (int64_t bytes : {1, 4, 16, 72, 2047, 2048, 2117, 12288}) {
    EnvSpec spec;
    spec.observations = {{.name = "image", .dtype = DType::u8, .shape = {bytes}}};
    spec.action.low = {-1}, spec.action.high = {1};
    ReplayShape shape = crossing_shape(kRows, 1, kSlots, kLength);
    shape.batch = kBatch;
    Replay replay(spec, shape, {}, at::kCPU);
    at::Tensor& ring = replay.columns().obs[0];
    ring.copy_(at::randint(0, 256, ring.sizes(), at::kByte));
    replay.hold(5, 5 + kSlots - 1);
    ReplayBuffer buffer = replay.make_buffer();
    replay.sample(buffer, {.seed = 1, .number = 2}, pool);
    for (int64_t b = 0; b < kBatch; ++b)
      for (int64_t l = 0; l <= kLength; ++l) {
        const int64_t time = buffer.slices[b][0].item<int64_t>() + l;
        const int64_t row = buffer.slices[b][1].item<int64_t>();
        ASSERT_TRUE(at::equal(buffer.batch.obs[0][l][b], ring[time % kSlots][row])) << bytes;
      }
  }
}

// an environment draws into the ring itself: its pointers are those of slots, also where the ring
// wraps, and rows written one by one, in any order, are the rows that are written together
TEST(Replay, pictures_are_drawn_where_they_are_kept) {
  constexpr int64_t kRows = 5, kSlots = 11;
  const EnvEntry& entry = find_env("pendulum_pixels");
  std::vector<std::byte> params(entry.params_bytes);
  entry.make_params(params.data());
  ThreadPool pool(1);
  for (int64_t T : {1, 3}) {
    VecEnv together(entry, params.data(), kRows, 7, at::kCPU, pool);
    VecEnv apart(entry, params.data(), kRows, 7, at::kCPU, pool);
    const RolloutShape window{.T = T, .rows = kRows, .block_rows = 2};
    Replay replay(together.spec(), {.window = window, .capacity = kRows * kSlots, .length = 2}, {},
                  at::kCPU);
    Rollout plain(apart.spec(), window, {}, at::kCPU);
    const int64_t bytes = together.spec().observations[0].row_bytes();
    const auto* ring = static_cast<std::byte*>(replay.columns().obs[0].data_ptr());
    together.reset(replay.window().first_io());
    apart.reset(plain.window().first_io());
    for (int64_t now = 0; now < 4 * kSlots; now += T) {
      replay.begin();
      for (int64_t t = 0; t < T; ++t) {
        const StepIo& io = replay.window().io(t);
        const int64_t slot = (now + t + 1) % kSlots;
        ASSERT_EQ(io.obs[0], ring + slot * kRows * bytes);
        const auto action = at::full({kRows, 1}, double(now % 5) - 2);
        replay.window().step(t).action.copy_(action);
        plain.window().step(t).action.copy_(action);
        together.step(io);
        for (int64_t row = kRows; row-- > 0;) apart.step(plain.window().io(t), row, row + 1);
        ASSERT_TRUE(at::equal(replay.columns().obs[0][slot], plain.batch().obs[0][t + 1]))
            << "time " << now + t + 1;
      }
      replay.commit();
      plain.roll_over();
    }
  }
}

}  // namespace
}  // namespace maglev
