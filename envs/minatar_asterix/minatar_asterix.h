#pragma once
// Gold is picked up and enemies are avoided; both cross the rows, faster and faster. Planes:
// player, enemy, where something was, gold.

#include "envs/minatar.h"

namespace maglev {

struct MinatarAsterix {
  static constexpr const char* kSummary = "MinAtar: pick up gold among enemies, 10 x 10 cells";
  MAGLEV_HD static minatar::Moves used() {
    return {5, {minatar::kStay, minatar::kLeft, minatar::kUp, minatar::kRight, minatar::kDown}};
  }
  static constexpr std::array<Rgb, 4> kColours = {
      {{92, 196, 232}, {226, 90, 74}, {70, 62, 70}, {246, 206, 84}}};
  static constexpr int kSlots = 8;  ///< one in each of the rows 1 to 8
  static constexpr int kSpawn = 10, kPace = 5, kRamp = 100;

  using Params = minatar::RampedRules;

  /// In row i + 1.
  struct Entity {
    int32_t there, x, right, gold;  ///< all but x are 0 or 1
  };

  struct State {
    minatar::Player player;
    int32_t x, y;
    int32_t spawn_speed, spawn_timer, move_speed, move_timer;
    int32_t ramp_timer, ramp_index;
    Entity entities[kSlots];
  };

  static bool valid(const Params&, const State& s) {
    using minatar::within;
    bool good = s.player.valid() && within(s.x, 0, 9) && within(s.y, 0, 9) &&
                within(s.spawn_speed, 0, kSpawn) && within(s.spawn_timer, 0, kSpawn) &&
                within(s.move_speed, 0, kPace) && within(s.move_timer, 0, kPace) &&
                within(s.ramp_timer, -1, kRamp) && within(s.ramp_index, 0, kSpawn + kPace);
    for (const Entity& e : s.entities) good = good && within(e.x, 0, 9);
    return good;
  }

  static EnvSpec spec(const Params& p) { return minatar::spec(p, used(), 4); }

  MAGLEV_HD static void reset(const Params&, State& s, Rng&) {
    s = {.player = {},
         .x = 5,
         .y = 5,
         .spawn_speed = kSpawn,
         .spawn_timer = kSpawn,
         .move_speed = kPace,
         .move_timer = kPace,
         .ramp_timer = kRamp,
         .ramp_index = 0,
         .entities = {}};
  }

  /// In one of the rows that are free, if there is one.
  MAGLEV_HD static void spawn(State& s, Rng& rng) {
    const bool right = rng.uniform() < 1.f / 2, gold = rng.uniform() < 1.f / 3;
    uint32_t free = 0;
    for (const Entity& e : s.entities) free += e.there == 0;
    if (free == 0) return;
    uint32_t wanted = rng.below(free);
    for (Entity& e : s.entities)
      if (e.there == 0 && wanted-- == 0) {
        e = {.there = 1, .x = right ? 0 : 9, .right = right, .gold = gold};
        return;
      }
  }

  MAGLEV_HD static void meet(const State& s, int slot, Entity& e, StepOut& out) {
    if (!e.there || e.x != s.x || slot + 1 != s.y) return;
    if (e.gold) {
      e.there = 0;
      out.reward[0] += 1;
    } else {
      out.terminated = true;
    }
  }

  MAGLEV_HD static void step(const Params& p, State& s, const Actions& action, Rng& rng,
                             StepOut& out) {
    using minatar::clamped;
    const minatar::Move move = s.player.move(p, used(), action, rng);
    if (s.spawn_timer == 0) {
      spawn(s, rng);
      s.spawn_timer = s.spawn_speed;
    }
    if (move == minatar::kLeft) s.x = clamped(s.x - 1, 0, 9);
    if (move == minatar::kRight) s.x = clamped(s.x + 1, 0, 9);
    if (move == minatar::kUp) s.y = clamped(s.y - 1, 1, 8);
    if (move == minatar::kDown) s.y = clamped(s.y + 1, 1, 8);

    for (int i = 0; i < kSlots; ++i) meet(s, i, s.entities[i], out);
    if (s.move_timer == 0) {
      s.move_timer = s.move_speed;
      for (int i = 0; i < kSlots; ++i) {
        Entity& e = s.entities[i];
        if (!e.there) continue;
        e.x += e.right ? 1 : -1;
        if (e.x < 0 || e.x > 9) e = {};
        meet(s, i, e, out);
      }
    }
    s.spawn_timer = clamped(s.spawn_timer - 1, 0, kSpawn);
    s.move_timer = clamped(s.move_timer - 1, 0, kPace);
    if (p.ramp) grow_harder(s);
    out.truncated = s.player.out_of_time(p);
  }

  MAGLEV_HD static void grow_harder(State& s) {
    if (s.spawn_speed <= 1 && s.move_speed <= 1) return;
    if (s.ramp_timer >= 0) {
      --s.ramp_timer;
      return;
    }
    // the pace grows every other time
    if (s.move_speed > 1 && s.ramp_index % 2 == 1) --s.move_speed;
    if (s.spawn_speed > 1) --s.spawn_speed;
    ++s.ramp_index;
    s.ramp_timer = kRamp;
  }

  MAGLEV_HD static void observe(const Params&, const State& s, int, const ObsOut& out) {
    minatar::Planes<4> planes(out);
    planes.set(s.y, s.x, 0);
    for (int i = 0; i < kSlots; ++i) {
      const Entity& e = s.entities[i];
      if (!e.there) continue;
      planes.set(i + 1, e.x, e.gold ? 3 : 1);
      planes.set_if_within(i + 1, e.x + (e.right ? -1 : 1), 2);
    }
  }

  static void paint(const Params& p, const State& s, Canvas& canvas) {
    minatar::paint<MinatarAsterix>(p, s, canvas);
  }
};

}  // namespace maglev
