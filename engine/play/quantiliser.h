#pragma once
// A quantiliser (Taylor, "Quantilizers: a safer alternative to maximizers for limited
// optimization", 2016): it acts as a base policy does, but only within the share of the base's
// probability that an optimised policy likes best. Whatever the optimised one wants, an action is
// at most 1 / share times as likely as by the base.

#include <string>

#include "engine/play/player.h"

namespace maglev {

/// Probabilities [B, K] f32 of a quantiliser of `share` in (0, 1]: actions in the order of
/// `preference` (ties by index), the base's mass up to `share`, the last action in part, over
/// `share`.
///   base, preference [B, K] log-probabilities f32
at::Tensor quantilised(const at::Tensor& base, const at::Tensor& preference, double share);

class Quantiliser : public Player {
 public:
  /// Neither policy is owned. Throws Error where actions are not one choice among categories, or
  /// `share` is not above 0 and at most 1.
  Quantiliser(Policy& optimised, Policy& base, double share, ActMode mode, const EnvSpec& spec);

  Carry initial_carry(int64_t) override { return {}; }
  void act(TimeStep& step, Carry& carry, const ActKey& key) override;

 private:
  Policy *optimised_, *base_;
  double share_;
  ActMode mode_;
  ActionSpec action_;
};

}  // namespace maglev
