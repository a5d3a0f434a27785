// MP4 by ffmpeg, a program of its own that takes frames as they come: of what is ours, nothing
// could write the formats that players want.

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <spawn.h>
#include <unistd.h>

#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "base/core/error.h"
#include "base/core/file.h"
#include "base/picture/animation.h"

extern char** environ;

namespace maglev {
namespace {

constexpr const char* kProgram = "ffmpeg";
constexpr size_t kMostSaid = 300;

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

/// A descriptor that is closed, whatever throws.
class OpenFile {
 public:
  OpenFile() = default;
  ~OpenFile() { close(); }
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;

  int get() const { return number_; }
  void take(int number) { close(), number_ = number; }
  void close() {
    if (number_ >= 0) ::close(number_);
    number_ = -1;
  }

 private:
  int number_ = -1;
};

/// ffmpeg with its standard input in our hands. What it says is kept in memory, so that it never
/// waits for a reader.
class Encoder {
 public:
  Encoder(const std::string& program, const std::vector<std::string>& words) {
    int ends[2];
    said_.take(::memfd_create("ffmpeg", MFD_CLOEXEC));
    // a socket, for an encoder that died is then an error and no signal
    if (said_.get() < 0 || ::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
      throw Error("[record] ffmpeg cannot be started: " + std::string(std::strerror(errno)));
    OpenFile its_end;
    to_.take(ends[0]), its_end.take(ends[1]);
    posix_spawn_file_actions_t files;
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_adddup2(&files, its_end.get(), STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&files, said_.get(), STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&files, said_.get(), STDERR_FILENO);
    // Ctrl-C in a terminal ends the game, and the recording is finished
    posix_spawnattr_t attributes;
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
    std::vector<char*> given{const_cast<char*>(kProgram)};
    for (const std::string& word : words) given.push_back(const_cast<char*>(word.c_str()));
    given.push_back(nullptr);
    const int error =
        ::posix_spawn(&pid_, program.c_str(), &files, &attributes, given.data(), environ);
    posix_spawn_file_actions_destroy(&files);
    posix_spawnattr_destroy(&attributes);
    if (error != 0) {
      pid_ = -1;
      throw Error("[record] " + program + " cannot be started: " + std::strerror(error));
    }
  }
  ~Encoder() {
    if (pid_ > 0) ::kill(pid_, SIGKILL);
    end();
  }
  Encoder(const Encoder&) = delete;
  Encoder& operator=(const Encoder&) = delete;

  /// False: it takes no more.
  bool take(const void* bytes, size_t count) const {
    const char* next = static_cast<const char*>(bytes);
    while (count > 0) {
      const ssize_t sent = ::send(to_.get(), next, count, MSG_NOSIGNAL);
      if (sent < 0 && errno == EINTR) continue;
      if (sent <= 0) return false;
      next += sent, count -= size_t(sent);
    }
    return true;
  }
  /// Tells it that there is no more, and waits. Whether it was content.
  bool end() {
    to_.close();
    if (pid_ <= 0) return false;
    int status = 1;
    pid_t ended = 0;
    while ((ended = ::waitpid(pid_, &status, 0)) < 0 && errno == EINTR) continue;
    const bool taken = ended < 0 && errno == ECHILD;
    pid_ = -1;
    // where this process ignores SIGCHLD, the system waits in its place and tells nobody
    if (taken) note_ = "how it ended was not told; do not ignore SIGCHLD in this program";
    return ended > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0;
  }
  /// The end of what it said, in one line.
  std::string said() const {
    if (!note_.empty()) return note_;
    const off_t bytes = ::lseek(said_.get(), 0, SEEK_END),
                begin = std::max<off_t>(0, bytes - kMostSaid);
    std::string text(size_t(bytes - begin), '\0');
    text.resize(
        size_t(std::max<ssize_t>(0, ::pread(said_.get(), text.data(), text.size(), begin))));
    while (!text.empty() && text.back() == '\n') text.pop_back();
    for (char& c : text)
      if (c == '\n') c = ' ';
    return text.empty() ? "nothing" : text;
  }

 private:
  OpenFile to_, said_;
  pid_t pid_ = -1;
  std::string note_;
};

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
    if (!encoder_->take(frame.pixels().data(), frame.pixels().size_bytes())) fail();
  }
  void begin(const Canvas& frame, FrameTime shown) {
    temporary_ = temporary_beside(path());
    const std::string size = std::to_string(frame.width()) + "x" + std::to_string(frame.height());
    // sides are even and colours those that every player knows
    encoder_ = std::make_unique<Encoder>(
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
                                 "file:" + temporary_});
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
  std::unique_ptr<Encoder> encoder_;
};

}  // namespace

std::unique_ptr<Animation> make_mp4(const std::string& path) { return std::make_unique<Mp4>(path); }

}  // namespace maglev
