#pragma once
// A person at the keyboard as one of a match's players.

#include <functional>
#include <string>

#include "base/env/entry.h"
#include "engine/play/player.h"
#include "verbs/play/keyboard.h"

namespace maglev {

/// Throws Error where keys cannot say what to do: of several heads, or of more categories than
/// there are digits where none is called by a direction.
void expect_played_by_hand(const EnvEntry& entry, const EnvSpec& spec);

/// Which keys do what, for the person.
std::string keys_text(const ActionSpec& action);

/// The category of a single head that keys ask for: a digit its number, arrows and space the one
/// whose name has these words ("up left") and no others, nothing the one that does nothing ("stay",
/// "coast", "no torque"). -1: none.
int64_t category_of(const ActionSpec& action, const std::function<bool(Key)>& held);

/// Continuous actions: two axes by directions, a third by turning, a fourth by fire. Categories: as
/// category_of(), of the keys that are held where one does nothing; else the game waits, and each
/// press is one step.
class HumanPlayer : public Player {
 public:
  /// `turned`: this agent's axes point the other way than on the picture. `keyboard` outlives this.
  HumanPlayer(const EnvSpec& spec, Keyboard& keyboard, bool turned);

  /// Whether nothing can be done by doing nothing, so that each press is a step.
  bool by_turns() const { return by_turns_; }
  /// Whether the next step wants keys that nobody has pressed yet. Asked before each step.
  bool waits();
  Carry initial_carry(int64_t) override { return {}; }
  void act(TimeStep& step, Carry&, const ActKey&) override;

 private:
  ActionSpec action_;
  Keyboard* keyboard_;
  bool turned_, by_turns_;
  int64_t chosen_ = 0;  ///< category of the next step
};

}  // namespace maglev
