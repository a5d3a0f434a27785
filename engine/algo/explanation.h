#pragma once
// What a policy makes of one observation, for people who look: what it would do and why, and what
// of the observation that came from.

#include <array>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "base/env/spec.h"
#include "engine/nn/actor_critic.h"

namespace maglev {

/// What attributions are of: the logits of the categories that were taken (of continuous actions
/// the mean that is farthest from 0), or the value.
enum class Asked { action, value };
constexpr auto names_of(Asked) { return std::array{"action", "value"}; }

/// An observation as layers see it, and which of its numbers mattered. All of one shape, [C, H, W]
/// or [D] f32.
struct InputAttribution {
  std::string name = {};  ///< the columns
  at::Tensor seen = {};
  at::Tensor gradient = {};  ///< of what was asked, at what was seen
  at::Tensor integrated =
      {};  ///< integrated gradients: with the baseline they sum to what was asked
};

/// Of one row; undefined or empty is what a policy does not tell.
struct Explanation {
  at::Tensor log_probs = {};  ///< [categories] f32, within each head; -inf: excluded
  at::Tensor mean = {};       ///< [dims] f32 of continuous actions, in the environment's units
  at::Tensor deviation = {};  ///< [dims] f32, likewise
  std::optional<double> value = {};           ///< in the reward's units
  std::vector<LayerOutput> layers = {};       ///< [1, ...] each, from the observation on
  std::vector<InputAttribution> inputs = {};  ///< where something was asked
  std::string question = {};                  ///< what was asked, in words: "the value"
  double asked = 0, baseline = 0;             ///< its answer at the observation, and at zeros
};

/// Attributions of an action are of some numbers of its distribution, added up.
struct AskedOfAction {
  at::Tensor places;  ///< [n] i64: where they stand among the logits of all heads, or the means
  std::string words;
};
/// The logits of the categories in `taken` [heads] i32; of continuous actions, whose `mean` [dims]
/// f32 is as the policy gives it, the mean that is farthest from 0.
AskedOfAction asked_of_action(const ActionSpec& action, const at::Tensor& taken,
                              const at::Tensor& mean);

/// Points of the path from the baseline to an observation.
constexpr int64_t kPathPoints = 32;

/// Values [rows] f32 of rows of inputs [rows, ...], with gradients.
using RowsToValue = std::function<at::Tensor(const std::vector<at::Tensor>& inputs)>;

/// Fills `into.inputs`, one for each of `inputs` [1, ...] f32 and named already, asked and
/// baseline. Gradients, and integrated gradients from zeros (Sundararajan, Taly and Yan, "Axiomatic
/// attribution for deep networks", 2017) by the midpoint rule with `points` points: the input times
/// the mean gradient at shares (k + 1/2) / points of it. They sum to asked - baseline but for the
/// rule's error, at most the total variation of the value's derivative along the path over 2 *
/// points.
void attribute(Explanation& into, const std::vector<at::Tensor>& inputs, const RowsToValue& value,
               int64_t points = kPathPoints);

}  // namespace maglev
