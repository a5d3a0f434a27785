#pragma once
// Views of the Goodhart grid that are made up, and whether a move is right in them.

#include <cstdint>
#include <utility>
#include <vector>

#include "engine/data/batch.h"
#include "envs/goodhart/goodhart.h"

namespace maglev::verbs::verify {

/// What lies where, seen from the agent; everything else is empty.
struct View {
  std::vector<std::pair<CellAt, uint32_t>> cells;
};

/// Food alone, in each of the 8 directions, at two cells or as far as is seen.
std::vector<View> food_views(const Goodhart::Params& params);
/// Poison on each of the 8 cells beside the agent with food on each of the 16 around those; where
/// only one cell is seen, poison alone.
std::vector<View> poison_views(const Goodhart::Params& params);

/// As the environment stores it, 2-bit codes in rows.
std::vector<uint8_t> packed(const View& view, int32_t radius);

/// The move an action makes; the inverse of goodhart::move_by.
CellAt move_of(int32_t action, int32_t max_move);

/// The first cell of the view is nearer afterwards, as the crow flies.
bool nears_food(const View& view, CellAt move);
bool keeps_off_poison(const View& view, CellAt move);

/// Whether a stored window may follow another by a move: what both show is the same, but for the
/// agent's cell and one item that appeared where what was eaten grew again.
bool follows(const uint8_t* before, const uint8_t* after, CellAt move, int32_t radius);

/// What the networks' encoder makes of recorded steps [T or T + 1, rows, ...] of a policy, held to
/// the step they belong to.
struct Alignment {
  int64_t steps = 0;
  int64_t unlike = 0;  ///< the policy does not see what its mode shows of what the critic sees
  int64_t unpaid =
      0;  ///< the reward is not that of the cell that the critic saw where the move led
};
/// The reward is held to what was seen unless it is shaped, or a move leads out of the view.
Alignment alignment_of(const Goodhart::Params& params, const EnvSpec& spec, const Batch& batch);

}  // namespace maglev::verbs::verify
