#include "base/datalog/answers.h"

#include <algorithm>
#include <memory>
#include <mutex>
#include <tuple>

#include "base/core/error.h"
#include "base/datalog/resolve.h"
#include "base/trace/span.h"

namespace maglev::datalog {
namespace {

/// What a call may be answered with, and the least steps that takes.
struct Answer {
  int32_t first, second, steps;
};

/// Tables of one set of facts: all of them, or all but one.
class Tables {
 public:
  /// `over` has the tables of all facts: what has no answer there has none here. Null: these are
  /// it.
  Tables(const Knowledge& k, Tables* over) : k_(k), over_(over), slots_(256) {}

  /// Forgets all tables; `excluded` is no fact from now on.
  void exclude(const Atom& excluded) {
    excluded_ = excluded;
    answers_.clear(), count_ = 0;
    ++generation_;
  }

  /// Least steps of a proof of a ground atom by a rule, -1: none within `budget`.
  int32_t steps(const Atom& atom, int32_t budget) {
    const Range found = table(atom, budget);
    return found.size() ? answers_[size_t(found.begin)].steps : -1;
  }

 private:
  /// A call: constants, and above them variables; with the budget the key of a table.
  struct Slot {
    Atom call;
    int32_t budget;
    uint32_t generation = 0;
    Range answers;
  };

  /// Variables of a rule while its body is answered. Those that the call makes one share a value.
  struct Frame {
    int32_t same[kMaxRuleVariables];   ///< the variable whose value counts
    int32_t value[kMaxRuleVariables];  ///< 0: none yet

    Frame() {
      for (int32_t i = 0; i < kMaxRuleVariables; ++i) same[i] = i, value[i] = 0;
    }
    int32_t& of(int32_t term) { return value[same[-term - 1]]; }
    int32_t constant(int32_t term) { return term > 0 ? term : of(term); }
    /// Makes a term of the rule equal to a constant.
    bool set(int32_t term, int32_t to) {
      if (term > 0) return term == to;
      int32_t& v = of(term);
      if (v) return v == to;
      v = to;
      return true;
    }
    /// Makes two terms of the rule equal.
    bool join(int32_t a, int32_t b) {
      if (const int32_t c = constant(a)) return set(b, c);
      if (const int32_t c = constant(b)) return set(a, c);
      const int32_t from = same[-b - 1], to = same[-a - 1];
      for (int32_t& s : same)
        if (s == from) s = to;
      return true;
    }
  };

  bool variable(int32_t term) const { return term > k_.constants; }

  /// What rules prove of a call within the budget, in order; each answer once with its least steps,
  /// without those that are facts where the call has a variable. Places of answers_, until the next
  /// exclude().
  Range table(const Atom& call, int32_t budget) {
    if (budget < 1) return {};
    if (Slot* known = find(call, budget)) return known->answers;
    const bool ground = !variable(call.first) && !variable(call.second);
    Range answers{};
    // what is not there with all facts is not there with fewer
    if (!over_ || over_->table(call, budget).size()) {
      const size_t begin = scratch_.size();
      // a ground call has one answer: what fewer steps do is looked for first
      if (ground && budget > 1)
        if (const Range less = table(call, budget - 1); less.size())
          scratch_.push_back(answers_[size_t(less.begin)]);
      if (scratch_.size() == begin) answer_by_rules(call, budget, ground);
      answers = keep(begin);
    }
    insert(call, budget, answers);
    return answers;
  }

  void answer_by_rules(const Atom& call, int32_t budget, bool ground) {
    const Range rules = k_.rules_of(call.predicate);
    for (int32_t r = rules.begin; r < rules.end; ++r) {
      Frame frame;
      const Atom& head = k_.head(r);
      if (!variable(call.first) && !frame.set(head.first, call.first)) continue;
      if (!variable(call.second) && !frame.set(head.second, call.second)) continue;
      if (variable(call.first) && call.first == call.second && !frame.join(head.first, head.second))
        continue;
      const bool more = answer_body(frame, k_.body(r), 1, budget, [&](int32_t steps) {
        const Atom answer{head.predicate, frame.constant(head.first), frame.constant(head.second)};
        if (ground || !is_fact(answer)) scratch_.push_back({answer.first, answer.second, steps});
        return !ground;
      });
      if (!more) return;
    }
  }

  /// Calls emit(steps) -> bool for each way to answer what is left of a body, leftmost first, until
  /// it gives false: then false. `spent`: steps up to here.
  template <class Emit>
  bool answer_body(Frame& frame, Range body, int32_t spent, int32_t budget, const Emit& emit) {
    if (body.size() == 0) return emit(spent);
    const Atom& a = k_.body_atom(body.begin);
    const Range rest{body.begin + 1, body.end};
    int32_t first = frame.constant(a.first), second = frame.constant(a.second);
    if (first && second) {
      const Atom atom{a.predicate, first, second};
      if (is_fact(atom)) return answer_body(frame, rest, spent, budget, emit);
      const int32_t more = steps(atom, budget - spent);
      return more < 0 || answer_body(frame, rest, spent + more, budget, emit);
    }

    // a variable is bound by a fact, for a step, or by what rules prove
    if (spent == budget) return true;
    const bool open_first = !first, open_second = !second;
    const bool twice =
        open_first && open_second && frame.same[-a.first - 1] == frame.same[-a.second - 1];
    const auto answered = [&](int32_t one, int32_t two, int32_t steps) {
      if (twice && one != two) return true;
      if (open_first) frame.of(a.first) = one;
      if (open_second) frame.of(a.second) = two;
      return answer_body(frame, rest, spent + steps, budget, emit);
    };
    const auto unbind = [&] {
      if (open_first) frame.of(a.first) = 0;
      if (open_second) frame.of(a.second) = 0;
    };
    bool more = true;
    const Range facts = open_first && open_second ? k_.of(a.predicate)
                        : open_second             ? k_.of_first(a.predicate, first)
                                                  : k_.of_second(a.predicate, second);
    for (int32_t i = facts.begin; more && i < facts.end; ++i) {
      const Atom& fact = k_.fact(open_second ? i : k_.by_second(i));
      if (!(fact == excluded_)) more = answered(fact.first, fact.second, 1);
    }
    unbind();
    const int32_t free = k_.constants + 1;
    const Atom call{a.predicate, open_first ? free : first,
                    !open_second ? second : free + (open_first && !twice)};
    const Range proved = more ? table(call, budget - spent) : Range{};
    for (int32_t i = proved.begin; more && i < proved.end; ++i) {
      const Answer answer = answers_[size_t(i)];
      if (spent + answer.steps <= budget)
        more = answered(answer.first, answer.second, answer.steps);
    }
    unbind();
    return more;
  }

  bool is_fact(const Atom& atom) const { return !(atom == excluded_) && k_.find(atom) >= 0; }

  /// Moves what was scratched from `begin` on to the answers, sorted, the least of each.
  Range keep(size_t begin) {
    const auto from = scratch_.begin() + int64_t(begin);
    std::sort(from, scratch_.end(), [](const Answer& a, const Answer& b) {
      return std::tie(a.first, a.second, a.steps) < std::tie(b.first, b.second, b.steps);
    });
    const auto end = std::unique(from, scratch_.end(), [](const Answer& a, const Answer& b) {
      return a.first == b.first && a.second == b.second;
    });
    const Range kept{int32_t(answers_.size()), int32_t(answers_.size() + size_t(end - from))};
    answers_.insert(answers_.end(), from, end);
    scratch_.resize(begin);
    return kept;
  }

  uint64_t hash(const Atom& call, int32_t budget) const {
    return mix(hash_of(call) + uint64_t(budget));
  }
  Slot* find(const Atom& call, int32_t budget) {
    for (uint64_t h = hash(call, budget);; ++h) {
      Slot& slot = slots_[h & (slots_.size() - 1)];
      if (slot.generation != generation_) return nullptr;
      if (slot.call == call && slot.budget == budget) return &slot;
    }
  }
  void insert(const Atom& call, int32_t budget, Range answers) {
    if (2 * ++count_ > slots_.size()) {
      std::vector<Slot> old(2 * slots_.size());
      old.swap(slots_);
      for (const Slot& slot : old)
        if (slot.generation == generation_) place(slot);
    }
    place({call, budget, generation_, answers});
  }
  void place(const Slot& slot) {
    uint64_t h = hash(slot.call, slot.budget);
    while (slots_[h & (slots_.size() - 1)].generation == generation_) ++h;
    slots_[h & (slots_.size() - 1)] = slot;
  }

  const Knowledge& k_;
  Tables* over_;
  Atom excluded_{};
  std::vector<Slot> slots_;  ///< open addressing; those of an older generation are empty
  uint32_t generation_ = 1;
  size_t count_ = 0;
  std::vector<Answer> answers_;
  std::vector<Answer> scratch_;  ///< of tables in the making, one behind the other
};

/// What one thread answers with.
struct Answerer {
  Tables all, but_one;
  explicit Answerer(const Knowledge& k) : all(k, nullptr), but_one(k, &all) {}

  int32_t least(const Knowledge& k, const Atom& query, int32_t depth, bool exclude_query) {
    const bool fact = k.find(query) >= 0;
    if (!fact) return all.steps(query, depth);
    if (!exclude_query) return 1;
    but_one.exclude(query);
    return but_one.steps(query, depth);
  }
};

}  // namespace

std::vector<int32_t> least_steps(const Knowledge& k, std::span<const Atom> queries, int32_t depth,
                                 bool exclude_query, ThreadPool& pool) {
  MAGLEV_ASSERT(depth >= 1, "a proof has a step");
  constexpr size_t kBlock = 32;
  std::vector<int32_t> steps(queries.size());
  // tables are a function of facts and rules: which thread made them shows nowhere
  std::mutex mutex;
  std::vector<std::unique_ptr<Answerer>> idle;
  const auto take = [&] {
    const std::lock_guard lock(mutex);
    if (idle.empty()) return std::make_unique<Answerer>(k);
    auto one = std::move(idle.back());
    idle.pop_back();
    return one;
  };
  pool.run(int64_t((queries.size() + kBlock - 1) / kBlock), [&](int64_t block) {
    const auto span = trace::stage("search");
    auto answerer = take();
    const size_t begin = size_t(block) * kBlock, end = std::min(begin + kBlock, queries.size());
    for (size_t i = begin; i < end; ++i)
      steps[i] = answerer->least(k, queries[i], depth, exclude_query);
    const std::lock_guard lock(mutex);
    idle.push_back(std::move(answerer));
  });
  return steps;
}

}  // namespace maglev::datalog
