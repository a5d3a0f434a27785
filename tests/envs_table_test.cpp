// What every environment of the table promises, whatever it is. A new folder is tested by being
// there.

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <memory>
#include <set>
#include <tuple>

#include <gtest/gtest.h>

#include "base/core/error.h"
#include "base/core/file.h"
#include "base/core/version.h"
#include "base/env/host_envs.h"
#include "base/picture/canvas.h"
#include "tests/places.h"

namespace maglev {
namespace {

using Settings = std::vector<std::pair<std::string, std::string>>;

class EveryEnv : public testing::TestWithParam<std::string> {
 protected:
  const EnvEntry& env() const { return find_env(GetParam()); }

  // tests/CMakeLists.txt imitates processors by our own switches, which a library does not know
  void SetUp() override {
    if (env().library && std::getenv("MAGLEV_SIMD"))
      GTEST_SKIP() << env().library << " would not notice";
  }
};

std::vector<std::string> names() {
  std::vector<std::string> all;
  for (const auto& e : env_table()) all.emplace_back(e.name);
  return all;
}

INSTANTIATE_TEST_SUITE_P(Table, EveryEnv, testing::ValuesIn(names()),
                         [](const testing::TestParamInfo<std::string>& info) {
                           return info.param;
                         });

Rng action_stream(uint64_t seed) { return Rng(seed, stream_id(Purpose::act, 0), 0); }

uint64_t hash_of_run(HostEnvs& envs, int steps, uint64_t action_seed) {
  Rng actions = action_stream(action_seed);
  envs.reset();
  uint64_t hash = envs.hash();
  for (int t = 0; t < steps; ++t) {
    envs.random_actions(actions);
    envs.step();
    hash = envs.hash(hash);
  }
  return hash;
}

/// All observation columns of one row, as bytes.
std::string row_bytes(const HostEnvs& envs, int64_t row) {
  std::string bytes;
  for (int c = 0; c < int(envs.spec().observations.size()); ++c)
    bytes.append(envs.obs<char>(c, row), size_t(envs.io().obs_row_bytes[c]));
  return bytes;
}

TEST_P(EveryEnv, states_a_spec_that_fits_together) {
  // HostEnvs look at it
  const HostEnvs envs(env(), 1, 1);
  EXPECT_EQ(env().slot_bytes(envs.batch().params) % 64, 0u);
}

// Before anything else plays: two patterns lie where a row goes and beside it, so that bytes that
// stay as they were are seen as well as bytes of the neighbours that do not.
TEST_P(EveryEnv, a_writes_its_own_row_whole_and_nothing_beside_it) {
  HostEnvs envs(env(), 3, 1);
  struct Column {
    std::string name;
    std::byte* data;
    int64_t bytes;
  };
  std::vector<Column> columns;
  const StepIo& io = envs.io();
  for (size_t c = 0; c < envs.spec().observations.size(); ++c)
    columns.push_back({envs.spec().observations[c].name, io.obs[c], io.obs_row_bytes[c]});
  if (io.mask) columns.push_back({"mask", reinterpret_cast<std::byte*>(io.mask), io.mask_width});
  std::vector<std::vector<std::byte>> written[2];
  for (const int k : {0, 1}) {
    const std::byte pattern{uint8_t(k ? 0x5a : 0xa5)};
    for (const Column& c : columns) std::fill_n(c.data, envs.rows() * c.bytes, pattern);
    env().reset_cpu(envs.batch(), io, 1, 2);
    for (const Column& c : columns) {
      const int64_t begin = envs.spec().agents * c.bytes, end = 2 * begin;
      for (int64_t i = 0; i < envs.rows() * c.bytes; ++i) {
        if (i >= begin && i < end) continue;
        ASSERT_EQ(c.data[i], pattern) << "observe writes beyond " << c.name << ", whose row is "
                                      << c.bytes << " bytes as spec says: at byte " << i - begin;
      }
      written[k].emplace_back(c.data + begin, c.data + end);
    }
  }
  for (size_t c = 0; c < columns.size(); ++c)
    for (size_t i = 0; i < written[0][c].size(); ++i)
      ASSERT_EQ(written[0][c][i], written[1][c][i])
          << "observe leaves byte " << i << " of " << columns[c].name << " as it was, whose row is "
          << columns[c].bytes << " bytes as spec says";
}

TEST_P(EveryEnv, counts_only_the_events_that_it_names) {
  HostEnvs envs(env(), 4, 1);
  envs.reset();
  Rng actions = action_stream(7);
  for (int t = 0; t < 200; ++t) envs.random_actions(actions), envs.step();
  for (int64_t i = 0; i < envs.count(); ++i) {
    const auto* head = reinterpret_cast<const SlotHead*>(envs.slot(i));
    for (size_t k = envs.spec().events.size(); k < size_t(kMaxEvents); ++k)
      EXPECT_EQ(head->events[k], 0) << "count(" << k << "), and spec names events up to "
                                    << int64_t(envs.spec().events.size()) - 1;
  }
}

// as large as a terminal shows it, and as a recording does
TEST_P(EveryEnv, has_a_picture_that_changes_with_its_state) {
  ASSERT_NE(env().paint, nullptr);
  for (auto [width, height] : {std::pair{190, 160}, {1200, 1000}}) {
    HostEnvs envs(env(), 1, 1);
    envs.reset();
    Rng actions = action_stream(3);
    std::set<std::vector<uint8_t>> pictures;
    for (int t = 0; t < 4; ++t) {
      Canvas canvas(width, height);
      try {
        env().paint(envs.batch(), 0, canvas);
      } catch (const Error& lacks) {
        if (!env().library) throw;
        GTEST_SKIP() << lacks.what();
      }
      std::set<std::tuple<int, int, int>> colours;
      std::vector<uint8_t> bytes;
      for (const Rgb& p : canvas.pixels()) {
        colours.insert({p.r, p.g, p.b});
        bytes.insert(bytes.end(), {p.r, p.g, p.b});
      }
      EXPECT_GE(colours.size(), 3u);
      pictures.insert(bytes);
      for (int k = 0; k < 5; ++k) envs.random_actions(actions), envs.step();
    }
    EXPECT_GE(pictures.size(), 3u) << width;
  }
}

TEST_P(EveryEnv, repeats_itself_with_the_same_seed_and_not_with_another) {
  HostEnvs first(env(), 8, 1), again(env(), 8, 1), other(env(), 8, 2);
  const uint64_t hash = hash_of_run(first, 300, 5);
  EXPECT_EQ(hash, hash_of_run(again, 300, 5));
  EXPECT_EQ(hash, hash_of_run(first, 300, 5)) << "a second reset begins from the same start";
  EXPECT_NE(hash, hash_of_run(other, 300, 5));
}

// the hash of a run lies beside the environment, in its folder's file `golden`
std::string golden_of(const std::string& name) {
  for (const PluginFolder& plugins : plugin_folders())
    if (const std::string folder = std::string(plugins.path) + "/envs/" + name; path_exists(folder))
      return folder + "/golden";
  return in_checkout(std::string(MAGLEV_ENVS) + "/" + name + "/golden");
}

TEST_P(EveryEnv, gives_the_same_bits_on_every_processor) {
  if (env().library) GTEST_SKIP() << "its bits are those of " << env().library;
  HostEnvs envs(env(), 8, 1);
  char hash[17];
  std::snprintf(hash, sizeof hash, "%016llx", (unsigned long long)(hash_of_run(envs, 300, 5)));
  const std::string path = golden_of(GetParam());
  std::string golden;
  std::ifstream(path) >> golden;
  EXPECT_EQ(hash, golden) << "where the environment is new or was changed on purpose, write "
                          << hash << " into " << path;
}

TEST_P(EveryEnv, does_not_depend_on_how_the_batch_is_cut) {
  const int64_t count = 37;
  HostEnvs whole(env(), count, 1);
  whole.reset();
  for (int64_t block : {1, 5, 16, 36}) {
    HostEnvs cut(env(), count, 1);
    cut.reset();
    whole.reset();
    Rng a = action_stream(2), b = action_stream(2);
    for (int t = 0; t < 120; ++t) {
      whole.random_actions(a);
      cut.random_actions(b);
      whole.step();
      // from the last block to the first
      for (int64_t begin = (count - 1) / block * block; begin >= 0; begin -= block)
        cut.step(begin, std::min(begin + block, count));
      ASSERT_EQ(whole.hash(), cut.hash()) << "blocks of " << block << ", step " << t;
    }
  }
}

TEST_P(EveryEnv, gives_each_slot_the_run_it_would_have_alone) {
  const int64_t count = 6;
  HostEnvs together(env(), count, 1);
  together.reset();
  std::vector<std::unique_ptr<HostEnvs>> alone;
  for (int64_t i = 0; i < count; ++i) {
    alone.push_back(std::make_unique<HostEnvs>(env(), 1, 1, Settings{}, i));
    alone.back()->reset();
  }
  Rng actions = action_stream(3);
  std::set<std::string> runs;
  std::vector<std::string> run(static_cast<size_t>(count));
  for (int t = 0; t < 100; ++t) {
    together.random_actions(actions);
    together.step();
    for (int64_t i = 0; i < count; ++i) {
      HostEnvs& one = *alone[size_t(i)];
      const int agents = together.spec().agents;
      const int64_t width = agents * together.io().action_dims;
      if (!one.actions_i32.empty())
        std::copy_n(&together.actions_i32[size_t(i * width)], width, one.actions_i32.data());
      if (!one.actions_f32.empty())
        std::copy_n(&together.actions_f32[size_t(i * width)], width, one.actions_f32.data());
      one.step();
      for (int a = 0; a < agents; ++a) {
        const int64_t row = i * agents + a;
        ASSERT_EQ(row_bytes(together, row), row_bytes(one, a));
        ASSERT_EQ(together.reward[size_t(row)], one.reward[size_t(a)]);
        run[size_t(i)] += row_bytes(one, a);
      }
    }
  }
  runs.insert(run.begin(), run.end());
  EXPECT_EQ(runs.size(), size_t(count)) << "two environments had the same run";
}

TEST_P(EveryEnv, keeps_the_final_observation_then_starts_anew_and_ignores_the_action) {
  const Settings settings{{"max_steps", "9"}};
  HostEnvs envs(env(), 32, 1, settings);
  envs.reset();
  Rng actions = action_stream(4);
  std::vector<uint8_t> ended(size_t(envs.rows()), 0);
  int64_t restarts = 0;
  for (int t = 0; t < 60; ++t) {
    envs.random_actions(actions);
    // twins that take another action: what they give may differ only where the action counts
    const std::vector<std::byte> slots = envs.save();
    envs.step();
    for (int64_t row = 0; row < envs.rows(); ++row) {
      const size_t r = size_t(row);
      ASSERT_EQ(bool(envs.is_first[r]), bool(ended[r])) << "row " << row << ", step " << t;
      if (ended[r]) {
        ++restarts;
        EXPECT_EQ(envs.reward[r], 0.f);
        EXPECT_FALSE(envs.terminated[r] || envs.truncated[r]);
      }
    }
    if (std::count(ended.begin(), ended.end(), 1) > 0) {
      HostEnvs twins(env(), 32, 1, settings);
      twins.reset();
      twins.load(slots);
      twins.random_actions(actions);
      twins.step();
      for (int64_t row = 0; row < envs.rows(); ++row)
        ASSERT_TRUE(!ended[size_t(row)] || row_bytes(envs, row) == row_bytes(twins, row));
    }
    for (size_t r = 0; r < ended.size(); ++r) ended[r] = envs.terminated[r] || envs.truncated[r];
  }
  EXPECT_GT(restarts, 32);
}

TEST_P(EveryEnv, truncates_at_its_limit_and_only_there) {
  HostEnvs envs(env(), 16, 1, {{"max_steps", "7"}});
  ASSERT_EQ(envs.spec().max_steps, 7);
  envs.reset();
  Rng actions = action_stream(5);
  std::vector<int> length(size_t(envs.rows()), 0);
  int truncations = 0;
  for (int t = 0; t < 100; ++t) {
    envs.random_actions(actions);
    envs.step();
    for (size_t r = 0; r < length.size(); ++r) {
      length[r] = envs.is_first[r] ? 0 : length[r] + 1;
      // one that ends by itself at its limit may leave the other flag
      ASSERT_EQ(envs.truncated[r] || (envs.terminated[r] && length[r] == 7), length[r] == 7);
      truncations += envs.truncated[r];
    }
  }
  EXPECT_GT(truncations, 0);
}

TEST_P(EveryEnv, counts_its_episodes_steps_and_returns) {
  HostEnvs envs(env(), 16, 1, {{"max_steps", "23"}});
  envs.reset();
  Rng actions = action_stream(6);
  EpisodeTotals expected;
  expected.return_min = std::numeric_limits<float>::infinity();
  expected.return_max = -expected.return_min;
  std::vector<float> running(size_t(envs.count()), 0.f);
  std::vector<int> length(size_t(envs.count()), 0);
  EpisodeTotals totals;
  for (int t = 0; t < 200; ++t) {
    envs.random_actions(actions);
    envs.step();
    for (int64_t i = 0; i < envs.count(); ++i) {
      const size_t row = size_t(i * envs.spec().agents), e = size_t(i);
      if (envs.is_first[row]) continue;
      expected.steps += 1;
      running[e] += envs.reward[row];
      length[e] += 1;
      if (!envs.terminated[row] && !envs.truncated[row]) continue;
      expected.episodes += 1;
      expected.return_sum += running[e];
      expected.length_sum += length[e];
      expected.return_min = std::min(expected.return_min, running[e]);
      expected.return_max = std::max(expected.return_max, running[e]);
      running[e] = 0;
      length[e] = 0;
    }
    // taken twice on the way: nothing is lost or counted again
    if (t == 50 || t == 120 || t == 199) {
      const EpisodeTotals part = envs.take_totals();
      totals.return_min =
          totals.episodes == 0 ? part.return_min : std::min(totals.return_min, part.return_min);
      totals.return_max =
          totals.episodes == 0 ? part.return_max : std::max(totals.return_max, part.return_max);
      totals.episodes += part.episodes;
      totals.steps += part.steps;
      totals.return_sum += part.return_sum;
      totals.length_sum += part.length_sum;
    }
  }
  EXPECT_GT(expected.episodes, 16);
  EXPECT_EQ(totals.episodes, expected.episodes);
  EXPECT_EQ(totals.steps, expected.steps);
  EXPECT_DOUBLE_EQ(totals.length_sum, expected.length_sum);
  EXPECT_NEAR(totals.return_sum, expected.return_sum, 1e-6 * std::abs(expected.return_sum));
  EXPECT_EQ(totals.return_min, expected.return_min);
  EXPECT_EQ(totals.return_max, expected.return_max);
}

TEST_P(EveryEnv, continues_from_a_copy_of_its_slots) {
  HostEnvs first(env(), 8, 1);
  hash_of_run(first, 77, 7);
  HostEnvs second(env(), 8, 1);
  second.reset();
  second.load(first.save());
  second.mask = first.mask;
  Rng a = action_stream(8), b = action_stream(8);
  for (int t = 0; t < 80; ++t) {
    first.random_actions(a);
    second.random_actions(b);
    first.step();
    second.step();
    ASSERT_EQ(first.hash(), second.hash()) << "step " << t;
  }
}

// what steps from a forged state read and write, the address sanitiser watches
TEST_P(EveryEnv, refuses_a_forged_state_or_steps_from_it_within_its_memory) {
  HostEnvs envs(env(), 1, 1);
  hash_of_run(envs, 3, 10);
  const std::vector<std::byte> saved = envs.save();
  // the head holds no index; behind its first words a state is a table at most
  const size_t words = std::min<size_t>((saved.size() - kSlotHead) / 4, 200);
  for (size_t word = 0; word < words; ++word)
    for (uint32_t forged : {0xffffffffu, 0x40000000u, 0x80000001u, 0x01000001u}) {
      std::vector<std::byte> slots = saved;
      std::memcpy(slots.data() + kSlotHead + 4 * word, &forged, 4);
      try {
        envs.load(slots);
      } catch (const Error&) {
        continue;
      }
      Rng actions = action_stream(10);
      for (int t = 0; t < 3; ++t) {
        envs.random_actions(actions);
        envs.step();
      }
    }
}

TEST_P(EveryEnv, shares_assets_that_are_the_same_each_time) {
  const HostEnvs first(env(), 2, 1), again(env(), 3, 2);
  const size_t bytes = env().asset_bytes(first.batch().params);
  ASSERT_EQ(first.batch().assets == nullptr, bytes == 0);
  if (bytes > 0) {
    EXPECT_EQ(std::memcmp(first.batch().assets, again.batch().assets, bytes), 0);
  }
}

TEST_P(EveryEnv, clips_continuous_actions_to_their_bounds) {
  HostEnvs inside(env(), 4, 1), outside(env(), 4, 1);
  if (inside.spec().action.discrete()) return;
  inside.reset();
  outside.reset();
  const int64_t dims = inside.io().action_dims;
  for (int t = 0; t < 20; ++t) {
    for (size_t i = 0; i < inside.actions_f32.size(); ++i) {
      const size_t d = i % size_t(dims);
      const bool up = (t + int(i)) % 2 == 0;
      inside.actions_f32[i] = up ? inside.spec().action.high[d] : inside.spec().action.low[d];
      outside.actions_f32[i] = up ? 1e6f : -1e6f;
    }
    inside.step();
    outside.step();
    ASSERT_EQ(inside.hash(), outside.hash()) << "step " << t;
  }
}

TEST_P(EveryEnv, stays_finite_and_playable_over_fifty_thousand_random_steps) {
  // a library's steps are slow: ten thousand
  HostEnvs envs(env(), env().library ? 10 : 50, 9);
  envs.reset();
  Rng actions = action_stream(9);
  const EnvSpec& spec = envs.spec();
  int64_t wrong = 0;
  constexpr int kSteps = 1000;
  for (int t = 0; t < kSteps; ++t) {
    envs.random_actions(actions);
    envs.step();
    for (int64_t row = 0; row < envs.rows(); ++row) {
      const size_t r = size_t(row);
      wrong += !std::isfinite(envs.reward[r]);
      wrong += envs.terminated[r] > 1 || envs.truncated[r] > 1 || envs.is_first[r] > 1;
      for (int c = 0; c < int(spec.observations.size()); ++c) {
        if (spec.observations[size_t(c)].dtype != DType::f32) continue;
        for (int64_t k = 0; k < spec.observations[size_t(c)].elements(); ++k)
          wrong += !std::isfinite(envs.obs<float>(c, row)[k]);
      }
      if (!spec.action.masked) continue;
      // every head must leave a choice
      const uint8_t* mask = &envs.mask[size_t(row * envs.io().mask_width)];
      for (int64_t categories : spec.action.heads) {
        wrong += std::count(mask, mask + categories, 1) == 0;
        wrong += std::count_if(mask, mask + categories, [](uint8_t m) { return m > 1; }) != 0;
        mask += categories;
      }
    }
    ASSERT_EQ(wrong, 0) << "step " << t;
  }
  // an episode that only its limit ends may be longer than this
  if (spec.max_steps <= kSteps) {
    EXPECT_GT(envs.take_totals().episodes, 0);
  }
}

}  // namespace
}  // namespace maglev
