#include "sinks/console/draw.h"

#include <cmath>
#include <limits>
#include <numeric>

#include <gtest/gtest.h>

namespace maglev::sinks::console {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

RunInfo drawn_run() {
  RunInfo run;
  run.dir = "runs/one";
  run.algo = "ppo";
  run.env = "goodhart";
  run.device = "cpu";
  run.total_steps = 1'000'000;
  return run;
}

MetricRow row_at(int64_t step, double mean_return) {
  MetricRow row;
  row.step = step;
  row.seconds = double(step) / 10'000;
  row.steps_per_second = 10'000;
  row.episodes = step / 100;
  row.return_mean = mean_return;
  row.values = {{"episode/return_min", 9},
                {"episode/return_max", 500},
                {"episode/length_mean", 182.4},
                {"events/food_per_1k", 101.25},
                {"events/poison_per_1k", 1.5},
                {"loss/policy", -0.0125},
                {"loss/value", 43.25},
                {"loss/entropy", 0.5},
                {"loss/approx_kl", 0.004},
                {"loss/clip_fraction", 0.0812},
                {"loss/explained_variance", 0.9},
                {"loss/grad_norm", kNaN},
                {"time/environment", 0.2},
                {"time/policy", 0.3},
                {"time/learn", 0.4},
                {"time/copy", 0.05}};
  return row;
}

View view_of_a_run() {
  View view(drawn_run(), 0);
  for (int i = 1; i <= 5; ++i) view.apply(row_at(100'000 * i, 20.0 * i), 10.0 * i);
  return view;
}

std::vector<std::string> texts(const std::vector<Line>& lines) {
  std::vector<std::string> all;
  for (const Line& line : lines) {
    all.push_back(line.text(false));
    all.back().erase(all.back().find_last_not_of(' ') + 1);
  }
  return all;
}

std::string joined(const std::vector<std::string>& lines) {
  std::string all;
  for (const auto& line : lines) all += line + "\n";
  return all;
}

TEST(ConsoleText, figures_are_short_and_nan_is_a_dash) {
  EXPECT_EQ(figure_text(kNaN), "-");
  EXPECT_EQ(figure_text(0), "0");
  EXPECT_EQ(figure_text(-0.0), "0");
  EXPECT_EQ(figure_text(500), "500");
  EXPECT_EQ(figure_text(182.44), "182.4");
  EXPECT_EQ(figure_text(43.214), "43.21");
  EXPECT_EQ(figure_text(9.9999), "10.00");
  EXPECT_EQ(figure_text(-0.01234), "-0.0123");
  EXPECT_EQ(figure_text(2.5e-4), "2.50e-04");
  EXPECT_EQ(figure_text(1234567), "1.23e+06");
  EXPECT_EQ(figure_text(-std::numeric_limits<double>::infinity()), "-inf");
}

TEST(ConsoleText, counts_have_three_digits_and_a_letter_from_ten_thousand) {
  EXPECT_EQ(count_text(0), "0");
  EXPECT_EQ(count_text(999), "999");
  EXPECT_EQ(count_text(1000), "1,000");
  EXPECT_EQ(count_text(9999), "9,999");
  EXPECT_EQ(count_text(9999.7), "10.0k");
  EXPECT_EQ(count_text(472'600), "473k");
  EXPECT_EQ(count_text(999'600), "1.00M");
  EXPECT_EQ(count_text(1'000'000), "1M");
  EXPECT_EQ(count_text(12.34e9), "12.3G");
  EXPECT_EQ(count_text(kNaN), "-");
}

TEST(ConsoleText, durations_read_as_clocks) {
  EXPECT_EQ(duration_text(0), "0:00");
  EXPECT_EQ(duration_text(59.9), "0:59");
  EXPECT_EQ(duration_text(754), "12:34");
  EXPECT_EQ(duration_text(3723), "1:02:03");
  EXPECT_EQ(duration_text(2 * 86400 + 3 * 3600 + 5), "2d 03:00:05");
  EXPECT_EQ(duration_text(kNaN), "-");
  EXPECT_EQ(duration_text(-1), "0:00");
}

TEST(ConsoleText, parts_of_a_bar_add_up_to_its_width) {
  EXPECT_EQ(apportion({0.5, 0.25, 0.25}, 8), (std::vector<int>{4, 2, 2}));
  EXPECT_EQ(apportion({kNaN, 0, -1}, 8), (std::vector<int>{0, 0, 0}));
  EXPECT_EQ(apportion({kNaN, 1, 1}, 8), (std::vector<int>{0, 4, 4}));
  for (int width = 0; width < 60; ++width) {
    const auto parts = apportion({0.21, 0.33, 0.43, 0.01, 0.02}, width);
    EXPECT_EQ(std::accumulate(parts.begin(), parts.end(), 0), width);
  }
}

TEST(ConsoleText, a_chart_rises_with_its_values) {
  EXPECT_EQ(chart({0, 1, 2, 3, 4, 5, 6, 7}, 8, 1, true)[0], "▁▂▃▄▅▆▇█");
  EXPECT_EQ(chart({0, 1}, 8, 2, true), (std::vector<std::string>{" █", "▁█"}));
  EXPECT_EQ(chart({0, 1, 2}, 8, 1, false)[0], ".:#");
  EXPECT_EQ(chart({0, 0, 7, 7}, 2, 1, true)[0], "▁█");
  EXPECT_EQ(display_width(chart({5, 5, 5}, 8, 1, true)[0]), 3);
  EXPECT_EQ(chart({}, 8, 1, true)[0], "");
}

TEST(Console, a_wide_terminal_shows_all_figures_beside_the_history) {
  const Terminal terminal{
      .live = true, .colour = false, .unicode = true, .columns = 110, .rows = 30};
  EXPECT_EQ(
      joined(texts(live_lines(view_of_a_run(), terminal))),
      R"( ━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━──────────────────────────────────────────────────   50.0%
 ⠴ 500k of 1M steps    10k steps/s    elapsed 0:50    left 0:50

 return    100       newest from 9 to 500           100 ▏    █
 best      100       at 500k steps                      ▏  ▁██
 episodes  5,000     length 182.4 steps                 ▏ ▁███
                                                     20 ▏▁████

 losses    policy         -0.0125   value            43.25   entropy         0.5000   approx kl       0.0040
           clip fraction   0.0812   explained var   0.9000   grad norm            -
 per 1k    food             101.2   poison           1.500

 time      ██████▓▓▓▓▓▓▓▓▓▒▒▒▒▒▒▒▒▒▒▒▒░·  █ environment 20%  ▓ policy 30%  ▒ learn 40%  ░ copy 5%  · other 5%
)");
}

TEST(Console, what_bounds_the_run_stands_below_where_its_time_goes) {
  const Terminal terminal{.live = true, .columns = 100, .rows = 40};
  View view = view_of_a_run();
  EXPECT_EQ(joined(texts(live_lines(view, terminal))).find("bound by"), std::string::npos);
  MetricRow row = row_at(600'000, 120);
  row.bound_by = "learning, 62 % of the time: train.precision=bf16";
  view.apply(row, 60);
  // it stays until another is told
  view.apply(row_at(700'000, 140), 70);
  EXPECT_EQ(texts(live_lines(view, terminal)).back(), " bound by  " + row.bound_by);
  EXPECT_NE(joined(texts(summary_lines(view, terminal, "finished"))).find(row.bound_by),
            std::string::npos);
  // advice is not cut where the terminal ends
  row.bound_by += ", env.count=4096, threads=8, train.overlap=true or fewer ppo.epochs, says tune";
  view.apply(row, 80);
  const auto lines = texts(live_lines(view, terminal));
  EXPECT_EQ(lines.end()[-2].substr(0, 40), (" bound by  " + row.bound_by).substr(0, 40));
  EXPECT_TRUE(lines.back().starts_with("           ")) << lines.back();
  EXPECT_TRUE(lines.back().ends_with("says tune")) << lines.back();
}

TEST(Console, what_the_gpu_does_stands_above_what_bounds_the_run_until_it_is_told_anew) {
  const Terminal terminal{.live = true, .unicode = true, .columns = 100, .rows = 40};
  View view = view_of_a_run();
  EXPECT_EQ(joined(texts(live_lines(view, terminal))).find(" gpu "), std::string::npos);
  EXPECT_EQ(plain_line(view).find("gpu="), std::string::npos);
  MetricRow row = row_at(600'000, 120);
  row.bound_by = "learning, 62 % of the time: train.precision=bf16";
  for (const auto& told : {std::pair{"machine/gpu_busy", 0.264},
                           {"machine/gpu_sm", 0.081},
                           {"machine/gpu_dram", 0.02},
                           {"machine/gpu_watts", 212.4},
                           {"machine/gpu_celsius", 61}})
    row.values.emplace_back(told);
  view.apply(row, 60);
  view.apply(row_at(700'000, 140), 70);
  const auto lines = texts(live_lines(view, terminal));
  EXPECT_EQ(lines[lines.size() - 2],
            " gpu       busy 26%    multiprocessors 8%    memory 2%    212 W    61 °C");
  EXPECT_NE(plain_line(view).find("gpu=26%"), std::string::npos);
}

TEST(Console, what_a_run_costs_is_told_with_what_it_will_have_cost) {
  const Terminal terminal{.live = true, .unicode = true, .columns = 100, .rows = 40};
  View view = view_of_a_run();
  EXPECT_EQ(joined(texts(live_lines(view, terminal))).find(" cost "), std::string::npos);
  // half of the steps in as long as the other half will take
  view.row.values.emplace_back("machine/cost", 0.25);
  EXPECT_EQ(texts(live_lines(view, terminal)).back(), " cost      0.2500 so far, 0.5000 in all");
  EXPECT_NE(joined(texts(summary_lines(view, terminal, "finished"))).find(" cost      0.2500\n"),
            std::string::npos);
}

TEST(Console, a_high_terminal_draws_a_higher_chart) {
  const auto lines_at = [](int rows) {
    const Terminal terminal{.live = true, .unicode = true, .columns = 120, .rows = rows};
    return live_lines(view_of_a_run(), terminal).size();
  };
  EXPECT_EQ(lines_at(44) - lines_at(30), 6u);
  EXPECT_EQ(lines_at(200) - lines_at(30), 10u);
}

TEST(Console, a_narrow_ascii_terminal_stacks_them) {
  const Terminal terminal{
      .live = true, .colour = false, .unicode = false, .columns = 60, .rows = 24};
  EXPECT_EQ(joined(texts(live_lines(view_of_a_run(), terminal))),
            R"( =========================>------------------------   50.0%
 / 500k of 1M steps  10k/s  0:50  eta 0:50

 return    100       newest from 9 to 500   best 100
 episodes  5,000     length 182.4 steps
 history   .::##

 losses    policy         -0.0125   value            43.25
           entropy         0.5000   approx kl       0.0040
           clip fraction   0.0812   explained var   0.9000
           grad norm            -
 per 1k    food             101.2   poison           1.500

 time      EEEEEEEEEEPPPPPPPPPPPPPPLLLLLLLLLLLLLLLLLLLCCC..
           env 20% policy 30% learn 40% copy 5% other 5%
)");
}

TEST(Console, colours_change_no_character) {
  const Terminal terminal{
      .live = true, .colour = true, .unicode = true, .columns = 110, .rows = 30};
  const auto lines = live_lines(view_of_a_run(), terminal);
  const std::string text = lines.back().text(true);
  for (const char* ink : {"\x1b[32m", "\x1b[34m", "\x1b[35m", "\x1b[33m"})
    EXPECT_NE(text.find(ink), std::string::npos);
  for (const Line& line : lines) EXPECT_EQ(line.text(false).find('\x1b'), std::string::npos);
}

TEST(Console, no_line_is_wider_and_no_region_higher_than_the_terminal) {
  View view = view_of_a_run();
  view.dir = std::string(300, 'd');
  for (bool unicode : {true, false})
    for (int columns = 1; columns <= 200; ++columns)
      for (int rows : {1, 2, 3, 8, 15, 50}) {
        const Terminal terminal{
            .live = true, .colour = true, .unicode = unicode, .columns = columns, .rows = rows};
        const auto lines = live_lines(view, terminal);
        ASSERT_LE(int(lines.size()), std::max(1, rows - 1)) << columns << "x" << rows;
        for (const Line& line : lines)
          ASSERT_LE(display_width(line.text(false)), columns) << line.text(false);
        for (const Line& line : header_lines(view, terminal)) ASSERT_LE(line.width(), columns);
      }
}

TEST(Console, what_finds_no_room_is_left_out_and_no_figure_is_cut) {
  Terminal terminal{.live = true, .unicode = true, .columns = 40, .rows = 40};
  const auto lines = texts(live_lines(view_of_a_run(), terminal));
  EXPECT_TRUE(lines[1].ends_with(" 500k of 1M steps  10k/s  eta 0:50")) << lines[1];
  EXPECT_EQ(lines[3], " return    100          best 100");
  EXPECT_EQ(lines[4], " episodes  5,000     length 182.4 steps");
  EXPECT_EQ(lines.end()[-2], "           env 20% policy 30% learn 40%");
  EXPECT_EQ(lines.back(), "           copy 5% other 5%");
  EXPECT_EQ(joined(lines).find("…"), std::string::npos) << joined(lines);
  // of a name and its figure the name is cut
  terminal.columns = 24;
  const std::string narrow = joined(texts(live_lines(view_of_a_run(), terminal)));
  EXPECT_NE(narrow.find(" losses    poli… -0.0125\n"), std::string::npos) << narrow;
  const std::string summary = joined(texts(summary_lines(view_of_a_run(), terminal, "stopped")));
  EXPECT_NE(summary.find("500000 steps in 50.0 s, 10k steps/s\n"), std::string::npos) << summary;
}

TEST(Console, a_run_without_episodes_says_why_it_has_no_return) {
  const Terminal terminal{.live = true, .unicode = true, .columns = 80, .rows = 24};
  RunInfo run = drawn_run();
  const auto summary = [&] {
    return joined(texts(summary_lines(View(run, 0), terminal, "finished")));
  };
  EXPECT_NE(summary().find(" return    -, for no episode has ended\n"), std::string::npos);
  run.plays = false;
  EXPECT_NE(summary().find(" return    -, for it learned from a dataset and played no episode\n"),
            std::string::npos)
      << summary();
}

TEST(Console, a_low_terminal_keeps_progress_return_and_time) {
  const Terminal terminal{.live = true, .unicode = true, .columns = 80, .rows = 6};
  const auto lines = texts(live_lines(view_of_a_run(), terminal));
  ASSERT_EQ(lines.size(), 5u);
  EXPECT_NE(lines[0].find("50.0%"), std::string::npos);
  EXPECT_NE(lines[2].find("return    100"), std::string::npos);
  EXPECT_NE(lines[3].find("time"), std::string::npos);
}

TEST(Console, before_the_first_episode_figures_are_dashes) {
  View view(drawn_run(), 0);
  MetricRow row;
  row.step = 1000;
  row.return_mean = kNaN;
  row.steps_per_second = 500;
  row.values = {{"episode/return_min", kNaN}, {"episode/length_mean", kNaN}, {"loss/policy", kNaN}};
  view.apply(row, 2);
  const Terminal terminal{.live = true, .unicode = true, .columns = 110, .rows = 30};
  const std::string text = joined(texts(live_lines(view, terminal)));
  EXPECT_NE(text.find("return    -\n"), std::string::npos) << text;
  EXPECT_EQ(text.find("nan"), std::string::npos) << text;
  EXPECT_NE(plain_line(view).find("return=- "), std::string::npos);
  EXPECT_EQ(plain_line(view).find("nan"), std::string::npos);
}

TEST(Console, a_plain_line_is_pairs_in_columns) {
  View view(drawn_run(), 0);
  view.apply(row_at(9'000, 9), 1);
  const std::string early = plain_line(view);
  view.apply(row_at(900'000, 123.456), 90);
  const std::string late = plain_line(view);
  EXPECT_EQ(late,
            "step=900000  done=90.0%  return=123.5     episodes=9000   length=182.4  steps/s=10000 "
            "   elapsed=1:30    "
            "left=0:10    food/1k=101.2   poison/1k=1.500   policy=-0.0125   value=43.25     "
            "entropy=0.5000    "
            "approx_kl=0.0040    clip_fraction=0.0812    explained_var=0.9000");
  for (const char* name : {"done=", "return=", "episodes=", "left=", "food/1k=", "approx_kl="})
    EXPECT_EQ(early.find(name), late.find(name)) << name;
}

TEST(Console, shares_of_events_are_percent) {
  View view(drawn_run(), 0);
  MetricRow row = row_at(9'000, 9);
  row.values.emplace_back("share/true_proved", 0.8125);
  row.values.emplace_back("share/false_proved", kNaN);
  view.apply(row, 1);
  const std::string line = plain_line(view);
  EXPECT_NE(line.find("true proved=81.2%"), std::string::npos) << line;
  EXPECT_NE(line.find("false proved=- "), std::string::npos) << line;
  const Terminal terminal{.live = true, .unicode = true, .columns = 110, .rows = 40};
  const std::string text = joined(texts(live_lines(view, terminal)));
  EXPECT_NE(text.find("shares    true proved"), std::string::npos) << text;
  EXPECT_NE(text.find("81.2%"), std::string::npos) << text;
}

TEST(Console, the_summary_says_how_to_go_on) {
  const Terminal terminal{.live = true, .unicode = true, .columns = 80, .rows = 24};
  EXPECT_EQ(joined(texts(summary_lines(view_of_a_run(), terminal, "stopped"))), R"(
 stopped   500000 steps in 50.0 s, 10k steps/s
 return    100, best 100 at 500k steps
 run       runs/one
 evaluate  ./maglev eval runs/one
 resume    ./maglev train --resume runs/one
)");
  const std::string why = "[env] cartpole gave NaN",
                    failed = joined(texts(summary_lines(view_of_a_run(), terminal, why)));
  EXPECT_NE(failed.find(" failed    500000"), std::string::npos);
  // a terminal shows the error below; a file of what was printed has it once, too
  EXPECT_EQ(failed.find(why), std::string::npos);
  EXPECT_NE(joined(texts(summary_lines(view_of_a_run(), {}, why))).find(" because   " + why),
            std::string::npos);
  const std::string finished = joined(texts(summary_lines(view_of_a_run(), terminal, "finished")));
  EXPECT_EQ(finished.find("--resume"), std::string::npos);
  View empty = view_of_a_run();
  empty.saved = false;
  EXPECT_EQ(joined(texts(summary_lines(empty, terminal, "failed"))).find("./maglev"),
            std::string::npos);
  // what was saved before the first step is nothing to go on with
  const View begun(drawn_run(), 0);
  EXPECT_EQ(joined(texts(summary_lines(begun, terminal, why))).find("./maglev"), std::string::npos);
}

TEST(View, an_eta_follows_the_smoothed_rate) {
  View view(drawn_run(), 0);
  EXPECT_TRUE(std::isnan(view.left_s()));
  view.apply(row_at(100'000, 1), 10);
  EXPECT_DOUBLE_EQ(view.left_s(), 90);
  MetricRow slow = row_at(200'000, 1);
  view.apply(slow, 20);
  slow.step = 300'000, slow.seconds += 1, slow.steps_per_second = 1'000;
  view.apply(slow, 21);
  EXPECT_GT(view.steps_per_second, 5'000);
  EXPECT_LT(view.steps_per_second, 10'000);
}

TEST(View, rows_without_an_update_do_not_carry_the_rate) {
  RunInfo run = drawn_run();
  run.seeding_steps = 1'000;
  View view(run, 0);
  const auto apply = [&](int64_t step, double seconds, double rate) {
    MetricRow row = row_at(step, 1);
    row.seconds = seconds, row.steps_per_second = rate;
    view.apply(row, seconds);
  };
  apply(1'000, 0.001, 1e6);
  EXPECT_TRUE(std::isnan(view.left_s()));
  apply(1'004, 0.0014, 1e4);
  apply(1'008, 0.1014, 40);
  EXPECT_LT(view.steps_per_second, 100);
}

TEST(View, what_a_row_of_few_steps_lacks_is_that_of_the_row_before_and_events_are_averaged) {
  View view(drawn_run(), 0);
  view.apply(row_at(1'000, 1), 0.1);
  MetricRow bare = row_at(1'001, 1);
  for (auto& [name, value] : bare.values)
    value = name.starts_with("events/") ? 0 : name.starts_with("time/") ? value : kNaN;
  view.apply(bare, 0.2);
  EXPECT_EQ(view.figure("loss/value"), 43.25);
  EXPECT_EQ(view.figure("episode/length_mean"), 182.4);
  EXPECT_TRUE(std::isnan(view.figure("loss/grad_norm"))) << "no row had one";
  // a thousand steps of the one, one of the other
  EXPECT_NEAR(view.figure("events/food_per_1k"), 101.25 * 1000 / 1001, 1e-3);
  // what is long ago weighs nothing
  for (int i = 2; i < 100; ++i) {
    bare.step = 1'000 + i, bare.seconds += 1;
    view.apply(bare, i);
  }
  EXPECT_LT(view.figure("events/food_per_1k"), 1);
}

TEST(View, losses_that_are_no_numbers_any_more_do_not_look_healthy_for_long) {
  View view(drawn_run(), 0);
  view.apply(row_at(100'000, 1), 10);
  MetricRow diverged = row_at(110'000, 1);
  for (auto& [name, value] : diverged.values)
    if (name.starts_with("loss/") || name.starts_with("episode/")) value = kNaN;
  view.apply(diverged, 11);
  EXPECT_EQ(view.figure("loss/value"), 43.25) << "perhaps no update was made";
  diverged.step = 130'000;
  view.apply(diverged, 13);
  EXPECT_TRUE(std::isnan(view.figure("loss/value")));
  EXPECT_EQ(view.figure("episode/length_mean"), 182.4);
}

TEST(View, tells_how_many_updates_are_left_where_an_iteration_makes_many) {
  View view(drawn_run(), 0);
  view.apply(row_at(10'000, 1), 1);
  Progress progress;
  progress.step = 10'000;
  progress.updates_left = 4'321;
  const Terminal terminal{.live = true, .unicode = true, .columns = 110, .rows = 30};
  const auto told = [&] {
    return live_lines(view, terminal)[1].text(false).find("learning, 4,321 updates left") !=
           std::string::npos;
  };
  view.apply(progress, 1.5);
  EXPECT_FALSE(told()) << "too short to be read";
  view.apply(progress, 4);
  EXPECT_TRUE(told()) << live_lines(view, terminal)[1].text(false);
  progress.updates_left = 0;
  view.apply(progress, 5);
  EXPECT_EQ(live_lines(view, terminal)[1].text(false).find("updates left"), std::string::npos);
}

TEST(View, ticks_move_the_step_and_the_clock_between_rows) {
  View view(drawn_run(), 100);
  Progress progress;
  progress.iteration_steps = 8'000;
  progress.total_steps = 1'000'000;
  progress.iteration_step = 2'000;
  view.apply(progress, 102);
  EXPECT_EQ(view.step, 2'000);
  EXPECT_DOUBLE_EQ(view.elapsed_s, 2);
  EXPECT_DOUBLE_EQ(view.steps_per_second, 1'000);
  EXPECT_DOUBLE_EQ(view.iteration_share, 0.25);
  const Terminal terminal{.live = true, .unicode = true, .columns = 110, .rows = 30};
  EXPECT_NE(live_lines(view, terminal)[1].text(false).find("collecting 25%"), std::string::npos);
}

TEST(View, steps_of_a_warm_up_are_none) {
  View view(drawn_run(), 0);
  Progress progress;
  progress.total_steps = 1'000'000;
  progress.step = 8'000, progress.warming = true;
  view.apply(progress, 2);
  EXPECT_EQ(view.step, 0);
  // undone, and a step of the run itself made
  progress.step = 0, progress.iteration_step = 10, progress.warming = false;
  view.apply(progress, 3);
  EXPECT_EQ(view.step, 10);
  // in the second that the warm-up did not take
  EXPECT_DOUBLE_EQ(view.elapsed_s, 1);
  EXPECT_DOUBLE_EQ(view.steps_per_second, 10);
}

TEST(View, a_resumed_run_counts_its_speed_from_where_it_resumed) {
  RunInfo run = drawn_run();
  run.resumed_at = 500'000;
  View view(run, 0);
  Progress progress;
  progress.step = 501'000;
  view.apply(progress, 1);
  EXPECT_DOUBLE_EQ(view.steps_per_second, 1'000);
  const Terminal terminal{.live = true, .unicode = true, .columns = 110, .rows = 30};
  EXPECT_NE(header_lines(view, terminal)[0].text(false).find("resumed at 500k"), std::string::npos);
}

TEST(View, a_long_history_is_thinned_and_keeps_its_shape) {
  View view(drawn_run(), 0);
  for (int i = 0; i < 100'000; ++i) view.apply(row_at(i, double(i)), i);
  ASSERT_LT(view.history.size(), kHistory);
  ASSERT_GE(view.history.size(), kHistory / 2);
  for (size_t i = 1; i < view.history.size(); ++i)
    ASSERT_NEAR(view.history[i] - view.history[i - 1], view.history[1] - view.history[0], 1e-6);
}

TEST(View, while_nothing_is_learned_the_rate_says_nothing_of_the_time_left) {
  View view(drawn_run(), 0);
  Progress progress;
  progress.total_steps = 1'000'000;
  progress.seeding_steps = 5'000;
  progress.step = 2'000;
  view.apply(progress, 1);
  EXPECT_TRUE(std::isnan(view.left_s()));
  const Terminal terminal{.live = true, .unicode = true, .columns = 110, .rows = 30};
  EXPECT_NE(live_lines(view, terminal)[1].text(false).find("collecting before it learns"),
            std::string::npos);
  MetricRow row = row_at(4'000, 1);
  row.steps_per_second = 4'000;
  view.apply(row, 1);
  // this row holds the last of seeding and the first updates, the next is learning alone
  row.step = 6'000, row.seconds += 1, row.steps_per_second = 2'000;
  view.apply(row, 2);
  EXPECT_TRUE(std::isnan(view.left_s()));
  row.step = 6'100, row.seconds += 1, row.steps_per_second = 100;
  view.apply(row, 3);
  EXPECT_DOUBLE_EQ(view.steps_per_second, 100);
  EXPECT_DOUBLE_EQ(view.left_s(), (1'000'000 - 6'100) / 100.);
}

TEST(View, an_evaluation_is_shown_and_does_not_take_the_place_of_a_row) {
  View view(drawn_run(), 0);
  view.apply(row_at(100'000, 7), 10);
  view.apply({.step = 50'000, .values = {{"eval/return_mean", 42}}, .event = true}, 11);
  view.apply({.step = 80'000, .values = {{"eval/return_mean", 30}}, .event = true}, 12);
  EXPECT_EQ(view.step, 100'000);
  EXPECT_EQ(view.row.return_mean, 7);
  EXPECT_EQ(view.evaluated, 30);
  EXPECT_EQ(view.best_evaluated, 42);
  EXPECT_NE(plain_line(view).find("eval=30"), std::string::npos) << plain_line(view);
}

TEST(View, a_resumed_run_keeps_its_history_and_its_best) {
  RunInfo run = drawn_run();
  run.resumed_at = 300;
  run.past = {{.step = 50, .episodes = 99, .return_mean = 20},
              {.step = 100, .episodes = 100, .return_mean = 5},
              {.step = 200, .episodes = 150, .return_mean = 9},
              {.step = 300, .episodes = 200, .return_mean = 7}};
  const View view(run, 0);
  EXPECT_EQ(view.history, (std::vector<double>{20, 5, 9, 7}));
  // a mean of fewer than a hundred episodes is luck
  EXPECT_EQ(view.best_return, 9);
  EXPECT_EQ(view.best_step, 200);
  // with many rows those that ended first are the short ones
  run.settled_episodes = 200;
  EXPECT_EQ(View(run, 0).best_return, 7);
}

TEST(Console, the_summary_repeats_warnings_and_offers_only_what_there_is) {
  const Terminal terminal{.live = true, .unicode = true, .columns = 40, .rows = 24};
  View view = view_of_a_run();
  view.warnings = {"learning has diverged by step 12,800: loss/policy is not a number"};
  const std::string text = joined(texts(summary_lines(view, terminal, "finished")));
  EXPECT_NE(text.find(view.warnings[0]), std::string::npos) << "it is not cut: " << text;
  view.ended_by = "the mean of 100 episodes, 101.2, reached train.until_return=100";
  EXPECT_NE(joined(texts(summary_lines(view, {}, "finished"))).find(" because   " + view.ended_by),
            std::string::npos);
  view.saved = false;
  const std::string failed = joined(texts(summary_lines(view, terminal, "[checkpoint] disk full")));
  EXPECT_EQ(failed.find("./maglev"), std::string::npos) << failed;
}

}  // namespace
}  // namespace maglev::sinks::console
