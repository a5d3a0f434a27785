#include "sinks/console/console.h"

#include <cstdlib>
#include <memory>
#include <utility>

#include <gtest/gtest.h>

namespace maglev::sinks::console {
namespace {

// as much of a terminal as the console uses: lines that scroll, cursor up, erase, hide and show
class Emulator {
 public:
  explicit Emulator(int rows) : rows_(size_t(rows)) { lines_.assign(1, ""); }

  void write(std::string_view text) {
    for (size_t i = 0; i < text.size(); ++i) {
      if (text[i] == '\n') {
        if (++line_ == lines_.size()) lines_.emplace_back();
        column_ = 0;
      } else if (text[i] == '\r') {
        column_ = 0;
      } else if (text[i] == '\x1b') {
        size_t end = i + 2;
        while (!std::isalpha(static_cast<unsigned char>(text[end]))) ++end;
        escape(std::string(text.substr(i + 2, end - i - 2)), text[end]);
        i = end;
      } else {
        std::string& line = lines_[line_];
        if (line.size() <= column_) line.resize(column_ + 1, ' ');
        line[column_++] = text[i];
      }
    }
  }
  const std::vector<std::string>& lines() const { return lines_; }
  bool cursor_shown() const { return shown_; }
  size_t column() const { return column_; }
  size_t count(const std::string& part) const {
    size_t found = 0;
    for (const auto& line : lines_) found += line.find(part) != std::string::npos;
    return found;
  }
  bool left_the_screen() const { return left_; }

 private:
  void escape(const std::string& value, char kind) {
    if (kind == 'A') {
      const size_t up = size_t(std::atoi(value.c_str()));
      const size_t top = lines_.size() > rows_ ? lines_.size() - rows_ : 0;
      left_ = left_ || line_ < top + up;
      line_ -= std::min(up, line_);
    } else if (kind == 'K') {
      lines_[line_].resize(std::min(lines_[line_].size(), column_));
    } else if (kind == 'J') {
      lines_[line_].resize(std::min(lines_[line_].size(), column_));
      lines_.resize(line_ + 1);
    } else if (value == "?25" && kind == 'l') {
      shown_ = false;
    } else if (value == "?25" && kind == 'h') {
      shown_ = true;
    }
  }

  size_t rows_;
  std::vector<std::string> lines_;
  size_t line_ = 0, column_ = 0;
  bool shown_ = true, left_ = false;
};

struct Stage {
  Terminal terminal{.live = true, .colour = false, .unicode = false, .columns = 80, .rows = 24};
  Emulator emulator{24};
  double now_s = 0;
  int writes = 0;
  std::string all;

  Screen screen() {
    return {.write = [this](std::string_view text) { emulator.write(text), all += text, ++writes; },
            .terminal = [this] { return terminal; },
            .now_s = [this] { return now_s; }};
  }
};

RunInfo run_info() {
  RunInfo run;
  run.dir = "runs/one";
  run.algo = "ppo";
  run.env = "cartpole";
  run.device = "cpu";
  run.total_steps = 100;
  return run;
}

MetricRow row_at(int64_t step) {
  MetricRow row;
  row.step = step;
  row.seconds = double(step);
  row.steps_per_second = 1;
  row.return_mean = double(step);
  row.values = {{"loss/policy", 0.5}, {"time/learn", 0.5}};
  return row;
}

size_t occurrences(const std::string& text, const std::string& part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

TEST(ConsoleSink, redraws_in_place_and_notes_scroll_above) {
  Stage stage;
  Console console(run_info(), stage.screen());
  for (int i = 1; i <= 50; ++i) {
    stage.now_s = i;
    console.write(row_at(i));
    if (i % 10 == 0) console.note("checkpoint saved at step " + std::to_string(i));
  }
  const auto& lines = stage.emulator.lines();
  EXPECT_EQ(stage.emulator.count("checkpoint saved"), 5u);
  EXPECT_EQ(stage.emulator.count("of 100 steps"), 1u);
  EXPECT_EQ(stage.emulator.count("return"), 1u);
  // the last note stands right above the region
  size_t note = 0, region = 0;
  for (size_t i = 0; i < lines.size(); ++i) {
    if (lines[i].find("at step 50") != std::string::npos) note = i;
    if (lines[i].find("50.0%") != std::string::npos) region = i;
  }
  EXPECT_EQ(region, note + 1);
}

TEST(ConsoleSink, the_cursor_is_shown_below_the_region_between_calls) {
  Stage stage;
  Console console(run_info(), stage.screen());
  console.write(row_at(10));
  EXPECT_NE(stage.all.find("\x1b[?25l"), std::string::npos);
  EXPECT_TRUE(stage.emulator.cursor_shown());
  EXPECT_EQ(stage.emulator.column(), 0u);
  console.close("finished");
  EXPECT_TRUE(stage.emulator.cursor_shown());
}

TEST(ConsoleSink, the_last_character_of_a_full_line_stays) {
  Stage stage;
  // just as wide as the line of losses
  stage.terminal.columns = 24;
  Console console(run_info(), stage.screen());
  stage.now_s = 1;
  console.write(row_at(10));
  EXPECT_NE(stage.all.find(" 0.5000\n"), std::string::npos) << stage.all;
  EXPECT_EQ(stage.all.find(" 0.5000\x1b[K"), std::string::npos) << stage.all;
}

TEST(ConsoleSink, never_moves_above_the_screen_when_the_terminal_shrinks) {
  Stage stage;
  stage.emulator = Emulator(8);
  Console console(run_info(), stage.screen());
  stage.terminal.rows = 8;
  for (int i = 1; i <= 20; ++i) {
    stage.now_s = i;
    stage.terminal.columns = 100 - 4 * i;
    console.write(row_at(i));
  }
  EXPECT_FALSE(stage.emulator.left_the_screen());
}

TEST(ConsoleSink, draws_at_most_ten_times_a_second_and_always_at_the_end) {
  Stage stage;
  Console console(run_info(), stage.screen());
  const int before = stage.writes;
  for (int i = 1; i <= 1000; ++i) {
    stage.now_s = i * 1e-3;
    console.write(row_at(i / 10));
  }
  EXPECT_LE(stage.writes - before, 11);
  EXPECT_GE(stage.writes - before, 9);
  console.write(row_at(100));
  console.close("finished");
  EXPECT_EQ(stage.emulator.count("100.0%"), 1u);
  EXPECT_EQ(stage.emulator.count("./maglev eval runs/one"), 1u);
}

TEST(ConsoleSink, without_a_terminal_prints_the_first_and_last_row_and_one_every_two_seconds) {
  Stage stage;
  stage.terminal.live = false;
  Console console(run_info(), stage.screen());
  Progress progress;
  for (int i = 1; i <= 100; ++i) {
    stage.now_s = 0.1 * i;
    console.tick(progress);
    console.write(row_at(i));
  }
  console.note("checkpoint saved");
  console.close("finished");
  EXPECT_EQ(stage.all.find('\x1b'), std::string::npos);
  EXPECT_EQ(occurrences(stage.all, "\nstep=1 "), 1u);
  EXPECT_EQ(occurrences(stage.all, "\nstep=100 "), 1u);
  EXPECT_EQ(occurrences(stage.all, "\nstep="), 6u) << stage.all;
  EXPECT_EQ(occurrences(stage.all, "note: checkpoint saved\n"), 1u);
}

TEST(ConsoleSink, a_plain_line_tells_events_of_the_steps_since_the_last_line) {
  Stage stage;
  stage.terminal.live = false;
  Console console(run_info(), stage.screen());
  const auto write = [&](int64_t step, double food) {
    MetricRow row = row_at(step);
    row.values.emplace_back("events/food_per_1k", food);
    console.write(row);
  };
  write(10, 1.5);
  // 10 steps and 30, within the time of one line
  write(20, 50), write(50, 100);
  console.close("finished");
  EXPECT_EQ(occurrences(stage.all, "food/1k=1.500"), 1u) << stage.all;
  EXPECT_EQ(occurrences(stage.all, "food/1k=87.50"), 1u) << stage.all;
}

TEST(ConsoleSink, a_run_that_ends_early_says_why_as_it_happens_and_at_its_end) {
  Stage stage;
  stage.terminal.live = false;
  Console console(run_info(), stage.screen());
  console.write(row_at(10));
  console.ends_early("it was good enough");
  console.close("finished");
  EXPECT_EQ(occurrences(stage.all, "note: it was good enough\n"), 1u) << stage.all;
  EXPECT_EQ(occurrences(stage.all, " because   it was good enough\n"), 1u) << stage.all;
}

TEST(ConsoleSink, the_last_row_is_printed_once) {
  Stage stage;
  stage.terminal.live = false;
  Console console(run_info(), stage.screen());
  console.write(row_at(100));
  console.close("finished");
  console.close("finished");
  EXPECT_EQ(occurrences(stage.all, "\nstep="), 1u);
  EXPECT_EQ(occurrences(stage.all, "./maglev eval"), 1u);
}

TEST(ConsoleSink, a_note_cannot_move_the_cursor) {
  Stage stage;
  Console console(run_info(), stage.screen());
  console.note("bad\x1b[2J\nname");
  EXPECT_EQ(stage.all.find("\x1b[2J"), std::string::npos);
  EXPECT_EQ(stage.emulator.count("bad [2J name"), 1u);
}

TEST(ConsoleSink, a_long_note_is_broken_between_words_behind_its_mark) {
  Stage stage;
  stage.terminal.columns = 40;
  Console console(run_info(), stage.screen());
  console.note("memory: 18 MiB planned: rollout 12 MiB, parameters 4 MiB, gradients 2 MiB");
  EXPECT_EQ(stage.emulator.count(" * memory: 18 MiB planned: rollout 12"), 1u);
  EXPECT_EQ(stage.emulator.count("   MiB, parameters 4 MiB, gradients 2"), 1u);
  EXPECT_EQ(stage.emulator.count("   MiB"), 2u);
}

TEST(ConsoleSink, after_ctrl_z_the_region_is_drawn_anew_below_what_the_shell_wrote) {
  Stage stage;
  bool continued = false;
  Screen screen = stage.screen();
  screen.continued = [&] { return std::exchange(continued, false); };
  Console console(run_info(), screen);
  console.write(row_at(10));
  stage.emulator.write("[1]+  Stopped\n$ fg\n");
  continued = true;
  for (int i = 1; i <= 3; ++i) {
    stage.now_s = i;
    console.write(row_at(10 * i));
  }
  EXPECT_EQ(stage.emulator.count("$ fg"), 1u);
  // the old region above, whole, and one living one
  EXPECT_EQ(stage.emulator.count("of 100 steps"), 2u);
  EXPECT_EQ(stage.emulator.count("30.0%"), 1u);
}

TEST(ConsoleSink, without_a_terminal_like_notes_come_no_more_often_than_rows_and_the_last_always) {
  Stage stage;
  stage.terminal.live = false;
  Console console(run_info(), stage.screen());
  for (int i = 1; i <= 30; ++i) {
    stage.now_s = 0.1 * i;
    console.note("checkpoint saved at step " + std::to_string(1000 * i));
  }
  console.note("something else");
  console.close("finished");
  EXPECT_EQ(occurrences(stage.all, "checkpoint saved"), 3u) << stage.all;
  EXPECT_EQ(occurrences(stage.all, "at step 30000\n"), 1u);
  EXPECT_EQ(occurrences(stage.all, "note: something else\n"), 1u);
}

TEST(ConsoleSink, without_a_terminal_many_updates_are_told_three_times_a_minute) {
  Stage stage;
  stage.terminal.live = false;
  Console console(run_info(), stage.screen());
  console.write(row_at(10));
  Progress progress;
  progress.step = 10;
  for (int i = 1; i <= 300; ++i) {
    stage.now_s = 0.2 * i;
    progress.updates_left = 1'000 - i;
    console.tick(progress);
  }
  EXPECT_EQ(occurrences(stage.all, "note: learning, "), 3u) << stage.all;
  EXPECT_EQ(occurrences(stage.all, "note: learning, 900 updates are left"), 1u) << stage.all;
}

}  // namespace
}  // namespace maglev::sinks::console
