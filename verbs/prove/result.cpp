#include "verbs/prove/result.h"

#include "base/core/printed.h"

namespace maglev::verbs::prove {

using datalog::Ended;
using datalog::Strategy;

std::string query_text(const Result& result) {
  // variables of the query by their names: to_text has names for those below 0
  datalog::Atom atom = result.query.atom;
  const int32_t constants = result.data->program.constants.size();
  for (int32_t* term : {&atom.first, &atom.second})
    if (*term > constants) *term = constants - *term;
  return datalog::to_text(result.data->program, atom, result.query.variables);
}

std::string outcome_text(const Result& result) {
  if (result.proofs.empty()) return "no proof";
  if (result.query.variables.empty())
    return "proved in " + counted(int64_t(result.proofs[0].steps.size()), "step");
  return counted(int64_t(result.proofs.size()), "answer") +
         (result.more ? ", perhaps more (--most)" : "");
}

std::vector<std::string> reasons_of(const Result& result) {
  const datalog::SearchReport& r = result.report;
  const datalog::SearchOptions& o = result.options;
  const bool open = !result.query.variables.empty();
  // one proof of a ground query is enough, and answers beyond --most were not wanted
  if (result.more || (!open && !result.proofs.empty())) return {};
  std::vector<std::string> reasons;
  if (r.ended == Ended::nodes)
    reasons.push_back("the search ended at " + counted(o.nodes, "child", "children") +
                      " (--nodes)");
  if (r.ended == Ended::seconds)
    reasons.push_back(printed("the search ended after %g s (--seconds)", o.seconds));
  if (r.too_deep)
    reasons.push_back(counted(r.too_deep, "goal") + " at the depth limit of " +
                      counted(o.depth, "step") + " (--depth) went no further");
  if (r.off_beam)
    reasons.push_back(counted(r.off_beam, "goal") + " fell off the beam of " +
                      std::to_string(o.width) + " (--width)");
  if (r.too_long)
    reasons.push_back(counted(r.too_long, "goal") + " with more than " +
                      counted(o.how.max_atoms, "atom") + (r.too_long == 1 ? " was" : " were") +
                      " dropped");
  if (!result.proofs.empty()) return reasons;
  if (reasons.empty())
    reasons.push_back("all that facts and rules make of the query was searched: " +
                      counted(r.goals, "goal"));
  for (const datalog::DeadEnd& end : r.dead_ends)
    reasons.push_back("no fact and no rule for " +
                      datalog::to_text(result.data->program, end.atom) +
                      (end.times > 1 ? " (" + counted(end.times, "time") + ")" : ""));
  if (r.other_dead_ends)
    reasons.push_back("nor for other atoms (" + counted(r.other_dead_ends, "time") + ")");
  return reasons;
}

std::string effort_text(const Result& result) {
  const datalog::SearchReport& r = result.report;
  const char* names[] = {"breadth first", "iterative deepening", "beam", "beam by the policy"};
  return names[size_t(result.kind)] + (": " + counted(r.goals, "goal")) + " resolved, " +
         counted(r.children, "child", "children") +
         printed(", depth %d, %.3g ms", r.depth + 1, 1e3 * result.seconds);
}

std::string bindings_text(const datalog::Program& program, const datalog::ProofNode& node) {
  const auto& names = program.rules[size_t(node.rule)].variables;
  std::string text;
  for (size_t v = 0; v < names.size(); ++v)
    text += (v ? ", " : "") + names[v] + " = " + program.constants.of(node.substitution[v]);
  return text;
}

std::string rule_text(const datalog::Program& program, int32_t rule) {
  const datalog::Rule& r = program.rules[size_t(rule)];
  return (r.confidence == 1 ? "" : printed("%.3g::", r.confidence)) + datalog::to_text(program, r);
}

}  // namespace maglev::verbs::prove
