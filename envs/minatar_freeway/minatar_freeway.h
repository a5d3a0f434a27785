#pragma once
// A chicken crosses eight lanes of cars, for 2,500 steps. Planes: chicken, car, and where a car
// was, one plane for each of five speeds.

#include "envs/minatar.h"

namespace maglev {

struct MinatarFreeway {
  static constexpr const char* kSummary = "MinAtar: cross eight lanes of cars, 10 x 10 cells";
  MAGLEV_HD static minatar::Moves used() {
    return {3, {minatar::kStay, minatar::kUp, minatar::kDown}};
  }
  static constexpr std::array<Rgb, 7> kColours = {{{250, 236, 160},
                                                   {226, 90, 74},
                                                   {150, 70, 62},
                                                   {130, 74, 70},
                                                   {110, 74, 74},
                                                   {92, 70, 74},
                                                   {76, 66, 74}}};
  static constexpr int kLanes = 8, kColumn = 4;  ///< where the chicken walks
  static constexpr int kPace = 3;                ///< steps between two of its moves
  static constexpr int kSpeeds = 5;
  static constexpr int kTime = 2500;

  using Params = minatar::Rules;

  /// In lane i + 1.
  struct Car {
    int32_t x, timer;
    int32_t speed;  ///< steps between two moves; its sign is the direction
  };

  struct State {
    minatar::Player player;
    int32_t y, move_timer, time;
    Car cars[kLanes];
  };

  static bool valid(const Params&, const State& s) {
    using minatar::within;
    bool good = s.player.valid() && within(s.y, 0, 9) && within(s.move_timer, 0, kPace) &&
                within(s.time, -1, kTime);
    for (const Car& car : s.cars)
      good = good && within(car.x, 0, 9) && within(car.timer, 0, kSpeeds) &&
             within(car.speed, -kSpeeds, kSpeeds);
    return good;
  }

  static EnvSpec spec(const Params& p) {
    EnvSpec spec = minatar::spec(p, used(), 7);
    // the game's own limit, after which the package says terminal: it ends no future
    if (p.max_steps == 0 || p.max_steps > kTime + 1) spec.max_steps = kTime + 1;
    return spec;
  }

  MAGLEV_HD static void draw_speeds(Car* cars, Rng& rng) {
    for (int i = 0; i < kLanes; ++i) cars[i].timer = int32_t(1 + rng.below(kSpeeds));
    for (int i = 0; i < kLanes; ++i)
      cars[i].speed = rng.uniform() < 0.5f ? -cars[i].timer : cars[i].timer;
  }

  MAGLEV_HD static void reset(const Params&, State& s, Rng& rng) {
    s.player.begin();
    s.y = 9, s.move_timer = kPace, s.time = kTime;
    for (Car& car : s.cars) car.x = 0;
    draw_speeds(s.cars, rng);
  }

  MAGLEV_HD static void step(const Params& p, State& s, const Actions& action, Rng& rng,
                             StepOut& out) {
    const minatar::Move move = s.player.move(p, used(), action, rng);
    if (s.move_timer == 0 && (move == minatar::kUp || move == minatar::kDown)) {
      s.move_timer = kPace;
      s.y = minatar::clamped(s.y + (move == minatar::kUp ? -1 : 1), 0, 9);
    }
    if (s.y == 0) {
      out.reward[0] = 1;
      draw_speeds(s.cars, rng);
      s.y = 9;
    }
    for (int lane = 1; lane <= kLanes; ++lane) {
      Car& car = s.cars[lane - 1];
      const auto hit = [&] { return car.x == kColumn && lane == s.y; };
      if (hit()) s.y = 9;
      if (car.timer > 0) {
        --car.timer;
        continue;
      }
      car.timer = car.speed < 0 ? -car.speed : car.speed;
      car.x += car.speed > 0 ? 1 : -1;
      car.x = car.x < 0 ? 9 : car.x > 9 ? 0 : car.x;
      if (hit()) s.y = 9;
    }
    if (s.move_timer > 0) --s.move_timer;
    s.time = minatar::clamped(s.time - 1, -1, kTime);
    out.truncated = s.time < 0 || s.player.out_of_time(p);
  }

  MAGLEV_HD static void observe(const Params&, const State& s, int, const ObsOut& out) {
    minatar::Planes<7> planes(out);
    planes.set(s.y, kColumn, 0);
    for (int lane = 1; lane <= kLanes; ++lane) {
      const Car& car = s.cars[lane - 1];
      planes.set(lane, car.x, 1);
      const int speed = car.speed < 0 ? -car.speed : car.speed;
      const int behind = (car.x + (car.speed > 0 ? 9 : 1)) % minatar::kSide;
      if (speed > 0) planes.set(lane, behind, 1 + speed);
    }
  }

  static void paint(const Params& p, const State& s, Canvas& canvas) {
    minatar::paint<MinatarFreeway>(p, s, canvas);
  }
};

}  // namespace maglev
