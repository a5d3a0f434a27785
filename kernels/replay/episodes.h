#pragma once
// Which sequences a replay can give: finished episodes in the order in which they ended, and the
// ones that run. A draw is a few lookups however large the ring is. The same functions run on the
// host and in kernels.
//
// Times count the rows of one environment row since the ring began; time t lies in slot t % slots.
// An episode of n transitions is n + 1 rows [begin, end], the last with its final observation
// (next-step auto-reset). A slice of L transitions at time t lies in one episode:
// begin <= t and t + L <= end.
//
// Invariants: ends never decrease along the table, so what can still give a slice is one stretch of
// it, and what the ring overwrites leaves at its front. An episode whose beginning was overwritten
// keeps the rest while that holds L transitions; shorter ones are never entered.
//
// Where slices may cross the ends of episodes, any L + 1 rows that follow each other are one, and
// the table of episodes is not asked.
//
// Where slices have priorities, each start that can be drawn, of running episodes too, is a leaf of
// a tree of weights (weights.h) at its place in the ring, and the table is not asked either. Others
// weigh nothing. A start comes in once its last row is there, with the largest weight so far.

#include <cstdint>

#include "base/core/philox.h"
#include "kernels/replay/weights.h"

namespace maglev {

/// A finished episode of one row.
struct Episode {
  int64_t begin;  ///< time of its first row
  int64_t end;    ///< time of its last row
  int64_t row;
  int64_t next;  ///< number of the next entered episode of the same row; -1: none yet
};

/// L + 1 rows of `row` from time `begin` on; begin -1: there was nothing to draw from.
struct Slice {
  int64_t begin;
  int64_t row;
};

struct EpisodeCounters {
  int64_t now;      ///< time of the newest observation
  int64_t oldest;   ///< time before which nothing is given any more
  int64_t first;    ///< number of the first usable episode
  int64_t end;      ///< episodes entered so far; number n lies at n % entries
  int64_t starts;   ///< slices all usable episodes have; by_start only
  int64_t open;     ///< weight of running episodes; running only
  int64_t faults;   ///< slices that were not contiguous or could not be drawn: a mistake of ours
  int64_t weight;   ///< of all starts; prioritised only
  int64_t largest;  ///< weight so far, with which a start comes in; prioritised only
};

/// Raw pointers; all arrays are where the functions run.
struct EpisodeTable {
  int64_t slots, rows;
  int64_t length;   ///< L, transitions of a slice, >= 1
  int64_t entries;  ///< >= episode_entries(slots, rows, length)
  bool by_start;    ///< every start alike; else an episode, then a start in it
  bool running;     ///< running episodes count too
  bool crossing;    ///< slices cross the ends of episodes, every start alike
  /// Every start as it weighs; by_start and running are false then.
  bool prioritised;
  EpisodeCounters* counters;
  Episode* episodes;   ///< [entries], a ring
  int64_t* begun;      ///< [rows] time at which the running episode began; -1: none runs
  int64_t* oldest;     ///< [rows] number of the row's first usable episode; -1: none. by_start only
  int64_t* newest;     ///< [rows] number of the row's last entered episode; -1: none
  int64_t* starts;     ///< [entries + 1] Fenwick tree over slices of each entry; by_start only
  int64_t* open;       ///< [rows + 1] weights of running episodes, summed up; running only
  WeightTree weights;  ///< over the ring's places [slots, rows]; prioritised only
};

/// Most episodes of `length` transitions or more that a ring holds.
MAGLEV_HD int64_t episode_entries(int64_t slots, int64_t rows, int64_t length) {
  return rows * (slots / (length + 1) + 1);
}

/// Integer in [0, n) from 64 random bits (multiply-shift; bias below n / 2^64).
MAGLEV_HD int64_t scaled(uint64_t bits, int64_t n) {
  return int64_t((static_cast<unsigned __int128>(bits) * uint64_t(n)) >> 64);
}

MAGLEV_HD int64_t larger(int64_t a, int64_t b) { return a > b ? a : b; }

/// Slices an episode has left when nothing before `oldest` is given.
MAGLEV_HD int64_t slices_of(const EpisodeTable& t, const Episode& e, int64_t oldest) {
  return larger(0, e.end - larger(e.begin, oldest) - t.length + 1);
}

MAGLEV_HD Episode& episode(const EpisodeTable& t, int64_t number) {
  return t.episodes[number % t.entries];
}

/// Entry `number` has `delta` more slices (Fenwick, "A new data structure for cumulative frequency
/// tables", 1994).
MAGLEV_HD void add_starts(const EpisodeTable& t, int64_t number, int64_t delta) {
  add_to(&t.counters->starts, delta);
  for (int64_t i = number % t.entries + 1; i <= t.entries; i += i & -i) add_to(&t.starts[i], delta);
}

/// The place in the table of slice number `k` of all, in the order of episodes; `k` becomes its
/// number in that episode.
MAGLEV_HD int64_t find_start(const EpisodeTable& t, int64_t& k) {
  // counting begins at the first usable episode, so that its place in the ring does not show
  for (int64_t i = t.counters->first % t.entries; i > 0; i -= i & -i) k += t.starts[i];
  if (k >= t.counters->starts) k -= t.counters->starts;
  int64_t step = 1, place = 0;
  while (2 * step <= t.entries) step *= 2;
  for (; step > 0; step /= 2)
    if (place + step <= t.entries && t.starts[place + step] <= k) {
      place += step;
      k -= t.starts[place];
    }
  return place;
}

MAGLEV_HD int64_t place_of(const EpisodeTable& t, int64_t time, int64_t row) {
  return time % t.slots * t.rows + row;
}

/// The start at `place` of the ring weighs `weight` from now on; prioritised only.
MAGLEV_HD void set_weight(const EpisodeTable& t, int64_t place, int64_t weight) {
  const int64_t delta = weight - t.weights.weight[place];
  if (delta == 0) return;
  t.weights.weight[place] = int32_t(weight);
  add_weight(t.weights, place, delta);
  add_to(&t.counters->weight, delta);
}

/// Row `row` loses the starts before `oldest`. prioritised only; counters->oldest is still the old.
MAGLEV_HD void evict_starts(const EpisodeTable& t, int64_t row, int64_t oldest) {
  for (int64_t time = t.counters->oldest; time < oldest; ++time)
    set_weight(t, place_of(t, time, row), 0);
}

/// The slice of `row` that ends with the step from `time` to the next, where it is one, can be drawn
/// from now on. prioritised only; before step_row.
MAGLEV_HD void enter_start(const EpisodeTable& t, int64_t row, int64_t time, bool begins_next) {
  const int64_t start = time + 1 - t.length, begun = t.begun[row];
  const bool whole = t.crossing || (begun >= 0 && start >= begun && !begins_next);
  if (whole && start >= t.counters->oldest)
    set_weight(t, place_of(t, start, row), t.counters->largest);
}

/// Row `row` loses the slices before `oldest`. by_start only; counters->oldest is still the old.
MAGLEV_HD void evict_row(const EpisodeTable& t, int64_t row, int64_t oldest) {
  int64_t number = t.oldest[row];
  while (number >= 0) {
    const Episode& e = episode(t, number);
    const int64_t left = slices_of(t, e, oldest);
    const int64_t lost = slices_of(t, e, t.counters->oldest) - left;
    if (lost == 0) break;
    add_starts(t, number, -lost);
    if (left > 0) break;
    number = e.next;
  }
  t.oldest[row] = number;
}

/// Number of the first episode that still has a slice.
MAGLEV_HD int64_t first_usable(const EpisodeTable& t, int64_t oldest) {
  int64_t low = t.counters->first, high = t.counters->end;
  while (low < high) {
    const int64_t middle = (low + high) / 2;
    if (episode(t, middle).end - oldest < t.length) low = middle + 1;
    else high = middle;
  }
  return low;
}

/// What the step from time `time` to the next did to a row's episode. True: it finished with a
/// slice to give, and `finished` is to be entered.
MAGLEV_HD bool step_row(const EpisodeTable& t, int64_t row, int64_t time, bool ended,
                        bool begins_next, Episode& finished) {
  const int64_t begun = t.begun[row];
  if (begins_next) t.begun[row] = time + 1;
  else if (ended) t.begun[row] = -1;
  finished = {.begin = begun, .end = time + 1, .row = row, .next = -1};
  return ended && begun >= 0 && slices_of(t, finished, t.counters->oldest) > 0;
}

/// Enters an episode as number `number`. The caller counts counters->end up afterwards; numbers of
/// one step may be entered at once, for they are of different rows.
MAGLEV_HD void enter_episode(const EpisodeTable& t, int64_t number, const Episode& e) {
  episode(t, number) = e;
  if (!t.by_start) return;
  add_starts(t, number, slices_of(t, e, t.counters->oldest));
  if (t.oldest[e.row] < 0) t.oldest[e.row] = number;
  else episode(t, t.newest[e.row]).next = number;
  t.newest[e.row] = number;
}

/// Weight of a row's running episode: its slices, or 1 where it has any.
MAGLEV_HD int64_t open_weight(const EpisodeTable& t, int64_t row) {
  if (t.begun[row] < 0) return 0;
  const EpisodeCounters& c = *t.counters;
  const int64_t slices = larger(0, c.now - larger(t.begun[row], c.oldest) - t.length + 1);
  return t.by_start ? slices : int64_t(slices > 0);
}

/// Weight of everything that can be drawn; 0: nothing.
MAGLEV_HD int64_t drawable(const EpisodeTable& t) {
  const EpisodeCounters& c = *t.counters;
  if (t.prioritised) return c.weight;
  if (t.crossing) return t.rows * larger(0, c.now - c.oldest - t.length + 1);
  return (t.by_start ? c.starts : c.end - c.first) + c.open;
}

/// With what probability draw_slice gives this one; prioritised only. 1 where there is nothing.
MAGLEV_HD float chance_of(const EpisodeTable& t, const Slice& slice) {
  const int64_t all = t.counters->weight;
  if (slice.begin < 0 || all == 0) return 1;
  return float(double(t.weights.weight[place_of(t, slice.begin, slice.row)]) / double(all));
}

/// Slice `i` of batch `number`: a function of these, the seed and the table's contents.
MAGLEV_HD Slice draw_slice(const EpisodeTable& t, uint64_t seed, int64_t number, int64_t i) {
  const PhiloxBlock block = philox(seed, stream_id(Purpose::replay, uint64_t(i)), uint64_t(number));
  const uint64_t which = uint64_t(block.word[0]) << 32 | block.word[1];
  const uint64_t where = uint64_t(block.word[2]) << 32 | block.word[3];
  const EpisodeCounters& c = *t.counters;
  const int64_t all = drawable(t), finished = all - c.open;
  if (all == 0) return {-1, 0};
  if (t.prioritised) {
    const int64_t place = find_weight(t.weights, scaled(which, all)), slot = place / t.rows;
    // the time of that slot which is held
    return {c.oldest + (slot - c.oldest % t.slots + t.slots) % t.slots, place % t.rows};
  }
  if (t.crossing) {
    const int64_t start = scaled(which, all);
    return {c.oldest + start / t.rows, start % t.rows};
  }
  int64_t k = scaled(which, all), row, begin, end;
  if (k < finished) {
    const Episode& e = t.by_start ? t.episodes[find_start(t, k)] : episode(t, c.first + k);
    row = e.row, begin = e.begin, end = e.end;
  } else {
    // the running episode whose share of the weights holds k
    k -= finished;
    int64_t low = 0, high = t.rows - 1;
    while (low < high) {
      const int64_t middle = (low + high) / 2;
      if (t.open[middle + 1] <= k) low = middle + 1;
      else high = middle;
    }
    k -= t.open[low];
    row = low, begin = t.begun[low], end = c.now;
  }
  begin = larger(begin, c.oldest);
  return {begin + (t.by_start ? k : scaled(where, end - begin - t.length + 1)), row};
}

}  // namespace maglev
