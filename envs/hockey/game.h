#pragma once
// The rules of the hockey game on the rink: what actions do, keeping and shooting the puck, first
// states, goals and rewards. Each player sees and acts in a frame of its own, player two's turned
// by half a turn; angles and turns are the same in both.

#include <array>
#include <cstring>

#include "base/core/philox.h"
#include "envs/hockey/physics.h"

namespace maglev::rink {

/// What a game begins with: the puck in one half, before player one, or flying at player one's
/// goal; mixed: one of them.
enum class Mode : int32_t { normal, shooting, defense, mixed };
constexpr auto names_of(Mode) { return std::array{"normal", "shooting", "defense", "mixed"}; }
constexpr int32_t mode_steps(Mode mode) {
  return mode == Mode::shooting || mode == Mode::defense ? 80 : 250;
}

constexpr float kMaxAngle = kPi / 3;  ///< of a racket, before it is turned back
constexpr float kMaxSpeed = 10.f, kMaxPuckSpeed = 25.f;
constexpr float kThrust = 6000.f, kTorque = 400.f;  ///< N and N m of a full action
constexpr float kShot = 60.f;                       ///< m/s that a shot adds to the puck
constexpr float kZone = 0.5f;                       ///< m before the centre line where rackets stop
constexpr int32_t kKeepSteps = 15;
constexpr int kObservation = 18;
constexpr int kMoves = 4;  ///< actions of a player: x, y, turn, shoot

struct Rules {
  bool keep = true;       ///< a racket catches the puck and may shoot it
  bool faithful = false;  ///< the original's quirks: see Game::begin and Game::play
};

/// What a step is paid besides the rules' own, as the original offers it in `info` and never pays.
struct Shaping {
  float touch = 0;      ///< for catching the puck, where rackets do not keep it for touching it
  float direction = 0;  ///< for a puck at 25 m/s towards the other goal for a whole game, in sum
};

/// What a step brought.
struct Outcome {
  int winner = 0;  ///< 1 player one, -1 player two
  bool out_of_time = false;
  bool touched[2] = {false, false};  ///< the puck came to this racket
  bool shot[2] = {false, false};
};

/// One game, all of it.
struct Game {
  World world;
  Vec kick;       ///< m/s that the puck gets with the first step
  Mode mode;      ///< of this episode
  int32_t limit;  ///< steps after which nobody has won
  int32_t steps;
  int32_t has[2];   ///< steps a player keeps the puck yet, 0: it does not have it
  bool one_starts;  ///< the puck begins in player one's half

  MAGLEV_HD static float side(int player) { return player == kPlayerOne ? 1.f : -1.f; }

  /// Whether what indexes something is in range, and flags are flags.
  bool valid() const {
    uint8_t flags[3];
    std::memcpy(flags, world.puck_at, 2), std::memcpy(flags + 2, &one_starts, 1);
    return world.remembered_count >= 0 && world.remembered_count <= kMaxRemembered &&
           flags[0] <= 1 && flags[1] <= 1 && flags[2] <= 1;
  }

  /// A new game, of a mode drawn first where modes are mixed; `new_limit` 0: the mode's. The half
  /// the puck begins in alternates between games; the original always begins with player two's, and
  /// keeps `has` of the last game.
  MAGLEV_HD void begin(Mode new_mode, int32_t new_limit, const Rules& rules, Rng& rng) {
    // a slot's first episode begins its stream
    const bool first_game = rng.counter() == 0;
    mode = new_mode == Mode::mixed ? Mode(rng.below(3)) : new_mode;
    limit = new_limit ? new_limit : mode_steps(mode);
    steps = 0;
    kick = {0.f, 0.f};
    if (first_game || !rules.faithful) has[0] = has[1] = 0;
    if (first_game) one_starts = rules.faithful ? true : rng.below(2) == 0;
    if (mode == Mode::normal) one_starts = !one_starts;

    world.clear();
    world.place(kPlayerOne, {-3.f, 0.f}, 0.f);
    Vec two{3.f, 0.f};
    if (mode != Mode::normal)
      two = two + Vec{rng.uniform(-10.f / 3, 10.f / 6), rng.uniform(-2.f, 2.f)};
    world.place(kPlayerTwo, two, 0.f);
    if (mode == Mode::defense) {
      const Vec puck{rng.uniform(0.f, 10.f / 3), 0.8f * rng.uniform(-4.f, 4.f)};
      const Vec goal{-5.f, 0.6f * rng.uniform(-kGoalHalfHeight, kGoalHalfHeight)};
      world.place(kPuck, puck, 0.f);
      kick = kShot * unit(goal - puck);
      return;
    }
    const float x = rng.uniform(1.f, 2.f), y = rng.uniform(-1.f, 1.f);
    world.place(kPuck, {one_starts || mode == Mode::shooting ? -x : x, y}, 0.f);
  }

  /// One step. `moves` [2][kMoves], each in its player's frame, within [-1, 1].
  MAGLEV_HD void play(const float* moves, const Rules& rules, Outcome& out) {
    Drive drive[kBodies];
    // a contact is judged by the speed the puck comes with
    const float speed = drive_bodies(moves, rules, drive, out);
    Begun begun;
    step_world(world, drive, begun);
    judge(begun, speed, rules, out);
  }

  /// What moves do to the bodies of this step. Returns the puck's speed along x before it.
  MAGLEV_HD float drive_bodies(const float* moves, const Rules& rules, Drive* drive, Outcome& out) {
    for (int p = 0; p < 2; ++p) {
      thrust(p, moves + p * kMoves, drive[p]);
      turn_racket(p, moves[p * kMoves + 2], drive[p]);
    }
    const Vec v = world.body[kPuck].velocity;
    drive[kPuck].damping = dot(v, v) > kMaxPuckSpeed * kMaxPuckSpeed ? 10.f : 0.05f;
    drive[kPuck].force = (kPuckKg / kStep) * kick;
    kick = {0.f, 0.f};
    if (rules.keep)
      for (int p = 0; p < 2; ++p)
        if (has[p] > 1) out.shot[p] = carry(p, moves[p * kMoves + 3] > 0.5f, drive[kPuck]);
    return world.body[kPuck].velocity.x;
  }

  /// Goals, catches and time after a step. The original notices its limit one step late.
  MAGLEV_HD void judge(const Begun& begun, float puck_speed, const Rules& rules, Outcome& out) {
    for (int p = 0; p < 2; ++p) {
      out.touched[p] = begun.puck_at[p];
      if (rules.keep && begun.puck_at[p] && side(p) * puck_speed < 0.1f && has[p] == 0)
        has[p] = kKeepSteps;
    }
    out.winner = begun.in_goal[1] ? 1 : begun.in_goal[0] ? -1 : 0;
    steps += 1;
    out.out_of_time = steps >= limit + (rules.faithful ? 1 : 0);
  }

  /// What the rules pay a player for a step: 10 for a goal, -10 for one against it, and less than
  /// nothing for being far from a puck that comes or lies in its own half. And what shaping adds.
  MAGLEV_HD float reward(int player, const Outcome& out, const Rules& rules,
                         const Shaping& shaping) const {
    const Body& puck = world.body[kPuck];
    float r = 10.f * side(player) * float(out.winner);
    if (side(player) * puck.centre.x < 0.f && side(player) * puck.velocity.x <= 0.f)
      r -= 30.f / (250.f / 60 * float(limit) / 2) * length(puck.centre - world.pose[player].origin);
    const bool comes = rules.keep ? has[player] == kKeepSteps : out.touched[player];
    if (shaping.touch != 0.f && comes) r += shaping.touch;
    if (shaping.direction != 0.f)
      r += shaping.direction * side(player) * puck.velocity.x / (kMaxPuckSpeed * float(limit));
    return r;
  }

  /// [18]: own x, y, angle, vx, vy, spin; the other's six; the puck's x, y, vx, vy; steps this
  /// player keeps the puck yet; the other's. Positions from the rink's centre.
  MAGLEV_HD void observe(int player, float* o) const {
    const float s = side(player);
    for (int k = 0; k < 2; ++k) {
      const int p = k == 0 ? player : 1 - player;
      const Body& b = world.body[p];
      float* to = o + 6 * k;
      to[0] = s * world.pose[p].origin.x, to[1] = s * world.pose[p].origin.y, to[2] = b.angle;
      to[3] = s * b.velocity.x, to[4] = s * b.velocity.y, to[5] = b.spin;
    }
    const Body& puck = world.body[kPuck];
    o[12] = s * puck.centre.x, o[13] = s * puck.centre.y;
    o[14] = s * puck.velocity.x, o[15] = s * puck.velocity.y;
    o[16] = float(has[player]), o[17] = float(has[1 - player]);
  }

 private:
  /// Thrust of a racket, its damping and where it may not go. x of `move` is towards the other.
  MAGLEV_HD void thrust(int player, const float* move, Drive& drive) {
    const float s = side(player);
    Body& b = world.body[player];
    const Vec at = s * world.pose[player].origin;
    const Vec v = s * b.velocity;
    const float speed = length(v);
    Vec force{kThrust * move[0], kThrust * move[1]};
    if (at.x > -kZone) {
      // bounces off the centre line
      force.x = v.x > 0.f ? -2.f * v.x * (kRacketKg / kStep) : 0.f;
      force.x -= at.x * v.x * (kRacketKg / kStep);
      drive.damping = 20.f;
    } else if (speed < kMaxSpeed) {
      drive.damping = 5.f;
    } else {
      drive.damping = 20.f;
      // faster than allowed: only what slows it down
      if (!(length(v + (kStep / kRacketKg) * force) < speed)) return;
    }
    if ((at.x < -3.5f && force.x < 0.f) || (at.x > 0.f && force.x > 0.f))
      b.velocity.x = 0.f, force.x = 0.f;
    if ((at.y > 2.8f && force.y > 0.f) || (at.y < -2.8f && force.y < 0.f))
      b.velocity.y = 0.f, force.y = 0.f;
    drive.force = s * force;
  }

  /// Torque of a racket; beyond the greatest angle it is turned back instead.
  MAGLEV_HD void turn_racket(int player, float move, Drive& drive) const {
    const Body& b = world.body[player];
    drive.torque = kTorque * move;
    drive.spin_damping = 2.f;
    if (!(fabsf(b.angle) > kMaxAngle)) return;
    drive.torque = b.angle * b.spin > 0.f ? -0.1f * b.spin * (kRacketKg / kStep) : 0.f;
    drive.torque -= 0.1f * b.angle * (kRacketKg / kStep);
    drive.spin_damping = 10.f;
  }

  /// Takes the puck along with a racket, and shoots it when asked or when time is up.
  MAGLEV_HD bool carry(int player, bool shoot, Drive& puck) {
    Body& b = world.body[kPuck];
    b.centre = world.pose[kPuck].origin = world.pose[player].origin;
    b.velocity = world.body[player].velocity;
    has[player] -= 1;
    if (has[player] > 1 && !shoot) return false;
    const Pose& aim = world.pose[player];
    const Vec towards = side(player) * Vec{aim.cosine, aim.sine};
    puck.force = puck.force + (kShot * kPuckKg / kStep) * towards;
    has[player] = 0;
    return true;
  }
};

}  // namespace maglev::rink
