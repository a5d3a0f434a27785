#include "base/datalog/search.h"

#include <algorithm>
#include <numeric>
#include <string>

#include "base/core/error.h"

namespace maglev::datalog {

void score_fewest_atoms(std::span<const Expansion> expansions, std::span<float> scores) {
  size_t i = 0;
  for (const Expansion& e : expansions)
    for (const auto& child : e.children) scores[i++] = float(e.goal.size()) - float(child.size());
}

Search::Search(const Knowledge& k, const Atom& query, SearchOptions options)
    : k_(k), query_(query), options_(std::move(options)), begin_(std::chrono::steady_clock::now()) {
  const auto expect = [](bool good, const char* what) {
    if (!good) throw Error(std::string("[search] ") + what);
  };
  expect(options_.depth >= 1, "depth must be at least 1");
  expect(options_.nodes >= 1, "nodes must be at least 1");
  expect(options_.seconds > 0, "seconds must be above 0");
  expect(options_.width >= 1, "width must be at least 1");
  expect(options_.how.max_atoms >= 1 && options_.how.max_atoms < kMaxAtoms,
         "a goal has 1 to 31 atoms");
  table_.resize(1024);
  Atom goal[2] = {query, query};
  rename_variables(goal, 2, k_.constants);
  places_.push_back({.goal = intern(goal, 2), .depth = 0, .parent = -1});
  if (options_.strategy == Strategy::breadth) goals_[0].left = options_.depth;
}

std::optional<Proof> Search::next() {
  while (ready_.empty() && report_.ended == Ended::not_yet) switch (options_.strategy) {
      case Strategy::breadth:
        advance_breadth();
        break;
      case Strategy::deepening:
        advance_deepening();
        break;
      case Strategy::beam:
        advance_beam();
        break;
    }
  if (ready_.empty()) return std::nullopt;
  const Found first = std::move(ready_.front());
  ready_.pop_front();
  return prove_along(k_, options_.how, query_, first.moves);
}

bool Search::out_of_limits() {
  if (report_.children >= options_.nodes) report_.ended = Ended::nodes;
  else if (options_.seconds < std::numeric_limits<double>::infinity() &&
           std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count() >
               options_.seconds)
    report_.ended = Ended::seconds;
  return report_.ended != Ended::not_yet;
}

void Search::advance_breadth() {
  if (out_of_limits()) return;
  if (frontier_ == int64_t(places_.size())) {
    report_.ended = report_.too_deep ? Ended::depth : Ended::searched;
    return;
  }
  const int64_t place = frontier_++;
  expand(place, options_.depth - places_[size_t(place)].depth);
}

void Search::advance_deepening() {
  if (out_of_limits()) {
    // what lay behind this iteration's depth would have been searched in the next
    if (limit_ < options_.depth) report_.too_deep = 0;
    return;
  }
  if (stack_.empty()) {
    // the next iteration, unless the last one met no limit
    if (limit_ > 0 && (!report_.too_deep || limit_ == options_.depth)) {
      report_.ended = report_.too_deep ? Ended::depth : Ended::searched;
      return;
    }
    ++limit_, report_.too_deep = 0;
    places_.resize(1);
    stack_ = {0};
  }
  const int64_t place = stack_.back();
  stack_.pop_back();
  // places behind this one belong to branches that are done
  places_.resize(size_t(place) + 1);
  const int32_t left = limit_ - places_[size_t(place)].depth;
  Goal& goal = goals_[size_t(places_[size_t(place)].goal)];
  if (goal.left >= left) {
    ++report_.repeated;
    return;
  }
  goal.left = left;
  const size_t before = places_.size();
  expand(place, left);
  // the first child is the next, and the last in memory
  std::reverse(places_.begin() + int64_t(before), places_.end());
  for (size_t i = before; i < places_.size(); ++i) stack_.push_back(int64_t(i));
}

void Search::advance_beam() {
  // all goals of this depth
  const int64_t end = int64_t(places_.size());
  std::vector<Expansion> expansions;
  std::vector<int64_t> parents;
  const int32_t left = options_.depth - places_[size_t(frontier_)].depth;
  for (int64_t p = frontier_; p < end && !out_of_limits(); ++p) {
    expand(p, left);
    parents.push_back(p);
  }
  const int64_t children = int64_t(places_.size()) - end;
  if (report_.ended != Ended::not_yet) return;
  if (children == 0) {
    report_.ended = report_.too_deep ? Ended::depth : Ended::searched;
    return;
  }

  // score the children, goal by goal
  int64_t child = end;
  for (int64_t parent : parents) {
    Expansion e{.goal = atoms_of(places_[size_t(parent)].goal)};
    for (; child < int64_t(places_.size()) && places_[size_t(child)].parent == parent; ++child)
      e.children.push_back(atoms_of(places_[size_t(child)].goal));
    if (!e.children.empty()) expansions.push_back(std::move(e));
  }
  std::vector<float> scores(size_t(children), 0.f);
  options_.scores(expansions, scores);

  // keep the best: earlier ones where scores are equal
  for (int64_t c = 0; c < children; ++c) {
    Place& place = places_[size_t(end + c)];
    place.score = places_[size_t(place.parent)].score + scores[size_t(c)];
  }
  std::stable_sort(places_.begin() + end, places_.end(),
                   [](const Place& a, const Place& b) { return a.score > b.score; });
  if (children > options_.width) {
    report_.off_beam += children - options_.width;
    places_.resize(size_t(end + options_.width));
  }
  frontier_ = end;
}

void Search::expand(int64_t place, int32_t left) {
  const Place here = places_[size_t(place)];
  const Goal goal = goals_[size_t(here.goal)];
  Atom atoms[kMaxAtoms];
  std::copy_n(atoms_.begin() + goal.atoms, goal.size, atoms);
  if (known(atoms[0])) {
    ++report_.repeated;
    return;
  }
  int32_t next = k_.constants + 1;
  for (int32_t i = 0; i < goal.size; ++i)
    next = std::max({next, atoms[i].first + 1, atoms[i].second + 1});
  ++report_.goals;
  report_.depth = std::max(report_.depth, here.depth);

  int64_t made = 0;
  Child child;
  const int32_t too_long =
      resolve(k_, options_.how, atoms + 1, goal.size - 1, next, child, [&](Child& c) {
        ++made, ++report_.children;
        Unifier u{c, k_.constants};
        const Atom answer{atoms[0].predicate, u.now(atoms[0].first), u.now(atoms[0].second)};
        if (c.size == 0) {
          found(place, c, answer);
        } else if (known(answer)) {
          ++report_.repeated;
        } else if (left == 1 && report_.too_deep > 0) {
          ++report_.too_deep;
        } else {
          Atom below[kMaxAtoms];
          below[0] = answer;
          std::copy_n(c.atoms, c.size, below + 1);
          rename_variables(below, c.size + 1, k_.constants);
          if (left == 1) {
            // one that is searched from another place is no end of the search: cycles end there
            ++(is_searched(below, c.size + 1) ? report_.repeated : report_.too_deep);
            return report_.children < options_.nodes;
          }
          const int32_t id = intern(below, c.size + 1);
          // deepening asks when it gets there: it may have been searched less deep
          int32_t& searched = goals_[size_t(id)].left;
          if (searched >= left - 1) {
            ++report_.repeated;
          } else {
            if (options_.strategy != Strategy::deepening) searched = left - 1;
            places_.push_back({id, here.depth + 1, place, {c.fact, c.rule}});
          }
        }
        return report_.children < options_.nodes;
      });
  report_.too_long += too_long;
  if (made + too_long == 0) add_dead_end(atoms[1]);
}

bool Search::known(const Atom& answer) const {
  return answer.first <= k_.constants && answer.second <= k_.constants && answers_.contains(answer);
}

void Search::found(int64_t place, const Child& child, const Atom& answer) {
  if (!answers_.insert(answer).second) return;
  std::vector<Move> moves{{child.fact, child.rule}};
  for (int64_t p = place; places_[size_t(p)].parent >= 0; p = places_[size_t(p)].parent)
    moves.push_back(places_[size_t(p)].move);
  std::reverse(moves.begin(), moves.end());
  ready_.push_back({answer, std::move(moves)});
}

std::span<const Atom> Search::atoms_of(int32_t goal) const {
  const Goal& g = goals_[size_t(goal)];
  return {atoms_.data() + g.atoms + 1, size_t(g.size - 1)};
}

namespace {
/// Of a goal with its order: the same atoms in another order may take more steps.
uint64_t ordered_hash(const Atom* atoms, int32_t size) {
  uint64_t h = uint64_t(size);
  for (int32_t i = 0; i < size; ++i) h = mix(h ^ hash_of(atoms[i]));
  return h;
}
}  // namespace

int32_t Search::intern(const Atom* atoms, int32_t size) {
  if (2 * (goals_.size() + 1) > table_.size()) grow_table();
  const uint64_t mask = table_.size() - 1;
  for (uint64_t h = ordered_hash(atoms, size);; ++h) {
    int32_t& slot = table_[h & mask];
    if (slot == 0) {
      goals_.push_back({.atoms = int64_t(atoms_.size()), .size = size});
      atoms_.insert(atoms_.end(), atoms, atoms + size);
      return (slot = int32_t(goals_.size())) - 1;
    }
    const Goal& known = goals_[size_t(slot - 1)];
    if (known.size == size && std::equal(atoms, atoms + size, atoms_.begin() + known.atoms))
      return slot - 1;
  }
}

bool Search::is_searched(const Atom* atoms, int32_t size) const {
  const uint64_t mask = table_.size() - 1;
  for (uint64_t h = ordered_hash(atoms, size); table_[h & mask]; ++h) {
    const Goal& known = goals_[size_t(table_[h & mask] - 1)];
    if (known.size == size && std::equal(atoms, atoms + size, atoms_.begin() + known.atoms))
      return known.left > 0;
  }
  return false;
}

void Search::grow_table() {
  table_.assign(2 * table_.size(), 0);
  const uint64_t mask = table_.size() - 1;
  for (size_t g = 0; g < goals_.size(); ++g) {
    uint64_t h = ordered_hash(atoms_.data() + goals_[g].atoms, goals_[g].size);
    while (table_[h & mask]) ++h;
    table_[h & mask] = int32_t(g) + 1;
  }
}

void Search::add_dead_end(const Atom& atom) {
  for (DeadEnd& known : report_.dead_ends)
    if (known.atom == atom) {
      ++known.times;
      return;
    }
  if (report_.dead_ends.size() < kMostDeadEnds) report_.dead_ends.push_back({atom, 1});
  else ++report_.other_dead_ends;
}

}  // namespace maglev::datalog
