#include "envs/kg/kg.h"

#include <array>
#include <cmath>
#include <complex>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/env/host_envs.h"
#include "tests/errors.h"
#include "tests/folder.h"
#include "tests/small_graph.h"

namespace maglev {
namespace {

using datalog::Atom;
using Texts = std::vector<std::string>;

/// Settings of a game without luck: true queries one after the other, nothing skipped.
Kg::Params plain() {
  Kg::Params p;
  p.order = kg::Order::in_order;
  p.negatives = 0, p.skip_unary = 0;
  return p;
}

/// One environment on a graph of a few lines. `queries` are those of training.
class Game {
 public:
  Game(std::string_view program, std::string_view queries, Kg::Params p = plain(),
       const std::function<void(datalog::Dataset&)>& change = {}, uint64_t seed = 1)
      : params(p), graph(dataset(program, queries, change)), seed_(seed) {
    const auto asked = kg::queries_of(graph, p.asked());
    const int32_t S = kg::successors_of(graph, p.successors);
    assets_.resize(size_t(kg::assets_layout(graph, asked.size()).bytes_) / sizeof(Line) + 1);
    kg::make_assets(graph, asked, S, assets());
    state_.resize(Kg::state_bytes(p, S) / sizeof(Line) + 1);
    reset();
  }

  void reset() {
    Rng rng(seed_, stream_id(Purpose::env, 0), counter_);
    Kg::reset(params, assets(), state(), rng);
    counter_ = rng.counter();
    observe();
  }
  void step(int32_t action) {
    Rng rng(seed_, stream_id(Purpose::env, 0), counter_);
    reward = 0;
    StepOut out{&reward, false, false, events};
    Kg::step(params, assets(), state(), {.discrete = &action}, rng, out);
    terminated = out.terminated, truncated = out.truncated;
    EXPECT_TRUE(Kg::valid(params, assets(), state()));
    observe();
  }
  /// Chooses the successor with this text.
  void choose(const std::string& text) {
    const Texts all = successors();
    const auto found = std::find(all.begin(), all.end(), text);
    ASSERT_NE(found, all.end()) << text << " is not offered";
    step(int32_t(found - all.begin()));
  }

  std::string goal() { return text(Kg::goal(params, state())); }
  Texts successors() {
    Texts texts;
    for (int32_t i = 0; i < state().successors; ++i)
      texts.push_back(text(Kg::successor(params, state(), i)));
    return texts;
  }
  std::string query() { return to_text(graph.dataset.program, state().query); }
  Kg::State& state() { return *reinterpret_cast<Kg::State*>(state_.data()); }
  kg::Assets& assets() { return *reinterpret_cast<kg::Assets*>(assets_.data()); }
  bool ended() const { return terminated || truncated; }

  Kg::Params params;
  datalog::Graph graph;
  float reward = 0, events[kMaxEvents] = {};
  bool terminated = false, truncated = false;
  std::vector<int32_t> seen_goal, seen_successors;  ///< the last observation
  std::vector<uint8_t> mask;

 private:
  struct alignas(64) Line {
    std::byte bytes[64];
  };

  static datalog::Dataset dataset(std::string_view program, std::string_view queries,
                                  const std::function<void(datalog::Dataset&)>& change) {
    datalog::SmallGraph small(program);
    datalog::Dataset data{.name = "small"};
    data.train = small.goal(queries);
    data.program = small.program;
    if (change) change(data);
    return data;
  }
  std::string text(const Atom* atoms) {
    return kg::goal_text(graph.dataset.program, atoms, params.atoms);
  }
  void observe() {
    // what was in the row before must not show
    seen_goal.assign(size_t(params.atoms * 3), -1);
    seen_successors.assign(size_t(assets().successors * params.atoms * 3), -1);
    mask.assign(size_t(assets().successors), 255);
    std::byte* columns[] = {reinterpret_cast<std::byte*>(seen_goal.data()),
                            reinterpret_cast<std::byte*>(seen_successors.data())};
    const int64_t bytes[] = {int64_t(seen_goal.size()) * 4, int64_t(seen_successors.size()) * 4};
    Kg::observe(params, assets(), state(), 0, {columns, bytes, 0, mask.data()});
  }

  std::vector<Line> assets_, state_;
  uint64_t seed_, counter_ = 0;
};

constexpr const char* kUncles =
    "brother(bob,ann). mother(ann,cid). brother(tom,bob). father(bob,dan). mother(ann,eve). "
    "uncle(X,Y) :- brother(X,Z), mother(Z,Y). uncle(X,Y) :- brother(X,Z), father(Z,Y).";

// how an episode goes

TEST(Kg, a_proof_is_a_walk_from_the_query_to_true) {
  Game game(kUncles, "uncle(bob,cid)");
  EXPECT_EQ(game.goal(), "uncle(bob,cid)");
  EXPECT_EQ(game.successors(),
            (Texts{"brother(bob,_1) mother(_1,cid)", "brother(bob,_1) father(_1,cid)", "stopped"}));
  game.step(0);
  EXPECT_EQ(game.goal(), "brother(bob,_1) mother(_1,cid)");
  EXPECT_EQ(game.successors(), Texts{"proved"});
  EXPECT_FALSE(game.ended());
  game.step(0);
  EXPECT_EQ(game.goal(), "proved");
  EXPECT_TRUE(game.terminated && !game.truncated);
  EXPECT_EQ(game.reward, 1.f);
  EXPECT_EQ(game.events[Kg::kProved], 1.f);
}

TEST(Kg, what_leads_nowhere_ends_in_one_step_that_fails) {
  Game game(kUncles, "uncle(bob,cid)");
  game.choose("brother(bob,_1) father(_1,cid)");
  EXPECT_EQ(game.successors(), (Texts{"father(ann,cid)", "stopped"}));
  game.step(0);
  EXPECT_EQ(game.successors(), Texts{"no way on"});
  game.step(0);
  EXPECT_TRUE(game.terminated);
  EXPECT_EQ(game.reward, -1.f);
  EXPECT_EQ(game.events[Kg::kProved], 0.f);
}

TEST(Kg, what_was_asked_is_counted_where_it_ends_however_it_does) {
  Kg::Params p = plain();
  p.max_steps = 2;
  for (bool is_false : {false, true})
    for (const char* choice :
         {"brother(bob,_1) mother(_1,cid)", "brother(bob,_1) father(_1,cid)", "stopped"}) {
      Game game(kUncles, "uncle(bob,cid)", p);
      game.state().is_false = is_false;
      game.choose(choice);
      EXPECT_EQ(game.events[Kg::kAskedTrue] + game.events[Kg::kAskedFalse],
                game.ended() ? 1.f : 0.f);
      // proved, or cut
      if (!game.ended()) game.step(0);
      EXPECT_EQ(game.events[Kg::kAskedTrue], is_false ? 0.f : 1.f) << choice;
      EXPECT_EQ(game.events[Kg::kAskedFalse], is_false ? 1.f : 0.f) << choice;
    }
}

TEST(Kg, stopping_fails) {
  Game game(kUncles, "uncle(bob,cid)");
  game.choose("stopped");
  EXPECT_TRUE(game.terminated);
  EXPECT_EQ(game.reward, -1.f);
  EXPECT_EQ(game.events[Kg::kStopped], 1.f);
}

TEST(Kg, stopping_is_offered_where_there_is_another_way_and_only_if_it_is_wanted) {
  Kg::Params p = plain();
  p.end_action = false;
  Game without(kUncles, "uncle(bob,cid)", p);
  EXPECT_EQ(without.successors().size(), 2u);
  // beside a proof or a failure it is not: see above
}

TEST(Kg, an_action_that_is_not_offered_takes_the_nearest) {
  for (int32_t action : {3, 99, 1 << 30}) {
    Game game(kUncles, "uncle(bob,cid)");
    game.step(action);
    EXPECT_EQ(game.goal(), "stopped") << action;
  }
  Game game(kUncles, "uncle(bob,cid)");
  game.step(-7);
  EXPECT_EQ(game.goal(), "brother(bob,_1) mother(_1,cid)");
}

TEST(Kg, is_truncated_at_its_limit_unless_it_ended) {
  // a chain of a hundred: each step leads to the next
  std::string chain = "p(X,Y) :- n(X,Z), p(Z,Y).";
  for (int i = 0; i < 100; ++i)
    chain += " n(c" + std::to_string(i) + ",c" + std::to_string(i + 1) + ").";
  Kg::Params p = plain();
  p.max_steps = 6, p.end_action = false;
  Game game(chain, "p(c0,c99)", p);
  for (int t = 1; t <= 6; ++t) {
    EXPECT_FALSE(game.ended());
    game.step(0);
  }
  EXPECT_TRUE(game.truncated && !game.terminated);
  EXPECT_EQ(game.reward, -1.f);
  // the row it is cut at shows where it would go on
  EXPECT_EQ(game.goal(), "p(c3,c99)");
  EXPECT_EQ(game.successors(), Texts{"n(c3,_1) p(_1,c99)"});

  p.max_steps = 2;
  Game proved(kUncles, "uncle(bob,cid)", p);
  proved.step(0);
  proved.step(0);
  EXPECT_TRUE(proved.terminated && !proved.truncated);
}

TEST(Kg, rewards_are_those_of_the_table) {
  // proved and failed, of true and of false queries; 3 false queries to a true one
  const float rows[6][4] = {{1, 0, 0, 0},         {1, 0, -1, 0},        {1, 0, 0, 1},
                            {1, -0.5f, -1.5f, 1}, {1, -1, -1, 1 / 3.f}, {1, -1, -1, 1 / 3.f}};
  for (int32_t type = 0; type < 6; ++type)
    for (bool is_false : {false, true})
      for (const char* choice : {"brother(bob,_1) mother(_1,cid)", "stopped"}) {
        Kg::Params p = plain();
        p.reward = type, p.end_bonus = 0.25f;
        Game game(kUncles, "uncle(bob,cid)", p);
        game.params.negatives = 3;
        game.state().is_false = is_false;
        game.choose(choice);
        const bool stopped = game.terminated;
        if (!stopped) {
          EXPECT_EQ(game.reward, 0.f);
          game.choose("proved");
        }
        float expected = rows[type][2 * is_false + stopped];
        if (type == 5 && is_false && stopped) expected += 0.25f;
        EXPECT_EQ(game.reward, expected) << type << " " << is_false << " " << choice;
        EXPECT_EQ(game.events[is_false ? Kg::kProvedFalse : Kg::kProved], stopped ? 0.f : 1.f);
      }
}

// what a state offers

TEST(Kg, goals_it_came_through_are_not_offered_again) {
  const char* turned = "p(X,Y) :- p(Y,X). p(X,Y) :- q(X,Y). q(c,c).";
  Game game(turned, "p(a,b)");
  EXPECT_EQ(game.successors(), (Texts{"p(b,a)", "q(a,b)", "stopped"}));
  game.step(0);
  EXPECT_EQ(game.successors(), (Texts{"q(b,a)", "stopped"}));
  Kg::Params p = plain();
  p.prune_visited = false;
  Game free(turned, "p(a,b)", p);
  free.step(0);
  EXPECT_EQ(free.successors(), (Texts{"p(a,b)", "q(b,a)", "stopped"}));
}

TEST(Kg, goals_that_differ_in_names_of_variables_are_one) {
  // p(_2,_1) is p(_1,_2)
  Game game("s(X,Y) :- w(X,Y), p(Z,V). p(X,Y) :- p(Y,X). w(a,a).", "s(a,a)");
  game.choose("p(_1,_2)");
  EXPECT_EQ(game.successors(), Texts{"no way on"});
}

// a hash that sums products takes these two goals for one
TEST(Kg, goals_whose_terms_changed_places_are_two) {
  Game game(
      "s(X,Y) :- w(X,Y), p(a,b), q(c,d). p(a,b) :- w(a,b). q(c,d) :- p(c,d), q(a,b). w(a,b). "
      "w(a,d).",
      "s(a,d)");
  game.choose("p(a,b) q(c,d)");
  game.choose("q(c,d)");
  EXPECT_EQ(game.successors(), (Texts{"p(c,d) q(a,b)", "stopped"}));

  const Atom one[] = {{1, 1, 2}, {2, 3, 4}}, other[] = {{1, 3, 4}, {2, 1, 2}};
  EXPECT_NE(datalog::hash_of(one, 2), datalog::hash_of(other, 2));
}

TEST(Kg, a_step_without_a_choice_is_taken_at_once_and_is_no_depth) {
  const char* line =
      "a(X,Y) :- b(X,Y). b(X,Y) :- c(X,Y). c(X,Y) :- d(X,Y). d(X,Y) :- e(X,Y). "
      "d(X,Y) :- f(X,Y). e(z,z). f(z,z).";
  for (auto [most, goal] : {std::pair{0, "a(x,y)"}, {1, "b(x,y)"}, {2, "c(x,y)"}, {9, "d(x,y)"}}) {
    Kg::Params p = plain();
    p.skip_unary = most;
    Game game(line, "a(x,y)", p);
    EXPECT_EQ(game.goal(), goal) << most;
    EXPECT_EQ(game.state().steps, 0);
    // stopping is offered behind it, not in place of it
    EXPECT_EQ(game.successors().back(), "stopped");
  }
  // what is skipped was visited, and an end is never skipped
  Kg::Params p = plain();
  p.skip_unary = 9;
  Game ring("a(X,Y) :- b(X,Y). b(X,Y) :- c(X,Y). c(X,Y) :- a(X,Y).", "a(x,y)", p);
  EXPECT_EQ(ring.goal(), "c(x,y)");
  EXPECT_EQ(ring.successors(), Texts{"no way on"});
  Game proof("a(X,Y) :- b(X,Y). b(X,Y) :- c(X,Y). c(x,y).", "a(x,y)", p);
  EXPECT_EQ(proof.goal(), "b(x,y)");
  EXPECT_EQ(proof.successors(), Texts{"proved"});
}

TEST(Kg, a_query_that_is_a_fact_is_proved_by_others_unless_it_may_prove_itself) {
  const char* program = "p(a,b). q(a,b). p(X,Y) :- q(X,Y), r(X,Y). r(c,c).";
  Game game(program, "p(a,b)");
  EXPECT_EQ(game.successors(), (Texts{"r(a,b)", "stopped"}));
  Kg::Params p = plain();
  p.exclude_query = false;
  EXPECT_EQ(Game(program, "p(a,b)", p).successors(), Texts{"proved"});
}

// the original left gaps, and read one in the first place as the end of a goal
TEST(Kg, atoms_that_are_known_leave_no_gap) {
  Game game("p(X,Y) :- q(X,Y), r(X,Y), s(X,Y), t(X,Y). q(a,b). s(a,b). s(c,c). t(c,c). r(c,c).",
            "p(a,b)");
  EXPECT_EQ(game.successors(), (Texts{"r(a,b) t(a,b)", "stopped"}));
  game.step(0);
  EXPECT_FALSE(game.ended());
  EXPECT_EQ(std::vector<int32_t>(game.seen_goal.begin() + 6, game.seen_goal.end()),
            std::vector<int32_t>(size_t(3 * (game.params.atoms - 2)), 0));
}

// the original wrote rejected successors over the last place
TEST(Kg, what_is_dropped_replaces_nothing_and_is_counted) {
  const char* program =
      "p(X,Y) :- a(X,Y). p(X,Y) :- q(X,Y), q(Y,X), q(X,X). p(X,Y) :- b(X,Y). p(X,Y) :- c(X,Y). "
      "p(X,Y) :- q(Y,Y), q(X,X), q(Y,X). p(X,Y) :- d(X,Y). z(z,z).";
  Kg::Params p = plain();
  p.atoms = 2, p.successors = 4;
  Game game(program, "p(x,y)", p);
  EXPECT_EQ(game.successors(), (Texts{"a(x,y)", "b(x,y)", "c(x,y)", "stopped"}));
  game.step(0);
  EXPECT_EQ(game.events[Kg::kTooMany], 1.f);
  EXPECT_EQ(game.events[Kg::kTooLong], 2.f);
  // of the next state there was nothing to drop
  game.step(0);
  EXPECT_EQ(game.events[Kg::kTooMany], 1.f);
  EXPECT_EQ(game.events[Kg::kTooLong], 2.f);

  p.end_action = false;
  EXPECT_EQ(Game(program, "p(x,y)", p).successors(),
            (Texts{"a(x,y)", "b(x,y)", "c(x,y)", "d(x,y)"}));
}

// the original looked at the first thousands of a predicate's facts
TEST(Kg, a_proof_by_the_last_of_many_facts_is_found) {
  std::string many = "p(X,Y) :- e(X,X), q(Z,W), r(W,Y). e(x,x).";
  for (int i = 0; i < 10000; ++i)
    many += " q(c" + std::to_string(i) + ",d" + std::to_string(i) + ").";
  many += " r(d9999,y). r(z,z).";
  Kg::Params p = plain();
  p.successors = 8, p.select = kg::Select::leftmost;
  Game game(many, "p(x,y)", p);
  game.step(0);
  EXPECT_EQ(game.successors(), Texts{"proved"});
}

TEST(Kg, the_atom_that_is_resolved_is_the_first_with_a_constant_or_the_first) {
  const char* program = "p(X,Y) :- e(X,X), q(Z,W), r(W,Y). e(x,x). q(a,b). q(c,d). r(b,y). r(e,y).";
  Game bound(program, "p(x,y)");
  bound.choose("r(_1,y) q(_2,_1)");
  EXPECT_EQ(bound.successors(), (Texts{"q(_1,b)", "q(_1,e)", "stopped"}));
  Kg::Params p = plain();
  p.select = kg::Select::leftmost;
  Game leftmost(program, "p(x,y)", p);
  leftmost.choose("q(_1,_2) r(_2,y)");
  EXPECT_EQ(leftmost.successors(), Texts{"proved"});
}

TEST(Kg, nothing_is_dropped_for_want_of_room_on_built_in_graphs) {
  for (const char* data : {"family", "countries_s1", "countries_s2", "countries_s3"}) {
    HostEnvs envs(find_env("kg"), 64, 3, {{"data", data}});
    envs.reset();
    Rng actions(6, stream_id(Purpose::act, 0), 0);
    for (int t = 0; t < 2000; ++t) envs.random_actions(actions), envs.step();
    const EpisodeTotals totals = envs.take_totals();
    EXPECT_GT(totals.events[Kg::kProved], 100) << data;
    EXPECT_EQ(totals.events[Kg::kTooMany], 0) << data;
    EXPECT_EQ(totals.events[Kg::kNoneFalse], 0) << data;
  }
}

TEST(Kg, the_observation_is_the_goal_its_successors_and_zeros) {
  Game game(kUncles, "uncle(bob,cid)");
  const datalog::Program& program = game.graph.dataset.program;
  const int32_t C = program.constants.size(), P = program.predicates.size();
  const auto id = [&](const char* name) { return program.constants.find(name); };
  const auto predicate = [&](const char* name) { return program.predicates.find(name); };
  EXPECT_EQ(std::vector<int32_t>(game.seen_goal.begin(), game.seen_goal.begin() + 4),
            (std::vector<int32_t>{predicate("uncle"), id("bob"), id("cid"), 0}));
  const size_t one = size_t(game.params.atoms * 3);
  const auto successor = [&](size_t i, size_t numbers) {
    const auto begin = game.seen_successors.begin() + std::ptrdiff_t(i * one);
    return std::vector<int32_t>(begin, begin + std::ptrdiff_t(numbers));
  };
  EXPECT_EQ(successor(1, 7), (std::vector<int32_t>{predicate("brother"), id("bob"), C + 1,
                                                   predicate("father"), C + 1, id("cid"), 0}));
  EXPECT_EQ(successor(2, 4), (std::vector<int32_t>{P + 3, 0, 0, 0}));
  for (size_t i = 3 * one; i < game.seen_successors.size(); ++i)
    ASSERT_EQ(game.seen_successors[i], 0);
  for (size_t i = 0; i < game.mask.size(); ++i) ASSERT_EQ(game.mask[i], i < 3);
  game.step(0);
  EXPECT_EQ(successor(0, 4), (std::vector<int32_t>{P + 1, 0, 0, 0}));
}

// which queries are asked

constexpr const char* kLikes =
    "likes(X,Y) :- knows(X,Y). knows(a,b). knows(b,c). knows(c,d). knows(d,a). hates(a,c).";
constexpr const char* kLikesQueries = "likes(a,b), likes(b,c), likes(c,d), hates(a,c), likes(d,a)";

TEST(Kg, queries_without_a_rule_are_left_out_unless_they_are_wanted) {
  for (bool only : {true, false}) {
    Kg::Params p = plain();
    p.only_with_rules = only;
    Game game(kLikes, kLikesQueries, p);
    std::set<std::string> asked;
    for (int i = 0; i < 10; ++i, game.reset()) asked.insert(game.query());
    EXPECT_EQ(asked.size(), only ? 4u : 5u);
    EXPECT_EQ(asked.contains("hates(a,c)"), !only);
  }
}

TEST(Kg, in_order_they_come_as_they_stand) {
  Game game(kLikes, kLikesQueries);
  const Texts order{"likes(a,b)", "likes(b,c)", "likes(c,d)", "likes(d,a)"};
  size_t place = size_t(std::find(order.begin(), order.end(), game.query()) - order.begin());
  for (int i = 0; i < 12; ++i, game.reset()) EXPECT_EQ(game.query(), order[place++ % 4]);
}

// the original cycled through twenty permutations
TEST(Kg, shuffled_they_come_once_each_and_then_in_another_order) {
  Kg::Params p = plain();
  p.order = kg::Order::shuffled;
  std::string queries = "p(c0,c0)";
  for (int i = 1; i < 30; ++i) {
    const std::string c = "c" + std::to_string(i);
    queries += ", p(" + c + "," + c + ")";
  }
  Game game("p(X,Y) :- q(X,Y). q(a,a).", queries, p);
  // it begins somewhere: to the end of that order first
  while (game.state().episode % 30 != 1) game.reset();
  std::set<Texts> orders;
  for (int epoch = 0; epoch < 40; ++epoch) {
    Texts order;
    for (int i = 0; i < 30; ++i, game.reset()) order.push_back(game.query());
    EXPECT_EQ(std::set<std::string>(order.begin(), order.end()).size(), 30u);
    orders.insert(order);
  }
  EXPECT_EQ(orders.size(), 40u);
}

TEST(Kg, asks_the_queries_of_its_split_alone) {
  const auto split = [](datalog::Dataset& data) {
    data.valid = {data.train[1]};
    data.test = {data.train[2], data.train[4]};
    data.train = {data.train[0]};
  };
  const std::pair<kg::Split, std::set<std::string>> splits[] = {
      {kg::Split::train, {"likes(a,b)"}},
      {kg::Split::valid, {"likes(b,c)"}},
      {kg::Split::test, {"likes(c,d)", "likes(d,a)"}}};
  for (const auto& [which, expected] : splits) {
    Kg::Params p = plain();
    p.split = which;
    Game game(kLikes, kLikesQueries, p, split);
    std::set<std::string> asked;
    for (int i = 0; i < 8; ++i, game.reset()) asked.insert(game.query());
    EXPECT_EQ(asked, expected);
    // queries of no split became facts
    EXPECT_EQ(game.graph.knowledge->facts, 5);
  }
  Kg::Params p = plain();
  p.split = kg::Split::valid;
  EXPECT_TRUE(contains(error_of([&] { Game(kLikes, kLikesQueries, p); }),
                       "[kg] small has no valid query whose predicate is the head of a rule"));
}

TEST(Kg, each_true_query_is_followed_by_its_false_ones) {
  for (int32_t negatives : {0, 1, 3}) {
    Kg::Params p = plain();
    p.negatives = negatives;
    Game game(kLikes, kLikesQueries, p);
    while (game.state().is_false) game.reset();
    for (int i = 0; i < 20; ++i) {
      EXPECT_FALSE(game.state().is_false);
      const Atom query = game.state().query;
      for (int32_t n = 0; n < negatives; ++n) {
        game.reset();
        EXPECT_TRUE(game.state().is_false);
        const Atom& other = game.state().query;
        EXPECT_EQ(other.predicate, query.predicate);
        // one argument is another one
        EXPECT_EQ((other.first != query.first) + (other.second != query.second), 1);
      }
      game.reset();
    }
  }
}

TEST(Kg, false_queries_are_drawn_evenly_from_what_is_not_known_to_be_true) {
  Kg::Params p = plain();
  p.negatives = 1;
  for (auto corrupt : {kg::Corruption::head, kg::Corruption::tail, kg::Corruption::both}) {
    p.corrupt = corrupt;
    // of the other splits they are not asked, but known
    Game game(kLikes, kLikesQueries, p, [](datalog::Dataset& data) {
      data.valid = {data.train[1]}, data.test = {data.train[2]};
      data.train = {data.train[0]};
    });
    std::map<std::string, int> counts;
    int asked = 0;
    for (int i = 0; i < 8000; ++i, game.reset())
      if (game.state().is_false) ++counts[game.query()], ++asked;
    std::set<std::string> expected;
    if (corrupt != kg::Corruption::head)
      for (const char* other : {"likes(a,a)", "likes(a,c)", "likes(a,d)"}) expected.insert(other);
    if (corrupt != kg::Corruption::tail)
      for (const char* other : {"likes(b,b)", "likes(c,b)", "likes(d,b)"}) expected.insert(other);
    for (const auto& [query, count] : counts) {
      EXPECT_TRUE(expected.contains(query)) << query;
      // five standard deviations of a binomial
      const double mean = double(asked) / double(expected.size());
      EXPECT_NEAR(count, mean, 5 * std::sqrt(mean)) << query;
    }
    EXPECT_EQ(counts.size(), expected.size());
  }
}

TEST(Kg, a_false_second_argument_comes_from_its_domain) {
  Kg::Params p = plain();
  p.negatives = 1;
  Game game(kLikes, "likes(a,b)", p, [](datalog::Dataset& data) {
    data.domains.resize(size_t(data.program.predicates.size()));
    const auto constant = [&](const char* name) { return data.program.constants.find(name); };
    data.domains[size_t(data.program.predicates.find("likes")) - 1] = {constant("b"),
                                                                       constant("d")};
  });
  std::set<std::string> tails, heads;
  for (int i = 0; i < 400; ++i, game.reset())
    if (game.state().is_false)
      (game.state().query.first == game.graph.dataset.train[0].first ? tails : heads)
          .insert(game.query());
  EXPECT_EQ(tails, (std::set<std::string>{"likes(a,d)"}));
  EXPECT_EQ(heads.size(), 3u);
}

TEST(Kg, where_every_triple_is_true_a_query_stays_true_and_that_is_counted) {
  Kg::Params p = plain();
  p.negatives = 1;
  Game game("p(X,Y) :- q(X,Y). q(a,a). p(a,a). p(a,b). p(b,a). p(b,b).", "p(a,b)", p);
  for (int i = 0; i < 6; ++i, game.reset()) {
    EXPECT_FALSE(game.state().is_false);
    EXPECT_EQ(game.query(), "p(a,b)");
    game.step(0);
  }
  EXPECT_EQ(game.events[Kg::kNoneFalse], 3.f);
}

// what holds whatever is played

/// Everything that follows from facts without `query` and rules, by trying every rule on every pair
/// of constants until nothing is new.
std::set<std::array<int32_t, 3>> consequences(const datalog::Program& p, const Atom& query) {
  std::set<std::array<int32_t, 3>> known;
  for (const Atom& f : p.facts)
    if (!(f == query)) known.insert({f.predicate, f.first, f.second});
  const int32_t C = p.constants.size();
  for (bool grew = true; grew;) {
    grew = false;
    for (const datalog::Rule& rule : p.rules) {
      // every assignment of constants to the rule's variables
      int64_t assignments = 1;
      for (size_t v = 0; v < rule.variables.size(); ++v) assignments *= C;
      for (int64_t n = 0; n < assignments; ++n) {
        const auto term = [&](int32_t t) {
          if (t > 0) return t;
          int64_t digits = n;
          for (int32_t v = -1; v > t; --v) digits /= C;
          return int32_t(1 + digits % C);
        };
        const auto ground = [&](const Atom& a) {
          return std::array{a.predicate, term(a.first), term(a.second)};
        };
        bool holds = true;
        for (const Atom& a : rule.body) holds = holds && known.contains(ground(a));
        if (holds && known.insert(ground(rule.head)).second) grew = true;
      }
    }
  }
  return known;
}

TEST(Kg, what_is_proved_follows_from_other_facts_and_rules) {
  int proved = 0, failed = 0;
  for (uint64_t seed = 0; seed < 300; ++seed) {
    Rng rng(seed, stream_id(Purpose::env, 9), 0);
    const auto constant = [&] { return std::string(1, char('a' + rng.below(4))); };
    const auto atom = [&](const std::string& x, const std::string& y) {
      return std::string(1, char('p' + rng.below(3))) + "(" + x + "," + y + ")";
    };
    std::string program = "p(a,b). q(c,d). r(a,d).", queries;
    for (int i = 0; i < 5; ++i) program += atom(constant(), constant()) + ".";
    const auto either = [&](const char* x, const char* y) { return rng.below(2) ? x : y; };
    for (int i = 0; i < 3; ++i)
      program += atom("X", "Y") + " :- " + atom("X", either("Z", "Y")) + ", " +
                 atom(either("Z", "X"), "Y") + ".";
    program += atom("X", "Y") + " :- " + atom("Y", "X") + ".";
    for (int i = 0; i < 6; ++i) queries += (i ? "," : "") + atom(constant(), constant());

    Kg::Params p = plain();
    p.only_with_rules = false;
    p.skip_unary = int32_t(rng.below(3));
    p.exclude_query = rng.below(2);
    Game game(program, queries, p, {}, seed);
    for (int episode = 0; episode < 20; ++episode, game.reset()) {
      const Atom query = game.state().query;
      game.terminated = game.truncated = false;
      while (!game.ended()) game.step(int32_t(rng.below(uint32_t(game.state().successors))));
      if (game.goal() != "proved") {
        ++failed;
        continue;
      }
      ++proved;
      const auto known = consequences(game.graph.dataset.program, p.exclude_query ? query : Atom{});
      ASSERT_TRUE(known.contains({query.predicate, query.first, query.second})) << program << "\n"
                                                                                << game.query();
    }
  }
  EXPECT_GT(proved, 300);
  EXPECT_GT(failed, 300);
}

// the original's numbers of variables grew with every step, out of the table of their embeddings
TEST(Kg, numbers_stay_within_their_vocabularies) {
  for (const char* atoms : {"2", "6", "12"}) {
    HostEnvs envs(find_env("kg"), 64, 3, {{"atoms", atoms}, {"end_action", "false"}});
    envs.reset();
    Rng actions(5, stream_id(Purpose::act, 0), 0);
    int64_t wrong = 0, variables = 0;
    const auto& columns = envs.spec().observations;
    const int64_t constants = columns[0].vocabulary[1] - 1 - 2 * std::stoi(atoms);
    for (int t = 0; t < 600; ++t) {
      envs.random_actions(actions);
      envs.step();
      for (int c = 0; c < 2; ++c)
        for (int64_t row = 0; row < envs.rows(); ++row) {
          const int32_t* numbers = envs.obs<int32_t>(c, row);
          for (int64_t i = 0; i < columns[size_t(c)].elements(); ++i) {
            wrong += numbers[i] < 0 || numbers[i] >= columns[size_t(c)].vocabulary[size_t(i % 3)];
            variables += i % 3 > 0 && numbers[i] > constants;
          }
        }
    }
    EXPECT_EQ(wrong, 0) << atoms;
    EXPECT_GT(variables, 10000) << atoms;
  }
}

TEST(Kg, asks_the_queries_of_the_depths_that_are_set) {
  const Game game(kUncles, "uncle(bob,cid), uncle(bob,eve), uncle(tom,dan), uncle(tom,cid)",
                  plain(), [](datalog::Dataset& data) {
                    data.train_depth = {1, 2, 5, -1};
                  });
  const auto asked = [&](std::string_view depths) {
    Texts texts;
    for (const Atom& query : kg::queries_of(game.graph, {kg::Split::train, true, depths}))
      texts.push_back(to_text(game.graph.dataset.program, query));
    return texts;
  };
  EXPECT_EQ(asked("").size(), 4u);
  EXPECT_EQ(asked("1-3"), (Texts{"uncle(bob,cid)", "uncle(bob,eve)"}));
  for (const char* list : {"1,5", "[1, 5]", "0-1,4-9"})
    EXPECT_EQ(asked(list), (Texts{"uncle(bob,cid)", "uncle(tom,dan)"})) << list;
}

TEST(Kg, depths_that_are_none_or_that_nobody_said_are_refused) {
  const auto refused = [](const std::string& depths) {
    return error_of([&] {
      HostEnvs(find_env("kg"), 1, 1,
               {{"data", "countries_s3"}, {"split", "valid"}, {"depths", depths}});
    });
  };
  for (const char* wrong : {"a", "3-1", "1-", "-1", "1;2", " "})
    EXPECT_TRUE(contains(refused(wrong), "env.depths must be a list of depths such as")) << wrong;
  EXPECT_TRUE(contains(refused("1-3"), "countries_s3 has no valid query of depth 1-3"));
  Kg::Params p = plain();
  p.depths = "1-3";
  EXPECT_TRUE(contains(error_of([&] { Game(kUncles, "uncle(bob,cid)", p); }),
                       "nobody said how deep the train queries of small are"));
}

TEST(Kg, one_successor_is_too_little_room) {
  EXPECT_TRUE(contains(error_of([] { HostEnvs(find_env("kg"), 1, 1, {{"successors", "1"}}); }),
                       "env.successors must be 0 or at least 2, got 1"));
}

/// log sigmoid of Re sum h r conj(t), of the atoms of a goal that have no variable; their mean.
double mean_log_probability(const datalog::Vectors& v, const Kg::Assets& a, const Atom* goal,
                            int32_t atoms) {
  const auto number = [&](const std::vector<float>& rows, int32_t id, int64_t k) {
    const float* row = rows.data() + (id - 1) * 2 * v.dim;
    return std::complex<double>(row[k], row[v.dim + k]);
  };
  double sum = 0;
  int count = 0;
  for (int32_t i = 0; i < atoms; ++i) {
    const Atom& atom = goal[i];
    const auto& k = a.knowledge();
    if (atom.predicate == 0 || atom.predicate > k.predicates) continue;
    if (atom.first > k.constants || atom.second > k.constants) continue;
    std::complex<double> score = 0;
    for (int64_t d = 0; d < v.dim; ++d)
      score += number(v.constants, atom.first, d) * number(v.predicates, atom.predicate, d) *
               std::conj(number(v.constants, atom.second, d));
    sum += -std::log1p(std::exp(-score.real()));
    ++count;
  }
  return count ? sum / count : 0;
}

TEST(Kg, shapes_rewards_by_the_difference_of_potentials) {
  const datalog::Graph& graph = datalog::open_graph("countries_s2");
  Rng rng(3, stream_id(Purpose::eval, 0), 0);
  datalog::Vectors vectors{.dim = 3};
  vectors.constants.resize(size_t(graph.knowledge->constants) * 6);
  vectors.predicates.resize(size_t(graph.knowledge->predicates) * 6);
  for (auto* rows : {&vectors.constants, &vectors.predicates})
    for (float& x : *rows) x = rng.uniform(-1, 1);
  const std::string file = test_folder() + "/vectors.safetensors";
  datalog::write_vectors(file, graph.dataset.program, vectors);

  Kg::Params plain, shaped;
  plain.data = shaped.data = "countries_s2";
  ASSERT_LT(file.size(), sizeof shaped.potential.bytes);
  std::copy(file.begin(), file.end(), shaped.potential.bytes);
  shaped.potential_scale = 0.5f, shaped.potential_gamma = 0.9f;
  const auto room = [](size_t bytes) { return std::vector<std::max_align_t>(bytes / 16 + 1); };
  struct Side {
    Kg::Params p;
    std::vector<std::max_align_t> assets, state;
    Kg::Assets& a() { return *reinterpret_cast<Kg::Assets*>(assets.data()); }
    Kg::State& s() { return *reinterpret_cast<Kg::State*>(state.data()); }
  } sides[2];
  for (int i : {0, 1}) {
    Side& side = sides[i];
    side.p = i ? shaped : plain;
    side.assets = room(Kg::asset_bytes(side.p)), side.state = room(Kg::state_bytes(side.p));
    Kg::make_assets(side.p, side.a());
  }
  int steps = 0, ends = 0;
  const auto& queries = graph.dataset.train;
  for (size_t q = 0; q < queries.size(); q += 5) {
    for (Side& side : sides) Kg::ask(side.p, side.a(), side.s(), queries[q], false);
    for (bool over = false; !over; ++steps) {
      Side& with = sides[1];
      const double before =
          0.5 * mean_log_probability(vectors, with.a(), Kg::goal(with.p, with.s()), with.s().atoms);
      const int32_t action = int32_t(rng.below(uint32_t(with.s().successors)));
      float reward[2] = {}, events[kMaxEvents] = {};
      for (int i : {0, 1}) {
        StepOut out{&reward[i], false, false, events};
        Kg::step(sides[i].p, sides[i].a(), sides[i].s(), {&action, nullptr}, rng, out);
        over = out.terminated || out.truncated;
        if (out.terminated) ends += i;
      }
      const bool ended = Kg::end_of(with.p, with.a(), with.s()) != Kg::kNone;
      const double after =
          ended ? 0
                : 0.5 * mean_log_probability(vectors, with.a(), Kg::goal(with.p, with.s()),
                                             with.s().atoms);
      EXPECT_NEAR(reward[1] - reward[0], 0.9 * after - before, 1e-5);
    }
  }
  EXPECT_GT(steps, 150);
  EXPECT_GT(ends, 20);
}

TEST(KgPicture, a_long_goal_goes_on_below_from_one_atom_to_the_next) {
  EXPECT_EQ(kg::wrapped("0 mother(a,b) father(b,c)", 15),
            (Texts{"0 mother(a,b)", "  father(b,c)"}));
  EXPECT_EQ(kg::wrapped("0 mother(a,b)", 13), Texts{"0 mother(a,b)"});
  EXPECT_EQ(kg::wrapped("abcdefgh", 4), (Texts{"abcd", "  ef", "  gh"}));
}

TEST(KgPicture, letters_become_smaller_before_rows_are_left_out) {
  const auto page_of = [](int count) {
    return kg::page_of(std::vector<kg::Line>(size_t(count), {"aunt(a,b)", kg::kGoal}), 1200, 1000);
  };
  EXPECT_EQ(page_of(20).dot, 3);
  EXPECT_EQ(page_of(49).dot, 2);
  EXPECT_EQ(page_of(49).rows.size(), 49u);
  const kg::Page cut = page_of(51);
  ASSERT_EQ(cut.rows.size(), 49u);
  EXPECT_EQ(cut.rows.back().text, "and 3 more rows");
}

}  // namespace
}  // namespace maglev
