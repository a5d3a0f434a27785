// MP4 by ffmpeg, a program of its own that takes frames as they come: of what is ours, nothing
// could write the formats that players want.

#include <algorithm>
#include <cstdlib>
#include <unistd.h>

#include "base/core/error.h"
#include "base/core/file.h"
#include "base/core/other_program.h"
#include "base/picture/animation.h"

namespace maglev {
namespace {

constexpr const char* kProgram = "ffmpeg";

/// Where in PATH the program is; empty: nowhere.
std::string found_in_path(const std::string& program) {
  const char* path = std::getenv("PATH");
  std::string rest = path ? path : "";
  while (!rest.empty()) {
    const size_t end = std::min(rest.find(':'), rest.size());
    const std::string file = rest.substr(0, end) + "/" + program;
    if (::access(file.c_str(), X_OK) == 0) return file;
    rest.erase(0, end + 1);
  }
  return "";
}

class Mp4 : public Animation {
 public:
  explicit Mp4(const std::string& path) : Animation(path), program_(found_in_path(kProgram)) {
    if (program_.empty())
      throw Error("[record] " + path +
                  " needs the program ffmpeg, which is not in PATH; install it (apt-get install "
                  "ffmpeg), or record a .gif or .png");
  }
  ~Mp4() override {
    encoder_.reset();
    if (!temporary_.empty()) ::unlink(temporary_.c_str());
  }

 private:
  void encode(const Canvas& frame, const Patch&, FrameTime shown) override {
    if (!encoder_) begin(frame, shown);
    static_assert(sizeof(Rgb) == 3);
    if (!encoder_->send(frame.pixels().data(), frame.pixels().size_bytes())) fail();
  }
  void begin(const Canvas& frame, FrameTime shown) {
    temporary_ = temporary_beside(path());
    const std::string size = std::to_string(frame.width()) + "x" + std::to_string(frame.height());
    // sides are even and colours those that every player knows
    encoder_ = std::make_unique<OtherProgram>(
        program_,
        std::vector<std::string>{"-nostdin",
                                 "-loglevel",
                                 "error",
                                 "-f",
                                 "rawvideo",
                                 "-pixel_format",
                                 "rgb24",
                                 "-video_size",
                                 size,
                                 "-framerate",
                                 std::to_string(shown.a_second) + "/" + std::to_string(shown.count),
                                 "-i",
                                 "pipe:0",
                                 "-vf",
                                 "pad=ceil(iw/2)*2:ceil(ih/2)*2,format=yuv420p",
                                 "-movflags",
                                 "+faststart",
                                 "-f",
                                 "mp4",
                                 "file:" + temporary_},
        "[record] ");
  }
  void write(int, int, int) override {
    if (!encoder_->end()) fail();
    rename_path(temporary_, path());
    temporary_.clear();
  }
  [[noreturn]] void fail() {
    encoder_->end();
    throw Error("[record] ffmpeg could not write " + path() + "; it said: " + encoder_->said());
  }

  std::string program_, temporary_;
  std::unique_ptr<OtherProgram> encoder_;
};

}  // namespace

std::unique_ptr<Animation> make_mp4(const std::string& path) { return std::make_unique<Mp4>(path); }

}  // namespace maglev
