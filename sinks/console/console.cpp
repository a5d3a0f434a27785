#include "sinks/console/console.h"

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <chrono>
#include <climits>
#include <csignal>
#include <fcntl.h>
#include <limits>
#include <poll.h>
#include <unistd.h>
#include <utility>

#include <sys/stat.h>

#include "base/core/error.h"
#include "base/core/file.h"
#include "sinks/console/draw.h"

namespace maglev::sinks::console {
namespace {

constexpr int kMark = 3;  // columns in front of a note
constexpr double kBetweenDrawings_s = 0.1;
constexpr double kBetweenLines_s = 2;
constexpr double kLongSilence_s = 20;
constexpr double kLongAgo = -std::numeric_limits<double>::infinity();

std::string joined(const std::vector<Line>& lines, bool colour) {
  std::string text;
  for (const Line& line : lines) text += line.text(colour) + "\n";
  return text;
}

// Output that nobody reads must neither end a run nor stop it: a full pipe or a stopped terminal is
// waited for a moment, and then what does not fit is left out until somebody reads again.
class Output {
 public:
  // a description of its own, so that others who share the pipe are not made to see it not block;
  // kept until the process ends
  Output() {
    struct stat info;
    if (::fstat(STDOUT_FILENO, &info) != 0 || !(S_ISFIFO(info.st_mode) || S_ISCHR(info.st_mode)))
      return;
    const int own = ::open("/proc/self/fd/1", O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (own >= 0) fd_ = own;
  }

  void write(std::string_view text) {
    if (stalled_ && !ready(0)) return;
    if (std::exchange(stalled_, false)) text_ = "\n(lines before this were not read in time)\n";
    text_ += text;
    for (std::string_view left = text_; !left.empty();) {
      if (!ready(kPatience_ms)) {
        stalled_ = true;
        break;
      }
      // no more than what a pipe that is ready takes at once, should the descriptor block
      const ssize_t written = ::write(fd_, left.data(), std::min<size_t>(left.size(), PIPE_BUF));
      if (written < 0 && errno == EINTR) continue;
      stalled_ = written < 0 && errno == EAGAIN;
      // closed, or a full disk: training goes on without it
      if (written <= 0) break;
      left.remove_prefix(size_t(written));
    }
    text_.clear();
  }

 private:
  static constexpr int kPatience_ms = 500;

  bool ready(int wait_ms) const {
    pollfd out{.fd = fd_, .events = POLLOUT, .revents = 0};
    return ::poll(&out, 1, wait_ms) > 0;
  }

  int fd_ = STDOUT_FILENO;
  std::string text_;
  bool stalled_ = false;
};

// whether somebody could go on from what was saved
bool has_checkpoint(const std::string& dir) {
  try {
    for (const auto& name : list_dir(dir + "/checkpoints"))
      if (name.starts_with("step_")) return true;
  } catch (const Error&) {
    // then nobody could read one either
  }
  return false;
}

volatile std::sig_atomic_t continued = 0;

// hears of the process being continued after Ctrl-Z
void watch_continuations() {
  struct sigaction action {};
  action.sa_handler = [](int) { continued = 1; };
  action.sa_flags = SA_RESTART;
  sigaction(SIGCONT, &action, nullptr);
}

class Silent : public MetricSink {
 public:
  void write(const MetricRow&) override {}
};

}  // namespace

Console::Console(const RunInfo& run, Screen screen)
    : screen_(std::move(screen)),
      view_(run, screen_.now_s()),
      live_(screen_.terminal().live),
      drawn_at_s_(kLongAgo),
      printed_at_s_(kLongAgo),
      noted_at_s_(kLongAgo) {
  const Terminal terminal = screen_.terminal();
  if (live_) {
    screen_.write("\n" + joined(header_lines(view_, terminal), terminal.colour));
    redraw(true);
    return;
  }
  std::string text = "maglev: " + run.algo + " on " + run.env + ", " +
                     std::to_string(run.total_steps) + " steps, device " + run.device + ", run " +
                     run.dir;
  if (run.resumed_at >= 0) text += ", resumed at step " + std::to_string(run.resumed_at);
  screen_.write(text + "\n");
}

void Console::write(const MetricRow& row) {
  view_.apply(row, screen_.now_s());
  if (row.event && !live_) return;
  if (live_) redraw(false);
  else print_plain(false);
}

void Console::tick(const Progress& progress) {
  view_.apply(progress, screen_.now_s());
  if (live_) return redraw(false);
  // many updates may follow a run's first steps
  if (view_.updates_left > 1 && view_.since_row_s() >= kLongSilence_s &&
      screen_.now_s() - noted_at_s_ >= kLongSilence_s)
    print_note("learning, " + std::to_string(view_.updates_left) +
               " updates are left before the next steps");
}

void Console::note(const std::string& text) {
  if (!live_) return print_note(text);
  const Terminal terminal = screen_.terminal();
  // whole words, below each other behind the mark; the last column stays free
  std::vector<Line> lines;
  for (const std::string& part : wrapped(text, std::max(1, terminal.columns - kMark - 1))) {
    Line line;
    if (lines.empty()) line.add(terminal.unicode ? " • " : " * ", Ink::yellow);
    lines.push_back(line.pad_to(kMark).add(part));
  }
  // the note takes the place of the region, which is drawn again below it
  screen_.write(to_top(terminal) + "\x1b[J" + joined(lines, terminal.colour));
  drawn_widths_.clear();
  redraw(true);
}

void Console::warn(const std::string& text) {
  view_.warnings.push_back(text);
  note(text);
}

void Console::ends_early(const std::string& why) {
  view_.ended_by = why;
  note(why);
}

void Console::close(const std::string& outcome) {
  if (std::exchange(closed_, true)) return;
  if (live_) redraw(true);
  else print_plain(true);
  if (!held_note_.empty()) screen_.write(std::exchange(held_note_, ""));
  view_.saved = screen_.saved();
  const Terminal terminal = screen_.terminal();
  screen_.write(joined(summary_lines(view_, terminal, outcome), terminal.colour));
}

void Console::redraw(bool must) {
  const double now_s = screen_.now_s();
  if (!must && now_s - drawn_at_s_ < kBetweenDrawings_s) return;
  drawn_at_s_ = now_s;
  const Terminal terminal = screen_.terminal();
  // one write, cursor hidden within it: no flicker, and no state of the terminal that outlives it
  std::string frame = "\x1b[?25l" + to_top(terminal);
  drawn_widths_.clear();
  for (const Line& line : live_lines(view_, terminal)) {
    // behind a full line the cursor stands on its last character, which would be erased
    frame += line.text(terminal.colour) + (line.width() < terminal.columns ? "\x1b[K\n" : "\n");
    drawn_widths_.push_back(line.width());
  }
  screen_.write(frame + "\x1b[J\x1b[?25h");
}

std::string Console::to_top(const Terminal& terminal) {
  // what a shell wrote meanwhile stands below the region: it is begun anew there
  if (screen_.continued()) drawn_widths_.clear();
  // a terminal made narrower has wrapped what was drawn
  int lines = 0;
  for (int width : drawn_widths_)
    lines += std::max(1, (width + terminal.columns - 1) / terminal.columns);
  lines = std::min(lines, terminal.rows - 1);
  return lines > 0 ? "\r\x1b[" + std::to_string(lines) + "A" : "\r";
}

void Console::print_plain(bool must) {
  const double now_s = screen_.now_s();
  if (view_.rows == printed_rows_ || (!must && now_s - printed_at_s_ < kBetweenLines_s)) return;
  printed_at_s_ = now_s;
  printed_rows_ = view_.rows;
  screen_.write(plain_line(view_) + "\n");
  view_.line_told();
}

void Console::print_note(const std::string& text) {
  const double now_s = screen_.now_s();
  std::string kind = text;
  std::erase_if(kind, [](unsigned char c) { return std::isdigit(c) || c == ',' || c == '.'; });
  const std::string line = "note: " + fit(text, std::numeric_limits<int>::max(), true) + "\n";
  if (kind == noted_kind_ && now_s - noted_at_s_ < kBetweenLines_s) {
    held_note_ = line;
    return;
  }
  // one that waited is out of date, unless it was of another kind
  if (kind != noted_kind_ && !held_note_.empty()) screen_.write(held_note_);
  held_note_.clear();
  noted_kind_ = kind, noted_at_s_ = now_s;
  screen_.write(line);
}

SinkEntry entry() {
  return {
      .name = "console",
      .summary = "live progress on a terminal, plain lines elsewhere",
      .on_by_default = true,
      .open = [](const RunInfo& run) -> std::unique_ptr<MetricSink> {
        if (run.quiet) return std::make_unique<Silent>();
        watch_continuations();
        return std::make_unique<Console>(
            run,
            Screen{
                .write = [output = Output()](std::string_view text) mutable { output.write(text); },
                .terminal = [] { return probe_terminal(STDOUT_FILENO); },
                .now_s =
                    [] {
                      using namespace std::chrono;
                      return duration<double>(steady_clock::now().time_since_epoch()).count();
                    },
                .continued = [] { return std::exchange(continued, 0) != 0; },
                .saved = [dir = run.dir] { return has_checkpoint(dir); }});
      },
      .reopens = false};
}

}  // namespace maglev::sinks::console
