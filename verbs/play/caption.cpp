#include "verbs/play/caption.h"

#include <algorithm>
#include <cstdio>
#include <iterator>
#include <string>
#include <utility>

#include "base/picture/text.h"
#include "engine/run/run_dir.h"

namespace maglev {
namespace {

constexpr Rgb kBack{24, 28, 34}, kWords{214, 220, 228}, kQuiet{140, 150, 162};
// the first players' colours are those of hockey's rackets
constexpr Rgb kPlayers[] = {{235, 98, 53}, {70, 130, 190}};
constexpr int kLarge = 2, kSmall = 1, kMargin = 8, kLineGap = 3;  // pixels a dot; pixels

std::string clock_of(const Match& match) {
  std::string text = std::to_string(match.steps());
  if (match.most_steps() > 0) text += " / " + std::to_string(match.most_steps());
  return text;
}

// as many characters as there is room for
std::string fitted(const std::string& text, int dot, int width) {
  const auto most = size_t(std::max(0, (width / dot + 1) / kGlyphStep));
  return text.substr(0, most);
}

// as many of the parts that commas are between as there is room for, the first at least in part
std::string fitted_parts(const std::string& text, int dot, int width) {
  const std::string shown = fitted(text, dot, width);
  const size_t comma = shown.rfind(',');
  if (shown.size() == text.size() || comma == std::string::npos) return shown;
  return shown.substr(0, comma + 1);
}

}  // namespace

std::string short_name(const Player& player) {
  const std::string name = without_slashes(player.name());
  return name.substr(name.find_last_of('/') + 1);
}

std::vector<std::string> player_names(const Match& match) {
  // a duel's score stands between two
  const bool duel = match.players().size() == 2;
  std::vector<std::pair<std::string, int>> counted;
  for (const auto& player : match.players()) {
    const std::string name = short_name(*player);
    if (!duel && !counted.empty() && counted.back().first == name) ++counted.back().second;
    else counted.emplace_back(name, 1);
  }
  std::vector<std::string> names;
  for (const auto& [name, count] : counted)
    names.push_back(count > 1 ? std::to_string(count) + " x " + name : name);
  return names;
}

Canvas captioned(const Canvas& picture, const Match& match) {
  Canvas whole(picture.width(), picture.height() + kCaptionHeight, kBack);
  whole.place(picture, 0, 0);
  const float top = float(picture.height() + kMargin / 2);
  const float below = top + float(kLarge * kGlyphHeight + kLineGap);
  const int width = picture.width() - 2 * kMargin;
  const auto right = [&](const std::string& text, int dot) {
    return float(picture.width() - kMargin - text_width(text, dot));
  };

  // the clock, then the players beside it, with the score between two
  const std::string clock = fitted(clock_of(match), kLarge, width);
  write_text(whole, {right(clock, kLarge), top}, clock, kLarge, kWords);
  float x = kMargin;
  const auto write = [&](const std::string& text, Rgb colour) {
    const std::string shown = fitted(text, kLarge, int(right(clock, kLarge)) - kMargin - int(x));
    write_text(whole, {x, top}, shown, kLarge, colour);
    x += float(kLarge * kGlyphStep) * float(shown.size());
  };
  const auto names = player_names(match);
  for (size_t a = 0; a < names.size(); ++a) {
    if (a > 0 && match.players().size() == 2)
      write("  " + std::to_string(match.wins()[0]) + " : " + std::to_string(match.wins()[1]) + "  ",
            kWords);
    else if (a > 0) write(" - ", kWords);
    write(names[a], kPlayers[a % std::size(kPlayers)]);
  }

  // what was counted since the match began, and this episode's return
  char value[40];
  std::snprintf(value, sizeof value, "return %.2f", match.returns()[0]);
  write_text(whole, {right(value, kSmall), below}, value, kSmall, kQuiet);
  const std::string events = match.events();
  const std::string beside = fitted_parts(events, kSmall, int(right(value, kSmall)) - 2 * kMargin);
  write_text(whole, {kMargin, below}, beside, kSmall, kQuiet);
  // what has no room there, in a line of its own
  const size_t rest = events.find_first_not_of(' ', beside.size());
  if (rest != std::string::npos)
    write_text(whole, {kMargin, below + float(kSmall * kGlyphHeight + kLineGap)},
               fitted_parts(events.substr(rest), kSmall, width), kSmall, kQuiet);
  return whole;
}

}  // namespace maglev
