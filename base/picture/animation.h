#pragma once
// Moving pictures as files: animated PNG (lossless) and GIF (256 colours a frame). Only what
// changes from frame to frame is stored.

#include <memory>
#include <string>

#include "base/picture/canvas.h"

namespace maglev {

/// The part of a frame that differs from the one before; at least one pixel.
struct Patch {
  int x = 0, y = 0, width = 0, height = 0;
};

/// Frames in memory until finish(). All frames have the first one's size.
class Animation {
 public:
  virtual ~Animation() = default;

  /// Shown for `milliseconds`, 1 to 60,000. Throws Error when the size differs.
  void add(const Canvas& frame, int milliseconds);
  /// Writes the file, whole or not at all; it repeats without end. Throws Error when there is no
  /// frame or the file cannot be written.
  void finish();

 protected:
  explicit Animation(std::string path) : path_(std::move(path)) {}
  virtual void encode(const Canvas& frame, const Patch& patch, int milliseconds) = 0;
  /// The file's bytes.
  virtual std::string file(int width, int height, int frames) const = 0;

 private:
  std::string path_;
  std::unique_ptr<Canvas> last_;
  int frames_ = 0;
};

/// By the path's ending, .png or .gif. Throws Error for any other.
std::unique_ptr<Animation> make_animation(const std::string& path);

std::unique_ptr<Animation> make_png(const std::string& path);
std::unique_ptr<Animation> make_gif(const std::string& path);

}  // namespace maglev
