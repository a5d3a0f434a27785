#include "verbs/rank/joined.h"

#include <algorithm>
#include <cmath>

#include "base/core/error.h"
#include "base/statistics/ranking.h"
#include "base/trace/span.h"

namespace maglev::verbs::rank {
namespace {

/// Weights that are tried of one part, from 0 on.
std::vector<double> weights_tried(bool there) {
  std::vector<double> weights{0};
  for (int half = -6; there && half <= 16; ++half) weights.push_back(std::exp2(0.5 * half));
  return weights;
}

}  // namespace

std::vector<double> join(const ScoreParts& parts, const Weights& weights) {
  std::vector<double> scores = parts.embedding;
  for (size_t c = 0; c < scores.size(); ++c) {
    if (!parts.rules.empty()) scores[c] += weights.rules * parts.rules[c];
    if (!parts.proof.empty()) scores[c] += weights.proof * parts.proof[c];
  }
  return scores;
}

Weights find_weights(const std::vector<ScoreParts>& questions, ThreadPool& pool) {
  MAGLEV_ASSERT(!questions.empty(), "weights are found by questions");
  const auto span = maglev::trace::stage("weights");
  std::vector<Weights> tried;
  for (double rules : weights_tried(!questions[0].rules.empty()))
    for (double proof : weights_tried(!questions[0].proof.empty()))
      tried.push_back({.rules = rules, .proof = proof});

  // blocks of fixed size, added in order, so that sums do not depend on threads
  constexpr size_t kBlock = 16;
  const size_t blocks = (questions.size() + kBlock - 1) / kBlock;
  std::vector<std::vector<double>> sums(blocks, std::vector<double>(tried.size()));
  pool.run(int64_t(blocks), [&](int64_t block) {
    const size_t begin = size_t(block) * kBlock, end = std::min(begin + kBlock, questions.size());
    for (size_t q = begin; q < end; ++q)
      for (size_t w = 0; w < tried.size(); ++w)
        sums[size_t(block)][w] += 1 / rank_of(join(questions[q], tried[w]), Ties::realistic);
  });
  for (const auto& sum : sums)
    for (size_t w = 0; w < tried.size(); ++w) tried[w].mrr += sum[w];

  Weights best = tried[0];
  for (const Weights& weights : tried)
    if (weights.mrr > best.mrr) best = weights;
  best.questions = int64_t(questions.size());
  best.mrr /= double(questions.size());
  best.embedding_mrr = tried[0].mrr / double(questions.size());
  return best;
}

}  // namespace maglev::verbs::rank
