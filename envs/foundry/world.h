#pragma once
// A foundry's state: agents, machines and the map, in bytes, and how an episode begins.

#include <cstdint>
#include <cstring>

#include "base/core/philox.h"
#include "envs/foundry/settings.h"

namespace maglev::foundry {

/// What a cell of the map holds: nothing, a wall, or a machine or an agent by its number.
constexpr uint8_t kEmpty = 0, kWall = 1, kMachineCode = 64, kAgentCode = 128;
constexpr int32_t kNowhere = -1;

/// North, east, south, west, as actions and facings count them.
constexpr int kDirections = 4;

struct Agent {
  uint32_t key;  ///< who goes first is drawn from it: what happens does not depend on its number
  uint8_t x, y;
  uint8_t facing, team;
  uint8_t frozen;  ///< steps it still misses
  uint8_t signal;
  uint8_t last;  ///< what it did last
  uint8_t goods[kGoods];
};
static_assert(sizeof(Agent) == 16);

/// The map follows, a byte a cell, rows from the north.
struct State {
  int32_t steps;
  Agent agents[kAgents];
  uint8_t resting[kMaxMachines];  ///< steps until a machine works again
};

/// A bijection of 32 bits that looks random (MurmurHash3's last step).
MAGLEV_HD uint32_t mixed(uint32_t x) {
  x = (x ^ (x >> 16)) * 0x85EBCA6Bu;
  x = (x ^ (x >> 13)) * 0xC2B2AE35u;
  return x ^ (x >> 16);
}

/// Whose wish is granted where several want the same: the lowest. No two agents have the same.
MAGLEV_HD uint32_t rank_of(const State& s, int agent) {
  return mixed(s.agents[agent].key ^ mixed(uint32_t(s.steps)));
}

class Map {
 public:
  MAGLEV_HD Map(const Settings& p, const State& s)
      : cells_(reinterpret_cast<uint8_t*>(const_cast<State*>(&s) + 1)),
        width_(p.width),
        height_(p.height) {}

  MAGLEV_HD uint8_t& operator[](int32_t cell) const { return cells_[cell]; }
  /// Beyond its edges a map is walled.
  MAGLEV_HD uint8_t at(int32_t x, int32_t y) const { return within(x, y) ? row(y)[x] : kWall; }
  MAGLEV_HD const uint8_t* row(int32_t y) const { return cells_ + y * width_; }

  MAGLEV_HD int32_t cell_of(const Agent& a) const { return a.y * width_ + a.x; }
  /// The cell `ahead` cells before an agent that faces so, and `aside` to its right; kNowhere
  /// beyond the map.
  MAGLEV_HD int32_t cell_before(const Agent& a, int facing, int32_t ahead, int32_t aside) const {
    const int32_t dx = facing == 1 ? 1 : facing == 3 ? -1 : 0;
    const int32_t dy = facing == 0 ? -1 : facing == 2 ? 1 : 0;
    const int32_t x = a.x + ahead * dx - aside * dy, y = a.y + ahead * dy + aside * dx;
    return within(x, y) ? y * width_ + x : kNowhere;
  }
  /// The agent in that cell; -1: none.
  MAGLEV_HD int agent_in(int32_t cell) const {
    return cell == kNowhere || cells_[cell] < kAgentCode ? -1 : cells_[cell] - kAgentCode;
  }

  MAGLEV_HD int32_t random_empty(Rng& rng) const {
    while (true) {
      const auto cell = int32_t(rng.below(uint32_t(width_ * height_)));
      if (cells_[cell] == kEmpty) return cell;
    }
  }

 private:
  MAGLEV_HD bool within(int32_t x, int32_t y) const {
    return x >= 0 && x < width_ && y >= 0 && y < height_;
  }

  uint8_t* cells_;
  int32_t width_, height_;
};

MAGLEV_HD void begin(const Settings& p, State& s, Rng& rng) {
  s = {};
  const Map map(p, s);
  memset(&map[0], kEmpty, size_t(p.cells()));
  for (int32_t i = 0; i < p.machines(); ++i) map[map.random_empty(rng)] = uint8_t(kMachineCode + i);
  for (int32_t i = 0; i < p.walls; ++i) map[map.random_empty(rng)] = kWall;
  const uint32_t world = rng.bits();
  for (int i = 0; i < kAgents; ++i) {
    Agent& a = s.agents[i];
    const int32_t cell = map.random_empty(rng);
    map[cell] = uint8_t(kAgentCode + i);
    a.x = uint8_t(cell % p.width), a.y = uint8_t(cell / p.width);
    // numbers in a row, so that no two are the same
    a.key = world + uint32_t(i);
    a.facing = uint8_t(rng.below(kDirections));
    a.team = uint8_t(i % p.teams);
  }
}

/// Whether everything is where it says, each thing once, and nobody has more than may be.
inline bool valid(const Settings& p, const State& s) {
  const Map map(p, s);
  int32_t seen_agents = 0, seen_machines = 0, walls = 0;
  bool machines[kMaxMachines] = {}, none = true;
  for (int32_t cell = 0; cell < p.cells(); ++cell) {
    const uint8_t code = map[cell];
    none = none && code == kEmpty;
    if (code == kEmpty) continue;
    if (code == kWall) {
      ++walls;
    } else if (code >= kAgentCode) {
      if (code >= kAgentCode + kAgents || map.cell_of(s.agents[code - kAgentCode]) != cell)
        return false;
      ++seen_agents;
    } else {
      const int32_t machine = code - kMachineCode;
      if (machine < 0 || machine >= p.machines() || machines[machine]) return false;
      machines[machine] = true;
      ++seen_machines;
    }
  }
  // of which no episode has begun
  if (none) {
    const State zero{};
    return std::memcmp(&s, &zero, sizeof s) == 0;
  }
  bool good = seen_agents == kAgents && seen_machines == p.machines() && walls == p.walls &&
              s.steps >= 0 && s.steps <= p.max_steps;
  for (int i = 0; i < kAgents; ++i) {
    const Agent& a = s.agents[i];
    good = good && a.x < p.width && a.y < p.height && a.facing < kDirections && a.team < p.teams &&
           a.frozen <= p.freeze && a.signal < 4;
    for (int g = 0; g < kGoods; ++g) good = good && a.goods[g] <= most_of(p, g);
    for (int j = 0; j < i; ++j) good = good && a.key != s.agents[j].key;
  }
  for (int32_t m = 0; m < kMaxMachines; ++m)
    good = good && (m < p.machines() ? s.resting[m] <= recipe_of(p, p.kind_of(m)).cooldown
                                     : s.resting[m] == 0);
  return good;
}

}  // namespace maglev::foundry
