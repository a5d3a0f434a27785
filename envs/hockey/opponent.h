#pragma once
// The scripted player of the hockey game: gets behind the puck, runs into it, shoots soon after a
// catch, and else waits before its goal, with a racket that swings. Weak and strong differ in how
// hard they steer.

#include "envs/hockey/game.h"

namespace maglev::rink {

struct Opponent {
  float phase;  ///< of the swinging racket, rad

  MAGLEV_HD void begin(Rng& rng) { phase = rng.uniform(0.f, kPi); }

  /// obs [18] as Game::observe gives it to this player; writes moves [4].
  MAGLEV_HD void act(bool strong, const float* obs, Rng& rng, float* moves) {
    phase += rng.uniform(0.f, 0.2f);
    const float kp = strong ? 10.f : 0.5f;
    const Vec at{obs[0], obs[1]}, puck{obs[12], obs[13]}, puck_v{obs[14], obs[15]};
    Vec target{-3.5f, 0.f};
    if (puck_v.x < 0.5f) {
      // the puck comes, or leaves very slowly: run into it from behind, or get behind it first
      if (at.x < puck.x && fabsf(at.y - puck.y) < 0.5f)
        target = {puck.x + 0.2f, puck.y + puck_v.y * length(at - puck) * 0.1f};
      else target.y = puck.y;
    }
    const float error[3] = {target.x - at.x, target.y - at.y, kMaxAngle * sinf(phase) - obs[2]};
    const float gain[3] = {kp, kp / 5, kp / 2}, brake_s[3] = {0.1f, 0.1f, 1.f};
    for (int k = 0; k < 3; ++k) {
      const float rate = obs[3 + k];
      const bool brake = fabsf(error[k] / (rate + 0.01f)) < brake_s[k];
      const float a = error[k] * gain[k] - (brake ? 0.5f * rate : 0.f);
      moves[k] = a < -1.f ? -1.f : a > 1.f ? 1.f : a;
    }
    moves[3] = obs[16] > 0.f && obs[16] < 7.f ? 1.f : 0.f;
  }
};

}  // namespace maglev::rink
