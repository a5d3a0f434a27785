#pragma once
// Moving pictures as files: animated PNG (lossless) and GIF (256 colours a frame), of which only
// what changes from frame to frame is stored, and MP4 by the program ffmpeg, where that is there.

#include <memory>
#include <string>

#include "base/picture/canvas.h"

namespace maglev {

/// The part of a frame that differs from the one before; at least one pixel.
struct Patch {
  int x = 0, y = 0, width = 0, height = 0;
};

/// How long a frame is shown: count / a_second of a second, both 1 to 60,000. 30 frames a second
/// are no whole number of milliseconds each.
struct FrameTime {
  int count = 1, a_second = 1;
};

/// Frames that become a file in finish(), and until then lie in memory, or with ffmpeg. All have
/// the first one's size.
class Animation {
 public:
  virtual ~Animation() = default;

  /// Throws Error when the size differs.
  void add(const Canvas& frame, FrameTime shown);
  /// Writes the file, whole or not at all; it repeats without end. Throws Error when there is no
  /// frame or the file cannot be written.
  void finish();

 protected:
  explicit Animation(std::string path) : path_(std::move(path)) {}
  virtual void encode(const Canvas& frame, const Patch& patch, FrameTime shown) = 0;
  /// Writes what was encoded to path().
  virtual void write(int width, int height, int frames) = 0;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
  std::unique_ptr<Canvas> last_;
  int frames_ = 0;
};

/// By the path's ending, .png, .gif or .mp4. Throws Error for any other.
std::unique_ptr<Animation> make_animation(const std::string& path);

std::unique_ptr<Animation> make_png(const std::string& path);
std::unique_ptr<Animation> make_gif(const std::string& path);
/// All frames are shown as long as the first one. Throws Error where there is no ffmpeg.
std::unique_ptr<Animation> make_mp4(const std::string& path);

/// A picture that does not move, as the bytes of a PNG file.
std::string still_png(const Canvas& picture);

}  // namespace maglev
