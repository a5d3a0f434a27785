#pragma once
// The cart on its track and the pole on the cart, from the side: what people watch. Host only.

#include <cmath>

#include "base/picture/canvas.h"

namespace maglev::cartpole {

/// `limit_x` and `limit_angle` are where an episode fails, drawn as ends of the track and as a fan
/// behind the pole.
inline void paint(float x, float theta, float limit_x, float limit_angle, Canvas& canvas) {
  constexpr Rgb sky{247, 249, 251}, ground{224, 229, 234}, track{120, 130, 140};
  constexpr Rgb fan{228, 238, 246}, cart{52, 73, 94}, pole{214, 137, 62}, hub{110, 66, 24};
  constexpr float kPole = 1.f, kCart[2] = {0.5f, 0.3f}, kWheel = 0.08f;  // metres
  const View view(canvas.width(), canvas.height(), 0.f, 0.55f, 5.2f, 2.4f);

  canvas.fill(sky);
  const float floor = -kCart[1] / 2 - 2 * kWheel;
  canvas.rectangle({0.f, view(0.f, floor).y}, {float(canvas.width()), float(canvas.height())},
                   ground);
  canvas.line(view(-limit_x, floor), view(limit_x, floor), 0.03f * view.scale, track);
  for (float end : {-limit_x, limit_x})
    canvas.line(view(end, floor), view(end, floor + 0.15f), 0.04f * view.scale, track);

  // where the pole may lean
  const PixelPoint joint = view(x, kCart[1] / 2);
  const auto top = [&](float angle, float length) {
    return view(x + length * std::sin(angle), kCart[1] / 2 + length * std::cos(angle));
  };
  const PixelPoint leaning[] = {joint, top(-limit_angle, 1.15f * kPole), top(0.f, 1.15f * kPole),
                                top(limit_angle, 1.15f * kPole)};
  canvas.polygon(leaning, fan);

  for (float wheel : {-0.3f, 0.3f})
    canvas.disc(view(x + wheel * kCart[0], floor + kWheel), kWheel * view.scale, hub);
  canvas.rectangle(view(x - kCart[0] / 2, kCart[1] / 2), view(x + kCart[0] / 2, -kCart[1] / 2),
                   cart);
  canvas.line(joint, top(theta, kPole), 0.1f * view.scale, pole);
  canvas.disc(joint, 0.06f * view.scale, hub);
}

}  // namespace maglev::cartpole
