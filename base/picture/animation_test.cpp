// What files hold is checked by another decoder: tests/python/test_play.py.

#include "base/picture/animation.h"

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <unistd.h>

#include <gtest/gtest.h>

#include "base/core/file.h"
#include "tests/errors.h"
#include "tests/folder.h"

namespace maglev {
namespace {

TEST(Animation, refuses_other_endings_no_frames_and_other_sizes) {
  EXPECT_NE(error_of([] { make_animation("game.avi"); }).find(".png, .gif or .mp4"),
            std::string::npos);
  for (const char* name : {"a.png", "a.gif"}) {
    auto animation = make_animation(name);
    EXPECT_NE(error_of([&] { animation->finish(); }).find("no frame"), std::string::npos);
    animation->add(Canvas(4, 3), {1, 50});
    EXPECT_NE(error_of([&] { animation->add(Canvas(3, 4), {1, 50}); }).find("4x3, got 3x4"),
              std::string::npos);
  }
}

TEST(Animation, stores_only_what_changes) {
  const auto folder = std::filesystem::temp_directory_path();
  for (const char* ending : {".png", ".gif"}) {
    size_t bytes[2];
    for (int frames : {1, 50}) {
      const std::string path =
          (folder / ("maglev_animation_" + std::to_string(getpid()) + ending)).string();
      auto animation = make_animation(path);
      for (int k = 0; k < frames; ++k) {
        Canvas canvas(200, 100);
        for (int x = 0; x < 200; ++x)  // something that does not pack to nothing
          canvas.rectangle({float(x), float(x * x % 97)}, {float(x + 1), 100.f},
                           {uint8_t(x), uint8_t(x * x), 7});
        canvas.disc({float(20 + k), 50}, 3, {255, 0, 0});
        animation->add(canvas, {1, 50});
      }
      animation->finish();
      bytes[frames > 1] = std::filesystem::file_size(path);
      std::filesystem::remove(path);
    }
    EXPECT_LT(bytes[1], 20 * bytes[0]) << ending;
  }
}

/// Descriptors this process has open.
int64_t open_files() {
  int64_t count = 0;
  for ([[maybe_unused]] const auto& one : std::filesystem::directory_iterator("/proc/self/fd"))
    ++count;
  return count;
}

/// A folder with a program named ffmpeg that is nothing but `text`, and nothing else in PATH.
class InPlaceOfFfmpeg {
 public:
  InPlaceOfFfmpeg(const std::string& name, const std::string& text)
      : folder_(test_folder() + "/" + name), path_(std::getenv("PATH")) {
    std::filesystem::create_directories(folder_);
    std::ofstream(path("ffmpeg")) << text;
    std::filesystem::permissions(path("ffmpeg"), std::filesystem::perms::owner_all);
    ::setenv("PATH", (folder_ + ":" + path_).c_str(), 1);
  }
  ~InPlaceOfFfmpeg() { ::setenv("PATH", path_.c_str(), 1); }
  std::string path(const std::string& name) const { return folder_ + "/" + name; }

 private:
  std::string folder_, path_;
};

TEST(Animation, an_encoder_that_cannot_be_started_leaves_nothing_open) {
  // no format that a system could run
  const InPlaceOfFfmpeg broken("broken", "no program");
  const int64_t before = open_files();
  for (int i = 0; i < 3; ++i) {
    auto animation = make_mp4(broken.path("game.mp4"));
    const auto said = error_of([&] { animation->add(Canvas(4, 4), {1, 30}); });
    EXPECT_NE(said.find("cannot be started"), std::string::npos) << said;
  }
  EXPECT_EQ(open_files(), before);
}

TEST(Animation, frames_of_an_mp4_last_what_they_should_to_the_thirtieth_of_a_second) {
  const InPlaceOfFfmpeg told(
      "told",
      "#!/bin/sh\necho \"$@\" > \"${0%/*}/words\"\nfor last; do :; done\ncat > "
      "\"${last#file:}\"\n");
  auto animation = make_mp4(told.path("game.mp4"));
  animation->add(Canvas(4, 4), {1, 30});
  animation->finish();
  EXPECT_NE(read_file(told.path("words"), 1 << 16).find("-framerate 30/1 "), std::string::npos);
}

TEST(Animation, of_a_program_that_ignores_its_children_says_so) {
  const InPlaceOfFfmpeg fine("fine", "#!/bin/sh\ncat > /dev/null\n");
  const auto before = std::signal(SIGCHLD, SIG_IGN);
  auto animation = make_mp4(fine.path("game.mp4"));
  animation->add(Canvas(4, 4), {1, 30});
  const auto said = error_of([&] { animation->finish(); });
  std::signal(SIGCHLD, before);
  EXPECT_NE(said.find("do not ignore SIGCHLD"), std::string::npos) << said;
}

}  // namespace
}  // namespace maglev
