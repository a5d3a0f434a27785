#include "kernels/replay/replay.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <memory>
#include <tuple>
#include <vector>

#include <gtest/gtest.h>

namespace maglev {
namespace {

struct TableSize {
  int64_t slots, rows, length;
  bool by_start, running;
  bool prioritised = false, crossing = false;
};

using Start = std::pair<int64_t, int64_t>;  ///< row, time

/// A ring of flags and its table, beside everything that ever happened.
class Ring {
 public:
  Ring(const TableSize& size, uint64_t seed, int64_t longest)
      : rng_(seed, stream_id(Purpose::env, 0), 0),
        longest_(longest),
        first_(size_t(size.slots * size.rows)),
        terminated_(first_.size()),
        truncated_(first_.size()),
        begun_(size_t(size.rows)),
        oldest_(begun_.size()),
        newest_(begun_.size()),
        open_(begun_.size() + 1),
        left_(begun_.size()),
        history_(begun_.size()) {
    const int64_t entries = episode_entries(size.slots, size.rows, size.length);
    episodes_.resize(size_t(entries));
    starts_.resize(size_t(entries + 1));
    weight_.resize(first_.size());
    sums_.resize(size_t(weight_sums(int64_t(weight_.size()))));
    table = {.slots = size.slots,
             .rows = size.rows,
             .length = size.length,
             .entries = entries,
             .by_start = size.by_start,
             .running = size.running,
             .crossing = size.crossing,
             .prioritised = size.prioritised,
             .counters = &counters_,
             .episodes = episodes_.data(),
             .begun = begun_.data(),
             .oldest = oldest_.data(),
             .newest = newest_.data(),
             .starts = starts_.data(),
             .open = open_.data(),
             .weights = {int64_t(weight_.size()), weight_.data(), sums_.data()}};
    episodes_clear_cpu(table, 0);
    for (int64_t r = 0; r < size.rows; ++r) {
      left_[size_t(r)] = 1 + int64_t(rng_.below(uint32_t(longest_)));
      history_[size_t(r)].push_back({0, -1});
      first_[size_t(r)] = 1;
    }
  }

  /// `steps` steps of all rows, then the table hears of them.
  void advance(int64_t steps) {
    episodes_reserve_cpu(table, steps);
    for (int64_t t = counters_.now; t < counters_.now + steps; ++t)
      for (int64_t r = 0; r < table.rows; ++r) step(t, r);
    episodes_append_cpu(table, flags(), steps);
  }

  /// Every (row, time) that may be drawn with its probability, from history alone; where there are
  /// priorities, as if all starts had the same.
  std::map<Start, double> expected() const {
    std::vector<std::pair<int64_t, Span>> usable;
    double starts = 0;
    for (int64_t r = 0; r < table.rows; ++r)
      for (Span span : table.crossing ? whole() : history_[size_t(r)]) {
        if (span.end < 0 && !table.running && !table.prioritised) continue;
        if (span.end < 0) span.end = counters_.now;
        span.begin = std::max(span.begin, counters_.oldest);
        if (span.end - span.begin < table.length) continue;
        usable.push_back({r, span});
        starts += double(span.end - span.begin - table.length + 1);
      }
    std::map<Start, double> chance;
    for (const auto& [r, span] : usable) {
      const double slices = double(span.end - span.begin - table.length + 1);
      for (int64_t t = span.begin; t + table.length <= span.end; ++t)
        chance[{r, t}] =
            table.by_start || table.prioritised ? 1 / starts : 1 / slices / double(usable.size());
    }
    return chance;
  }

  EpisodeFlags flags() const { return {first_.data(), terminated_.data(), truncated_.data()}; }
  const EpisodeCounters& counters() const { return counters_; }

  EpisodeTable table;

 private:
  struct Span {
    int64_t begin, end;  ///< end -1: it runs
  };

  static std::vector<Span> whole() { return {{0, -1}}; }

  void step(int64_t t, int64_t r) {
    const size_t at = size_t(t % table.slots * table.rows + r);
    const size_t next = size_t((t + 1) % table.slots * table.rows + r);
    terminated_[at] = truncated_[at] = first_[next] = 0;
    if (left_[size_t(r)] == 0) {
      left_[size_t(r)] = 1 + int64_t(rng_.below(uint32_t(longest_)));
      first_[next] = 1;
      history_[size_t(r)].push_back({t + 1, -1});
    } else if (--left_[size_t(r)] == 0) {
      (rng_.below(2) ? terminated_ : truncated_)[at] = 1;
      history_[size_t(r)].back().end = t + 1;
    }
  }

  Rng rng_;
  int64_t longest_;
  EpisodeCounters counters_;
  std::vector<Episode> episodes_;
  std::vector<uint8_t> first_, terminated_, truncated_;
  std::vector<int64_t> begun_, oldest_, newest_, starts_, open_, left_, sums_;
  std::vector<int32_t> weight_;
  std::vector<std::vector<Span>> history_;
};

std::vector<TableSize> sizes() {
  std::vector<TableSize> list;
  for (auto [slots, rows, length] : std::vector<std::tuple<int64_t, int64_t, int64_t>>{
           {9, 1, 1}, {20, 1, 3}, {40, 5, 3}, {64, 64, 2}, {500, 3, 9}})
    for (bool by_start : {false, true})
      for (bool running : {false, true}) list.push_back({slots, rows, length, by_start, running});
  return list;
}

std::string name_of(const TableSize& s) {
  return std::to_string(s.slots) + "x" + std::to_string(s.rows) + " L=" + std::to_string(s.length) +
         (s.by_start ? " by start" : "") + (s.running ? " running" : "") +
         (s.crossing ? " crossing" : "");
}

// random episodes of every length, some longer than the ring, which wraps many times
TEST(Episodes, that_can_be_drawn_are_those_the_history_says) {
  for (const TableSize& size : sizes())
    for (int64_t longest : {int64_t(2), size.length + 2, size.slots / 2, 3 * size.slots}) {
      Ring ring(size, uint64_t(longest), longest);
      for (int64_t steps = 0, i = 0; steps < 12 * size.slots; ++i) {
        const int64_t step = 1 + i % 3;
        ring.advance(step);
        steps += step;
        const auto expected = ring.expected();
        double weight = 0;
        for (const auto& [where, chance] : expected) weight += size.by_start ? 1 : chance;
        ASSERT_EQ(drawable(ring.table) == 0, expected.empty()) << name_of(size) << " " << longest;
        if (size.by_start) {
          ASSERT_EQ(drawable(ring.table), int64_t(weight)) << name_of(size) << " " << longest;
        }
        for (int64_t b = 0; b < 4 && !expected.empty(); ++b) {
          const Slice s = draw_slice(ring.table, 3, i, b);
          ASSERT_TRUE(expected.contains({s.row, s.begin})) << name_of(size) << " " << longest;
          ASSERT_TRUE(is_contiguous(ring.table, ring.flags().is_first, s));
        }
      }
    }
}

// Pearson's chi-square within five standard deviations of its mean
TEST(Episodes, are_drawn_as_often_as_the_mode_says) {
  for (const TableSize& size : sizes()) {
    Ring ring(size, 5, size.slots / 3);
    for (int64_t i = 0; i < 3 * size.slots || ring.expected().size() < 2; ++i) ring.advance(1);
    const auto expected = ring.expected();
    const int64_t draws = 200 * int64_t(expected.size());
    std::map<std::pair<int64_t, int64_t>, int64_t> seen;
    for (int64_t i = 0; i < draws; ++i) {
      const Slice s = draw_slice(ring.table, 11, i / 256, i % 256);
      ++seen[{s.row, s.begin}];
    }
    double chi2 = 0;
    for (const auto& [where, chance] : expected) {
      const double mean = chance * double(draws), off = double(seen[where]) - mean;
      chi2 += off * off / mean;
    }
    const double degrees = double(expected.size() - 1);
    EXPECT_LT(std::abs(chi2 - degrees), 5 * std::sqrt(2 * degrees)) << name_of(size);
    EXPECT_EQ(seen.size(), expected.size()) << name_of(size);
  }
}

// a table made anew from what the ring holds draws what the one that saw it all draws
TEST(Episodes, of_a_ring_read_again_give_the_same_slices) {
  for (const TableSize& size : sizes()) {
    Ring ring(size, 9, size.slots / 2);
    for (int64_t i = 0; i < 5 * size.slots || ring.expected().empty(); ++i) ring.advance(2);
    std::vector<Slice> before;
    for (int64_t b = 0; b < 100; ++b) before.push_back(draw_slice(ring.table, 1, 7, b));
    const EpisodeCounters counters = ring.counters();
    episodes_clear_cpu(ring.table, counters.oldest);
    episodes_append_cpu(ring.table, ring.flags(), counters.now - counters.oldest);
    for (int64_t b = 0; b < 100; ++b) {
      const Slice s = draw_slice(ring.table, 1, 7, b);
      ASSERT_EQ(s.begin, before[size_t(b)].begin) << name_of(size);
      ASSERT_EQ(s.row, before[size_t(b)].row) << name_of(size);
    }
  }
}

TEST(Episodes, shorter_than_a_slice_are_never_drawn) {
  Ring ring({.slots = 50, .rows = 4, .length = 6}, 2, 5);
  for (int i = 0; i < 200; ++i) ring.advance(1);
  EXPECT_EQ(drawable(ring.table), 0);
  EXPECT_EQ(draw_slice(ring.table, 1, 0, 0).begin, -1);
}

TEST(Weights, are_powers_of_priorities) {
  for (double power : {0.0, 0.1, 0.4, 0.6, 1.0, 1.7, 4.0})
    for (float priority = 1e-30f; priority < 1e30f; priority *= 1.37f) {
      const int64_t exponent = std::llround(power * double(kExponentOne));
      const double exact = std::pow(double(priority), double(exponent) / double(kExponentOne));
      const double wanted = std::clamp(exact * kWeightOne, 1.0, double(kMostWeight));
      EXPECT_NEAR(weight_of(priority, exponent), wanted, 0.5 + (1 + power) / 60'000 * wanted)
          << priority << power;
    }
  const float infinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(weight_of(infinity, kExponentOne), kMostWeight);
  for (float least : {0.f, -1.f, 1e-40f, std::numeric_limits<float>::quiet_NaN()})
    EXPECT_EQ(weight_of(least, kExponentOne), 1);
  // what nothing is known of weighs as much as a priority of 1
  EXPECT_EQ(weight_of(1, 123), kWeightOne);
  EXPECT_LT(weight_of(0.99f, kExponentOne), weight_of(1.01f, kExponentOne));
}

TEST(Weights, number_by_number_fall_to_the_leaf_that_holds_it) {
  for (int64_t leaves : {1, 15, 16, 17, 256, 257, 5000}) {
    std::vector<int32_t> weight(size_t(leaves), 0);
    std::vector<int64_t> sums(size_t(weight_sums(leaves)), 0);
    const WeightTree tree{leaves, weight.data(), sums.data()};
    Rng rng(3, stream_id(Purpose::env, 0), uint64_t(leaves));
    for (int64_t i = 0; i < leaves; ++i)
      // every second one weighs nothing
      if (const auto w = int32_t(rng.below(2) * (1 + rng.below(3))); w > 0)
        weight[size_t(i)] = w, add_weight(tree, i, w);
    int64_t k = 0;
    for (int64_t i = 0; i < leaves; ++i)
      for (int32_t w = 0; w < weight[size_t(i)]; ++w) ASSERT_EQ(find_weight(tree, k++), i);
  }
}

std::vector<TableSize> prioritised_sizes() {
  std::vector<TableSize> list;
  for (TableSize size : sizes())
    for (bool crossing : {false, true}) {
      if (size.by_start || size.running) continue;
      size.prioritised = true, size.crossing = crossing;
      list.push_back(size);
    }
  return list;
}

/// What each start should weigh, kept in the plainest way.
class Model {
 public:
  explicit Model(Ring& ring) : ring_(ring) {}

  /// Those that history says, each as it was said to weigh; new ones as the largest so far.
  void follow() {
    std::map<Start, int64_t> now;
    for (const auto& [start, chance] : ring_.expected())
      now[start] = weights.contains(start) ? weights[start] : largest;
    weights = now;
  }
  /// Priorities for a batch, of the slices' first rows or of all their rows.
  void prioritise(Rng& rng, int64_t number, int64_t times, int64_t exponent) {
    constexpr int64_t kSlices = 24;
    std::vector<Slice> slices;
    std::vector<float> priority;
    for (int64_t b = 0; b < kSlices; ++b) slices.push_back(draw_slice(ring_.table, 3, number, b));
    for (int64_t i = 0; i < times * kSlices; ++i) priority.push_back(8 * rng.uniform());
    for (int64_t b = 0; b < kSlices; ++b)
      for (int64_t l = 0; l < times; ++l) {
        const Start start{slices[size_t(b)].row, slices[size_t(b)].begin + l};
        if (start.second + ring_.table.length > ring_.counters().now) continue;
        const int64_t weight = weight_of(priority[size_t(l * kSlices + b)], exponent);
        largest = std::max(largest, weight);
        if (weights.contains(start)) weights[start] = weight;
      }
    replay_prioritise_cpu({.table = ring_.table,
                           .slices = slices.data(),
                           .priority = priority.data(),
                           .B = kSlices,
                           .times = times,
                           .exponent = exponent});
  }
  int64_t total() const {
    int64_t sum = 0;
    for (const auto& [start, weight] : weights) sum += weight;
    return sum;
  }

  std::map<Start, int64_t> weights;
  int64_t largest = kWeightOne;

 private:
  Ring& ring_;
};

// random episodes and priorities, while the ring wraps many times
TEST(Priorities, are_of_the_starts_that_the_history_says) {
  for (const TableSize& size : prioritised_sizes())
    for (int64_t longest : {int64_t(2), size.length + 2, 3 * size.slots}) {
      Ring ring(size, uint64_t(longest), longest);
      Model model(ring);
      Rng rng(5, stream_id(Purpose::env, 2), 0);
      for (int64_t i = 0, steps = 0; steps < 3 * size.slots; ++i) {
        ring.advance(1 + i % 3);
        steps += 1 + i % 3;
        model.follow();
        ASSERT_EQ(drawable(ring.table), model.total()) << name_of(size) << " " << longest;
        if (model.weights.empty()) continue;
        model.prioritise(rng, i, i % 2 ? size.length : 1, kExponentOne / 2);
        ASSERT_EQ(drawable(ring.table), model.total()) << name_of(size) << " " << longest;
        ASSERT_EQ(ring.counters().largest, model.largest);
        const Slice s = draw_slice(ring.table, 3, i, 99);
        ASSERT_TRUE(model.weights.contains({s.row, s.begin}));
        ASSERT_TRUE(is_contiguous(ring.table, ring.flags().is_first, s));
        ASSERT_FLOAT_EQ(chance_of(ring.table, s),
                        float(double(model.weights[{s.row, s.begin}]) / double(model.total())));
      }
    }
}

// Pearson's chi-square within five standard deviations of its mean
TEST(Priorities, say_how_often_starts_are_drawn) {
  for (const TableSize& size : prioritised_sizes()) {
    Ring ring(size, 5, size.slots / 3);
    Model model(ring);
    Rng rng(5, stream_id(Purpose::env, 2), 0);
    for (int64_t i = 0; i < 3 * size.slots || model.weights.size() < 2; ++i) {
      ring.advance(1), model.follow();
      if (!model.weights.empty()) model.prioritise(rng, i, 1, kExponentOne * 6 / 10);
    }
    const int64_t draws = 200 * int64_t(model.weights.size());
    std::map<Start, int64_t> seen;
    for (int64_t i = 0; i < draws; ++i) {
      const Slice s = draw_slice(ring.table, 11, i / 256, i % 256);
      ++seen[{s.row, s.begin}];
    }
    double chi2 = 0;
    for (const auto& [start, weight] : model.weights) {
      const double mean = double(weight) / double(model.total()) * double(draws);
      const double off = double(seen[start]) - mean;
      chi2 += off * off / mean;
    }
    const double degrees = double(model.weights.size() - 1);
    EXPECT_LT(std::abs(chi2 - degrees), 5 * std::sqrt(2 * degrees)) << name_of(size);
  }
}

TEST(ReplaySample, says_how_many_slices_are_not_contiguous) {
  Ring ring({.slots = 40, .rows = 2, .length = 3}, 2, 12);
  for (int i = 0; i < 90; ++i) ring.advance(1);
  std::vector<uint8_t> is_first(ring.flags().is_first, ring.flags().is_first + 80);
  std::vector<Slice> slices(64);
  ReplaySample args{.table = ring.table,
                    .is_first = is_first.data(),
                    .seed = 1,
                    .number = 0,
                    .base = nullptr,
                    .slices = slices.data(),
                    .B = 64,
                    .count = 0,
                    .columns = {}};
  EXPECT_EQ(replay_sample_cpu(args, 0, 64), 0);
  std::fill(is_first.begin(), is_first.end(), 1);
  EXPECT_EQ(replay_sample_cpu(args, 0, 64), 64);
}

}  // namespace
}  // namespace maglev
