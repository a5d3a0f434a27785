#include "sinks/console/console.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <limits>
#include <unistd.h>
#include <utility>

#include "sinks/console/draw.h"

namespace maglev::sinks::console {
namespace {

constexpr double kBetweenDrawings_s = 0.1;
constexpr double kBetweenLines_s = 2;
constexpr double kLongAgo = -std::numeric_limits<double>::infinity();

std::string joined(const std::vector<Line>& lines, bool colour) {
  std::string text;
  for (const Line& line : lines) text += line.text(colour) + "\n";
  return text;
}

// a closed pipe or a full disk must not end a training run
void write_all(std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(STDOUT_FILENO, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return;
    text.remove_prefix(size_t(written));
  }
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
      printed_at_s_(kLongAgo) {
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
  if (live_) redraw(false);
  else print_plain(false);
}

void Console::tick(const Progress& progress) {
  view_.apply(progress, screen_.now_s());
  if (live_) redraw(false);
}

void Console::note(const std::string& text) {
  if (!live_) {
    screen_.write("note: " + fit(text, std::numeric_limits<int>::max(), true) + "\n");
    return;
  }
  const Terminal terminal = screen_.terminal();
  Line line;
  line.add(terminal.unicode ? " • " : " * ", Ink::yellow).add(text);
  // the note takes the place of the region, which is drawn again below it
  screen_.write(to_top(terminal) + "\x1b[J" + line.text(terminal.colour) + "\n");
  drawn_widths_.clear();
  redraw(true);
}

void Console::close(const std::string& outcome) {
  if (std::exchange(closed_, true)) return;
  if (live_) redraw(true);
  else print_plain(true);
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
    frame += line.text(terminal.colour) + "\x1b[K\n";
    drawn_widths_.push_back(line.width());
  }
  screen_.write(frame + "\x1b[J\x1b[?25h");
}

std::string Console::to_top(const Terminal& terminal) const {
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
}

SinkEntry entry() {
  return {
      .name = "console",
      .summary = "live progress on a terminal, plain lines elsewhere",
      .on_by_default = true,
      .open = [](const RunInfo& run) -> std::unique_ptr<MetricSink> {
        if (run.quiet) return std::make_unique<Silent>();
        return std::make_unique<Console>(
            run,
            Screen{.write = write_all,
                   .terminal = [] { return probe_terminal(STDOUT_FILENO); },
                   .now_s =
                       [] {
                         using namespace std::chrono;
                         return duration<double>(steady_clock::now().time_since_epoch()).count();
                       }});
      }};
}

}  // namespace maglev::sinks::console
