#include "base/datalog/rule_answers.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/core/error.h"

namespace maglev::datalog {
namespace {

bool has_term(const Atom& atom, int32_t term) { return atom.first == term || atom.second == term; }

}  // namespace

RuleAnswers::RuleAnswers(const Program& program, const Knowledge& k) : program_(program), k_(k) {
  for (int32_t predicate = 1; predicate <= k.predicates; ++predicate) {
    begin_.push_back(int32_t(plans_[0].size()));
    const Range range = k.rules_of(predicate);
    std::vector<int32_t> rules;
    for (int32_t rule = range.begin; rule < range.end; ++rule)
      if (program.rules[size_t(k.rule_of_program(rule))].confidence > 0) rules.push_back(rule);
    std::stable_sort(rules.begin(), rules.end(), [&](int32_t a, int32_t b) {
      return program.rules[size_t(k.rule_of_program(a))].confidence >
             program.rules[size_t(k.rule_of_program(b))].confidence;
    });
    for (const bool asks_first : {false, true})
      for (int32_t rule : rules) plans_[asks_first].push_back(plan_of(rule, asks_first));
  }
  begin_.push_back(int32_t(plans_[0].size()));
}

RuleAnswers::Plan RuleAnswers::plan_of(int32_t rule, bool asks_first) const {
  Plan plan{.rule = k_.rule_of_program(rule), .head = k_.head(rule), .steps = {}};
  const int32_t known = asks_first ? plan.head.second : plan.head.first;
  const int32_t asked = asks_first ? plan.head.first : plan.head.second;
  std::array<bool, kMaxRuleVariables + 1> bound{};
  const auto bind = [&](int32_t term) {
    if (term < 0) bound[size_t(-term)] = true;
  };
  const auto is_bound = [&](int32_t term) { return term > 0 || bound[size_t(-term)]; };
  bind(known);

  // next is the atom of which most is bound by then, so that few facts match
  const Range body = k_.body(rule);
  std::vector<Atom> left;
  for (int32_t i = body.begin; i < body.end; ++i) left.push_back(k_.body_atom(i));
  std::vector<Atom> done;
  while (!left.empty()) {
    const auto bound_terms = [&](const Atom& a) { return is_bound(a.first) + is_bound(a.second); };
    const auto next = std::max_element(left.begin(), left.end(), [&](const Atom& a, const Atom& b) {
      return bound_terms(a) < bound_terms(b);
    });

    // the variables of the body that later atoms ask for, but for the known one, which is the same
    // throughout. An atom of the head's predicate may be the answer itself, and then all of it
    // matters
    int32_t carries = 0;
    for (int32_t v = 1; v <= kMaxRuleVariables; ++v)
      if (bound[size_t(v)] && -v != known &&
          (-v == asked ||
           std::ranges::any_of(left, [&](const Atom& a) { return has_term(a, -v); })))
        carries = carries || -v == asked ? kMore : -v;
    const auto of_head = [&](const Atom& a) { return a.predicate == plan.head.predicate; };
    if (std::ranges::any_of(done, of_head)) carries = kMore;

    plan.steps.push_back({*next, carries});
    bind(next->first), bind(next->second);
    done.push_back(*next);
    left.erase(next);
  }
  return plan;
}

/// One question's rules, one after another.
class RuleAnswers::Grounding {
 public:
  Grounding(const Knowledge& k, const AskedAtom& question, Scratch& scratch)
      : k_(k), question_(question), scratch_(scratch) {}

  void answer(const Plan& plan, std::vector<RuleAnswer>& answers) {
    plan_ = &plan, answers_ = &answers;
    terms_ = {};
    known_ = question_.asks_first ? plan.head.second : plan.head.first;
    asked_ = question_.asks_first ? plan.head.first : plan.head.second;
    if (known_ > 0 && known_ != question_.known) return;
    if (known_ < 0) terms_[size_t(-known_)] = question_.known;
    // one row of stamps for what each step carries, and one for the answers
    const size_t stamps = (plan.steps.size() + 1) * (size_t(k_.constants) + 1);
    if (scratch_.seen.size() < stamps) scratch_.seen.resize(stamps, 0);
    if (++scratch_.stamp == 0) {
      std::fill(scratch_.seen.begin(), scratch_.seen.end(), 0);
      scratch_.stamp = 1;
    }
    ground(0);
  }

 private:
  int32_t value(int32_t term) const { return term > 0 ? term : terms_[size_t(-term)]; }
  bool bind(int32_t term, int32_t constant) {
    if (value(term)) return value(term) == constant;
    terms_[size_t(-term)] = constant;
    return true;
  }
  /// Whether this is the first time that a row of stamps sees a constant.
  bool is_new(size_t row, int32_t constant) {
    uint32_t& seen = scratch_.seen[row * (size_t(k_.constants) + 1) + size_t(constant)];
    return std::exchange(seen, scratch_.stamp) != scratch_.stamp;
  }
  /// Whether a constant may still become an answer of this rule.
  bool is_wanted(int32_t answer) const {
    const size_t row = plan_->steps.size() * (size_t(k_.constants) + 1);
    return scratch_.seen[row + size_t(answer)] != scratch_.stamp &&
           (answer != question_.known || asked_ == known_ || asked_ > 0 || known_ > 0);
  }

  /// Grounds the steps from `s` on. Whether they could be, where the answer is bound: that is then
  /// all there is to know.
  bool ground(size_t s) {
    const bool was_bound = value(asked_) != 0;
    if (s == plan_->steps.size()) return take();
    const Step& step = plan_->steps[s];
    if (step.carries != kMore && !is_new(s, step.carries ? value(step.carries) : 0)) return false;

    const Atom goal{step.atom.predicate, value(step.atom.first), value(step.atom.second)};
    if (goal.first && goal.second) return k_.find(goal) >= 0 && ground(s + 1);
    const bool backwards = !goal.first && goal.second;
    const Range places = goal.first    ? k_.of_first(goal.predicate, goal.first)
                         : goal.second ? k_.of_second(goal.predicate, goal.second)
                                       : k_.of(goal.predicate);
    const auto free_again = [&] {
      if (!goal.first && step.atom.first < 0) terms_[size_t(-step.atom.first)] = 0;
      if (!goal.second && step.atom.second < 0) terms_[size_t(-step.atom.second)] = 0;
    };
    for (int32_t i = places.begin; i < places.end; ++i) {
      const Atom& fact = k_.fact(backwards ? k_.by_second(i) : i);
      const bool fits = bind(step.atom.first, fact.first) && bind(step.atom.second, fact.second);
      const int32_t answer = value(asked_);
      const bool found = fits && (answer == 0 || is_wanted(answer)) && ground(s + 1);
      free_again();
      if (found && was_bound) return true;
    }
    return false;
  }

  /// Takes the answer, unless a fact of the body is the answer itself.
  bool take() {
    const int32_t answer = value(asked_);
    if (!is_wanted(answer)) return false;
    const Atom said{question_.predicate, value(plan_->head.first), value(plan_->head.second)};
    for (const Step& step : plan_->steps)
      if (Atom{step.atom.predicate, value(step.atom.first), value(step.atom.second)} == said)
        return false;
    is_new(plan_->steps.size(), answer);
    answers_->push_back({answer, plan_->rule});
    return true;
  }

  const Knowledge& k_;
  const AskedAtom question_;
  Scratch& scratch_;
  const Plan* plan_ = nullptr;
  std::vector<RuleAnswer>* answers_ = nullptr;
  int32_t known_ = 0, asked_ = 0;  ///< the head's terms
  std::array<int32_t, kMaxRuleVariables + 1> terms_{};
};

std::vector<RuleAnswer> RuleAnswers::of(const AskedAtom& question, Scratch& scratch) const {
  MAGLEV_ASSERT(question.predicate >= 1 && question.predicate <= k_.predicates,
                "a question is of the graph's predicates");
  std::vector<RuleAnswer> answers;
  Grounding grounding(k_, question, scratch);
  const auto& plans = plans_[question.asks_first];
  for (int32_t p = begin_[size_t(question.predicate - 1)]; p < begin_[size_t(question.predicate)];
       ++p)
    grounding.answer(plans[size_t(p)], answers);
  std::stable_sort(answers.begin(), answers.end(), [](const RuleAnswer& a, const RuleAnswer& b) {
    return a.constant < b.constant;
  });
  return answers;
}

}  // namespace maglev::datalog
