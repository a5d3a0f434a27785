#include "base/datalog/mine.h"

#include <algorithm>
#include <span>
#include <tuple>

#include "base/core/error.h"

namespace maglev::datalog {
namespace {

/// A predicate one way round: 2 (p - 1) is p(X,Y), 2 (p - 1) + 1 is p(Y,X).
using Way = int32_t;
Way turned(Way way) { return way ^ 1; }
int32_t predicate_of(Way way) { return way / 2 + 1; }

/// Pairs of one way, by their first constant.
struct WayPairs {
  std::vector<int32_t> rows;   // constants that have pairs, sorted
  std::vector<int32_t> begin;  // of each constant's pairs, by constant
  std::vector<int32_t> second;
};

/// A fact as its first constant sees it: turned when that is the second argument.
struct PairEdge {
  int32_t second;
  Way way;
};

struct PairGraph {
  explicit PairGraph(const Program& program)
      : constants(program.constants.size()), ways(2 * program.predicates.size()) {
    std::vector<std::tuple<Way, int32_t, int32_t>> pairs;
    for (const Atom& a : program.facts) {
      const Way way = 2 * (a.predicate - 1);
      pairs.push_back({way, a.first, a.second}), pairs.push_back({turned(way), a.second, a.first});
    }
    std::sort(pairs.begin(), pairs.end());
    pairs.erase(std::unique(pairs.begin(), pairs.end()), pairs.end());
    matrices.resize(size_t(ways));
    edges.resize(size_t(constants) + 1);
    for (WayPairs& m : matrices) m.begin.assign(size_t(constants) + 2, 0);
    for (const auto& [way, first, second] : pairs) {
      WayPairs& m = matrices[size_t(way)];
      if (m.rows.empty() || m.rows.back() != first) m.rows.push_back(first);
      ++m.begin[size_t(first) + 1];
      m.second.push_back(second);
      if (first != second) edges[size_t(first)].push_back({second, way});
    }
    for (WayPairs& m : matrices)
      for (size_t i = 1; i < m.begin.size(); ++i) m.begin[i] += m.begin[i - 1];
  }

  /// Whom a constant has a pair with, sorted.
  std::span<const int32_t> row(Way way, int32_t constant) const {
    const WayPairs& m = matrices[size_t(way)];
    const size_t begin = size_t(m.begin[size_t(constant)]);
    return std::span(m.second).subspan(begin, size_t(m.begin[size_t(constant) + 1]) - begin);
  }
  bool has(Way way, int32_t first, int32_t second) const {
    return std::ranges::binary_search(row(way, first), second);
  }

  int32_t constants;
  Way ways;
  std::vector<WayPairs> matrices;            // by way
  std::vector<std::vector<PairEdge>> edges;  // by first constant, to others
};

/// What is counted of one body: X and Y are its ends.
class PairCounts {
 public:
  explicit PairCounts(const PairGraph& graph)
      : graph_(graph),
        seen_(size_t(graph.constants) + 1),
        rows_(seen_.size()),
        columns_(seen_.size()),
        support_(size_t(graph.ways)) {}

  void begin() {
    std::fill(rows_.begin(), rows_.end(), 0);
    std::fill(columns_.begin(), columns_.end(), 0);
    std::fill(support_.begin(), support_.end(), 0);
    body_ = 0;
  }
  /// Pairs of one X: begin_row, then each Y, maybe more than once, then end_row. X itself is no Y.
  void begin_row(int32_t x) { seen_[size_t(x)] = ++stamp_; }
  void add(int32_t y) {
    if (seen_[size_t(y)] == stamp_) return;
    seen_[size_t(y)] = stamp_;
    ++columns_[size_t(y)];
    ++row_;
  }
  void end_row(int32_t x) {
    if (!row_) return;
    rows_[size_t(x)] = row_;
    body_ += row_;
    row_ = 0;
    for (const PairEdge& edge : graph_.edges[size_t(x)])
      support_[size_t(edge.way)] += seen_[size_t(edge.second)] == stamp_;
  }

  int64_t body() const { return body_; }
  /// Pairs that a head of this way has too.
  int64_t support(Way head) const { return support_[size_t(head)]; }
  /// Pairs whose end that is the head's first argument begins some fact of the head.
  int64_t pca_body(Way head) const {
    const std::vector<int32_t>& ends = head & 1 ? columns_ : rows_;
    int64_t pairs = 0;
    for (int32_t x : graph_.matrices[size_t(head & ~1)].rows) pairs += ends[size_t(x)];
    return pairs;
  }

 private:
  const PairGraph& graph_;
  std::vector<uint64_t> seen_;
  std::vector<int32_t> rows_, columns_;  // pairs that a constant begins, ends
  std::vector<int64_t> support_;
  uint64_t stamp_ = 0;
  int64_t body_ = 0;
  int32_t row_ = 0;
};

constexpr int32_t kX = -1, kY = -2, kZ = -3;

Atom atom_of(Way way, int32_t from, int32_t to) {
  return way & 1 ? Atom{predicate_of(way), to, from} : Atom{predicate_of(way), from, to};
}

Way way_of(const Atom& atom, int32_t from) {
  return 2 * (atom.predicate - 1) + (atom.first != from);
}

class Miner {
 public:
  Miner(const Program& program, const MineOptions& options)
      : graph_(program), options_(options), counts_(graph_) {}

  std::vector<MinedRule> mine() {
    for (Way a = 0; a < graph_.ways; ++a) {
      mine_atom(a);
      // a body read backwards is a(Y), b(X): counted with the one that it is
      for (Way b = 0; b < graph_.ways; ++b)
        if (std::pair(a, b) <= std::pair(turned(b), turned(a))) mine_path(a, b);
    }
    return std::move(rules_);
  }

 private:
  void mine_atom(Way a) {
    const WayPairs& m = graph_.matrices[size_t(a)];
    counts_.begin();
    for (int32_t x : m.rows) {
      counts_.begin_row(x);
      for (int32_t i = m.begin[size_t(x)]; i < m.begin[size_t(x) + 1]; ++i)
        counts_.add(m.second[size_t(i)]);
      counts_.end_row(x);
    }
    for (Way head = 0; head < graph_.ways; head += 2)
      if (head != a) keep(head, {atom_of(a, kX, kY)});
  }

  void mine_path(Way a, Way b) {
    const WayPairs &m = graph_.matrices[size_t(a)], &n = graph_.matrices[size_t(b)];
    counts_.begin();
    for (int32_t x : m.rows) {
      counts_.begin_row(x);
      for (int32_t i = m.begin[size_t(x)]; i < m.begin[size_t(x) + 1]; ++i) {
        const size_t z = size_t(m.second[size_t(i)]);
        for (int32_t j = n.begin[z]; j < n.begin[z + 1]; ++j) counts_.add(n.second[size_t(j)]);
      }
      counts_.end_row(x);
    }
    const bool same_backwards = b == turned(a);
    for (Way head = 0; head < graph_.ways; head += 2) {
      keep(head, {atom_of(a, kX, kZ), atom_of(b, kZ, kY)});
      if (!same_backwards) keep(head | 1, {atom_of(turned(b), kX, kZ), atom_of(turned(a), kZ, kY)});
    }
  }

  bool bears_out(const MinedRule& mined) const {
    return mined.support >= options_.support && mined.support > 0 &&
           double(mined.support) >= options_.confidence * double(mined.body);
  }

  /// Pairs that the head has and the body has by way of that very fact alone: p(x,y) is
  /// p(x,Z), q(Z,y) with Z = y, or q(x,Z), p(Z,y) with Z = x, and there is no other Z.
  int64_t own_pairs(Way head, Way a, Way b) const {
    if (head != a && head != b) return 0;
    int64_t pairs = 0;
    for (int32_t x : graph_.matrices[size_t(head)].rows)
      for (int32_t y : graph_.row(head, x)) {
        const bool by_y = head == a && graph_.has(b, y, y), by_x = head == b && graph_.has(a, x, x);
        if (x == y || (!by_y && !by_x)) continue;
        const auto ends = graph_.row(turned(b), y);
        pairs += std::ranges::none_of(graph_.row(a, x), [&](int32_t z) {
          const bool own = (head == a && z == y) || (head == b && z == x);
          return !own && std::ranges::binary_search(ends, z);
        });
      }
    return pairs;
  }

  void keep(Way head, std::vector<Atom> body) {
    MinedRule mined{.support = counts_.support(head), .body = counts_.body()};
    // without own pairs it is less sure: most rules need no look at them
    if (!bears_out(mined)) return;
    mined.pca_body = counts_.pca_body(head);
    if (body.size() == 2) {
      const int64_t own = own_pairs(head & ~1, way_of(body[0], kX), way_of(body[1], kZ));
      mined.support -= own, mined.body -= own, mined.pca_body -= own;
      if (!bears_out(mined)) return;
    }
    mined.rule = {.head = {predicate_of(head), kX, kY},
                  .body = std::move(body),
                  .confidence = double(mined.support) / double(mined.body),
                  .variables = {"X", "Y"}};
    if (mined.rule.body.size() == 2) mined.rule.variables.push_back("Z");
    rules_.push_back(std::move(mined));
  }

  PairGraph graph_;
  MineOptions options_;
  PairCounts counts_;
  std::vector<MinedRule> rules_;
};

bool surer(const MinedRule& a, const MinedRule& b) {
  const auto key = [](const MinedRule& m) {
    return std::tuple(m.rule.head.predicate, -m.rule.confidence, -m.support, m.rule.body.size());
  };
  if (key(a) != key(b)) return key(a) < key(b);
  const auto term = [](const Atom& atom) {
    return std::tuple(atom.predicate, -atom.first, -atom.second);
  };
  for (size_t i = 0; i < a.rule.body.size(); ++i)
    if (!(a.rule.body[i] == b.rule.body[i])) return term(a.rule.body[i]) < term(b.rule.body[i]);
  return false;
}

}  // namespace

std::vector<MinedRule> mine_rules(const Program& program, const MineOptions& options) {
  std::vector<MinedRule> rules = Miner(program, options).mine();
  std::sort(rules.begin(), rules.end(), surer);
  if (!options.per_head) return rules;
  std::vector<int64_t> kept(size_t(program.predicates.size()) + 1);
  std::erase_if(rules, [&](const MinedRule& mined) {
    return ++kept[size_t(mined.rule.head.predicate)] > options.per_head;
  });
  return rules;
}

}  // namespace maglev::datalog
