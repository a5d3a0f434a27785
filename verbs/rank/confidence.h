#pragma once
// What the rules of a proof are worth together. An episode keeps the goals that it came through and
// not what led from one to the next, so its goals are gone through once more.

#include "base/datalog/program.h"
#include "envs/kg/kg.h"

namespace maglev::verbs::rank {

/// A proof is worth no less, so that its score stays a number: log of 1e-12.
constexpr double kLeastLogConfidence = -27.6;

/// The logarithm of the product of the confidences of a proof's rules, in [kLeastLogConfidence, 0]:
/// of the surest way along the goals that `state`, whose query is proved, came through. Facts are
/// sure. A rule whose head has two variables is worth nothing where they are one constant as it is
/// applied: such pairs are not in its confidence.
double log_confidence(const Kg::Params& params, const Kg::Assets& assets,
                      const datalog::Program& program, const Kg::State& state);

}  // namespace maglev::verbs::rank
