#pragma once
// The pendulum from the front: what people watch. Host only.

#include <cmath>

#include "base/picture/canvas.h"

namespace maglev::pendulum {

/// `theta` is 0 upright. How fast it turns, against `most_speed`, is drawn as an arc ahead of it.
inline void paint(float theta, float speed, float most_speed, Canvas& canvas) {
  constexpr Rgb back{247, 249, 251}, circle{226, 232, 238}, goal{120, 178, 120};
  constexpr Rgb rod{192, 72, 64}, hub{52, 58, 66}, motion{240, 178, 92};
  const View view(canvas.width(), canvas.height(), 0.f, 0.f, 2.8f, 2.8f);
  const auto place = [&](float angle, float radius) {
    return view(-radius * std::sin(angle), radius * std::cos(angle));
  };

  canvas.fill(back);
  canvas.ring(view(0.f, 0.f), view.scale, 0.02f * view.scale, circle);
  canvas.line(place(0.f, 1.08f), place(0.f, 1.2f), 0.05f * view.scale, goal);

  // an eighth of a turn at full speed
  constexpr int kPieces = 24;
  const float sweep = speed / most_speed * 0.785f;
  for (int i = 0; i < kPieces; ++i)
    canvas.line(place(theta + sweep * float(i) / kPieces, 1.f),
                place(theta + sweep * float(i + 1) / kPieces, 1.f), 0.07f * view.scale, motion);

  canvas.line(view(0.f, 0.f), place(theta, 1.f), 0.2f * view.scale, rod);
  canvas.disc(view(0.f, 0.f), 0.05f * view.scale, hub);
}

}  // namespace maglev::pendulum
