#include "verbs/play/human.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <initializer_list>
#include <iterator>
#include <sstream>
#include <string_view>
#include <utility>
#include <vector>

#include <ATen/ATen.h>

#include "base/core/error.h"

namespace maglev {
namespace {

constexpr int64_t kDigits = 10;
constexpr std::pair<std::string_view, Key> kKeyNames[] = {
    {"left", Key::left}, {"west", Key::left},  {"right", Key::right}, {"east", Key::right},
    {"up", Key::up},     {"north", Key::up},   {"down", Key::down},   {"south", Key::down},
    {"fire", Key::fire}, {"shoot", Key::fire}, {"attack", Key::fire}};
constexpr std::array kIdleNames{"stay", "coast", "no", "noop", "none", "wait"};

/// In small letters, at blanks and where one word of kKeyNames ends: "UPRIGHTFIRE" are three.
std::vector<std::string> words_of(std::string name) {
  std::ranges::transform(name, name.begin(), [](unsigned char c) { return char(std::tolower(c)); });
  std::istringstream stream(name);
  std::vector<std::string> words;
  for (std::string word; stream >> word;) {
    const auto begins = [&](const auto& known) { return word.starts_with(known.first); };
    for (auto known = std::ranges::find_if(kKeyNames, begins);
         known != std::end(kKeyNames) && word.size() > known->first.size();
         known = std::ranges::find_if(kKeyNames, begins)) {
      words.emplace_back(known->first);
      word.erase(0, known->first.size());
    }
    words.push_back(word);
  }
  return words;
}

/// The keys that a category's name says.
std::vector<Key> keys_of(const std::vector<std::string>& words) {
  std::vector<Key> keys;
  for (const std::string& word : words)
    for (const auto& [known, key] : kKeyNames)
      if (word == known) keys.push_back(key);
  return keys;
}

bool does_nothing(const std::vector<std::string>& words) {
  return !words.empty() && std::ranges::find(kIdleNames, words[0]) != kIdleNames.end();
}

/// Whether some category's name says one of `wanted`.
bool says(const ActionSpec& action, std::initializer_list<Key> wanted) {
  return std::ranges::any_of(action.names, [&](const std::string& name) {
    const auto keys = keys_of(words_of(name));
    return std::ranges::find_first_of(keys, wanted) != keys.end();
  });
}

bool moves(const ActionSpec& action) {
  return says(action, {Key::left, Key::right, Key::up, Key::down});
}

}  // namespace

void expect_played_by_hand(const EnvEntry& entry, const EnvSpec& spec) {
  const ActionSpec& action = spec.action;
  if (!action.discrete()) return;
  const std::string who = "[play] keys say no action of " + std::string(entry.name) + ": ";
  if (action.heads.size() > 1)
    throw Error(who + "it has " + std::to_string(action.heads.size()) +
                " choices a step; name another player");
  if (action.heads[0] > kDigits && !moves(action))
    throw Error(who + "it has " + std::to_string(action.heads[0]) +
                " categories, and none is called by a direction; name another player");
}

std::string keys_text(const ActionSpec& action) {
  if (!action.discrete()) return "escape leaves, arrows or WASD move, q and e turn, space shoots";
  std::string text = "escape leaves";
  if (moves(action)) text += ", arrows or WASD move";
  if (says(action, {Key::fire})) text += ", space fires";
  // last, for a narrow terminal cuts them
  for (int64_t k = 0; k < std::min(kDigits, action.heads[0]); ++k)
    text += ", " + std::to_string(k) + " " +
            (action.names.empty() ? "category " + std::to_string(k) : action.name(0, k));
  return text;
}

int64_t category_of(const ActionSpec& action, const std::function<bool(Key)>& held) {
  const int64_t n = action.heads[0];
  for (int64_t k = 0; k < std::min(kDigits, n); ++k)
    if (held(Key(int(Key::digit) + int(k)))) return k;
  // the most of what is held, nothing that is not, and the plainest: "up" before "up 2"
  int64_t best = -1, idle = -1;
  size_t most = 0, fewest = 0;
  for (int64_t k = 0; k < n; ++k) {
    const auto words = words_of(action.name(0, k));
    const auto keys = keys_of(words);
    if (idle < 0 && does_nothing(words)) idle = k;
    const bool better =
        keys.size() > most || (best >= 0 && keys.size() == most && words.size() < fewest);
    if (better && std::ranges::all_of(keys, held))
      best = k, most = keys.size(), fewest = words.size();
  }
  return best >= 0 ? best : idle;
}

HumanPlayer::HumanPlayer(const EnvSpec& spec, Keyboard& keyboard, bool turned)
    : Player("human"),
      action_(spec.action),
      keyboard_(&keyboard),
      turned_(turned),
      by_turns_(action_.discrete() && category_of(action_, [](Key) { return false; }) < 0) {}

bool HumanPlayer::waits() {
  if (!action_.discrete()) return false;
  if (by_turns_ && !keyboard_->pressed_all()) return true;
  chosen_ = category_of(
      action_, [&](Key key) { return by_turns_ ? keyboard_->pressed(key) : keyboard_->held(key); });
  // also keys that say nothing
  keyboard_->forget();
  return chosen_ < 0;
}

void HumanPlayer::act(TimeStep& step, Carry&, const ActKey&) {
  if (action_.discrete()) {
    step.action.data_ptr<int32_t>()[0] = int32_t(chosen_);
    return;
  }
  const auto axis = [&](Key less, Key more) {
    return float(keyboard_->held(more)) - float(keyboard_->held(less));
  };
  const float sign = turned_ ? -1.f : 1.f;
  const float wanted[4] = {sign * axis(Key::left, Key::right), sign * axis(Key::down, Key::up),
                           axis(Key::turn_right, Key::turn_left),
                           float(keyboard_->held(Key::fire))};
  float* action = step.action.data_ptr<float>();
  for (int64_t d = 0; d < action_.dims(); ++d) {
    const float w = d < 4 ? wanted[d] : 0.f;
    action[d] = w * (w < 0.f ? -action_.low[size_t(d)] : action_.high[size_t(d)]);
  }
}

}  // namespace maglev
