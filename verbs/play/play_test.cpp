#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include <ATen/ATen.h>

#include <gtest/gtest.h>

#include "base/core/error.h"
#include "verbs/play/caption.h"
#include "verbs/play/human.h"
#include "verbs/play/keyboard.h"
#include "verbs/play/match.h"
#include "verbs/play/screen.h"

namespace maglev {
namespace {

std::vector<Key> keys(std::string_view typed) {
  std::vector<Key> found;
  while (!typed.empty()) found.push_back(Keyboard::take(typed));
  return found;
}

TEST(Play, reads_arrows_letters_and_escape) {
  EXPECT_EQ(keys("\x1b[A\x1bOBwD q\x1b"), (std::vector<Key>{Key::up, Key::down, Key::up, Key::right,
                                                            Key::fire, Key::turn_left, Key::quit}));
  EXPECT_EQ(keys("z\x1b[Z"), (std::vector<Key>{Key::none, Key::none}));
  EXPECT_EQ(keys("07"), (std::vector<Key>{Key::digit, Key(int(Key::digit) + 7)}));
}

/// What `typed` asks for where these are the categories.
int64_t asked(std::vector<std::string> names, std::string_view typed) {
  const ActionSpec action{.heads = {int64_t(names.size())}, .names = std::move(names)};
  const auto held = keys(typed);
  return category_of(action, [&](Key key) { return std::ranges::count(held, key) > 0; });
}

TEST(Play, keys_are_categories_by_their_names) {
  const std::vector<std::string> grid{"up left", "left", "down left", "up", "down", "up right"};
  EXPECT_EQ(asked(grid, "a"), 1);
  EXPECT_EQ(asked(grid, "wa"), 0);
  EXPECT_EQ(asked(grid, "\x1b[A\x1b[C"), 5);
  // of what contradicts itself the first; nothing is none of these, and neither is what has no key
  EXPECT_EQ(asked(grid, "ad"), 1);
  EXPECT_EQ(asked(grid, ""), -1);
  EXPECT_EQ(asked(grid, "e"), -1);
  EXPECT_EQ(asked({"stay", "left", "up", "fire"}, ""), 0);
  EXPECT_EQ(asked({"stay", "left", "up", "fire"}, " "), 3);
  EXPECT_EQ(asked({"torque -1", "no torque", "torque +1"}, ""), 1);
  EXPECT_EQ(asked({"torque -1", "no torque", "torque +1"}, "2"), 2);
  const std::vector<std::string> atari{"NOOP", "FIRE", "UP", "UPRIGHT", "LEFTFIRE", "UPRIGHTFIRE"};
  EXPECT_EQ(asked(atari, ""), 0);
  EXPECT_EQ(asked(atari, "w"), 2);
  EXPECT_EQ(asked(atari, "wd"), 3);
  EXPECT_EQ(asked(atari, "a "), 4);
  EXPECT_EQ(asked(atari, "wd "), 5);
  EXPECT_EQ(asked({"up 2", "up", "up 2 left"}, "w"), 1);
  EXPECT_EQ(asked({"up 2", "up", "up 2 left"}, "wa"), 2);
  // a digit of no category
  EXPECT_EQ(asked(grid, "9"), -1);
}

TEST(Play, a_person_who_has_no_key_for_it_does_not_play) {
  const auto error = [](const char* env, const EnvSpec& spec) {
    try {
      expect_played_by_hand(find_env(env), spec);
    } catch (const Error& e) {
      return std::string(e.what());
    }
    return std::string();
  };
  EXPECT_EQ(error("cartpole", {.action = {.heads = {2}}}), "");
  EXPECT_EQ(error("cartpole", {.action = {.heads = {11}}}),
            "[play] keys say no action of cartpole: it has 11 categories, and none is called by a "
            "direction; name another player");
  EXPECT_EQ(error("cartpole", {.action = {.heads = {2, 3}}}),
            "[play] keys say no action of cartpole: it has 2 choices a step; name another player");
}

TEST(Play, draws_two_pixels_a_character_and_says_colours_once) {
  Canvas canvas(3, 2, {1, 2, 3});
  canvas.rectangle({0, 1}, {3, 2}, {4, 5, 6});
  EXPECT_EQ(half_blocks(canvas),
            "\x1b[38;2;1;2;3m\x1b[48;2;4;5;6m▀▀▀"
            "\x1b[0m\r\n");
}

TEST(Play, plays_the_same_match_from_the_same_seed) {
  const auto play = [](uint64_t seed) {
    Match match(find_env("hockey_duel"), {.env = {"env.max_steps=60"}}, {"weak", "random"}, nullptr,
                ActMode::mean, seed);
    std::string steps;
    while (match.episodes() < 2) {
      match.step();
      steps += match.last_step();
    }
    return steps;
  };
  EXPECT_EQ(play(3), play(3));
  EXPECT_NE(play(3), play(4));
}

TEST(Play, a_step_is_told_by_the_name_of_its_action) {
  Match match(find_env("cartpole"), {}, {"random"}, nullptr, ActMode::sample, 1);
  match.step();
  const std::string step = match.last_step();
  EXPECT_TRUE(step.starts_with("step 1  action 0 (push left)  reward") ||
              step.starts_with("step 1  action 1 (push right)  reward"))
      << step;
}

TEST(Play, tells_what_a_player_remembered_before_a_step_and_behind_it) {
  Match match(find_env("hockey_duel"), {}, {"weak", "random"}, nullptr, ActMode::mean, 2);
  at::Tensor left;
  bool changed = false;
  for (int t = 0; t < 10; ++t) {
    match.step();
    const ActedStep acted = match.acted(0);
    const at::Tensor before = acted.before.parts[0], after = acted.after.parts[0];
    EXPECT_TRUE(t == 0 || at::equal(before, left)) << t;
    changed |= !at::equal(before, after);
    left = after;
  }
  EXPECT_TRUE(changed);
}

TEST(Play, paints_what_the_players_do) {
  Match match(find_env("hockey"), {.env = {"env.opponent=strong"}}, {"weak"}, nullptr,
              ActMode::mean, 1);
  Canvas before(120, 100), after(120, 100);
  match.paint(before);
  for (int t = 0; t < 10; ++t) match.step();
  match.paint(after);
  EXPECT_FALSE(std::ranges::equal(before.pixels(), after.pixels()));
}

TEST(Play, a_recording_says_who_plays_the_score_and_the_clock) {
  Match match(find_env("tug"), {}, {"heavy", "idle"}, nullptr, ActMode::mean, 1);
  const Canvas picture(600, 500, {1, 2, 3});
  const auto words_of = [&](const Canvas& whole) {
    const auto pixels = whole.pixels();
    EXPECT_EQ(whole.height(), picture.height() + kCaptionHeight);
    EXPECT_TRUE(std::ranges::equal(pixels.first(picture.pixels().size()), picture.pixels()));
    return std::vector<Rgb>(pixels.begin() + 600 * 500, pixels.end());
  };
  const auto begin = words_of(captioned(picture, match));
  EXPECT_EQ(begin, words_of(captioned(picture, match)));
  match.step();
  EXPECT_NE(begin, words_of(captioned(picture, match))) << "the clock goes";
  while (match.episodes() < 2) match.step();
  EXPECT_EQ(match.wins(), (std::vector<int64_t>{2, 0}));
}

TEST(Play, counts_that_have_no_room_beside_the_return_have_a_line_of_their_own) {
  Match match(find_env("kg"), {.env = {"env.data=countries_s1"}}, {"random"}, nullptr,
              ActMode::mean, 1);
  // lines of the caption: who plays, and one or two of counts
  const auto written = [&](int width) {
    const Canvas whole = captioned(Canvas(width, 20), match);
    int lines = 0;
    bool before = false;
    for (int y = 20; y < whole.height(); ++y) {
      bool any = false;
      for (int x = 1; x < width; ++x) any |= !(whole.at(x, y) == whole.at(0, y));
      lines += any && !before;
      before = any;
    }
    return lines;
  };
  EXPECT_EQ(written(1200), 2);
  EXPECT_EQ(written(600), 3);
}

TEST(Play, many_players_of_one_name_stand_there_once) {
  const auto named = [](const char* env, std::vector<std::string> names) {
    return player_names(Match(find_env(env), {}, names, nullptr, ActMode::mean, 1));
  };
  std::vector<std::string> eight(8, "greedy");
  EXPECT_EQ(named("foundry", eight), std::vector<std::string>{"8 x greedy"});
  eight[0] = "random";
  EXPECT_EQ(named("foundry", eight), (std::vector<std::string>{"random", "7 x greedy"}));
  EXPECT_EQ(named("tug", {"idle", "idle"}), (std::vector<std::string>{"idle", "idle"}));
}

TEST(Play, a_run_is_called_by_the_last_part_of_its_folder) {
  const auto& bot = find_env("tug").bots[0];
  EXPECT_EQ(short_name(BotPlayer(bot, "runs/best one/", nullptr)), "best one");
  EXPECT_EQ(short_name(BotPlayer(bot, "idle", nullptr)), "idle");
}

TEST(Play, names_the_players_there_are) {
  try {
    Match match(find_env("hockey"), {}, {"wekk"}, nullptr, ActMode::mean, 1);
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("weak, strong"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace maglev
