#include "base/picture/animation.h"

#include <algorithm>

#include "base/core/error.h"

namespace maglev {
namespace {

Patch difference(const Canvas& before, const Canvas& now) {
  int left = now.width(), top = now.height(), right = -1, bottom = -1;
  for (int y = 0; y < now.height(); ++y)
    for (int x = 0; x < now.width(); ++x)
      if (before.at(x, y) != now.at(x, y)) {
        left = std::min(left, x), right = std::max(right, x);
        top = std::min(top, y), bottom = std::max(bottom, y);
      }
  if (right < 0) return {0, 0, 1, 1};
  return {left, top, right - left + 1, bottom - top + 1};
}

}  // namespace

void Animation::add(const Canvas& frame, FrameTime shown) {
  const auto possible = [](int x) { return x >= 1 && x <= 60'000; };
  MAGLEV_ASSERT(possible(shown.count) && possible(shown.a_second), "as files can say it");
  if (last_ && (last_->width() != frame.width() || last_->height() != frame.height()))
    throw Error("[" + path_ + "] every frame must be " + std::to_string(last_->width()) + "x" +
                std::to_string(last_->height()) + ", got " + std::to_string(frame.width()) + "x" +
                std::to_string(frame.height()));
  const Patch whole{0, 0, frame.width(), frame.height()};
  encode(frame, last_ ? difference(*last_, frame) : whole, shown);
  last_ = std::make_unique<Canvas>(frame);
  ++frames_;
}

void Animation::finish() {
  if (!last_) throw Error("[" + path_ + "] has no frame to write; play at least one step");
  write(last_->width(), last_->height(), frames_);
}

std::unique_ptr<Animation> make_animation(const std::string& path) {
  if (path.ends_with(".png") || path.ends_with(".apng")) return make_png(path);
  if (path.ends_with(".gif")) return make_gif(path);
  if (path.ends_with(".mp4")) return make_mp4(path);
  throw Error("[record] the file must end in .png, .gif or .mp4, got '" + path + "'");
}

}  // namespace maglev
