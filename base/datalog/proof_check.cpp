#include "base/datalog/proof_check.h"

#include <algorithm>
#include <map>
#include <tuple>

namespace maglev::datalog {
namespace {

class ProofCheck {
 public:
  ProofCheck(const Program& program, const Proof& proof, const Atom& excluded)
      : program_(program), proof_(proof), excluded_(excluded) {}

  std::string fault() {
    if (proof_.tree.empty()) return "there is no tree";
    // the tree: each node once below the root, its facts and rules those of the program
    reached_.assign(proof_.tree.size(), 0);
    if (!is_instance()) return "the answer is no instance of the query";
    if (!holds(0, 0)) return fault_;
    for (size_t i = 0; i < reached_.size(); ++i)
      if (!reached_[i]) return "node " + std::to_string(i) + " hangs nowhere";
    return fault_of_steps();
  }

 private:
  bool fail(const std::string& why) {
    fault_ = why;
    return false;
  }
  bool constant(int32_t term) const { return term >= 1 && term <= program_.constants.size(); }
  bool ground(const Atom& a) const {
    return a.predicate >= 1 && a.predicate <= program_.predicates.size() && constant(a.first) &&
           constant(a.second);
  }

  bool is_instance() const {
    const Atom &q = proof_.query, &a = proof_.answer;
    if (!(a == proof_.tree[0].atom) || a.predicate != q.predicate) return false;
    if (constant(q.first) ? q.first != a.first : q.first < 1) return false;
    if (constant(q.second) ? q.second != a.second : q.second < 1) return false;
    return q.first != q.second || a.first == a.second;
  }

  bool holds(int32_t i, size_t height) {
    if (i < 0 || size_t(i) >= proof_.tree.size())
      return fail("there is no node " + std::to_string(i));
    const ProofNode& node = proof_.tree[size_t(i)];
    const std::string where = "node " + std::to_string(i) + ": ";
    if (reached_[size_t(i)]++) return fail(where + "hangs below two nodes");
    if (height > proof_.tree.size()) return fail(where + "stands below itself");
    if (!ground(node.atom)) return fail(where + "no ground atom of the program");
    if (node.rule < 0) {
      if (!node.body.empty()) return fail(where + "a fact needs no proof");
      if (node.atom == excluded_) return fail(where + "uses the query that is excluded");
      const auto& facts = program_.facts;
      return std::find(facts.begin(), facts.end(), node.atom) != facts.end() ||
             fail(where + to_text(program_, node.atom) + " is no fact");
    }
    if (size_t(node.rule) >= program_.rules.size()) return fail(where + "no such rule");
    const Rule& rule = program_.rules[size_t(node.rule)];
    if (node.substitution.size() != rule.variables.size())
      return fail(where + "a constant for each variable of the rule is wanted");
    for (int32_t term : node.substitution)
      if (!constant(term)) return fail(where + "a variable stays without a constant");
    const auto term = [&](int32_t t) { return t > 0 ? t : node.substitution[size_t(-t - 1)]; };
    const auto instance = [&](const Atom& a) {
      return Atom{a.predicate, term(a.first), term(a.second)};
    };
    if (!(instance(rule.head) == node.atom)) return fail(where + "the rule's head is another atom");
    if (node.body.size() != rule.body.size())
      return fail(where + "the rule's body is longer or shorter");
    for (size_t b = 0; b < rule.body.size(); ++b) {
      if (!holds(node.body[b], height + 1)) return false;
      if (!(proof_.tree[size_t(node.body[b])].atom == instance(rule.body[b])))
        return fail(where + "atom " + std::to_string(b + 1) + " of the body is another");
    }
    return true;
  }

  /// What a term of a goal became at the end; 0: nothing.
  int32_t final_of(int32_t term) const {
    for (size_t guard = 0; guard <= values_.size(); ++guard) {
      const auto at = values_.find(term);
      if (at == values_.end()) return constant(term) ? term : 0;
      term = at->second;
    }
    return 0;
  }
  bool stands_for(const Atom& atom, int32_t node) const {
    const Atom last{atom.predicate, final_of(atom.first), final_of(atom.second)};
    return last == proof_.tree[size_t(node)].atom;
  }

  /// The steps walk the tree: a goal is a list of nodes, each step puts one of them first and its
  /// body in its place, and what is struck out is a leaf.
  std::string fault_of_steps() {
    for (const ProofStep& step : proof_.steps)
      for (const Binding& b : step.bindings)
        if (constant(b.variable) || !values_.emplace(b.variable, b.term).second)
          return "a step binds what is bound";
    std::vector<int32_t> goal{0};
    for (size_t s = 0; s < proof_.steps.size(); ++s) {
      const ProofStep& step = proof_.steps[s];
      const std::string where = "step " + std::to_string(s + 1) + ": ";
      const auto selected = std::find(goal.begin(), goal.end(), step.node);
      if (selected == goal.end()) return where + "resolves what is not left to prove";
      std::rotate(goal.begin(), selected, selected + 1);
      if (step.goal.size() != goal.size()) return where + "a goal of another length";
      for (size_t i = 0; i < goal.size(); ++i)
        if (!stands_for(step.goal[i], goal[i])) return where + "an atom of the goal is another";
      const ProofNode& node = proof_.tree[size_t(step.node)];
      goal.erase(goal.begin());
      goal.insert(goal.begin(), node.body.begin(), node.body.end());
      for (int32_t struck : step.struck) {
        const auto at = std::find(goal.begin(), goal.end(), struck);
        if (at == goal.end() || proof_.tree[size_t(struck)].rule >= 0)
          return where + "strikes out what is no fact of the goal";
        goal.erase(at);
      }
    }
    return goal.empty() ? "" : "the steps end before the goal is empty";
  }

  const Program& program_;
  const Proof& proof_;
  const Atom& excluded_;
  std::string fault_;
  std::vector<int> reached_;
  std::map<int32_t, int32_t> values_;
};

}  // namespace

std::string fault_of(const Program& program, const Proof& proof, const Atom& excluded) {
  return ProofCheck(program, proof, excluded).fault();
}

}  // namespace maglev::datalog
