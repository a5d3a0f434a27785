#pragma once
// CartPole seen instead of told: its dynamics, reward and actions, observed as pictures of cart and
// pole at the last three steps. The pole is drawn more than three times as long as it is, so that
// its lean shows: a degree moves its tip by two thirds of a pixel. An episode's first picture shows
// no speed, for there was no step before.

#include "envs/cartpole/cartpole.h"
#include "envs/pixels.h"

namespace maglev {

struct CartpolePixels {
  static constexpr const char* kSummary =
      "cartpole from pictures: its last three steps as the channels of 64 x 64";

  static constexpr bool kShowsImages = true;

  using Params = Cartpole::Params;

  struct Pose {
    float x, theta;
  };
  struct State {
    Cartpole::State now;
    Pose before[pixels::kMoments - 1];  ///< of the steps before, the newest first
  };

  static std::string idle(const Params&, std::string_view name) {
    return name == "velocities" ? "pictures show none" : "";
  }

  static EnvSpec spec(const Params& p) {
    EnvSpec spec = Cartpole::spec(p);
    spec.observations = {pixels::column()};
    return spec;
  }

  MAGLEV_HD static void reset(const Params& p, State& s, Rng& rng) {
    Cartpole::reset(p, s.now, rng);
    for (Pose& pose : s.before) pose = {s.now.x, s.now.theta};
  }

  MAGLEV_HD static void step(const Params& p, State& s, const Actions& action, Rng& rng,
                             StepOut& out) {
    s.before[1] = s.before[0], s.before[0] = {s.now.x, s.now.theta};
    Cartpole::step(p, s.now, action, rng, out);
  }

  MAGLEV_HD static void observe(const Params&, const State& s, int, const ObsOut& out) {
    auto* image = out.as<uint8_t>(0);
    pixels::clear(image);
    draw(image, 0, {s.now.x, s.now.theta}), draw(image, 1, s.before[0]);
    draw(image, 2, s.before[1]);
  }

  static void paint(const Params& p, const State& s, Canvas& canvas) {
    Cartpole::paint(p, s.now, canvas);
  }

 private:
  MAGLEV_HD static void draw(uint8_t* image, int channel, Pose pose) {
    using pixels::kPixel;
    constexpr float pixels_per_metre = 12.f;
    constexpr int32_t floor = 54 * kPixel, cart_width = 10 * kPixel;
    const int32_t x = pixels::fixed_place(pixels::kSide / 2 + pixels_per_metre * pose.x);
    pixels::draw(image, channel,
                 {.x = x - cart_width / 2,
                  .y = floor,
                  .along = {pixels::kUnit, 0},
                  .length = cart_width,
                  .half = 3 * kPixel,
                  .shade = 128});
    pixels::draw(image, channel,
                 {.x = x,
                  .y = floor,
                  .along = pixels::direction(pose.theta),
                  .length = 40 * kPixel,
                  .half = 3 * kPixel / 2,
                  .shade = 255});
  }
};

}  // namespace maglev
