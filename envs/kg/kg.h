#pragma once
// Proving queries of a knowledge graph as a game (docs/knowledge_graphs.md): a state is a goal, a
// list of atoms that are left to prove; an action chooses one of the goals that a fact or a rule
// makes of it, one step of SLD resolution. Half of the queries are false, so that an agent learns
// where to stop as well. Whole numbers alone, but for the potential of an embedding, where one is
// given.

#include <cmath>
#include <cstring>
#include <filesystem>
#include <string>

#include "base/core/permute.h"
#include "base/datalog/dataset.h"
#include "base/datalog/resolve.h"
#include "base/env/env.h"
#include "envs/kg/assets.h"
#include "envs/kg/paint.h"

namespace maglev {

namespace kg {

/// Which argument of a query is replaced to make a false one; both: in turn.
enum class Corruption : int32_t { both, head, tail };
constexpr auto names_of(Corruption) { return std::array{"both", "head", "tail"}; }

enum class Order : int32_t { shuffled, in_order };
constexpr auto names_of(Order) { return std::array{"shuffled", "in_order"}; }

/// Which atom of a goal a step resolves: the first with a constant, or the first.
enum class Select : int32_t { bound, leftmost };
constexpr auto names_of(Select) { return std::array{"bound", "leftmost"}; }

/// An episode's last reward: [how it went][0: a true query, 1: a false one].
struct Reward {
  float proved[2], failed[2];
};

}  // namespace kg

struct Kg {
  static constexpr const char* kSummary = "prove queries of a knowledge graph, rule by rule";

  using Atom = datalog::Atom;
  using Assets = kg::Assets;

  struct Params {
    Text<512> data = "family";
    kg::Split split = kg::Split::train;
    bool only_with_rules = true;
    Text<64> depths = "";
    kg::Order order = kg::Order::shuffled;
    int32_t negatives = 1;
    kg::Corruption corrupt = kg::Corruption::both;
    int32_t max_steps = 20;
    int32_t atoms = 6;
    int32_t successors = 0;
    kg::Select select = kg::Select::bound;
    int32_t skip_unary = 2;
    bool prune_visited = true;
    bool exclude_query = true;
    bool end_action = true;
    int32_t reward = 4;
    float end_bonus = 0.3f;
    Text<512> potential = "";
    float potential_scale = 0.1f, potential_gamma = 0.99f;

    static std::string settle(Params& p) {
      OptionTable table;
      describe(table, p);
      const std::string data(p.data.view()), potential(p.potential.view());
      table.set("data", datalog::lasting_name(data));
      if (!potential.empty())
        table.set("potential", std::filesystem::absolute(potential).lexically_normal().string());
      return datalog::shadowed_folder(data);
    }
    static void describe(OptionTable& t, Params& p) {
      t.add("data", p.data, "the graph: a built-in name, or a folder of triples and rules");
      t.add("split", p.split, "which of its queries are asked");
      t.add("only_with_rules", p.only_with_rules, "leave out queries that no rule is about");
      t.add("depths", p.depths,
            "leave out queries whose shortest proof is not of these many steps, e.g. 1-3 or 1,2; "
            "empty: ask all");
      t.add("order", p.order, "how each environment goes through the queries");
      t.add("negatives", p.negatives, "false queries that follow each true one",
            {.min = 0, .max = 1000});
      t.add("corrupt", p.corrupt, "which argument is replaced to make a false query");
      t.add("max_steps", p.max_steps, "depth limit of a proof", {.min = 1, .max = 1000});
      t.add("atoms", p.atoms, "most atoms of a goal; longer ones are dropped and counted",
            {.min = 1, .max = datalog::kMaxAtoms});
      t.add("successors", p.successors,
            "most successors of a goal, others are dropped and counted; 0: as many as a goal with "
            "a constant has, at most 256",
            {.min = 0, .max = 65536});
      t.add("select", p.select,
            "the atom that a step resolves: the first that has a constant, or the first");
      t.add("skip_unary", p.skip_unary,
            "steps without a choice that are taken at once, one behind the other",
            {.min = 0, .max = 100});
      t.add("prune_visited", p.prune_visited, "leave out successors the proof has come through");
      t.add("exclude_query", p.exclude_query, "a query that is a fact does not prove itself");
      t.add("end_action", p.end_action, "offer to stop, wherever there is another way on");
      t.add("reward", p.reward, "which table of rewards", {.min = 0, .max = 5});
      t.add("end_bonus", p.end_bonus, "of reward 5, for stopping at a false query",
            {.min = 0, .max = 100});
      t.add("potential", p.potential,
            "shape rewards by an embedding's scores of the goal: a file of maglev kg embed; empty: "
            "do not");
      t.add("potential_scale", p.potential_scale,
            "the potential is this times the mean log-probability of the goal's ground atoms",
            {.min = 0, .max = 100});
      t.add("potential_gamma", p.potential_gamma,
            "discount of the potential; a new run takes its algorithm's where nobody gives it",
            {.min = 0, .max = 1, .discount = true});
    }

    static std::string idle(const Params& p, std::string_view name) {
      if (name == "end_bonus" && p.reward != 5) return "it is of env.reward=5";
      if (name.starts_with("potential_") && p.potential.view().empty())
        return "there is no env.potential";
      return "";
    }

    kg::Selection asked() const { return {split, only_with_rules, depths.view()}; }

    static void check(const Params& p) {
      kg::depth_ranges(p.depths.view());
      if (p.successors == 1)
        throw SettingError(
            {.setting = "env.successors", .must = "0 or at least 2", .got = "1", .nearest = "2"});
    }
  };

  enum Event : int32_t {
    kProved,
    kProvedFalse,
    kStopped,
    kTooMany,
    kTooLong,
    kNoneFalse,
    // episodes that ended, so that what was proved is a share of them
    kAskedTrue,
    kAskedFalse
  };

  static EnvSpec spec(const Params& p) {
    // runs ask for this before anything is made: what is wrong is told by its setting
    Params::check(p);
    const datalog::Graph& graph = graph_of(p);
    const int64_t S = kg::successors_of(graph, p.successors), A = p.atoms;
    // predicates and the three ends; constants and 2 variables an atom
    const int64_t predicates = graph.knowledge->predicates + 4,
                  terms = graph.knowledge->constants + 2 * A + 1;
    const std::vector<int64_t> vocabulary{predicates, terms, terms};
    return {.observations = {{.name = "state",
                              .dtype = DType::i32,
                              .shape = {A, 3},
                              .vocabulary = vocabulary,
                              .tokens = graph.names},
                             {.name = "successors",
                              .dtype = DType::i32,
                              .shape = {S, A, 3},
                              .vocabulary = vocabulary,
                              .tokens = graph.names}},
            .action = {.heads = {S}, .masked = true},
            .max_steps = p.max_steps,
            .events = {"proved", "proved_false", "stopped", "too_many", "too_long", "none_false",
                       "asked_true", "asked_false"},
            .shares = {{.name = "true_proved_rate", .event = kProved, .of = {kAskedTrue}},
                       {.name = "false_proved_rate", .event = kProvedFalse, .of = {kAskedFalse}}}};
  }

  static size_t asset_bytes(const Params& p) {
    const datalog::Graph& graph = graph_of(p);
    const auto queries = kg::queries_of(graph, p.asked());
    return size_t(kg::assets_layout(graph, queries.size(), vectors_of(p)).bytes_);
  }
  static void make_assets(const Params& p, Assets& assets) {
    const datalog::Graph& graph = graph_of(p);
    kg::make_assets(graph, kg::queries_of(graph, p.asked()), kg::successors_of(graph, p.successors),
                    assets, vectors_of(p));
  }

  // Behind it lie hashes of the goals that the proof came through, u64 [most_visited], the goal,
  // Atom [atoms], and its successors, Atom [assets.successors, atoms]; goals end in zeros.
  struct State {
    uint64_t shuffle;  ///< which order of the queries this environment has
    int64_t episode;   ///< of this environment
    Atom query;        ///< what is to be proved
    int32_t is_false;  ///< the query was corrupted
    int32_t steps;
    int32_t atoms;       ///< of the goal
    int32_t successors;  ///< of the goal
    int32_t visited;
    float potential;  ///< of the goal
    // events since the last step
    int32_t too_many, too_long, none_false;
  };
  static size_t state_bytes(const Params& p) {
    return state_bytes(p, kg::successors_of(graph_of(p), p.successors));
  }
  static size_t state_bytes(const Params& p, int32_t successors) {
    return sizeof(State) + size_t(most_visited(p)) * sizeof(uint64_t) +
           size_t(1 + successors) * size_t(p.atoms) * sizeof(Atom);
  }

  MAGLEV_HD static const uint64_t* visited(const State& s) {
    return reinterpret_cast<const uint64_t*>(&s + 1);
  }
  MAGLEV_HD static uint64_t* visited(State& s) {
    return const_cast<uint64_t*>(visited(static_cast<const State&>(s)));
  }
  MAGLEV_HD static const Atom* goal(const Params& p, const State& s) {
    return reinterpret_cast<const Atom*>(reinterpret_cast<const uint64_t*>(&s + 1) +
                                         most_visited(p));
  }
  MAGLEV_HD static Atom* goal(const Params& p, State& s) {
    return const_cast<Atom*>(goal(p, static_cast<const State&>(s)));
  }
  template <class S>
  MAGLEV_HD static auto* successor(const Params& p, S& s, int32_t i) {
    return goal(p, s) + (1 + i) * p.atoms;
  }

  MAGLEV_HD static void reset(const Params& p, const Assets& a, State& s, Rng& rng) {
    // an environment begins somewhere in an order of its own, and goes on through its run
    const int64_t turns = 1 + p.negatives;
    if (rng.counter() == 0) {
      s = State{};
      s.shuffle = uint64_t(rng.bits()) << 32 | rng.bits();
      s.episode = int64_t(rng.below(uint32_t(a.queries))) * turns + rng.below(uint32_t(turns));
    }
    const int64_t turn = s.episode / turns, negative = s.episode % turns;
    s.episode += 1;
    uint64_t place = uint64_t(turn % a.queries);
    if (p.order == kg::Order::shuffled)
      place = Permutation(s.shuffle, uint64_t(turn / a.queries), uint64_t(a.queries))(place);
    s.query = a.query(int32_t(place));
    s.is_false = 0;
    if (negative > 0) corrupt(p, a, s, turn * p.negatives + negative - 1, rng);

    begin(p, a, s);
  }

  /// An episode of a query that is given: what reset does without drawing one. For who ranks.
  MAGLEV_HD static void ask(const Params& p, const Assets& a, State& s, const Atom& query,
                            bool is_false) {
    s.query = query;
    s.is_false = is_false;
    begin(p, a, s);
  }
  /// How the episode of a state ended; kNone: it has not.
  enum End : int32_t { kNone, kTrue, kFalse, kEnd };
  MAGLEV_HD static End end_of(const Params& p, const Assets& a, const State& s) {
    const int32_t end = goal(p, s)[0].predicate - a.knowledge().predicates;
    return end > 0 ? End(end) : kNone;
  }

  MAGLEV_HD static void step(const Params& p, const Assets& a, State& s, const Actions& action,
                             Rng&, StepOut& out) {
    // an action that is not offered takes the nearest that is
    const int32_t given = action.discrete[0], last = s.successors - 1;
    const int32_t chosen = given > last ? last : given;
    const Atom* next = successor(p, s, chosen < 0 ? 0 : chosen);
    enter(p, s, next, atoms_of(p, next));
    s.steps += 1;

    const End end = end_of(p, a, s);
    // a state of which no episode has begun may be stepped: it has nothing to prove
    const bool ended = end != kNone || s.atoms == 0, proved = end == kTrue, stopped = end == kEnd;
    out.terminated = ended;
    out.truncated = !ended && s.steps >= p.max_steps;
    if (out.terminated | out.truncated) {
      const kg::Reward table = rewards(p);
      const int which = s.is_false;
      out.reward[0] = proved ? table.proved[which] : table.failed[which];
      if (p.reward == 5 && stopped && s.is_false) out.reward[0] += p.end_bonus;
      out.count(s.is_false ? kAskedFalse : kAskedTrue, 1.f);
    }
    if (ended) only(p, a, s, end == kNone ? kFalse : end);
    else expand(p, a, s);
    // potential-based (Ng, Harada and Russell 1999): an end has none, a limit keeps its goal's
    if (a.dim > 0) {
      const float before = s.potential;
      s.potential = ended ? 0.f : potential(p, a, s);
      out.reward[0] += p.potential_gamma * s.potential - before;
    }

    if (proved) out.count(s.is_false ? kProvedFalse : kProved, 1.f);
    if (stopped) out.count(kStopped, 1.f);
    out.count(kTooMany, float(s.too_many));
    out.count(kTooLong, float(s.too_long));
    out.count(kNoneFalse, float(s.none_false));
    s.too_many = s.too_long = s.none_false = 0;
  }

  MAGLEV_HD static void observe(const Params& p, const Assets& a, const State& s, int,
                                const ObsOut& out) {
    const size_t goal_bytes = size_t(p.atoms) * sizeof(Atom);
    const size_t used = size_t(s.successors) * goal_bytes, room = size_t(a.successors) * goal_bytes;
    std::memcpy(out.as<Atom>(0), goal(p, s), goal_bytes);
    std::memcpy(out.as<Atom>(1), successor(p, s, 0), used);
    std::memset(out.as<std::byte>(1) + used, 0, room - used);
    std::memset(out.mask, 1, size_t(s.successors));
    std::memset(out.mask + s.successors, 0, size_t(a.successors - s.successors));
  }

  static bool valid(const Params& p, const Assets& a, const State& s) {
    const datalog::Knowledge& k = a.knowledge();
    const auto within = [](int64_t x, int64_t low, int64_t high) { return x >= low && x <= high; };
    // a goal: an end alone, or atoms one behind the other, then zeros
    const auto is_goal = [&](const Atom* atoms) {
      const int32_t count = atoms_of(p, atoms);
      for (int32_t i = 0; i < p.atoms; ++i) {
        const Atom& atom = atoms[i];
        if (i >= count || (i == 0 && within(atom.predicate, k.predicates + 1, k.predicates + 3))) {
          if (atom.first != 0 || atom.second != 0 || (i > 0 && atom.predicate != 0)) return false;
        } else {
          const int32_t most = k.constants + 2 * p.atoms;
          if (!within(atom.predicate, 1, k.predicates) || !within(atom.first, 1, most) ||
              !within(atom.second, 1, most))
            return false;
        }
      }
      return true;
    };
    if (!std::isfinite(s.potential)) return false;
    // no episode has begun
    if (s.episode == 0 && s.successors == 0)
      return s.visited == 0 && s.atoms == 0 && s.is_false == 0 && s.steps == 0 &&
             atoms_of(p, goal(p, s)) == 0 && atoms_of(p, successor(p, s, 0)) == 0;
    for (int32_t count : {s.too_many, s.too_long, s.none_false})
      if (!within(count, 0, 1 << 30)) return false;
    bool good =
        within(s.episode, 0, int64_t(1) << 62) && within(s.is_false, 0, 1) &&
        within(s.steps, 0, p.max_steps) &&
        within(s.visited, 1, most_visited(p) - (p.max_steps - s.steps) * (1 + p.skip_unary)) &&
        within(s.successors, 1, a.successors) && within(s.query.predicate, 1, k.predicates) &&
        within(s.query.first, 1, k.constants) && within(s.query.second, 1, k.constants) &&
        within(s.atoms, 1, p.atoms) && s.atoms == atoms_of(p, goal(p, s)) && is_goal(goal(p, s));
    for (int32_t i = 0; good && i < s.successors; ++i) {
      const Atom* next = successor(p, s, i);
      good = next[0].predicate > 0 && is_goal(next);
    }
    return good;
  }

  static void paint(const Params& p, const Assets&, const State& s, Canvas& canvas) {
    const datalog::Program& program = graph_of(p).dataset.program;
    std::vector<kg::Line> lines;
    const Rgb truth = s.is_false ? kg::kFalse : kg::kTrue;
    lines.push_back({to_text(program, s.query) + (s.is_false ? " is false" : " is true"), truth});
    lines.push_back({kg::goal_text(program, goal(p, s), p.atoms), kg::kGoal});
    for (int32_t i = 0; i < s.successors; ++i)
      lines.push_back(
          {std::to_string(i) + " " + kg::goal_text(program, successor(p, s, i), p.atoms),
           kg::kSuccessor});
    kg::paint(lines, canvas);
  }

  /// How the goals of an episode are resolved.
  MAGLEV_HD static datalog::Resolve resolving(const Params& p, const State& s) {
    return {.max_atoms = p.atoms,
            .excluded = p.exclude_query ? s.query : Atom{},
            .select_bound = p.select == kg::Select::bound};
  }
  /// The first variable that a goal does not have.
  MAGLEV_HD static int32_t next_variable(const datalog::Knowledge& k, const Atom* atoms,
                                         int32_t count) {
    int32_t last = k.constants;
    for (int32_t i = 0; i < count; ++i) {
      last = atoms[i].first > last ? atoms[i].first : last;
      last = atoms[i].second > last ? atoms[i].second : last;
    }
    return last + 1;
  }

  /// One step of resolution. Returns whether the only successor is an end.
  MAGLEV_HD static bool derive(const Params& p, const Assets& a, State& s) {
    const datalog::Knowledge& k = a.knowledge();
    const int32_t room = a.successors - (p.end_action ? 1 : 0);
    const datalog::Resolve how = resolving(p, s);
    const Atom* from = goal(p, s);
    s.successors = 0;
    bool proved = false;
    int32_t lost = 0;
    datalog::Child child;
    const auto keep = [&](const datalog::Child&) {
      proved = child.size == 0;
      if (proved) return false;
      datalog::rename_variables(child.atoms, child.size, k.constants);
      if (p.prune_visited && was_visited(s, datalog::hash_of(child.atoms, child.size))) return true;
      if (s.successors == room) {
        lost += 1;
        return true;
      }
      Atom* to = successor(p, s, s.successors++);
      for (int32_t i = 0; i < p.atoms; ++i) to[i] = i < child.size ? child.atoms[i] : Atom{};
      return true;
    };
    s.too_long +=
        datalog::resolve(k, how, from, s.atoms, next_variable(k, from, s.atoms), child, keep);

    // where there is a proof nothing else is missed
    if (!proved) s.too_many += lost;

    // a proof is the one thing to do; where nothing is left there is one way to fail
    const bool ends = proved || s.successors == 0;
    if (ends) only(p, a, s, proved ? kTrue : kFalse);
    return ends;
  }

 private:
  /// Of the potential; none where there is none.
  static const datalog::Vectors& vectors_of(const Params& p) {
    static const datalog::Vectors none;
    const std::string file(p.potential.view());
    if (file.empty()) return none;
    try {
      return datalog::open_vectors(file, graph_of(p).dataset.program);
    } catch (const Error& e) {
      throw Error("[env.potential] " + std::string(e.what()));
    }
  }

  static const datalog::Graph& graph_of(const Params& p) {
    return datalog::open_graph(std::string(p.data.view()));
  }

  /// The query, all goals entered, and those that were skipped behind each.
  MAGLEV_HD static int32_t most_visited(const Params& p) {
    return (1 + p.max_steps) * (1 + p.skip_unary);
  }

  /// Atoms of a goal that ends in zeros.
  MAGLEV_HD static int32_t atoms_of(const Params& p, const Atom* atoms) {
    int32_t count = 0;
    while (count < p.atoms && atoms[count].predicate != 0) ++count;
    return count;
  }

  MAGLEV_HD static void begin(const Params& p, const Assets& a, State& s) {
    s.steps = 0;
    s.visited = 0;
    enter(p, s, &s.query, 1);
    expand(p, a, s);
    s.potential = a.dim > 0 ? potential(p, a, s) : 0.f;
  }

  /// How likely an embedding thinks the goal: the mean log sigmoid of its ground atoms' scores.
  MAGLEV_HD static float potential(const Params& p, const Assets& a, const State& s) {
    const int32_t constants = a.knowledge().constants;
    float sum = 0;
    int32_t ground = 0;
    for (int32_t i = 0; i < s.atoms; ++i) {
      const Atom& atom = goal(p, s)[i];
      if (atom.predicate > a.knowledge().predicates || atom.first > constants ||
          atom.second > constants)
        continue;
      // the real part of first * predicate * conj(second), summed (Trouillon et al. 2016)
      const float *h = a.constant_vector(atom.first), *r = a.predicate_vector(atom.predicate),
                  *t = a.constant_vector(atom.second);
      float score = 0;
      for (int32_t k = 0, m = a.dim; k < a.dim; ++k, ++m)
        score += (h[k] * r[k] - h[m] * r[m]) * t[k] + (h[k] * r[m] + h[m] * r[k]) * t[m];
      sum -= score < -30.f ? -score : log1pf(expf(-score));
      ++ground;
    }
    return ground > 0 ? p.potential_scale * sum / float(ground) : 0.f;
  }

  MAGLEV_HD static kg::Reward rewards(const Params& p) {
    const float rest = 1.f / float(p.negatives > 0 ? p.negatives : 1);
    switch (p.reward) {
      case 0:
        return {{1, 0}, {0, 0}};
      case 1:
        return {{1, -1}, {0, 0}};
      case 2:
        return {{1, 0}, {0, 1}};
      case 3:
        return {{1, -1.5f}, {-0.5f, 1}};
      default:
        return {{1, -1}, {-1, rest}};
    }
  }

  /// Makes the query a false one: another constant in place of one of its own, drawn evenly. One
  /// that is known to be true is drawn again, at most 8 times; then the query stays as it was.
  MAGLEV_HD static void corrupt(const Params& p, const Assets& a, State& s, int64_t number,
                                Rng& rng) {
    const bool head =
        p.corrupt == kg::Corruption::head || (p.corrupt == kg::Corruption::both && number % 2 == 0);
    const datalog::Range domain = a.domain_of(s.query.predicate);
    const bool any = head || domain.size() == 0;
    const int32_t choices = any ? a.knowledge().constants : domain.size();
    for (int tries = 0; tries <= 8; ++tries) {
      const int32_t drawn = int32_t(rng.below(uint32_t(choices)));
      const int32_t constant = any ? 1 + drawn : a.domain(domain.begin + drawn);
      Atom query = s.query;
      (head ? query.first : query.second) = constant;
      if (a.truths().find(query) >= 0) continue;
      s.query = query;
      s.is_false = 1;
      return;
    }
    s.none_false += 1;
  }

  /// Makes `atoms` the goal, and remembers it.
  MAGLEV_HD static void enter(const Params& p, State& s, const Atom* atoms, int32_t count) {
    Atom* to = goal(p, s);
    for (int32_t i = 0; i < p.atoms; ++i) to[i] = i < count ? atoms[i] : Atom{};
    s.atoms = count;
    // a state that was read from a file may be stepped beyond its limit
    if (s.visited < most_visited(p)) visited(s)[s.visited++] = datalog::hash_of(to, count);
  }

  /// Makes one end the only successor.
  MAGLEV_HD static void only(const Params& p, const Assets& a, State& s, int32_t end) {
    s.successors = 0;
    append(p, a, s, end);
  }
  MAGLEV_HD static void append(const Params& p, const Assets& a, State& s, int32_t end) {
    Atom* to = successor(p, s, s.successors++);
    to[0] = {a.knowledge().predicates + end, 0, 0};
    for (int32_t i = 1; i < p.atoms; ++i) to[i] = {};
  }

  /// The successors of the goal.
  MAGLEV_HD static void expand(const Params& p, const Assets& a, State& s) {
    bool ends = derive(p, a, s);
    // a step without a choice is taken at once; it is no depth
    for (int32_t i = 0; i < p.skip_unary && s.successors == 1 && !ends; ++i) {
      const Atom* next = successor(p, s, 0);
      enter(p, s, next, atoms_of(p, next));
      ends = derive(p, a, s);
    }
    if (p.end_action && !ends) append(p, a, s, kEnd);
  }

  MAGLEV_HD static bool was_visited(State& s, uint64_t hash) {
    for (int32_t i = 0; i < s.visited; ++i)
      if (visited(s)[i] == hash) return true;
    return false;
  }
};

}  // namespace maglev
