#pragma once
// A scripted player of the foundry: the shortest way within its window to the nearest machine it
// has a use for, and straight on where it sees none. It never fights. Host only.

#include <algorithm>
#include <cstdint>

#include "envs/foundry/view.h"

namespace maglev::foundry {

/// What it remembers: where it goes while it sees nothing to do.
struct Walk {
  int32_t direction;
};

class Greedy {
 public:
  Greedy(const Settings& p, const uint8_t* window, const float* own)
      : view_(p.view), side_(2 * p.view + 1), window_(window), own_(own) {}

  int32_t act(Walk& walk, Rng& rng) {
    if (own_[kFrozenFor] > 0) return kStay;
    const int32_t step = towards_use();
    if (step != kStay) return step;
    // straight on, and now and then elsewhere
    if (!empty(middle() + offset(walk.direction)) || rng.below(16) == 0) turn(walk, rng);
    return kNorth + walk.direction;
  }

 private:
  static constexpr int32_t kMostSide = 2 * 8 + 1;
  /// Ores it has before it looks for something better than a mine.
  static constexpr float kEnough = 6.f / (6 + 3);

  int32_t middle() const { return view_ * side_ + view_; }
  int32_t offset(int32_t direction) const {
    const int32_t by[kDirections] = {-side_, 1, side_, -1};
    return by[direction];
  }
  bool empty(int32_t cell) const { return window_[cell] == kEmpty; }

  /// Whether there is a machine that works, and it has what goes in.
  bool useful(int32_t cell) const {
    const int32_t code = window_[cell];
    if (code == kSeenMachine + kAltar) return own_[kCanOffer] > 0;
    if (code == kSeenMachine + kSmelter) return own_[kCanSmelt] > 0;
    return code == kSeenMachine + kMine && own_[kCarried + kOre] < kEnough;
  }

  /// The first step of the shortest way to something useful; kStay: none is in sight.
  int32_t towards_use() const {
    int32_t queue[kMostSide * kMostSide], first[kMostSide * kMostSide] = {};
    int32_t begin = 0, end = 0;
    queue[end++] = middle();
    first[middle()] = -1;
    while (begin < end) {
      const int32_t from = queue[begin++], column = from % side_;
      for (int32_t d = 0; d < kDirections; ++d) {
        const int32_t to = from + offset(d);
        if (to < 0 || to >= side_ * side_ || (d == 1 && column == side_ - 1) ||
            (d == 3 && column == 0) || first[to] != 0)
          continue;
        first[to] = from == middle() ? kNorth + d : first[from];
        if (useful(to)) return first[to];
        if (empty(to)) queue[end++] = to;
      }
    }
    return kStay;
  }

  /// One of the directions that are free, or any.
  void turn(Walk& walk, Rng& rng) const {
    int32_t open[kDirections], n = 0;
    for (int32_t d = 0; d < kDirections; ++d)
      if (empty(middle() + offset(d))) open[n++] = d;
    walk.direction = n > 0 ? open[rng.below(uint32_t(n))] : int32_t(rng.below(kDirections));
  }

  int32_t view_, side_;
  const uint8_t* window_;
  const float* own_;
};

}  // namespace maglev::foundry
