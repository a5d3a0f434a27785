#pragma once
// The two links from the front, and the height the tip must reach: what people watch. Host only.

#include <cmath>

#include "base/picture/canvas.h"

namespace maglev::acrobot {

/// `theta1` from hanging down, `theta2` relative to the first link, both links of length 1.
inline void paint(float theta1, float theta2, Canvas& canvas) {
  constexpr Rgb back{247, 249, 251}, goal{120, 178, 120}, reached{56, 142, 60};
  constexpr Rgb upper{70, 130, 190}, lower{235, 152, 78}, joint{52, 58, 66};
  const View view(canvas.width(), canvas.height(), 0.f, 0.f, 4.6f, 4.6f);
  const float elbow_x = std::sin(theta1), elbow_y = -std::cos(theta1);
  const float tip_x = elbow_x + std::sin(theta1 + theta2);
  const float tip_y = elbow_y - std::cos(theta1 + theta2);

  canvas.fill(back);
  canvas.line(view(-2.2f, 1.f), view(2.2f, 1.f), 0.03f * view.scale, tip_y > 1.f ? reached : goal);
  canvas.line(view(0.f, 0.f), view(elbow_x, elbow_y), 0.2f * view.scale, upper);
  canvas.line(view(elbow_x, elbow_y), view(tip_x, tip_y), 0.2f * view.scale, lower);
  for (const PixelPoint& at : {view(0.f, 0.f), view(elbow_x, elbow_y)})
    canvas.disc(at, 0.06f * view.scale, joint);
}

}  // namespace maglev::acrobot
