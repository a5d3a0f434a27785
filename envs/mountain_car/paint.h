#pragma once
// The car in its valley and the flag on the hill: what people watch. Host only.

#include <cmath>

#include "base/picture/canvas.h"

namespace maglev::mountain_car {

/// The valley lies between `left` and `right`; the flag is at `goal`.
inline void paint(float position, float left, float right, float goal, Canvas& canvas) {
  constexpr Rgb sky{229, 239, 247}, hill{126, 158, 112}, crest{88, 122, 78};
  constexpr Rgb body{192, 72, 64}, wheel{40, 44, 50}, pole{80, 84, 90}, flag{240, 188, 62};
  const View view(canvas.width(), canvas.height(), 0.5f * (left + right), 0.62f, right - left,
                  1.5f);
  // Gymnasium's valley: what gravity pulls along, -cos(3 x), is its slope
  const auto height = [](float x) { return 0.45f * std::sin(3.f * x) + 0.55f; };

  canvas.fill(sky);
  constexpr int kPieces = 120;
  const float bottom = float(canvas.height());
  for (int i = 0; i < kPieces; ++i) {
    const float from = left + (right - left) * float(i) / kPieces;
    const float to = left + (right - left) * float(i + 1) / kPieces;
    const PixelPoint a = view(from, height(from)), b = view(to, height(to));
    const PixelPoint slope[] = {a, b, {b.x, bottom}, {a.x, bottom}};
    canvas.polygon(slope, hill);
    canvas.line(a, b, 0.015f * view.scale, crest);
  }

  const float foot = height(goal);
  canvas.line(view(goal, foot), view(goal, foot + 0.22f), 0.012f * view.scale, pole);
  const PixelPoint cloth[] = {view(goal, foot + 0.22f), view(goal + 0.1f, foot + 0.185f),
                              view(goal, foot + 0.15f)};
  canvas.polygon(cloth, flag);

  // the car stands on the slope: along and up are its own directions
  const float slope = 1.35f * std::cos(3.f * position), length = std::hypot(1.f, slope);
  const float base = height(position);
  const auto on_car = [&](float along, float up) {
    return view(position + (along - up * slope) / length, base + (along * slope + up) / length);
  };
  const PixelPoint hull[] = {on_car(-0.09f, 0.03f), on_car(0.09f, 0.03f), on_car(0.09f, 0.07f),
                             on_car(-0.09f, 0.07f)};
  const PixelPoint roof[] = {on_car(-0.06f, 0.07f), on_car(0.05f, 0.07f), on_car(0.03f, 0.11f),
                             on_car(-0.045f, 0.11f)};
  canvas.polygon(hull, body);
  canvas.polygon(roof, body);
  for (float at : {-0.055f, 0.055f}) canvas.disc(on_car(at, 0.025f), 0.025f * view.scale, wheel);
}

}  // namespace maglev::mountain_car
