#pragma once
// Pendulum seen instead of told: its dynamics, reward and actions, observed as pictures of its rod
// at the last three steps. An episode's first picture shows no speed, for there was no step before.

#include "envs/pendulum/pendulum.h"
#include "envs/pixels.h"

namespace maglev {

struct PendulumPixels {
  static constexpr const char* kSummary =
      "pendulum from pictures: its last three steps as the channels of 64 x 64";

  static constexpr bool kShowsImages = true;

  using Params = Pendulum::Params;

  struct State {
    Pendulum::State now;
    float before[pixels::kMoments - 1];  ///< angles of the steps before, the newest first
  };

  static EnvSpec spec(const Params& p) {
    EnvSpec spec = Pendulum::spec(p);
    spec.observations = {pixels::column()};
    return spec;
  }

  MAGLEV_HD static void reset(const Params& p, State& s, Rng& rng) {
    Pendulum::reset(p, s.now, rng);
    for (float& theta : s.before) theta = s.now.theta;
  }

  MAGLEV_HD static void step(const Params& p, State& s, const Actions& action, Rng& rng,
                             StepOut& out) {
    s.before[1] = s.before[0], s.before[0] = s.now.theta;
    Pendulum::step(p, s.now, action, rng, out);
  }

  MAGLEV_HD static void observe(const Params&, const State& s, int, const ObsOut& out) {
    auto* image = out.as<uint8_t>(0);
    pixels::clear(image);
    draw(image, 0, s.now.theta), draw(image, 1, s.before[0]), draw(image, 2, s.before[1]);
  }

  static void paint(const Params& p, const State& s, Canvas& canvas) {
    Pendulum::paint(p, s.now, canvas);
  }

 private:
  MAGLEV_HD static void draw(uint8_t* image, int channel, float theta) {
    constexpr int32_t middle = pixels::kSide / 2 * pixels::kPixel;
    // the angle grows against the clock
    pixels::draw(image, channel,
                 {.x = middle,
                  .y = middle,
                  .along = pixels::direction(-theta),
                  .length = 28 * pixels::kPixel,
                  .half = 3 * pixels::kPixel,
                  .shade = 255});
  }
};

}  // namespace maglev
