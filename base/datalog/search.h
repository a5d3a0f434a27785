#pragma once
// Searches for proofs over one step of resolution: breadth first, iterative deepening (Korf 1985)
// with a table of the goals that were searched and how deep, and a beam by anybody's scores. A
// query with variables has many answers: each distinct one comes once, with a shortest proof where
// the search is complete, in an order that is always the same.
//
// Depth is counted as proof.h says. Breadth first and deepening are complete: within the limits
// they find every answer, in order of depth. A beam keeps the best goals of each depth and may miss
// some.

#include <array>
#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <limits>
#include <optional>
#include <span>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "base/datalog/knowledge.h"
#include "base/datalog/proof.h"
#include "base/datalog/resolve.h"

namespace maglev::datalog {

enum class Strategy { breadth, deepening, beam };
constexpr auto names_of(Strategy) {
  return std::array<std::string_view, 3>{"breadth", "deepening", "beam"};
}

/// A goal and its unproved children, to be scored.
struct Expansion {
  std::span<const Atom> goal;
  std::vector<std::span<const Atom>> children;
};

/// Writes one score for each child of each expansion, in their order; more is better. A beam keeps
/// goals with the greatest sum of scores from the query on, so a policy's log-probabilities fit.
using Scores = std::function<void(std::span<const Expansion>, std::span<float>)>;

/// Scores without a policy: the sum along a path is less the more atoms there are to prove.
void score_fewest_atoms(std::span<const Expansion> expansions, std::span<float> scores);

struct SearchOptions {
  Strategy strategy = Strategy::breadth;
  int32_t depth = 20;         ///< steps of a proof, at most
  int64_t nodes = 1'000'000;  ///< children made by resolution, at most: bounds time and memory
  double seconds = std::numeric_limits<double>::infinity();
  int32_t width = 64;  ///< of a beam: goals kept a depth
  Scores scores = score_fewest_atoms;
  /// A goal has at most kMaxAtoms - 1 atoms here: the answer lies beside it.
  Resolve how = {.max_atoms = kMaxAtoms - 1};
};

/// Why a search is over.
enum class Ended { not_yet, searched, depth, nodes, seconds };
constexpr auto names_of(Ended) {
  return std::array<std::string_view, 5>{"not_yet", "searched", "depth", "nodes", "seconds"};
}

/// An atom that no fact and no rule resolves, and how often a goal ended there.
struct DeadEnd {
  Atom atom;
  int64_t times;
};
constexpr size_t kMostDeadEnds = 8;

struct SearchReport {
  Ended ended = Ended::not_yet;
  int64_t goals = 0;     ///< that were resolved
  int64_t children = 0;  ///< that they had
  int64_t repeated = 0;  ///< left out: the same goal was searched as deep, or its answer is known
  int64_t too_long = 0;  ///< children dropped because they had more than max_atoms
  int64_t too_deep = 0;  ///< unproved children at the depth limit; 0: all below was searched
  int64_t off_beam = 0;  ///< goals a beam did not keep
  int32_t depth = 0;     ///< of the deepest goal that was resolved, from 0
  std::vector<DeadEnd> dead_ends;  ///< the first kMostDeadEnds distinct ones
  int64_t other_dead_ends = 0;     ///< how often a goal ended at another
};

/// One search. Answers come when they are asked for: work is done in next() alone.
class Search {
 public:
  /// A variable of the query is above the constants, both the same or not. `k` outlives the search.
  /// Throws Error for a limit below 1.
  Search(const Knowledge& k, const Atom& query, SearchOptions options);

  /// The proof of the next answer; nothing when there is no more, see report().
  std::optional<Proof> next();
  const SearchReport& report() const { return report_; }

 private:
  /// A goal that was met; its atoms are in atoms_, the answer as far as it is known first.
  struct Goal {
    int64_t atoms;
    int32_t size;
    int32_t left = -1;  ///< steps below it that were searched; -1: none yet
  };
  /// A goal on the way, and how it was reached.
  struct Place {
    int32_t goal, depth;
    int64_t parent;  ///< a place; -1: the query
    Move move;
    float score = 0;
  };

  void advance_breadth();
  void advance_deepening();
  void advance_beam();
  /// Resolves the goal of places_[place]: its proofs go to ready_, unproved children that are to be
  /// searched become places, in their order. `left`: steps that may follow the goal.
  void expand(int64_t place, int32_t left);
  int32_t intern(const Atom* atoms, int32_t size);
  /// Whether a goal like this was met, and is or will be resolved.
  bool is_searched(const Atom* atoms, int32_t size) const;
  void grow_table();
  std::span<const Atom> atoms_of(int32_t goal) const;
  bool known(const Atom& answer) const;
  void found(int64_t place, const Child& child, const Atom& answer);
  void add_dead_end(const Atom& atom);
  bool out_of_limits();

  const Knowledge& k_;
  const Atom query_;
  const SearchOptions options_;
  SearchReport report_;
  const std::chrono::steady_clock::time_point begin_;

  std::vector<Atom> atoms_;
  std::vector<Goal> goals_;
  std::vector<int32_t> table_;  ///< open addressing: a goal + 1, or 0
  std::vector<Place> places_;
  std::vector<int64_t> stack_;  ///< deepening: places to expand, the next one last
  int64_t frontier_ = 0;  ///< breadth: the next place to expand; beam: the first of this depth
  int32_t limit_ = 0;     ///< deepening: depth of this iteration

  struct Found {
    Atom answer;
    std::vector<Move> moves;
  };
  std::deque<Found> ready_;
  struct AtomHash {
    size_t operator()(const Atom& a) const { return size_t(hash_of(a)); }
  };
  std::unordered_set<Atom, AtomHash> answers_;
};

}  // namespace maglev::datalog
