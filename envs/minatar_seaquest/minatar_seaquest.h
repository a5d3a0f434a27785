#pragma once
// A submarine picks up divers, shoots fish and submarines, and surfaces before its oxygen ends.
// Planes: front, back, its bullets, where something was, enemy bullets, fish, submarines, oxygen,
// divers on board, divers.
//
// The order in which things are looked at decides who is hit, so lists are walked and shortened as
// the package does it. Its count of divers falls to -1 when six are brought up: kept.

#include "envs/minatar.h"
#include "envs/minatar_seaquest/list.h"

namespace maglev {

struct MinatarSeaquest {
  static constexpr const char* kSummary =
      "MinAtar: bring divers up among fish and submarines, 10 x 10 cells";
  MAGLEV_HD static minatar::Moves used() {
    return {6,
            {minatar::kStay, minatar::kLeft, minatar::kUp, minatar::kRight, minatar::kDown,
             minatar::kFire}};
  }
  static constexpr std::array<Rgb, 10> kColours = {{{120, 214, 240},
                                                    {64, 140, 176},
                                                    {240, 236, 220},
                                                    {60, 64, 76},
                                                    {232, 92, 78},
                                                    {126, 200, 110},
                                                    {206, 120, 206},
                                                    {92, 150, 232},
                                                    {246, 206, 84},
                                                    {250, 180, 110}}};
  static constexpr int kOxygen = 200, kDivers = 6;
  static constexpr int kSpawn = 20, kSpawnDiver = 30, kPace = 5, kFastest = 2;
  static constexpr int kCooling = 5, kShots = 10, kDiverPace = 5;

  using Params = minatar::RampedRules;

  /// Crosses its row; `right` is 0 or 1.
  struct Bullet {
    int8_t x, y, right;
    MAGLEV_HD bool operator==(const Bullet& b) const {
      return x == b.x && y == b.y && right == b.right;
    }
  };
  struct Swimmer {
    int8_t x, y, right, timer;
    int8_t shot;  ///< steps until a submarine shoots; 0 of others
    MAGLEV_HD bool operator==(const Swimmer& b) const {
      return x == b.x && y == b.y && right == b.right && timer == b.timer && shot == b.shot;
    }
  };

  struct State {
    minatar::Player player;
    int32_t x, y, right, cooling;
    int32_t oxygen, divers_aboard, surfaced;
    int32_t spawn_speed, spawn_timer, diver_timer, move_speed, ramp_index;
    // one enemy a step at most, and none swims for more than 60 steps; divers come every 30 steps,
    // bullets every 5, and each submarine shoots every 11, whose bullets last 10
    minatar::List<Swimmer, 64> fish, submarines;
    minatar::List<Bullet, 64> shots;
    minatar::List<Swimmer, 4> divers;
    minatar::List<Bullet, 4> bullets;
  };

  static bool valid(const Params&, const State& s) {
    using minatar::within;
    bool good = s.player.valid() && within(s.x, 0, 9) && within(s.y, 0, 8) &&
                within(s.right, 0, 1) && within(s.cooling, 0, kCooling) &&
                within(s.oxygen, -1, kOxygen) && within(s.divers_aboard, -(1 << 20), kDivers) &&
                within(s.surfaced, 0, 1) && within(s.spawn_speed, 0, kSpawn) &&
                within(s.spawn_timer, 0, kSpawn) && within(s.diver_timer, 0, kSpawnDiver) &&
                within(s.move_speed, 0, kPace) && within(s.ramp_index, 0, kSpawn + kPace) &&
                s.fish.valid() && s.submarines.valid() && s.divers.valid() && s.bullets.valid() &&
                s.shots.valid();
    const auto each = [&](const auto& list) {
      for (int i = 0; good && i < list.count; ++i)
        good = within(list[i].x, 0, 9) && within(list[i].y, 0, 8);
    };
    each(s.fish), each(s.submarines), each(s.divers), each(s.bullets), each(s.shots);
    return good;
  }

  static EnvSpec spec(const Params& p) { return minatar::spec(p, used(), 10); }

  MAGLEV_HD static void reset(const Params&, State& s, Rng&) {
    s.player.begin();
    s.x = 5, s.y = 0, s.right = 0, s.cooling = 0;
    s.oxygen = kOxygen, s.divers_aboard = 0, s.surfaced = 1;
    s.spawn_speed = s.spawn_timer = kSpawn, s.diver_timer = kSpawnDiver;
    s.move_speed = kPace, s.ramp_index = 0;
    s.fish.clear(), s.submarines.clear(), s.divers.clear(), s.bullets.clear(), s.shots.clear();
  }

  MAGLEV_HD static void step(const Params& p, State& s, const Actions& action, Rng& rng,
                             StepOut& out) {
    const minatar::Move move = s.player.move(p, used(), action, rng);
    if (s.spawn_timer == 0) {
      spawn_enemy(s, rng);
      s.spawn_timer = s.spawn_speed;
    }
    if (s.diver_timer == 0) {
      const bool right = rng.uniform() < 1.f / 2;
      s.divers.push({.x = int8_t(right ? 0 : 9),
                     .y = int8_t(1 + rng.below(8)),
                     .right = right,
                     .timer = kDiverPace,
                     .shot = 0});
      s.diver_timer = kSpawnDiver;
    }
    steer(s, move);
    move_bullets(s, out);
    move_divers(s);
    move_enemies(s, s.submarines, out);
    move_shots(s, out);
    move_enemies(s, s.fish, out);

    if (s.spawn_timer > 0) --s.spawn_timer;
    if (s.diver_timer > 0) --s.diver_timer;
    if (s.cooling > 0) --s.cooling;
    if (s.oxygen <= 0) out.terminated = true;
    if (s.y > 0) {
      s.oxygen = minatar::clamped(s.oxygen - 1, -1, kOxygen);
      s.surfaced = 0;
    } else if (!s.surfaced) {
      if (s.divers_aboard == 0) out.terminated = true;
      else out.reward[0] += float(surface(p, s));
    }
    out.truncated = s.player.out_of_time(p);
  }

  MAGLEV_HD static void steer(State& s, minatar::Move move) {
    using minatar::clamped;
    if (move == minatar::kFire && s.cooling == 0) {
      s.bullets.push({int8_t(s.x), int8_t(s.y), int8_t(s.right)});
      s.cooling = kCooling;
    }
    if (move == minatar::kLeft) s.x = clamped(s.x - 1, 0, 9), s.right = 0;
    if (move == minatar::kRight) s.x = clamped(s.x + 1, 0, 9), s.right = 1;
    if (move == minatar::kUp) s.y = clamped(s.y - 1, 0, 8);
    if (move == minatar::kDown) s.y = clamped(s.y + 1, 0, 8);
  }

  template <class A, class B>
  MAGLEV_HD static bool meet(const A& a, const B& b) {
    return a.x == b.x && a.y == b.y;
  }
  template <class A>
  MAGLEV_HD static void advance(A& a) {
    a.x = int8_t(a.x + (a.right ? 1 : -1));
  }
  template <class A>
  MAGLEV_HD static bool gone(const A& a) {
    return a.x < 0 || a.x > 9;
  }

  /// Unless something swims the other way in that row.
  MAGLEV_HD static void spawn_enemy(State& s, Rng& rng) {
    const bool right = rng.uniform() < 1.f / 2, submarine = rng.uniform() < 1.f / 3;
    const auto y = int8_t(1 + rng.below(8));
    const auto opposed = [&](const minatar::List<Swimmer, 64>& list) {
      for (int i = 0; i < list.count; ++i)
        if (list[i].y == y && (list[i].right != 0) != right) return true;
      return false;
    };
    if (opposed(s.submarines) || opposed(s.fish)) return;
    (submarine ? s.submarines : s.fish)
        .push({.x = int8_t(right ? 0 : 9),
               .y = y,
               .right = right,
               .timer = int8_t(s.move_speed),
               .shot = int8_t(submarine ? kShots : 0)});
  }

  MAGLEV_HD static void move_bullets(State& s, StepOut& out) {
    for (int i = s.bullets.count - 1; i >= 0 && i < s.bullets.count; --i) {
      advance(s.bullets[i]);
      const Bullet bullet = s.bullets[i];
      if (gone(bullet) || hits(s.fish, bullet, out) || hits(s.submarines, bullet, out))
        s.bullets.erase_equal(bullet);
    }
  }

  /// The first of the list that is where the bullet is goes, and counts.
  MAGLEV_HD static bool hits(minatar::List<Swimmer, 64>& list, const Bullet& bullet, StepOut& out) {
    for (int i = 0; i < list.count; ++i)
      if (meet(list[i], bullet)) {
        list.erase(i);
        out.reward[0] += 1;
        return true;
      }
    return false;
  }

  MAGLEV_HD static void move_divers(State& s) {
    for (int i = s.divers.count - 1; i >= 0 && i < s.divers.count; --i) {
      Swimmer& diver = s.divers[i];
      const auto picked_up = [&] { return meet(diver, s) && s.divers_aboard < kDivers; };
      bool leaves = picked_up(), aboard = leaves;
      if (!leaves && diver.timer > 0) {
        --diver.timer;
      } else if (!leaves) {
        diver.timer = kDiverPace;
        advance(diver);
        aboard = !gone(diver) && picked_up();
        leaves = gone(diver) || aboard;
      }
      if (aboard) ++s.divers_aboard;
      if (leaves) s.divers.erase_equal(diver);
    }
  }

  /// Fish and submarines alike; submarines shoot.
  MAGLEV_HD static void move_enemies(State& s, minatar::List<Swimmer, 64>& list, StepOut& out) {
    for (int i = list.count - 1; i >= 0 && i < list.count; --i) {
      // where this one is in the list; -1 when it has left it
      int at = i;
      Swimmer enemy = list[i];
      if (meet(enemy, s)) out.terminated = true;
      if (enemy.timer > 0) {
        --enemy.timer;
      } else {
        enemy.timer = int8_t(s.move_speed);
        advance(enemy);
        list[i] = enemy;
        if (gone(enemy)) at = list.erase_equal_of(i);
        else if (meet(enemy, s)) out.terminated = true;
        else
          for (int b = 0; b < s.bullets.count; ++b)
            if (meet(enemy, s.bullets[b])) {
              at = list.erase_equal_of(i);
              s.bullets.erase(b);
              out.reward[0] += 1;
              break;
            }
      }
      // one that has just been hit still shoots
      if (&list == &s.submarines) {
        if (enemy.shot > 0) {
          --enemy.shot;
        } else {
          enemy.shot = kShots;
          s.shots.push({enemy.x, enemy.y, enemy.right});
        }
      }
      if (at >= 0) list[at] = enemy;
    }
  }

  MAGLEV_HD static void move_shots(State& s, StepOut& out) {
    for (int i = s.shots.count - 1; i >= 0 && i < s.shots.count; --i) {
      Bullet& shot = s.shots[i];
      if (meet(shot, s)) out.terminated = true;
      advance(shot);
      if (gone(shot)) s.shots.erase_equal(Bullet(shot));
      else if (meet(shot, s)) out.terminated = true;
    }
  }

  /// New oxygen for a diver; six of them give what oxygen is left, in tenths.
  MAGLEV_HD static int surface(const Params& p, State& s) {
    s.surfaced = 1;
    const bool full = s.divers_aboard == kDivers;
    const int reward = full ? s.oxygen * 10 / kOxygen : 0;
    s.divers_aboard = (full ? 0 : s.divers_aboard) - 1;
    s.oxygen = kOxygen;
    if (p.ramp && (s.spawn_speed > 1 || s.move_speed > kFastest)) {
      if (s.move_speed > kFastest && s.ramp_index % 2 == 1) --s.move_speed;
      if (s.spawn_speed > 1) --s.spawn_speed;
      ++s.ramp_index;
    }
    return reward;
  }

  MAGLEV_HD static void observe(const Params&, const State& s, int, const ObsOut& out) {
    minatar::Planes<10> planes(out);
    planes.set(s.y, s.x, 0);
    planes.set_if_within(s.y, s.x + (s.right ? -1 : 1), 1);
    for (int i = 0; i < s.bullets.count; ++i) planes.set(s.bullets[i].y, s.bullets[i].x, 2);
    for (int i = 0; i < s.shots.count; ++i) planes.set(s.shots[i].y, s.shots[i].x, 4);
    show(planes, s.fish, 5);
    show(planes, s.submarines, 6);
    show(planes, s.divers, 9);
    for (int x = 0; x < (s.oxygen > 0 ? s.oxygen : 0) * 10 / kOxygen; ++x) planes.set(9, x, 7);
    for (int i = 0; i < s.divers_aboard; ++i) planes.set(9, 8 - i, 8);
  }

  template <class Swimmers>
  MAGLEV_HD static void show(minatar::Planes<10>& planes, const Swimmers& list, int plane) {
    for (int i = 0; i < list.count; ++i) {
      planes.set(list[i].y, list[i].x, plane);
      planes.set_if_within(list[i].y, list[i].x + (list[i].right ? -1 : 1), 3);
    }
  }

  static void paint(const Params& p, const State& s, Canvas& canvas) {
    minatar::paint<MinatarSeaquest>(p, s, canvas);
  }
};

}  // namespace maglev
