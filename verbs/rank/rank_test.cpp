#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <set>
#include <tuple>
#include <unistd.h>

#include <gtest/gtest.h>

#include "base/core/philox.h"
#include "engine/host/machine.h"
#include "tests/errors.h"
#include "verbs/rank/by_rules.h"
#include "verbs/rank/confidence.h"
#include "verbs/rank/joined.h"
#include "verbs/rank/questions.h"
#include "verbs/rank/ranking.h"
#include "verbs/rank/report.h"
#include "verbs/rank/trials.h"

namespace maglev::verbs::rank {
namespace {

using datalog::Atom;

/// An untrained policy that proves on a graph.
struct Untrained {
  explicit Untrained(int threads, const std::string& of = "countries_s1")
      : pool(threads), graph(datalog::open_graph(of)) {
    claim_threads();
    for (const std::string& setting :
         {"env.data=" + of, std::string("ppo.network.hidden=[32]"), std::string("seed=3")})
      experiment.table().override_with(setting);
    policy = experiment.algo().make_policy(
        experiment.algo_options(),
        context_of(experiment, {.device = at::kCPU, .threads = pool.threads()}, pool));
    policy->publish();
  }
  Experiment experiment{"ppo", "kg"};
  ThreadPool pool;
  std::unique_ptr<Policy> policy;
  const datalog::Graph& graph;
};

TEST(RankTrials, are_those_of_each_query_alone_whatever_the_threads) {
  Untrained one(1), three(3);
  std::vector<Atom> queries = one.graph.dataset.train;
  queries.insert(queries.end(), one.graph.dataset.test.begin(), one.graph.dataset.test.end());
  ASSERT_GT(queries.size(), 1000u);
  Prover prover(one.experiment, *one.policy, one.pool);
  const auto trials = prover.prove(queries, {.seed = 1});
  EXPECT_EQ(prover.counts().tried, int64_t(queries.size()));
  Prover others(three.experiment, *three.policy, three.pool);
  const auto with_threads = others.prove(queries, {.seed = 1});
  int64_t proved = 0, steps = 0;
  for (size_t i = 0; i < queries.size(); ++i) {
    EXPECT_EQ(trials[i].proved, with_threads[i].proved);
    EXPECT_EQ(trials[i].log_prob, with_threads[i].log_prob);
    EXPECT_EQ(trials[i].steps, with_threads[i].steps);
    proved += trials[i].proved, steps += trials[i].steps;
    EXPECT_LE(trials[i].steps, 20);
  }
  EXPECT_GT(proved, 0);
  EXPECT_LT(proved, int64_t(queries.size()));
  EXPECT_EQ(steps, prover.counts().steps);
  for (size_t i = 0; i < queries.size(); i += 97) {
    const Trial alone = prover.prove({&queries[i], 1}, {.seed = 1})[0];
    EXPECT_EQ(alone.proved, trials[i].proved) << i;
    EXPECT_EQ(alone.steps, trials[i].steps) << i;
    EXPECT_NEAR(alone.log_prob, trials[i].log_prob, 1e-4) << i;
  }
}

TEST(RankTrials, a_query_that_comes_twice_is_tried_once) {
  Untrained setup(2);
  const Atom a = setup.graph.dataset.test[0], b = setup.graph.dataset.test[1];
  Prover prover(setup.experiment, *setup.policy, setup.pool);
  const auto trials = prover.prove(std::vector<Atom>{a, b, a, a}, {.seed = 1});
  EXPECT_EQ(prover.counts().tried, 2);
  EXPECT_EQ(trials[0].log_prob, trials[3].log_prob);
  EXPECT_EQ(trials[0].steps, trials[2].steps);
  EXPECT_TRUE(prover.prove({}, {.seed = 1}).empty());
}

TEST(RankTrials, a_beam_proves_what_the_greedy_way_misses_and_nothing_worse) {
  Untrained one(1, "family"), three(3, "family");
  const auto& test = one.graph.dataset.test;
  const std::vector<Atom> queries(test.begin(), test.begin() + 300);
  Prover prover(one.experiment, *one.policy, one.pool);
  const auto greedy = prover.prove(queries, {.seed = 1});
  const auto beam = prover.prove(queries, {.seed = 1, .width = 8});
  EXPECT_EQ(prover.counts().tried, int64_t(queries.size()));
  Prover others(three.experiment, *three.policy, three.pool);
  const auto with_threads = others.prove(queries, {.seed = 1, .width = 8});
  int64_t found = 0;
  for (size_t i = 0; i < queries.size(); ++i) {
    EXPECT_EQ(beam[i].proved, with_threads[i].proved) << i;
    EXPECT_EQ(beam[i].log_prob, with_threads[i].log_prob) << i;
    EXPECT_LE(beam[i].steps, 20);
    found += beam[i].proved && !greedy[i].proved;
    EXPECT_GE(int(beam[i].proved), int(greedy[i].proved)) << i;
    // what nobody proves is scored as it was
    const double least = greedy[i].log_prob - 1e-3;
    if (beam[i].proved == greedy[i].proved) {
      EXPECT_GE(beam[i].log_prob, least) << i;
    }
    if (!beam[i].proved) {
      EXPECT_NEAR(beam[i].log_prob, greedy[i].log_prob, 1e-3) << i;
    }
  }
  EXPECT_GT(found, 10);
  // wider than there are rows of one act
  const auto wide = prover.prove({queries.data(), 20}, {.width = 300});
  for (size_t i = 0; i < wide.size(); ++i) {
    EXPECT_GE(int(wide[i].proved), int(greedy[i].proved)) << i;
    if (wide[i].proved == greedy[i].proved) {
      EXPECT_GE(wide[i].log_prob, greedy[i].log_prob - 1e-3) << i;
    }
  }
}

TEST(RankTrials, a_proof_is_worth_what_its_rules_are) {
  const std::string folder = testing::TempDir() + "rank_confidences_" + std::to_string(::getpid());
  std::filesystem::create_directories(folder);
  const auto write = [&](const char* name, const char* text) {
    std::ofstream(folder + "/" + name) << text;
  };
  write("facts.txt", "f(a,b).\ng(b,c).\nf(d,b).\n");
  for (const char* split : {"train.txt", "valid.txt", "test.txt"})
    write(split, "p(a,c).\nq(a,c).\ns(a,d).\nt(a,a).\nu(a,d).\n");
  write("rules.txt",
        // two rules of one goal, of which the surer counts; two steps that need both
        "0.25::p(X,Y) :- f(X,Z), g(Z,Y).\n0.5::p(X,Y) :- g(Z,Y), f(X,Z).\n"
        "0.5::q(X,Y) :- p(X,Y).\n"
        // pairs of one constant with itself are not in a rule's confidence, but where it says so
        "0.75::s(X,Y) :- f(X,Z), f(Y,Z).\n0.125::t(X,X) :- f(X,Z).\n"
        "0.875::u(X,d) :- f(X,Z).\n");
  Untrained setup(1, folder);
  const datalog::Program& program = setup.graph.dataset.program;
  const auto atom = [&](const char* predicate, const char* first, const char* second) {
    return Atom{program.predicates.find(predicate), program.constants.find(first),
                program.constants.find(second)};
  };
  const std::vector<Atom> queries{atom("p", "a", "c"), atom("q", "a", "c"), atom("s", "a", "d"),
                                  atom("s", "a", "a"), atom("t", "a", "a"), atom("u", "d", "d"),
                                  atom("p", "a", "b")};
  Prover prover(setup.experiment, *setup.policy, setup.pool);
  const auto trials = prover.prove(queries, {.width = 8});
  const std::vector<double> expected{std::log(0.5),
                                     std::log(0.25),
                                     std::log(0.75),
                                     kLeastLogConfidence,
                                     std::log(0.125),
                                     std::log(0.875),
                                     0};
  for (size_t i = 0; i < queries.size(); ++i) {
    EXPECT_EQ(trials[i].proved, i != 6) << i;
    EXPECT_NEAR(trials[i].log_confidence, expected[i], 1e-12) << i;
  }
  std::filesystem::remove_all(folder);
}

TEST(RankTrials, who_is_told_may_end_them_and_the_rest_stays_untried) {
  Untrained setup(1);
  Prover prover(setup.experiment, *setup.policy, setup.pool);
  const auto& queries = setup.graph.dataset.train;
  int64_t told = 0, all = 0;
  const auto trials = prover.prove(queries, {.told = [&](int64_t done, int64_t of) {
                                     told = done, all = of;
                                     return false;
                                   }});
  EXPECT_EQ(all, int64_t(queries.size()));
  EXPECT_GT(told, 0);
  EXPECT_LT(told, all);
  EXPECT_EQ(std::ranges::count_if(trials, &Trial::tried), told);
  EXPECT_EQ(prover.counts().tried, told);
}

TEST(RankRanking, keeps_what_is_complete) {
  Ranking ranking{.questions = {{.depth = 1}, {.depth = 2}, {.depth = 3}}};
  ranking.embedding = {{1}, {2}, {3}};
  ranking.rules = {.name = "rules", .scores = {{4}, {5}, {6}}};
  keep(ranking, {true, false, true});
  EXPECT_EQ(ranking.left_out, 1);
  ASSERT_EQ(ranking.questions.size(), 2u);
  EXPECT_EQ(ranking.questions[1].depth, 3);
  EXPECT_EQ(ranking.embedding, (std::vector<std::vector<double>>{{1}, {3}}));
  EXPECT_EQ(ranking.rules.scores, (std::vector<std::vector<double>>{{4}, {6}}));
  EXPECT_TRUE(ranking.trials.empty());
}

TEST(RankTrials, other_environments_are_refused) {
  Experiment experiment("ppo", "cartpole");
  Untrained setup(1);
  EXPECT_TRUE(contains(error_of([&] { Prover(experiment, *setup.policy, setup.pool); }),
                       "got one of cartpole"));
}

TEST(RankQuestions, hold_the_true_triple_first_and_none_that_is_known) {
  const datalog::Graph& graph = datalog::open_graph("family");
  const auto questions = questions_of(graph, {.queries = 40, .corruptions = 25, .seed = 5});
  ASSERT_EQ(questions.size(), 80u);
  for (const Question& q : questions) {
    ASSERT_EQ(q.candidates.size(), 26u);
    const Atom& query = q.candidates[0];
    EXPECT_GE(graph.truths->find(query), 0);
    std::set<int32_t> seen;
    for (size_t c = 1; c < q.candidates.size(); ++c) {
      const Atom& atom = q.candidates[c];
      EXPECT_LT(graph.truths->find(atom), 0);
      EXPECT_EQ(atom.predicate, query.predicate);
      EXPECT_EQ(q.head ? atom.second : atom.first, q.head ? query.second : query.first);
      EXPECT_TRUE(seen.insert(q.head ? atom.first : atom.second).second);
    }
  }
  // all of them, when all are asked for
  const auto all = questions_of(graph, {.modes = Modes::tail, .queries = 2});
  for (const Question& q : all) {
    int64_t expected = 0;
    for (int32_t c = 1; c <= graph.knowledge->constants; ++c)
      expected += graph.truths->find({q.candidates[0].predicate, q.candidates[0].first, c}) < 0;
    EXPECT_FALSE(q.head);
    EXPECT_EQ(int64_t(q.candidates.size()), 1 + expected);
  }
  const auto raw = questions_of(graph, {.modes = Modes::tail, .queries = 2, .filtered = false});
  EXPECT_EQ(int64_t(raw[0].candidates.size()), graph.knowledge->constants);
}

TEST(RankQuestions, stay_within_a_predicates_domain) {
  const datalog::Graph& graph = datalog::open_graph("countries_s2");
  const auto questions = questions_of(graph, {.modes = Modes::tail});
  ASSERT_EQ(questions.size(), graph.dataset.test.size());
  const auto& domain = graph.dataset.domains[size_t(graph.dataset.test[0].predicate - 1)];
  ASSERT_FALSE(domain.empty());
  for (const Question& q : questions)
    for (const Atom& atom : q.candidates)
      EXPECT_TRUE(std::find(domain.begin(), domain.end(), atom.second) != domain.end());
}

TEST(RankReport, what_tells_ties_apart_never_moves_what_differs) {
  const Scoring scoring{
      .name = "x", .scores = {{1, 1, 0}, {-1, 1}}, .ties_by = {{4, 5, 9}, {8, 4}}};
  const Scoring places = ties_broken(scoring);
  EXPECT_EQ(places.scores, (std::vector<std::vector<double>>{{2, 4, 1}, {0, 2}}));
  EXPECT_EQ(ranks_of(places, Ties::optimistic, 0), (std::vector<double>{2, 2}));
  EXPECT_EQ(ties_broken({.name = "x", .scores = {{7, 7}}}).scores[0], (std::vector<double>{7, 7}));
}

TEST(RankReport, puts_proofs_before_what_was_not_proved) {
  EXPECT_GT(proof_score({.proved = true, .log_prob = -99}), proof_score({.log_prob = -0.1f}));
  // a surer proof before one that is less sure, as a likelier one
  EXPECT_GT(proof_score({.proved = true, .log_prob = -2, .log_confidence = -1}),
            proof_score({.proved = true, .log_prob = -1, .log_confidence = -3}));
  const Scoring scoring{.name = "x", .scores = {{3, 1, 2}, {1, 5, 1}}};
  const auto ranks = ranks_of(scoring, Ties::pessimistic, 0);
  EXPECT_EQ(ranks, (std::vector<double>{1, 3}));
  const Trial proved{.tried = true, .proved = true}, not_proved{.tried = true};
  const std::vector<std::vector<Trial>> trials{{proved, not_proved, not_proved},
                                               {not_proved, proved, not_proved}};
  const std::vector<size_t> both{0, 1}, second{1};
  const std::vector<Question> questions{{.candidates = {{1, 1, 2}}}, {.candidates = {{1, 2, 3}}}};
  const Figures f = figures_of(both, questions, scoring, ranks, trials);
  EXPECT_DOUBLE_EQ(f.rank.mrr, (1 + 1.0 / 3) / 2);
  EXPECT_DOUBLE_EQ(f.proved_true, 0.5);
  EXPECT_DOUBLE_EQ(f.proved_false, 0.25);
  EXPECT_DOUBLE_EQ(figures_of(second, questions, scoring, ranks, trials).proved_true, 0);
  EXPECT_LT(f.mrr.low, f.mrr.high);
  // of a shortlist, shares of those that were tried
  const std::vector<std::vector<Trial>> listed{{proved, {}, {}}, {{}, proved, not_proved}};
  const Figures short_one = figures_of(both, questions, scoring, ranks, listed);
  EXPECT_DOUBLE_EQ(short_one.proved_true, 1);
  EXPECT_DOUBLE_EQ(short_one.proved_false, 0.5);
  // both arguments of one query are one draw, of which there is no interval
  const std::vector<Question> one{{.head = true, .candidates = {{1, 1, 2}}},
                                  {.candidates = {{1, 1, 2}}}};
  EXPECT_TRUE(std::isnan(figures_of(both, one, scoring, ranks, trials).mrr.low));
  // where nothing was proved there are no shares of it
  EXPECT_TRUE(std::isnan(figures_of(both, questions, scoring, ranks, {}).proved_true));
}

/// A graph of four people and rules for "likes"; b, c and d are candidates of likes(a, ?).
datalog::Graph graph_of_rules(const std::vector<double>& confidences) {
  datalog::Dataset data{.name = "likes"};
  datalog::Program& p = data.program;
  for (const char* name : {"a", "b", "c", "d"}) p.constants.add(name);
  const int32_t likes = p.predicates.add("likes");
  // rule i says likes(X,Y) where fact i is there: b has 0 and 1, c 0 and 2, d all of 1, 2 and 3
  const std::vector<std::vector<int32_t>> says{{2, 3}, {2, 4}, {3, 4}, {4}};
  for (size_t i = 0; i < says.size(); ++i) {
    const int32_t fact = p.predicates.add("because" + std::to_string(i));
    for (int32_t person : says[i]) p.facts.push_back({fact, 1, person});
    p.rules.push_back({.head = {likes, -1, -2},
                       .body = {{fact, -1, -2}},
                       .confidence = confidences[i],
                       .variables = {"X", "Y"}});
  }
  data.test = {{likes, 1, 2}};
  return datalog::Graph(std::move(data));
}

Scoring scored_by_rules(const std::vector<double>& confidences, Aggregate aggregate) {
  const datalog::Graph graph = graph_of_rules(confidences);
  ThreadPool pool(2);
  const auto questions = questions_of(graph, {.modes = Modes::tail});
  EXPECT_EQ(questions[0].candidates.size(), 4u);  // b, then a, c and d
  return score_by_rules(fired_rules_of(questions, graph, pool), graph.dataset.program, aggregate);
}

TEST(RankRules, the_surest_decides_and_among_equals_the_next) {
  const Scoring scoring = scored_by_rules({0.5, 0.25, 0.25, 0.125}, Aggregate::max);
  EXPECT_EQ(scoring.scores[0], (std::vector<double>{0.5, 0, 0.5, 0.25}));
  // b and c have 0.5 and 0.25 each, and stay alike: both before d, and a behind
  EXPECT_EQ(ties_broken(scoring).scores[0], (std::vector<double>{2, 0, 2, 1}));
  const Scoring apart = scored_by_rules({0.5, 0.25, 0.375, 0.125}, Aggregate::max);
  EXPECT_EQ(ties_broken(apart).scores[0], (std::vector<double>{2, 0, 3, 1}));
  // without confidences rules have 1, and it is their number that decides
  const Scoring all_sure = scored_by_rules({1, 1, 1, 1}, Aggregate::max);
  EXPECT_EQ(all_sure.scores[0], (std::vector<double>{1, 0, 1, 1}));
  EXPECT_EQ(ties_broken(all_sure).scores[0], (std::vector<double>{1, 0, 1, 3}));
  // what nobody believes says nothing
  EXPECT_EQ(ties_broken(scored_by_rules({0.5, 0, 0, 0}, Aggregate::max)).scores[0],
            (std::vector<double>{2, 0, 2, 0}));
}

TEST(RankRules, noisy_or_is_the_chance_that_one_of_them_is_right) {
  const Scoring scoring = scored_by_rules({0.5, 0.25, 0.5, 0.5}, Aggregate::noisy_or);
  EXPECT_EQ(scoring.scores[0],
            (std::vector<double>{1 - 0.5 * 0.75, 0, 1 - 0.5 * 0.5, 1 - 0.75 * 0.5 * 0.5}));
  // a rule that is sure leaves no doubt, and others still tell apart
  const Scoring sure = scored_by_rules({1, 0.25, 0.5, 1}, Aggregate::noisy_or);
  EXPECT_EQ(sure.scores[0], (std::vector<double>{1, 0, 1, 1}));
  EXPECT_EQ(ties_broken(sure).scores[0], (std::vector<double>{1, 0, 2, 3}));
}

TEST(RankRules, speak_for_candidates_alike_whatever_the_threads) {
  const datalog::Graph& graph = datalog::open_graph("family");
  const auto questions = questions_of(graph, {.queries = 300, .corruptions = 50, .seed = 2});
  ThreadPool one(1), three(3);
  const auto fired = fired_rules_of(questions, graph, one),
             others = fired_rules_of(questions, graph, three);
  int64_t of_true = 0, of_false = 0;
  for (size_t q = 0; q < questions.size(); ++q) {
    EXPECT_EQ(fired[q].begin, others[q].begin);
    EXPECT_EQ(fired[q].rules, others[q].rules);
    of_true += !fired[q].of(0).empty();
    for (size_t c = 1; c < questions[q].candidates.size(); ++c) of_false += !fired[q].of(c).empty();
  }
  // 92 % of its queries have a rule, and no false one (docs/knowledge_graphs.md)
  EXPECT_GT(of_true, 500);
  EXPECT_EQ(of_false, 0);
}

TEST(RankJoined, weights_are_the_least_that_rank_best) {
  ThreadPool one(1), three(3);
  // the embedding is 0.6 off, and rules are worth it; a proof is there for what is false
  const std::vector<ScoreParts> questions{
      {.embedding = {-1, -0.4}, .rules = {1, 0}, .proof = {0, 1}},
      {.embedding = {-0.2, -3}, .rules = {0, 0}, .proof = {0, 0}}};
  const Weights weights = find_weights(questions, one);
  EXPECT_DOUBLE_EQ(weights.rules, std::sqrt(0.5));
  EXPECT_EQ(weights.proof, 0);
  EXPECT_EQ(weights.questions, 2);
  EXPECT_DOUBLE_EQ(weights.mrr, 1);
  EXPECT_DOUBLE_EQ(weights.embedding_mrr, 0.75);
  EXPECT_EQ(join(questions[0], weights), (std::vector<double>{-1 + std::sqrt(0.5), -0.4}));
  // where the embedding is right nothing is added to it
  const std::vector<ScoreParts> right{{.embedding = {0, -1}, .rules = {1, 0}, .proof = {1, 0}}};
  EXPECT_EQ(find_weights(right, one).rules, 0);
  EXPECT_EQ(find_weights(right, one).proof, 0);

  // of many questions, the same with threads
  std::vector<ScoreParts> many;
  for (uint64_t q = 0; q < 200; ++q) {
    Rng rng(q, stream_id(Purpose::eval, 0), 0);
    ScoreParts& parts = many.emplace_back();
    for (int c = 0; c < 20; ++c) {
      parts.embedding.push_back(-4 * rng.uniform() + (c == 0));
      parts.rules.push_back(c == 0 ? rng.uniform() : 0.5 * rng.uniform());
      parts.proof.push_back(c == 0 || rng.below(3) == 0);
    }
  }
  const Weights alone = find_weights(many, one), together = find_weights(many, three);
  EXPECT_GT(alone.rules, 0);
  EXPECT_GT(alone.proof, 0);
  EXPECT_GT(alone.mrr, alone.embedding_mrr);
  EXPECT_EQ(std::tuple(alone.rules, alone.proof, alone.mrr),
            std::tuple(together.rules, together.proof, together.mrr));
}

}  // namespace
}  // namespace maglev::verbs::rank
