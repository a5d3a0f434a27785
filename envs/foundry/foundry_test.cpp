#include "envs/foundry/foundry.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <map>
#include <set>

#include <gtest/gtest.h>

#include "base/env/host_envs.h"

namespace maglev::foundry {
namespace {

using Given = std::vector<std::pair<std::string, std::string>>;

/// Small and crowded: everyone meets everything.
const Given kCrowd{{"width", "10"},     {"height", "9"},          {"mines", "6"},
                   {"smelters", "4"},   {"altars", "4"},          {"forges", "3"},
                   {"armories", "3"},   {"walls", "5"},           {"mine_cooldown", "6"},
                   {"signals", "true"}, {"smelter_cooldown", "4"}};
/// Nothing but agents, who stand side by side in the upper left.
const Given kBare{{"mines", "0"},    {"smelters", "0"}, {"altars", "0"},     {"forges", "0"},
                  {"armories", "0"}, {"walls", "0"},    {"signals", "true"}, {"team_share", "0"}};

Given operator+(Given a, const Given& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

/// Foundries that a test can lay out.
struct World : HostEnvs {
  explicit World(const Given& settings = {}, int64_t count = 1, uint64_t seed = 1)
      : HostEnvs(find_env("foundry"), count, seed, settings) {
    reset();
    actions_i32.assign(actions_i32.size(), kStay);
  }
  const Settings& params() const { return *static_cast<const Settings*>(batch().params); }
  State& at(int64_t i = 0) { return state<Foundry>(i); }
  Agent& agent(int a, int64_t i = 0) { return at(i).agents[a]; }
  uint8_t& good(int a, Good g, int64_t i = 0) { return agent(a, i).goods[g]; }
  Map map(int64_t i = 0) { return {params(), at(i)}; }
  void place(int a, int x, int y, int facing = 0) {
    const int32_t before = map().cell_of(agent(a));
    if (map()[before] == kAgentCode + a) map()[before] = kEmpty;
    agent(a).x = uint8_t(x), agent(a).y = uint8_t(y), agent(a).facing = uint8_t(facing);
    map()[y * params().width + x] = uint8_t(kAgentCode + a);
  }
  /// A map of walls and machines alone, with agents in its last row.
  void clear() {
    std::fill_n(&map()[0], params().cells(), kEmpty);
    for (int a = 0; a < kAgents; ++a) place(a, a, params().height - 1);
  }
  void put(int x, int y, uint8_t code) { map()[y * params().width + x] = code; }
  /// The first agents do this, the others nothing.
  void act(std::initializer_list<int32_t> actions) {
    std::fill(actions_i32.begin(), actions_i32.end(), kStay);
    std::copy(actions.begin(), actions.end(), actions_i32.begin());
    step();
  }
  double event(const char* name, int64_t i = 0) {
    const auto& names = spec().events;
    const auto k = std::find(names.begin(), names.end(), name) - names.begin();
    return reinterpret_cast<SlotHead*>(slot(i))->events[k];
  }
  bool allowed(int a, int32_t action) const { return mask[size_t(a * kActions + action)]; }
  /// All have something of everything.
  void enrich(Rng& rng) {
    for (int64_t i = 0; i < count(); ++i)
      for (int a = 0; a < kAgents; ++a)
        for (int g = 0; g < kGoods; ++g) agent(a, i).goods[g] = uint8_t(rng.below(6));
  }
  void random_step(Rng& rng) {
    random_actions(rng);
    step();
  }
};

/// Goods as the ore that went into them.
int ore_in(World& world, int64_t i) {
  int ore = 0;
  for (int a = 0; a < kAgents; ++a) {
    const auto has = [&](Good g) { return int(world.good(a, g, i)); };
    ore += has(kOre) + has(kBattery) + 3 * (has(kHeart) + has(kLaser) + has(kArmor));
  }
  return ore;
}

// ---- what always holds

TEST(Foundry, loses_and_gains_no_ore_but_by_mines_shots_and_armor) {
  World world(kCrowd, 8);
  Rng rng(1, 1, 0);
  world.enrich(rng);
  double shots_of_all = 0, hits = 0, blocked = 0, gifts = 0, hearts = 0;
  for (int t = 0; t < 900; ++t) {
    std::array<int, 8> before;
    std::array<double, 8> mined, saved;
    for (int i = 0; i < 8; ++i)
      before[size_t(i)] = ore_in(world, i), mined[size_t(i)] = world.event("ore", i),
      saved[size_t(i)] = world.event("blocked", i);
    world.random_step(rng);
    for (int i = 0; i < 8; ++i) {
      // a mask was looked at, so every attack was one
      const auto* actions = &world.actions_i32[size_t(i * kAgents)];
      const auto shots = int(std::count(actions, actions + kAgents, int32_t(kAttack)));
      shots_of_all += shots;
      const int expected = before[size_t(i)] + int(world.event("ore", i) - mined[size_t(i)]) -
                           3 * shots - 3 * int(world.event("blocked", i) - saved[size_t(i)]);
      ASSERT_EQ(ore_in(world, i), expected) << "world " << i << ", step " << t;
    }
  }
  for (int i = 0; i < 8; ++i)
    hits += world.event("hits", i), blocked += world.event("blocked", i),
        gifts += world.event("gifts", i), hearts += world.event("hearts", i);
  // and all of it happened
  EXPECT_GT(shots_of_all, 20);
  EXPECT_GT(hits, 5);
  EXPECT_GT(blocked, 2);
  EXPECT_GT(gifts, 5);
  EXPECT_GT(hearts, 5);
}

TEST(Foundry, has_every_agent_and_machine_in_one_cell_at_all_times_whatever_is_set) {
  for (const Given& settings :
       {kCrowd, kBare + Given{{"width", "4"}, {"height", "4"}, {"view", "8"}, {"freeze", "200"}},
        Given{{"width", "64"}, {"height", "64"}, {"view", "8"}, {"mines", "48"}, {"teams", "8"}},
        Given{{"width", "64"},
              {"height", "7"},
              {"view", "1"},
              {"carry", "255"},
              {"mine_cooldown", "255"},
              {"teams", "1"}}}) {
    World world(settings, 16);
    Rng rng(2, 1, 0);
    world.enrich(rng);
    for (int t = 0; t < 300; ++t) {
      world.random_step(rng);
      for (int64_t i = 0; i < world.count(); ++i)
        ASSERT_TRUE(Foundry::valid(world.params(), world.at(i))) << t;
    }
  }
}

TEST(Foundry, does_not_depend_on_the_numbers_of_agents) {
  const std::array<int, kAgents> number{3, 7, 0, 5, 1, 6, 2, 4};  // of agent i among the others
  World world(kCrowd, 16), other(kCrowd, 16);
  Rng rng(3, 1, 0);
  world.enrich(rng);
  for (int t = 0; t < 600; ++t) {
    // the same world with agents numbered otherwise
    other.load(world.save());
    world.random_actions(rng);
    for (int64_t i = 0; i < world.count(); ++i) {
      for (int a = 0; a < kAgents; ++a) {
        other.agent(number[size_t(a)], i) = world.agent(a, i);
        other.actions_i32[size_t(i * kAgents + number[size_t(a)])] =
            world.actions_i32[size_t(i * kAgents + a)];
        other.map(i)[other.map(i).cell_of(world.agent(a, i))] =
            uint8_t(kAgentCode + number[size_t(a)]);
      }
    }
    world.step();
    other.step();
    for (int64_t i = 0; i < world.count(); ++i) {
      for (int a = 0; a < kAgents; ++a) {
        const int64_t row = i * kAgents + a, same = i * kAgents + number[size_t(a)];
        ASSERT_EQ(
            std::memcmp(&world.agent(a, i), &other.agent(number[size_t(a)], i), sizeof(Agent)), 0)
            << "step " << t << ", agent " << a;
        ASSERT_EQ(world.reward[size_t(row)], other.reward[size_t(same)]);
        ASSERT_EQ(std::memcmp(world.obs<uint8_t>(0, row), other.obs<uint8_t>(0, same), 121), 0);
        ASSERT_EQ(std::memcmp(world.obs<float>(1, row), other.obs<float>(1, same),
                              kNumbers * sizeof(float)),
                  0);
      }
      ASSERT_EQ(std::memcmp(world.at(i).resting, other.at(i).resting, kMaxMachines), 0);
      for (int32_t c = 0; c < world.params().cells(); ++c)
        if (world.map(i)[c] < kAgentCode) {
          ASSERT_EQ(world.map(i)[c], other.map(i)[c]);
        }
    }
  }
}

TEST(Foundry, allows_what_its_rules_say_and_takes_anything_else_for_nothing) {
  World world(kCrowd, 16);
  Rng rng(4, 1, 0);
  world.enrich(rng);
  for (int t = 0; t < 300; ++t) {
    world.random_step(rng);
    for (int64_t i = 0; i < world.count(); ++i)
      for (int a = 0; a < kAgents; ++a) {
        const Agent& one = world.agent(a, i);
        const bool free = one.frozen == 0;
        const auto ahead = world.map(i).cell_before(one, one.facing, 1, 0);
        const bool somebody = ahead != kNowhere && world.map(i)[ahead] >= kAgentCode;
        const uint8_t* mask = &world.mask[size_t((i * kAgents + a) * kActions)];
        ASSERT_TRUE(mask[kStay]);
        for (int k = kNorth; k <= kWest; ++k) ASSERT_EQ(mask[k], free);
        ASSERT_EQ(mask[kAttack], free && one.goods[kLaser] > 0);
        ASSERT_EQ(mask[kGive], free && one.goods[kBattery] > 0 && somebody);
        for (int k = kSignal0; k < kActions; ++k) ASSERT_EQ(mask[k], free);
      }
  }
  // what is masked, or no action, is nothing
  World twin(kCrowd, 16);
  for (int t = 0; t < 200; ++t) {
    twin.load(world.save());
    world.random_actions(rng);
    twin.actions_i32 = world.actions_i32;
    for (size_t row = 0; row < world.actions_i32.size(); ++row) {
      const uint8_t* mask = &world.mask[row * kActions];
      for (int k = 0; k < kActions; ++k)
        if (!mask[k]) world.actions_i32[row] = kStay, twin.actions_i32[row] = k;
      if (row % 5 == 0) world.actions_i32[row] = kStay, twin.actions_i32[row] = row % 2 ? -7 : 99;
    }
    world.step();
    twin.step();
    ASSERT_EQ(world.hash(), twin.hash()) << t;
  }
}

TEST(Foundry, has_no_attacks_and_signals_where_they_are_off) {
  World world(Given{{"combat", "false"}});
  world.good(0, kLaser) = 1;
  world.act({});
  EXPECT_FALSE(world.allowed(0, kAttack));
  EXPECT_FALSE(world.allowed(0, kSignal0 + 2));
}

// ---- the chain

TEST(Foundry, makes_a_heart_of_three_ores_and_lets_machines_rest) {
  World world(kBare + Given{{"mines", "1"}, {"smelters", "1"}, {"altars", "1"}});
  world.clear();
  world.place(0, 1, 1);
  world.put(1, 0, kMachineCode), world.put(2, 1, kMachineCode + 1);
  world.put(1, 2, kMachineCode + 2);
  world.act({kNorth});
  EXPECT_EQ(world.good(0, kOre), 1);
  // every fifty steps, on the step
  for (int t = 1; t < 50; ++t) world.act({kNorth});
  EXPECT_EQ(world.good(0, kOre), 1);
  world.act({kNorth});
  EXPECT_EQ(world.good(0, kOre), 2);
  world.good(0, kOre) = 3;
  for (int t = 0; t < 51; ++t) world.act({kEast});
  EXPECT_EQ(world.good(0, kOre), 0);
  EXPECT_EQ(world.good(0, kBattery), 3);
  EXPECT_EQ(world.agent(0).x, 1) << "a machine is not stepped on";
  EXPECT_EQ(world.reward[0], 0.f);
  world.act({kSouth});
  EXPECT_EQ(world.reward[0], 1.f);
  EXPECT_EQ(world.good(0, kBattery), 0);
  EXPECT_EQ(world.good(0, kHeart), 1);
  EXPECT_EQ(world.event("hearts"), 1);
  EXPECT_EQ(world.event("batteries"), 3);
  EXPECT_EQ(world.event("ore"), 2);
}

TEST(Foundry, makes_lasers_and_armor_and_hearts_of_one_battery_on_an_easy_altar) {
  World world(kBare +
              Given{{"altars", "1"}, {"forges", "1"}, {"armories", "1"}, {"easy_altar", "true"}});
  world.clear();
  world.place(0, 1, 1);
  world.put(1, 0, kMachineCode), world.put(2, 1, kMachineCode + 1);
  world.put(1, 2, kMachineCode + 2);
  world.good(0, kOre) = 4, world.good(0, kBattery) = 3;
  world.act({kNorth});
  world.act({kEast});
  world.act({kSouth});
  EXPECT_EQ(world.good(0, kHeart), 1);
  EXPECT_EQ(world.good(0, kLaser), 1);
  EXPECT_EQ(world.good(0, kArmor), 1);
  EXPECT_EQ(world.good(0, kOre) + world.good(0, kBattery), 0);
  world.act({kNorth});
  EXPECT_EQ(world.good(0, kHeart), 1) << "without a battery there is none";
}

TEST(Foundry, gives_a_machine_to_one_of_those_who_step_against_it) {
  std::set<int> served;
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    World world(kBare + Given{{"mines", "1"}}, 1, seed);
    world.clear();
    world.put(1, 1, kMachineCode);
    world.place(0, 1, 2), world.place(1, 0, 1), world.place(2, 2, 1);
    world.act({kNorth, kEast, kWest});
    ASSERT_EQ(world.good(0, kOre) + world.good(1, kOre) + world.good(2, kOre), 1);
    for (int a = 0; a < 3; ++a)
      if (world.good(a, kOre)) served.insert(a);
  }
  EXPECT_EQ(served.size(), 3u);
}

TEST(Foundry, carries_no_more_than_it_may) {
  World world(kBare + Given{{"mines", "1"}, {"mine_cooldown", "1"}, {"carry", "4"}});
  world.clear();
  world.put(1, 0, kMachineCode);
  world.place(0, 1, 1);
  for (int t = 0; t < 9; ++t) world.act({kNorth});
  EXPECT_EQ(world.good(0, kOre), 4);
  EXPECT_EQ(world.event("ore"), 4);
}

TEST(Foundry, shares_rewards_within_a_team_and_pays_the_chain_where_it_is_shaped) {
  World world(kBare +
              Given{{"altars", "1"}, {"mines", "1"}, {"team_share", "0.5"}, {"shaped", "true"}});
  world.clear();
  // teams are dealt in turn: 0 and 2 are mates, 1 is not
  world.put(1, 0, kMachineCode + 1), world.put(5, 0, kMachineCode);
  world.place(0, 1, 1), world.place(1, 5, 1);
  world.good(0, kBattery) = 3;
  world.act({kNorth, kNorth});
  EXPECT_FLOAT_EQ(world.reward[0], 0.5f + 0.5f * 0.25f);
  EXPECT_FLOAT_EQ(world.reward[2], 0.125f);
  EXPECT_FLOAT_EQ(world.reward[1], 0.1f * (0.5f + 0.125f));
  EXPECT_FLOAT_EQ(world.reward[3], 0.1f * 0.125f);
}

// ---- moves

TEST(Foundry, lets_one_into_a_cell_that_two_want_and_none_into_one_that_is_taken) {
  World world(kBare);
  world.clear();
  world.place(0, 3, 3), world.place(1, 5, 3);
  world.act({kEast, kWest});
  EXPECT_EQ((world.agent(0).x == 4) + (world.agent(1).x == 4), 1);
  // who follows another waits for it to be gone
  world.place(0, 3, 3), world.place(1, 4, 3);
  world.act({kEast, kEast});
  EXPECT_EQ(world.agent(0).x, 3);
  EXPECT_EQ(world.agent(1).x, 5);
  EXPECT_EQ(world.agent(0).facing, 1) << "it turns all the same";
  // nor do they change places
  world.place(0, 4, 3);
  world.act({kEast, kWest});
  EXPECT_EQ(world.agent(0).x, 4);
  EXPECT_EQ(world.agent(1).x, 5);
  world.place(0, 0, 0);
  world.act({kNorth});
  EXPECT_EQ(world.agent(0).y, 0) << "the map ends there";
}

// ---- combat

TEST(Foundry, freezes_and_robs_whom_a_laser_hits_of_everything_but_hearts) {
  World world(kBare);
  world.clear();
  world.place(0, 5, 5, /*facing=*/1);
  world.place(1, 8, 6);
  world.good(0, kLaser) = 1;
  for (Good g : {kOre, kBattery, kHeart, kLaser}) world.good(1, g) = uint8_t(2 + g);
  world.act({kAttack, kNorth});
  EXPECT_EQ(world.good(0, kLaser), 5) << "its own is gone";
  EXPECT_EQ(world.good(0, kOre), 2);
  EXPECT_EQ(world.good(0, kBattery), 3);
  EXPECT_EQ(world.good(0, kHeart), 0);
  EXPECT_EQ(world.good(1, kHeart), 4);
  EXPECT_EQ(world.good(1, kOre) + world.good(1, kBattery) + world.good(1, kLaser), 0);
  EXPECT_EQ(world.agent(1).y, 6) << "it was hit before it moved";
  // ten steps it misses
  for (int t = 0; t < 10; ++t) {
    for (int k = 1; k < kActions; ++k) ASSERT_FALSE(world.allowed(1, k)) << t;
    world.act({kStay, kNorth});
    ASSERT_EQ(world.agent(1).y, 6) << t;
  }
  world.act({kStay, kNorth});
  EXPECT_EQ(world.agent(1).y, 5);
  EXPECT_EQ(world.event("hits"), 1);
}

TEST(Foundry, aims_at_the_nearest_of_another_team_and_straight_ahead_first) {
  const auto hit = [](std::initializer_list<std::array<int, 3>> others) {
    World world(kBare);
    world.clear();
    world.place(0, 5, 5, /*facing=*/0);
    for (const auto& [a, x, y] : others) world.place(a, x, y);
    world.good(0, kLaser) = 1;
    world.act({kAttack});
    for (int a = 1; a < kAgents; ++a)
      if (world.agent(a).frozen) return a;
    return -1;
  };
  EXPECT_EQ(hit({{1, 5, 3}, {3, 4, 3}, {5, 6, 3}}), 1);
  EXPECT_EQ(hit({{1, 6, 3}, {3, 4, 3}}), 3) << "left before right";
  EXPECT_EQ(hit({{1, 5, 3}, {3, 6, 4}}), 3) << "nearer";
  EXPECT_EQ(hit({{2, 5, 4}, {1, 5, 2}}), 1) << "past its own";
  EXPECT_EQ(hit({{1, 5, 1}, {3, 7, 4}, {5, 5, 6}}), -1) << "out of reach";
}

TEST(Foundry, takes_armor_for_a_hit_and_wastes_one_on_the_frozen) {
  World world(kBare);
  world.clear();
  world.place(0, 5, 5, 1);
  world.place(1, 6, 5, 3);
  world.good(0, kLaser) = 3;
  world.good(1, kArmor) = 1, world.good(1, kOre) = 4;
  world.act({kAttack});
  EXPECT_EQ(world.good(1, kArmor), 0);
  EXPECT_EQ(world.good(1, kOre), 4);
  EXPECT_EQ(world.event("blocked"), 1);
  world.act({kAttack});
  EXPECT_EQ(world.agent(1).frozen, 10);
  EXPECT_EQ(world.good(0, kOre), 4);
  world.good(1, kOre) = 2;
  world.act({kAttack});
  EXPECT_EQ(world.agent(1).frozen, 9);
  EXPECT_EQ(world.good(1, kOre), 2);
  EXPECT_EQ(world.good(0, kLaser), 0);
}

TEST(Foundry, lets_one_of_two_rob_the_same_as_far_as_it_has_room) {
  std::set<int> thieves;
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    World world(kBare, 1, seed);
    world.clear();
    world.place(0, 5, 5, 1), world.place(2, 9, 5, 3);
    world.place(1, 7, 5);
    world.good(0, kLaser) = world.good(2, kLaser) = 1;
    world.good(0, kOre) = world.good(2, kOre) = 48;
    world.good(1, kOre) = 5;
    world.act({kAttack, kStay, kAttack});
    ASSERT_EQ(world.good(1, kOre), 3);
    ASSERT_EQ(world.good(0, kOre) + world.good(2, kOre), 98);
    ASSERT_EQ(world.good(0, kLaser) + world.good(2, kLaser), 0);
    ASSERT_EQ(world.event("hits"), 1);
    thieves.insert(world.good(0, kOre) == 50 ? 0 : 2);
  }
  EXPECT_EQ(thieves.size(), 2u);
}

TEST(Foundry, lets_two_who_fire_at_each_other_change_what_they_have) {
  World world(kBare);
  world.clear();
  world.place(0, 5, 5, 1);
  world.place(1, 7, 5, 3);
  world.good(0, kLaser) = world.good(1, kLaser) = 1;
  world.good(0, kOre) = 7, world.good(1, kBattery) = 2;
  world.act({kAttack, kAttack});
  EXPECT_EQ(world.good(0, kBattery), 2);
  EXPECT_EQ(world.good(1, kOre), 7);
  EXPECT_TRUE(world.agent(0).frozen && world.agent(1).frozen);
}

TEST(Foundry, gives_a_battery_to_the_agent_in_front) {
  World world(kBare);
  world.clear();
  world.place(0, 5, 5, 1);
  world.place(1, 6, 5);
  world.good(0, kBattery) = 2;
  world.act({});
  ASSERT_TRUE(world.allowed(0, kGive));
  world.act({kGive});
  EXPECT_EQ(world.good(0, kBattery), 1);
  EXPECT_EQ(world.good(1, kBattery), 1);
  world.good(1, kBattery) = 50;
  world.act({kGive});
  EXPECT_EQ(world.good(0, kBattery), 1) << "there is no room for it";
}

// ---- observation

TEST(Foundry, shows_an_agent_what_is_around_it_north_up) {
  World world(kBare + Given{{"mines", "1"}, {"altars", "1"}});
  world.clear();
  world.place(0, 2, 3);
  world.place(1, 4, 3, /*facing=*/2);
  world.place(2, 2, 5);
  world.agent(1).signal = 3;
  world.good(1, kLaser) = 1;
  world.put(1, 3, kMachineCode), world.put(2, 2, kMachineCode + 1), world.put(3, 3, kWall);
  world.at().resting[0] = 9;
  world.act({});
  const std::vector<float> table = palette();
  const auto channels = [&](int dx, int dy) {
    const uint8_t code = world.obs<uint8_t>(0, 0)[(dy + 5) * 11 + dx + 5];
    std::map<int, float> all;
    for (int c = 0; c < kChannels; ++c)
      if (const float v = table[size_t(code * kChannels + c)]; v != 0) all[c] = v;
    return all;
  };
  using Seen = std::map<int, float>;
  EXPECT_EQ(channels(-1, 0), (Seen{{kMachineSeen + kMine, 1.f}}));
  EXPECT_EQ(channels(0, -1), (Seen{{kMachineSeen + kAltar, 1.f}, {kWorks, 1.f}}));
  EXPECT_EQ(channels(1, 0), (Seen{{kWallSeen, 1.f}}));
  EXPECT_EQ(channels(2, 0),
            (Seen{{kFoeSeen, 1.f}, {kArmedSeen, 1.f}, {kFacesSouth, 1.f}, {kSignalSeen + 2, 1.f}}));
  EXPECT_EQ(channels(0, 2), (Seen{{kFriendSeen, 1.f}, {kFacesSouth, -1.f}}));
  EXPECT_EQ(channels(-3, 0), (Seen{{kWallSeen, 1.f}})) << "beyond the map";
  EXPECT_EQ(channels(0, -4), (Seen{{kWallSeen, 1.f}}));
  EXPECT_EQ(channels(-2, 0), (Seen{}));
}

TEST(Foundry, tells_an_agent_what_it_has) {
  World world(kBare);
  world.good(3, kOre) = 3;
  world.good(3, kBattery) = 2;
  world.agent(3).facing = 2;
  world.act({});
  const float* own = world.obs<float>(1, 3);
  EXPECT_FLOAT_EQ(own[kCarried + kOre], 0.5f);
  EXPECT_FLOAT_EQ(own[kCarried + kBattery], 0.4f);
  EXPECT_EQ(own[kCanSmelt], 1.f);
  EXPECT_EQ(own[kCanOffer], 0.f);
  EXPECT_EQ(own[kFaces + 2], 1.f);
  EXPECT_FLOAT_EQ(own[kTime], 0.001f);
  world.good(3, kBattery) = 3;
  world.act({});
  EXPECT_EQ(world.obs<float>(1, 3)[kCanOffer], 1.f);
}

// ---- episodes, settings, players

TEST(Foundry, is_truncated_at_its_limit_for_all_and_begins_anew) {
  World world(Given{{"max_steps", "30"}}, 4);
  Rng rng(5, 1, 0);
  for (int t = 1; t <= 30; ++t) {
    world.random_step(rng);
    for (size_t row = 0; row < size_t(world.rows()); ++row) {
      ASSERT_EQ(world.truncated[row], t == 30);
      ASSERT_FALSE(world.terminated[row]);
    }
  }
  const uint32_t key = world.agent(0).key;
  world.random_step(rng);
  EXPECT_TRUE(world.is_first[0]);
  EXPECT_EQ(world.at().steps, 0);
  EXPECT_NE(world.agent(0).key, key);
  for (int a = 0; a < kAgents; ++a)
    for (int g = 0; g < kGoods; ++g) EXPECT_EQ(world.good(a, Good(g)), 0);
}

TEST(Foundry, refuses_settings_that_contradict) {
  const auto message = [](const Given& settings) -> std::string {
    try {
      World world(settings);
    } catch (const Error& e) {
      return e.what();
    }
    return "";
  };
  EXPECT_NE(message({{"mines", "60"}}).find("at most 64 machines"), std::string::npos);
  EXPECT_NE(message({{"width", "8"}, {"height", "8"}}).find("8 x 8 = 64 cells"), std::string::npos);
  EXPECT_EQ(message({{"walls", "252"}}), "");
  EXPECT_NE(message({{"walls", "253"}}), "");
  EXPECT_EQ(message({{"width", "64"}, {"height", "64"}, {"view", "8"}, {"teams", "8"}}), "");
}

/// Hearts an agent makes in an episode of 1,000 steps, by the player `greedy` or at random.
double hearts_of(bool greedy, const Given& settings = {}) {
  World world(settings, 8, 7);
  const Bot& bot = find_env("foundry").bots[0];
  Rng rng(6, 1, 0);
  std::vector<Walk> walks(size_t(world.rows()));
  for (Walk& walk : walks) bot.begin(&walk, rng);
  for (int t = 0; t < 1000; ++t) {
    world.random_actions(rng);
    for (int64_t row = 0; greedy && row < world.rows(); ++row) {
      const std::byte* obs[] = {world.obs<std::byte>(0, row), world.obs<std::byte>(1, row)};
      bot.act({.params = world.batch().params,
               .state = &walks[size_t(row)],
               .obs = obs,
               .rng = rng,
               .discrete = &world.actions_i32[size_t(row)],
               .continuous = nullptr});
    }
    world.step();
  }
  double hearts = 0;
  for (int64_t i = 0; i < world.count(); ++i) hearts += world.event("hearts", i);
  return hearts / double(world.rows());
}

TEST(Foundry, greedy_beats_random_by_far) {
  const double greedy = hearts_of(true), random = hearts_of(false);
  std::printf("hearts an agent and episode: greedy %.2f, random %.2f\n", greedy, random);
  EXPECT_GT(greedy, 10 * random);
  EXPECT_GT(greedy, 3);
  // a window of any size, and a heart of one battery
  EXPECT_GT(hearts_of(true, {{"easy_altar", "true"}, {"view", "8"}}), greedy);
  EXPECT_GT(hearts_of(true, {{"view", "2"}}), 1);
}

}  // namespace
}  // namespace maglev::foundry
