// The solver beside Box2D: the same forces on the same bodies, step by step and over long games.

#include "envs/hockey/physics.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include <gtest/gtest.h>

#include "envs/hockey/opponent.h"
#include "tests/box2d_rink.h"

namespace maglev::rink {
namespace {

Rng stream(uint64_t seed) { return Rng(seed, stream_id(Purpose::env, 0), 0); }

Game new_game(Mode mode, uint64_t seed) {
  Game game{};
  Rng rng = stream(seed);
  game.begin(mode, 0, Rules{}, rng);
  return game;
}

/// Moves of both players: scripted in odd games, else random ones held for ten steps.
struct Moves {
  Opponent opponents[2];
  Rng rng;
  uint64_t seed;
  float moves[2 * kMoves] = {};

  explicit Moves(uint64_t seed) : rng(seed, stream_id(Purpose::act, 0), 0), seed(seed) {
    for (Opponent& o : opponents) o.begin(rng);
  }
  const float* of(const Game& game) {
    float seen[kObservation];
    if (seed % 2 == 0) {
      if (game.steps % 10 == 0)
        for (float& m : moves) m = rng.uniform(-1.f, 1.f);
      return moves;
    }
    for (int p = 0; p < 2; ++p) {
      game.observe(p, seen);
      opponents[p].act(seed >> (1 + p) & 1, seen, rng, moves + p * kMoves);
    }
    return moves;
  }
};

/// A game that Box2D plays by our rules, and beside it what our solver makes of each of its steps.
class Comparison {
 public:
  Comparison(Mode mode, uint64_t seed)
      : game_(new_game(mode, seed)), oracle_(game_.world), moves_(seed) {}

  struct Step {
    float apart;  ///< m: the greatest difference of positions, or of velocities times the step
    bool racket_at_wall, contact;
    bool same_events, over;
    int winner;
  };
  Step step() {
    Drive drive[kBodies];
    Outcome outcome;
    Begun ours, theirs;
    const Vec puck = game_.world.body[kPuck].centre;
    const float speed = game_.drive_bodies(moves_.of(game_), Rules{}, drive, outcome);
    const Vec moved = game_.world.body[kPuck].centre - puck;

    World world = game_.world;
    Step result{};
    for (int p = 0; p < 2; ++p) result.racket_at_wall |= near_fixed(world, p);
    oracle_.step(game_.world, dot(moved, moved) > 0.f, drive, theirs);
    step_world(world, drive, ours);
    oracle_.read(game_.world);
    for (int p = 0; p < 2; ++p) result.racket_at_wall |= near_fixed(game_.world, p);
    for (int i = 0; i < kBodies; ++i) {
      const Body &a = world.body[i], &b = game_.world.body[i];
      const Vec place = a.centre - b.centre, rate = a.velocity - b.velocity;
      result.apart = std::max({result.apart, length(place), kStep * length(rate),
                               std::abs(a.angle - b.angle), kStep * std::abs(a.spin - b.spin)});
    }
    result.same_events = true;
    for (int p = 0; p < 2; ++p)
      result.same_events = result.same_events && ours.puck_at[p] == theirs.puck_at[p] &&
                           ours.in_goal[p] == theirs.in_goal[p];
    result.contact = !oracle_.touching().empty();

    // our impulses go on from Box2D's state
    std::copy(std::begin(world.remembered), std::end(world.remembered), game_.world.remembered);
    game_.world.remembered_count = world.remembered_count;
    std::copy(world.puck_at, world.puck_at + 2, game_.world.puck_at);
    game_.judge(theirs, speed, Rules{}, outcome);
    result.winner = outcome.winner;
    result.over = outcome.winner != 0 || outcome.out_of_time;
    return result;
  }

 private:
  static bool near_fixed(const World& w, int body) {
    return fixed_near(body, w.body[body].centre, w.body[body].centre) != 0;
  }

  Game game_;
  Box2dRink oracle_;
  Moves moves_;
};

/// Nobody moves; the puck is slowed as in a game.
struct Still {
  Drive drive[kBodies];
  explicit Still(const World& w) {
    drive[kPuck].damping = length(w.body[kPuck].velocity) > kMaxPuckSpeed ? 10.f : 0.05f;
  }
};

float quantile(std::vector<float>& values, double q) {
  const auto at = values.begin() + std::ptrdiff_t(q * double(values.size() - 1));
  std::nth_element(values.begin(), at, values.end());
  return *at;
}

TEST(HockeyPhysics, has_the_masses_of_the_original) {
  const Game game = new_game(Mode::normal, 1);
  const Box2dRink oracle(game.world);
  const b2Body& one = oracle.body(kPlayerOne);
  // Box2D states inertia about the origin
  const float about_origin = kRacketInertia + kRacketKg * kRacketCentreX * kRacketCentreX;
  EXPECT_NEAR(kRacketKg, 58.0f, 1e-2f);
  EXPECT_NEAR(about_origin, 4.578f, 1e-3f);
  EXPECT_NEAR(kRacketCentreX, -0.1224f, 1e-4f);
  EXPECT_NEAR(kRacketKg, one.GetMass(), 1e-4f);
  EXPECT_NEAR(about_origin, one.GetInertia(), 1e-5f);
  EXPECT_NEAR(kRacketCentreX, one.GetLocalCenter().x, 1e-6f);
  EXPECT_NEAR(-kRacketCentreX, oracle.body(kPlayerTwo).GetLocalCenter().x, 1e-6f);
  EXPECT_NEAR(kPuckKg, 1.03236f, 1e-4f);
  EXPECT_NEAR(kPuckKg, oracle.body(kPuck).GetMass(), 1e-6f);
  EXPECT_NEAR(kPuckInertia, oracle.body(kPuck).GetInertia(), 1e-7f);
}

TEST(HockeyPhysics, takes_the_steps_of_box2d) {
  std::vector<float> free, touching, at_wall;
  int64_t other_events = 0;
  for (uint64_t seed = 0; seed < 1000; ++seed) {
    Comparison games(Mode(seed % 3), seed);
    for (Comparison::Step step{}; !step.over;) {
      step = games.step();
      (step.racket_at_wall ? at_wall : step.contact ? touching : free).push_back(step.apart);
      other_events += !step.same_events;
    }
  }
  RecordProperty("touching_steps", int(touching.size()));
  ASSERT_GT(free.size(), 40000u);
  ASSERT_GT(touching.size(), 10000u);
  ASSERT_GT(at_wall.size(), 10000u);
  EXPECT_EQ(other_events, 0);
  // rounding where nothing touches; impacts are found within a quarter of the slop, 1.25 mm
  EXPECT_LT(quantile(free, 0.999), 1e-6f);
  EXPECT_LT(quantile(free, 1.0), 5e-3f);
  EXPECT_LT(quantile(touching, 0.99), 1e-3f);
  EXPECT_LT(quantile(touching, 1.0), 5e-3f);
  // rackets turn while they meet walls, with several impacts a step
  EXPECT_LT(quantile(at_wall, 0.9), 1e-3f);
  EXPECT_LT(quantile(at_wall, 0.99), 1e-2f);
}

TEST(HockeyPhysics, bounces_a_puck_around_the_rink_as_box2d_does) {
  Rng rng = stream(3);
  std::vector<float> apart;
  for (int launch = 0; launch < 100; ++launch) {
    Game game = new_game(Mode::normal, 3);
    Body& puck = game.world.body[kPuck];
    game.world.place(kPuck, {rng.uniform(-1.5f, 1.5f), rng.uniform(-2.5f, 2.5f)}, 0.f);
    const float direction = rng.uniform(0.f, 2 * kPi), speed = rng.uniform(5.f, 60.f);
    puck.velocity = speed * Vec{std::cos(direction), std::sin(direction)};
    Box2dRink oracle(game.world);
    bool in_goal = false;
    for (int t = 0; t < 15 && !in_goal; ++t) {
      Begun ours, theirs;
      World theirs_after = game.world;
      oracle.read(theirs_after);
      oracle.step(theirs_after, false, Still(game.world).drive, theirs);
      step_world(game.world, Still(game.world).drive, ours);
      oracle.read(theirs_after);
      // a racket that was struck begins to turn: small differences grow from there
      if (ours.puck_at[0] || ours.puck_at[1]) break;
      in_goal = ours.in_goal[0] || ours.in_goal[1];
      ASSERT_EQ(ours.in_goal[0], theirs.in_goal[0]);
      ASSERT_EQ(ours.in_goal[1], theirs.in_goal[1]);
      apart.push_back(length(puck.centre - theirs_after.body[kPuck].centre));
    }
  }
  // m; each bounce adds up to the quarter of the slop within which impacts are found
  ASSERT_GT(apart.size(), 500u);
  EXPECT_LT(quantile(apart, 0.9), 5e-3f);
  EXPECT_LT(quantile(apart, 1.0), 5e-2f);
}

TEST(HockeyPhysics, lets_nothing_through_a_wall_however_fast) {
  Rng rng = stream(4);
  int64_t goals = 0;
  for (int launch = 0; launch < 3000; ++launch) {
    Game game = new_game(Mode::normal, 4);
    World& world = game.world;
    for (int i = 0; i < kBodies; ++i) {
      if (i == kPuck) world.place(kPuck, {rng.uniform(-2.f, 2.f), rng.uniform(-2.9f, 2.9f)}, 0.f);
      const float direction = rng.uniform(0.f, 2 * kPi);
      const float speed = i == kPuck ? rng.uniform(20.f, 62.f) : rng.uniform(0.f, 15.f);
      world.body[i].velocity = speed * Vec{std::cos(direction), std::sin(direction)};
      world.body[i].spin = i == kPuck ? 0.f : rng.uniform(-15.f, 15.f);
    }
    bool in_goal = false;
    for (int t = 0; t < 60 && !in_goal; ++t) {
      Begun begun;
      step_world(world, Still(world).drive, begun);
      in_goal = begun.in_goal[0] || begun.in_goal[1];
      const Vec puck = world.body[kPuck].centre;
      ASSERT_LT(std::abs(puck.y), kWallY) << "launch " << launch << " step " << t;
      // as deep in a wall as in Box2D at most, and past the corners only through a goal's mouth
      for (int i = 0; i < kWalls && !in_goal; ++i)
        ASSERT_GT(gap_between(fixed_shape(i), Pose{}, centre_point(), world.pose[kPuck]).distance,
                  kPuckRadius - 0.007f)
            << "launch " << launch << " step " << t;
      for (int p = 0; p < 2; ++p) {
        ASSERT_LT(std::abs(world.body[p].centre.y), kWallY);
        ASSERT_LT(std::abs(world.body[p].centre.x), kGoalX - kGoalHalfWidth);
      }
    }
    goals += in_goal;
  }
  EXPECT_GT(goals, 100);
}

TEST(HockeyPhysics, mirrors_a_game_exactly_when_the_players_swap) {
  int64_t steps = 0;
  for (uint64_t seed = 0; seed < 60; ++seed) {
    Game game = new_game(Mode::normal, seed), swapped = game;
    for (int i = 0; i < kBodies; ++i) {
      const World& from = game.world;
      const int other = i == kPuck ? kPuck : 1 - i;
      swapped.world.place(i, -from.pose[other].origin, from.body[other].angle);
    }
    Moves moves(seed);
    float turned[2 * kMoves];
    // one contact after the other is solved, so that with both rackets at the puck their order
    // tells
    for (bool both = false, over = false; !over && !both;) {
      const float* given = moves.of(game);
      std::copy(given, given + kMoves, turned + kMoves);
      std::copy(given + kMoves, given + 2 * kMoves, turned);
      Outcome out, out_swapped;
      game.play(given, Rules{}, out);
      swapped.play(turned, Rules{}, out_swapped);
      both = (game.world.puck_at[0] && game.world.puck_at[1]) || may_touch(game.world, 0, 1);
      if (both) break;
      ASSERT_EQ(out.winner, -out_swapped.winner);
      float seen[kObservation], seen_swapped[kObservation];
      game.observe(0, seen);
      swapped.observe(1, seen_swapped);
      for (int k = 0; k < kObservation; ++k)
        ASSERT_EQ(seen[k], seen_swapped[k]) << "seed " << seed << " step " << game.steps;
      ++steps;
      over = out.winner != 0 || out.out_of_time;
    }
  }
  EXPECT_GT(steps, 2000);
}

TEST(HockeyPhysics, ends_scripted_games_as_often_either_way_as_box2d) {
  int ours[3] = {}, theirs[3] = {};
  const int games = 600;
  for (int g = 0; g < games; ++g) {
    const uint64_t seed = uint64_t(g) * 8 + 1 + 4;  // player one weak, player two strong
    Comparison::Step step{};
    for (Comparison comparison(Mode::normal, seed); !step.over;) step = comparison.step();
    theirs[1 + step.winner] += 1;
    Game game = new_game(Mode::normal, seed);
    Moves moves(seed);
    Outcome out;
    while (out.winner == 0 && !out.out_of_time) {
      out = {};
      game.play(moves.of(game), Rules{}, out);
    }
    ours[1 + out.winner] += 1;
  }
  for (int k = 0; k < 3; ++k) {
    const double p = 0.5 * (ours[k] + theirs[k]) / games;
    const double deviation = std::sqrt(2 * p * (1 - p) / games);
    EXPECT_LT(std::abs(ours[k] - theirs[k]) / double(games), 3 * deviation)
        << "outcome " << k - 1 << ": " << ours[k] << " and " << theirs[k];
  }
}

}  // namespace
}  // namespace maglev::rink
