#pragma once
// What a recording says below its picture: who plays, the score, the clock, and what was counted.

#include <string>
#include <vector>

#include "base/picture/canvas.h"
#include "verbs/play/match.h"

namespace maglev {

constexpr int kCaptionHeight = 40;  ///< pixels

/// The picture with the match's state in words below it, kCaptionHeight higher.
Canvas captioned(const Canvas& picture, const Match& match);

/// Who plays, in order; where more than two do, neighbours of one name as one: "7 x greedy".
std::vector<std::string> player_names(const Match& match);

/// A player's name as people want to read it: of a run's folder the last part.
std::string short_name(const Player& player);

}  // namespace maglev
