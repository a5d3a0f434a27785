#include "verbs/rank/ranking.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <tuple>
#include <utility>

#include <ATen/ATen.h>

#include "base/core/clock.h"
#include "base/core/error.h"
#include "base/trace/span.h"
#include "engine/train/signals.h"
#include "verbs/status_line.h"

namespace maglev::verbs::rank {
namespace {

/// The embedding's score of each candidate, and the logarithm of what all constants' come to.
void score_by_embedding(Ranking& r, const ComplexEmbedding& model,
                        const datalog::Program& program) {
  const auto span = maglev::trace::stage("embedding");
  for (const Question& question : r.questions) {
    const datalog::Atom& query = question.candidates[0];
    const auto one = [](int32_t id) { return at::full({1}, int64_t(id), at::kLong); };
    const at::Tensor all =
        (question.head ? model.firsts(one(query.predicate), one(query.second))
                       : model.seconds(one(query.predicate), one(query.first)))[0]
            .contiguous();
    const float* scores = all.const_data_ptr<float>();
    auto& row = r.embedding.emplace_back();
    for (const datalog::Atom& atom : question.candidates) {
      row.push_back(double(scores[(question.head ? atom.first : atom.second) - 1]));
      if (!std::isfinite(row.back()))
        throw Error("[rank] the embedding's score of " + to_text(program, atom) +
                    " is not finite: its numbers are too large; train it anew with a smaller --lr");
    }
    const double most = *std::max_element(scores, scores + all.numel());
    double sum = 0;
    for (int64_t i = 0; i < all.numel(); ++i) sum += std::exp(double(scores[i]) - most);
    r.embedding_total.push_back(most + std::log(sum));
  }
}

/// Proves the candidates: all, or those that the embedding puts first.
void prove(Ranking& r, const Scorers& scorers) {
  const auto span = maglev::trace::stage("prove");
  std::vector<datalog::Atom> queries;
  std::vector<std::pair<size_t, size_t>> places;
  for (size_t q = 0; q < r.questions.size(); ++q) {
    const auto& candidates = r.questions[q].candidates;
    r.trials.emplace_back(candidates.size());
    std::vector<size_t> chosen(candidates.size());
    std::iota(chosen.begin(), chosen.end(), 0);
    if (scorers.shortlist > 0) chosen = best(r.embedding[q], candidates, scorers.shortlist);
    for (size_t c : chosen) queries.push_back(candidates[c]), places.emplace_back(q, c);
  }
  const double begin_s = steady_s();
  std::vector<Trial> trials;
  {
    const SignalGuard guard;
    CountLine line("proving");
    trials = scorers.prover->prove(queries, {.mode = scorers.mode,
                                             .seed = scorers.seed,
                                             .width = scorers.width,
                                             .told = [&](int64_t done, int64_t of) {
                                               line.show(done, of);
                                               return !SignalGuard::leave();
                                             }});
  }
  r.seconds = steady_s() - begin_s;
  r.counts = scorers.prover->counts();
  std::vector<bool> complete(r.questions.size(), true);
  for (size_t i = 0; i < trials.size(); ++i) {
    if (!std::isfinite(trials[i].log_prob))
      throw Error(
          "[rank] the policy's probability of a proof is no number; its network diverged, take "
          "an earlier --checkpoint");
    r.trials[places[i].first][places[i].second] = trials[i];
    r.tried += trials[i].tried;
    if (!trials[i].tried) complete[places[i].first] = false;
  }
  keep(r, complete);
}

}  // namespace

std::vector<size_t> best(const std::vector<double>& scores,
                         const std::vector<datalog::Atom>& candidates, size_t K) {
  std::vector<size_t> order(scores.size());
  std::iota(order.begin(), order.end(), 0);
  const auto key = [&](size_t c) {
    return std::tuple(-scores[c], candidates[c].first, candidates[c].second);
  };
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return key(a) < key(b); });
  order.resize(std::min(K, order.size()));
  return order;
}

void keep(Ranking& ranking, const std::vector<bool>& complete) {
  const auto keep_of = [&](auto& of) {
    if (of.empty()) return;
    size_t kept = 0;
    for (size_t q = 0; q < complete.size(); ++q) {
      if (!complete[q]) continue;
      if (kept != q) of[kept] = std::move(of[q]);
      ++kept;
    }
    of.resize(kept);
  };
  keep_of(ranking.questions), keep_of(ranking.fired), keep_of(ranking.trials);
  keep_of(ranking.rules.scores), keep_of(ranking.rules.ties_by);
  keep_of(ranking.embedding), keep_of(ranking.embedding_total);
  ranking.left_out = int64_t(complete.size() - ranking.questions.size());
}

Ranking ranking_of(std::vector<Question> questions, const Scorers& scorers) {
  Ranking r{.questions = std::move(questions)};
  if (scorers.embedding) score_by_embedding(r, *scorers.embedding, scorers.graph.dataset.program);
  if (scorers.graph.knowledge->rules > 0) {
    r.fired = fired_rules_of(r.questions, scorers.graph, scorers.pool);
    r.rules = score_by_rules(r.fired, scorers.graph.dataset.program, scorers.aggregate);
  }
  if (scorers.prover) prove(r, scorers);
  for (const Question& question : r.questions) r.candidates += int64_t(question.candidates.size());
  return r;
}

std::vector<ScoreParts> parts_of(const Ranking& ranking) {
  std::vector<ScoreParts> parts;
  for (size_t q = 0; q < ranking.questions.size(); ++q) {
    ScoreParts& of = parts.emplace_back(ScoreParts{.embedding = ranking.embedding[q]});
    for (double& score : of.embedding) score -= ranking.embedding_total[q];
    if (!ranking.fired.empty()) of.rules = ranking.rules.scores[q];
    if (ranking.trials.empty()) continue;
    for (const Trial& trial : ranking.trials[q])
      of.proof.push_back(trial.proved ? std::exp(worth(trial)) : 0);
  }
  return parts;
}

std::vector<Scoring> scorings_of(const Ranking& ranking, const Scorers& scorers,
                                 const std::optional<Weights>& weights) {
  const auto span = maglev::trace::stage("score");
  std::vector<Scoring> scorings;
  if (scorers.prover && scorers.shortlist == 0) {
    Scoring& proof = scorings.emplace_back(Scoring{.name = "proof", .scores = {}});
    for (const auto& trials : ranking.trials) {
      auto& row = proof.scores.emplace_back();
      for (const Trial& trial : trials) row.push_back(proof_score(trial));
    }
  }
  if (scorers.embedding) scorings.push_back({.name = "embedding", .scores = ranking.embedding});
  if (!ranking.fired.empty()) scorings.push_back(ranking.rules);
  if (weights) {
    Scoring& joined = scorings.emplace_back(Scoring{.name = "joined", .scores = {}});
    for (const ScoreParts& parts : parts_of(ranking))
      joined.scores.push_back(join(parts, *weights));
  }
  return scorings;
}

}  // namespace maglev::verbs::rank
