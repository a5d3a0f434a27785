#include "verbs/rank/confidence.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "base/core/error.h"
#include "base/datalog/resolve.h"

namespace maglev::verbs::rank {
namespace {

using Goal = std::vector<datalog::Atom>;

/// A goal, and the logarithm of what the surest way to it is worth.
struct Reached {
  Goal goal;
  double log_confidence;
};

/// What the step to a child is worth.
double confidence_of(const datalog::Child& child, const datalog::Atom& resolved,
                     const datalog::Knowledge& knowledge, const datalog::Program& program) {
  if (child.rule < 0) return 1;
  // variables of rules are below 0, those of goals behind the constants
  const datalog::Atom& head = knowledge.head(child.rule);
  const bool two_variables = head.first < 0 && head.second < 0 && head.first != head.second;
  if (two_variables && resolved.first == resolved.second && resolved.first <= knowledge.constants)
    return 0;
  return program.rules[size_t(knowledge.rule_of_program(child.rule))].confidence;
}

}  // namespace

double log_confidence(const Kg::Params& params, const Kg::Assets& assets,
                      const datalog::Program& program, const Kg::State& state) {
  const datalog::Knowledge& k = assets.knowledge();
  const datalog::Resolve how = Kg::resolving(params, state);
  std::vector<Reached> reached{{.goal = {state.query}, .log_confidence = 0}};
  // the last goal is the end, whose step left nothing to prove
  for (int32_t i = 1; i < state.visited; ++i) {
    const bool last = i + 1 == state.visited;
    const uint64_t hash = Kg::visited(state)[i];
    std::vector<Reached> next;
    for (const Reached& from : reached) {
      datalog::Child child;
      const auto keep = [&](const datalog::Child&) {
        datalog::rename_variables(child.atoms, child.size, k.constants);
        if (last ? child.size > 0 : datalog::hash_of(child.atoms, child.size) != hash) return true;
        const double confidence = confidence_of(child, from.goal[0], k, program);
        const double log_confidence = from.log_confidence + std::log(std::max(confidence, 1e-300));
        // goals of one hash may stand in several orders, of which each goes on in its own way
        const Goal goal(child.atoms, child.atoms + child.size);
        const auto same = std::ranges::find(next, goal, &Reached::goal);
        if (same == next.end()) next.push_back({goal, log_confidence});
        else same->log_confidence = std::max(same->log_confidence, log_confidence);
        return true;
      };
      const auto atoms = int32_t(from.goal.size());
      datalog::resolve(k, how, from.goal.data(), atoms,
                       Kg::next_variable(k, from.goal.data(), atoms), child, keep);
    }
    MAGLEV_ASSERT(!next.empty(), "a proof's goals follow from each other");
    reached = std::move(next);
  }
  double best = kLeastLogConfidence;
  for (const Reached& r : reached) best = std::max(best, r.log_confidence);
  return best;
}

}  // namespace maglev::verbs::rank
