#include "envs/hockey/hockey.h"

#include <cmath>
#include <set>

#include <gtest/gtest.h>

#include "base/env/host_envs.h"

namespace maglev {
namespace {

using namespace rink;  // the game's constants
using Settings = std::vector<std::pair<std::string, std::string>>;

const Settings kAlone{{"opponent", "none"}};

Settings alone(Settings more) {
  more.insert(more.begin(), kAlone.begin(), kAlone.end());
  return more;
}

/// One or more hockey environments whose game a test can lay out.
struct Rink : HostEnvs {
  explicit Rink(const Settings& settings = kAlone, int64_t count = 1, uint64_t seed = 1)
      : HostEnvs(find_env("hockey"), count, seed, settings) {
    reset();
  }
  Game& game(int64_t i = 0) { return state<Hockey>(i).game; }
  World& world(int64_t i = 0) { return game(i).world; }
  Body& puck(int64_t i = 0) { return world(i).body[kPuck]; }
  /// The puck out of everyone's way.
  void put_puck(Vec at, Vec velocity = {0.f, 0.f}) {
    world().place(kPuck, at, 0.f);
    puck().velocity = velocity;
  }
  void act(float x, float y, float turn, float shoot = 0.f) {
    for (int64_t i = 0; i < count(); ++i) {
      float* a = &actions_f32[size_t(i * io().action_dims)];
      a[0] = x, a[1] = y, a[2] = turn;
      if (io().action_dims > 3) a[3] = shoot;
    }
    step();
  }
  float seen(int k, int64_t i = 0) const { return obs<float>(0, i)[k]; }
  double event(const char* name) const {
    const auto& names = spec().events;
    const auto k = std::find(names.begin(), names.end(), name) - names.begin();
    return reinterpret_cast<const SlotHead*>(slot(0))->events[k];
  }
};

// ---- held actions

TEST(Hockey, an_action_that_is_held_is_as_many_of_the_game_s_steps) {
  // a scripted opponent would draw by the environment's steps
  Rink one, four(alone({{"action_repeat", "4"}}));
  EXPECT_EQ(four.spec().max_steps, 63);  // 250 steps, the last decision of two
  for (int decision = 0; decision < 63; ++decision) {
    float reward = 0;
    const float x = decision % 3 - 1.f, y = decision % 5 * 0.5f - 1.f;
    const bool last = decision == 62;
    for (int i = 0; i < (last ? 2 : 4); ++i) {
      one.act(x, y, 0.3f, 1.f);
      reward += one.reward[0];
      if (one.terminated[0] || one.truncated[0]) break;
    }
    four.act(x, y, 0.3f, 1.f);
    ASSERT_EQ(four.reward[0], reward) << decision;
    ASSERT_EQ(four.terminated[0], one.terminated[0]);
    ASSERT_EQ(four.truncated[0], one.truncated[0]);
    for (int k = 0; k < kObservation; ++k)
      ASSERT_EQ(four.seen(k), one.seen(k)) << decision << " " << k;
    if (one.terminated[0] || one.truncated[0]) break;
  }
  EXPECT_TRUE(one.terminated[0] || one.truncated[0]);
  for (const char* event : {"goals", "conceded", "timeouts", "touches", "shots"})
    EXPECT_EQ(four.event(event), one.event(event)) << event;
}

// ---- rackets

TEST(Hockey, a_racket_gains_the_original_s_speeds_under_full_thrust) {
  Rink rink;
  rink.put_puck({2.f, 3.f});
  rink.world().place(kPlayerOne, {-3.f, -2.5f}, 0.f);
  const float expected[] = {1.862f, 3.538f, 5.046f};
  for (float speed : expected) {
    rink.act(0.f, 1.f, 0.f);
    EXPECT_NEAR(rink.seen(4), speed, 2e-3f);
  }
  // up to 10.6 m/s, then damped to 6.36 and up again: a saw-tooth
  float least = 100.f, most = 0.f;
  for (int t = 0; t < 12; ++t) {
    rink.act(0.f, 1.f, 0.f);
    if (t >= 4) least = std::min(least, rink.seen(4)), most = std::max(most, rink.seen(4));
  }
  EXPECT_NEAR(least, 6.36f, 0.1f);
  EXPECT_NEAR(most, 10.6f, 0.1f);
}

TEST(Hockey, a_racket_stays_in_its_half_and_in_the_rink) {
  for (const auto& [x, y] : {std::pair{1.f, 0.f}, {-1.f, 0.f}, {0.f, 1.f}, {0.f, -1.f}}) {
    Rink rink;
    rink.put_puck({2.f, 3.f});
    for (int t = 0; t < 100; ++t) {
      rink.act(x, y, 0.f);
      ASSERT_LT(rink.seen(0), 0.3f);
      ASSERT_GT(rink.seen(0), -4.1f);
      ASSERT_LT(std::abs(rink.seen(1)), 3.2f);
    }
  }
}

TEST(Hockey, a_racket_turns_no_farther_than_sixty_degrees_for_long) {
  Rink rink;
  rink.put_puck({2.f, 3.f});
  for (int t = 0; t < 200; ++t) {
    rink.act(0.f, 0.f, 1.f);
    ASSERT_LT(rink.seen(2), kMaxAngle + 0.6f);
    ASSERT_TRUE(t <= 100 || rink.seen(2) > 0.5f);
  }
}

// ---- the puck

/// The puck flies slowly at player one's racket and is caught; returns once it is.
void catch_puck(Rink& rink) {
  rink.put_puck({-2.f, 0.f}, {-5.f, 0.f});
  for (int t = 0; t < 40 && rink.seen(16) == 0.f; ++t) rink.act(0.f, 0.f, 0.f);
}

TEST(Hockey, a_caught_puck_is_kept_for_fourteen_steps_and_then_shot) {
  Rink rink;
  catch_puck(rink);
  ASSERT_EQ(rink.seen(16), 15.f);
  EXPECT_EQ(rink.event("touches"), 1);
  for (int left = 14; left >= 2; --left) {
    rink.act(0.f, 0.f, 0.f);
    ASSERT_EQ(rink.seen(16), float(left));
    ASSERT_LT(std::abs(rink.seen(12) - rink.seen(0)), 0.5f);
  }
  EXPECT_EQ(rink.event("shots"), 0);
  rink.act(0.f, 0.f, 0.f);
  EXPECT_EQ(rink.seen(16), 0.f);
  EXPECT_EQ(rink.event("shots"), 1);
  EXPECT_NEAR(rink.seen(14), 59.94f, 0.1f);
}

TEST(Hockey, a_shot_slows_by_a_fifth_a_step_down_to_the_puck_s_limit) {
  Rink rink;
  catch_puck(rink);
  for (int t = 0; t < 3; ++t) rink.act(0.f, 0.f, 0.f);
  // player two out of the way
  rink.world().place(kPlayerTwo, {3.f, 2.5f}, 0.f);
  rink.act(0.f, 0.f, 0.f, 0.51f);
  ASSERT_EQ(rink.seen(16), 0.f);
  // 60 m/s on top of the racket's own speed
  const float shot = rink.seen(14);
  EXPECT_NEAR(shot, 59.94f, 0.2f);
  for (float share : {0.8f, 0.64f, 0.512f, 0.4096f, 0.4096f * 0.999f}) {
    rink.act(0.f, 0.f, 0.f);
    EXPECT_NEAR(rink.seen(14), share * shot, 1e-3f);
  }
}

TEST(Hockey, without_keep_the_puck_bounces_off_and_there_are_three_actions) {
  Rink rink(alone({{"keep", "false"}}));
  ASSERT_EQ(rink.spec().action.dims(), 3);
  rink.put_puck({-2.f, 0.f}, {-5.f, 0.f});
  for (int t = 0; t < 30; ++t) {
    rink.act(0.f, 0.f, 0.f);
    ASSERT_EQ(rink.seen(16), 0.f);
  }
  EXPECT_EQ(rink.event("touches"), 1);
  EXPECT_GT(rink.seen(14), 3.f);
}

// ---- games

TEST(Hockey, a_goal_ends_the_game_and_pays_ten) {
  for (float side : {1.f, -1.f}) {
    Rink rink;
    rink.world().place(kPlayerOne, {-3.f, 2.5f}, 0.f);
    rink.world().place(kPlayerTwo, {3.f, 2.5f}, 0.f);
    rink.put_puck({side * 3.f, 0.f}, {side * 20.f, 0.f});
    for (int t = 0; t < 10 && !rink.terminated[0]; ++t) rink.act(0.f, 0.f, 0.f);
    ASSERT_TRUE(rink.terminated[0]);
    EXPECT_FALSE(rink.truncated[0]);
    EXPECT_EQ(rink.event(side > 0 ? "goals" : "conceded"), 1);
    EXPECT_EQ(rink.event(side > 0 ? "conceded" : "goals"), 0);
    // less than nothing for the distance to a puck in the own half
    EXPECT_NEAR(rink.reward[0], 10.f * side, side > 0 ? 1e-6f : 0.3f);
  }
}

TEST(Hockey, waiting_far_from_a_puck_in_the_own_half_costs) {
  Rink rink;
  rink.put_puck({-1.f, 2.f});
  rink.act(0.f, 0.f, 0.f);
  const float distance = std::hypot(rink.seen(12) - rink.seen(0), rink.seen(13) - rink.seen(1));
  EXPECT_NEAR(rink.reward[0], -0.0576f * distance, 1e-5f);
  // not while it flies away, nor in the other half
  rink.put_puck({-1.f, 2.f}, {1.f, 0.f});
  rink.act(0.f, 0.f, 0.f);
  EXPECT_EQ(rink.reward[0], 0.f);
  rink.put_puck({1.f, 2.f}, {-1.f, 0.f});
  rink.act(0.f, 0.f, 0.f);
  EXPECT_EQ(rink.reward[0], 0.f);
}

TEST(Hockey, shaping_pays_once_for_the_puck_that_comes_and_for_where_it_flies) {
  for (const char* keep : {"true", "false"}) {
    Rink plain(alone({{"keep", keep}}));
    Rink shaped(alone({{"keep", keep}, {"touch_reward", "2"}}));
    int paid = 0;
    for (Rink* rink : {&plain, &shaped}) rink->put_puck({-2.f, 0.f}, {-5.f, 0.f});
    for (int t = 0; t < 30; ++t) {
      for (Rink* rink : {&plain, &shaped}) rink->act(0.f, 0.f, 0.f);
      const float more = shaped.reward[0] - plain.reward[0];
      EXPECT_NEAR(more, more > 1.f ? 2.f : 0.f, 1e-5f) << keep << " " << t;
      paid += more > 1.f;
    }
    EXPECT_EQ(paid, 1) << keep;
  }
  // where the rules pay nothing
  Rink rink(alone({{"direction_reward", "5"}}));
  for (float speed : {-3.f, 3.f}) {
    rink.put_puck({1.5f, 2.f}, {speed, 0.f});
    rink.act(0.f, 0.f, 0.f);
    EXPECT_GT(rink.reward[0] * speed, 0.f);
    EXPECT_NEAR(rink.reward[0], 5.f * rink.seen(14) / (25.f * 250.f), 1e-6f);
  }
}

TEST(Hockey, runs_out_of_time_by_truncation_and_as_the_original_one_step_later_by_termination) {
  struct Case {
    const char *mode, *faithful;
    int steps;
  };
  for (const Case& c : {Case{"normal", "false", 250}, Case{"normal", "true", 251},
                        Case{"shooting", "false", 80}, Case{"shooting", "true", 81}}) {
    Rink rink(alone({{"mode", c.mode}, {"faithful", c.faithful}}));
    rink.put_puck({-1.5f, 2.5f});
    const bool faithful = c.steps % 10 == 1;
    for (int t = 1; t <= c.steps; ++t) {
      rink.act(0.f, 0.f, 0.f);
      ASSERT_EQ(bool(rink.terminated[0]), faithful && t == c.steps) << c.mode << " " << t;
      ASSERT_EQ(bool(rink.truncated[0]), !faithful && t == c.steps) << c.mode << " " << t;
    }
    EXPECT_EQ(rink.event("timeouts"), 1);
  }
}

TEST(Hockey, the_original_carries_what_a_player_keeps_into_the_next_game) {
  for (const char* faithful : {"false", "true"}) {
    Rink rink(alone({{"faithful", faithful}, {"max_steps", "100"}}));
    rink.put_puck({2.f, 3.f});
    // a limit of 100 steps, or the original's 101
    const bool original = faithful == std::string("true");
    for (int t = 0; t < (original ? 101 : 100); ++t) rink.act(0.f, 0.f, 0.f);
    rink.game().has[0] = 9;
    rink.act(0.f, 0.f, 0.f);
    ASSERT_TRUE(rink.is_first[0]);
    EXPECT_EQ(rink.seen(16), original ? 9.f : 0.f);
  }
}

TEST(Hockey, begins_where_the_original_does) {
  const int64_t count = 2000;
  struct Range {
    const char* mode;
    float puck_x[2], puck_y[2], other_x[2], other_y[2];
  };
  for (const Range& r :
       {Range{"normal", {-2, 2}, {-1, 1}, {3, 3}, {0, 0}},
        Range{"shooting", {-2, -1}, {-1, 1}, {-1.f / 3, 14.f / 3}, {-2, 2}},
        Range{"defense", {0, 10.f / 3}, {-3.2f, 3.2f}, {-1.f / 3, 14.f / 3}, {-2, 2}}}) {
    Rink rink(alone({{"mode", r.mode}}), count);
    auto spans = [&](int k, const float* range) {
      float least = INFINITY, most = -INFINITY;
      for (int64_t i = 0; i < count; ++i)
        least = std::min(least, rink.seen(k, i)), most = std::max(most, rink.seen(k, i));
      EXPECT_NEAR(least, range[0], 0.02f) << r.mode << " " << k;
      EXPECT_NEAR(most, range[1], 0.02f) << r.mode << " " << k;
    };
    spans(12, r.puck_x), spans(13, r.puck_y), spans(6, r.other_x), spans(7, r.other_y);
    EXPECT_EQ(rink.seen(0), -3.f);
    EXPECT_EQ(rink.seen(1), 0.f);
  }
}

TEST(Hockey, in_defense_the_puck_flies_at_the_goal_from_the_first_step) {
  Rink rink(alone({{"mode", "defense"}}), 200);
  for (int64_t i = 0; i < 200; ++i) ASSERT_EQ(rink.seen(14, i), 0.f);
  std::vector<float> from(rink.obs<float>(0, 0), rink.obs<float>(0, 0) + 200 * kObservation);
  rink.act(0.f, 0.f, 0.f);
  int flying = 0;
  for (int64_t i = 0; i < 200; ++i) {
    // those that do not begin at a racket or a wall
    const float vx = rink.seen(14, i), vy = rink.seen(15, i);
    if (std::abs(std::hypot(vx, vy) - 59.94f) > 0.01f) continue;
    ++flying;
    const float x = from[size_t(i * kObservation + 12)], y = from[size_t(i * kObservation + 13)];
    EXPECT_LT(std::abs(y + vy / vx * (-5.f - x)), 0.751f);
  }
  EXPECT_GT(flying, 120);
}

TEST(Hockey, the_half_the_puck_begins_in_alternates) {
  for (const char* faithful : {"false", "true"}) {
    Rink rink(alone({{"max_steps", "2"}, {"faithful", faithful}}), 64);
    std::set<bool> first;
    std::vector<bool> before(64);
    for (int64_t i = 0; i < 64; ++i) {
      before[size_t(i)] = rink.seen(12, i) < 0;
      first.insert(before[size_t(i)]);
    }
    for (int t = 0; t < 40; ++t) {
      rink.act(0.f, 0.f, 0.f);
      for (size_t i = 0; i < 64; ++i) {
        if (!rink.is_first[i]) continue;
        ASSERT_NE(before[i], rink.seen(12, int64_t(i)) < 0);
        before[i] = !before[i];
      }
    }
    // the original's first game is player two's everywhere
    EXPECT_EQ(first, faithful == std::string("true") ? std::set<bool>{false}
                                                     : std::set<bool>({false, true}));
  }
}

TEST(Hockey, mixed_modes_and_opponents_all_occur) {
  Rink rink({{"mode", "mixed"}, {"opponent", "mixed"}}, 300);
  std::set<Mode> modes;
  std::set<int32_t> strengths;
  for (int64_t i = 0; i < 300; ++i) {
    modes.insert(rink.game(i).mode);
    strengths.insert(rink.state<Hockey>(i).strong);
  }
  EXPECT_EQ(modes, (std::set<Mode>{Mode::normal, Mode::shooting, Mode::defense}));
  EXPECT_EQ(strengths, (std::set<int32_t>{0, 1}));
}

// ---- opponents

/// Games of scripted players against each other in the table's environment.
struct Tally {
  int64_t won = 0, drawn = 0, lost = 0;
  int64_t games() const { return won + drawn + lost; }
};
Tally play_bots(const char* one, const char* two, int64_t games, const char* faithful) {
  const int64_t count = 64;
  Rink rink({{"opponent", two}, {"faithful", faithful}}, count, 11);
  const EnvEntry& env = find_env("hockey");
  const auto bot = std::find_if(env.bots.begin(), env.bots.end(),
                                [&](const Bot& b) { return b.name == std::string(one); });
  Rng rng(11, stream_id(Purpose::opponent, 0), 0);
  std::vector<std::array<std::byte, kMaxBotState>> states(static_cast<size_t>(count));
  for (auto& s : states) bot->begin(s.data(), rng);
  Tally tally;
  while (tally.games() < games) {
    for (int64_t i = 0; i < count; ++i) {
      const std::byte* row = rink.obs<std::byte>(0, i);
      bot->act({.params = rink.batch().params,
                .state = states[size_t(i)].data(),
                .obs = &row,
                .rng = rng,
                .discrete = nullptr,
                .continuous = &rink.actions_f32[size_t(i * rink.io().action_dims)]});
    }
    rink.step();
    for (int64_t i = 0; i < count; ++i) {
      if (rink.is_first[size_t(i)]) bot->begin(states[size_t(i)].data(), rng);
      if (!rink.terminated[size_t(i)] && !rink.truncated[size_t(i)]) continue;
      const float r = rink.reward[size_t(i)];
      (r > 5.f ? tally.won : r < -5.f ? tally.lost : tally.drawn) += 1;
    }
  }
  return tally;
}

TEST(Hockey, weak_against_strong_ends_as_often_as_in_the_original) {
  const Tally tally = play_bots("weak", "strong", 3000, "true");
  const double original[] = {474 / 3000., 1376 / 3000., 1150 / 3000.};
  const int64_t counts[] = {tally.won, tally.drawn, tally.lost};
  for (int k = 0; k < 3; ++k) {
    const double ours = double(counts[k]) / double(tally.games());
    // 99 % of the difference of two such counts
    const double width =
        2.58 * std::sqrt(original[k] * (1 - original[k]) * (1 / 3000. + 1 / double(tally.games())));
    EXPECT_NEAR(ours, original[k], width) << "outcome " << k;
  }
}

TEST(Hockey, strong_beats_weak) {
  const Tally tally = play_bots("strong", "weak", 500, "false");
  EXPECT_GT(tally.won, 2 * tally.lost);
}

TEST(Hockey, both_players_side_by_side_take_eight_actions) {
  Rink rink(Settings{{"players", "both"}});
  ASSERT_EQ(rink.spec().action.dims(), 8);
  rink.put_puck({0.f, 3.f});
  std::fill(rink.actions_f32.begin(), rink.actions_f32.end(), 0.f);
  rink.actions_f32[4] = 1.f;  // player two forwards: towards player one
  rink.step();
  EXPECT_LT(rink.seen(9), -1.5f);
  EXPECT_EQ(rink.seen(3), 0.f);
}

}  // namespace
}  // namespace maglev
