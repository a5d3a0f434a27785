#include "verbs/rank/by_rules.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

#include "base/datalog/rule_answers.h"
#include "base/trace/span.h"

namespace maglev::verbs::rank {
namespace {

/// In the logarithm a rule of confidence 1 counts as 1 - 1e-12; -inf would hide all other rules.
constexpr double kLeastDoubt = 1e-12;

/// Questions that have all but their false candidates in common are answered once.
std::vector<std::pair<datalog::AskedAtom, std::vector<size_t>>> by_asked_atom(
    const std::vector<Question>& questions) {
  std::map<std::tuple<int32_t, int32_t, bool>, std::vector<size_t>> groups;
  for (size_t q = 0; q < questions.size(); ++q) {
    const datalog::Atom& query = questions[q].candidates[0];
    const bool head = questions[q].head;
    groups[{query.predicate, head ? query.second : query.first, head}].push_back(q);
  }
  std::vector<std::pair<datalog::AskedAtom, std::vector<size_t>>> open;
  for (auto& [key, which] : groups)
    open.push_back({{std::get<0>(key), std::get<1>(key), std::get<2>(key)}, std::move(which)});
  return open;
}

FiredRules fired_for(const Question& question, const std::vector<datalog::RuleAnswer>& answers) {
  FiredRules fired{.begin = {0}, .rules = {}};
  fired.begin.reserve(question.candidates.size() + 1);
  for (const datalog::Atom& candidate : question.candidates) {
    const int32_t constant = question.head ? candidate.first : candidate.second;
    auto answer = std::lower_bound(
        answers.begin(), answers.end(), constant,
        [](const datalog::RuleAnswer& a, int32_t wanted) { return a.constant < wanted; });
    for (; answer != answers.end() && answer->constant == constant; ++answer)
      fired.rules.push_back(answer->rule);
    fired.begin.push_back(int32_t(fired.rules.size()));
  }
  return fired;
}

}  // namespace

std::vector<FiredRules> fired_rules_of(const std::vector<Question>& questions,
                                       const datalog::Graph& graph, ThreadPool& pool) {
  const auto span = maglev::trace::stage("rules");
  const datalog::RuleAnswers rules(graph.dataset.program, *graph.knowledge);
  const auto open = by_asked_atom(questions);
  std::vector<FiredRules> fired(questions.size());
  // blocks so that scratch is made seldom; a question's answers are its own
  constexpr size_t kBlock = 32;
  pool.run(int64_t((open.size() + kBlock - 1) / kBlock), [&](int64_t block) {
    const auto span = maglev::trace::stage("ground");
    datalog::RuleAnswers::Scratch scratch;
    const size_t begin = size_t(block) * kBlock, end = std::min(begin + kBlock, open.size());
    for (size_t i = begin; i < end; ++i) {
      const auto answers = rules.of(open[i].first, scratch);
      for (size_t q : open[i].second) fired[q] = fired_for(questions[q], answers);
    }
  });
  return fired;
}

Scoring score_by_rules(const std::vector<FiredRules>& fired, const datalog::Program& program,
                       Aggregate aggregate) {
  const auto confidence = [&](int32_t rule) { return program.rules[size_t(rule)].confidence; };
  Scoring scoring{.name = "rules", .scores = {}};
  std::vector<std::pair<size_t, size_t>> places;  // of candidates that a rule speaks for
  for (size_t q = 0; q < fired.size(); ++q) {
    const size_t candidates = fired[q].begin.size() - 1;
    auto& scores = scoring.scores.emplace_back(candidates);
    auto& ties = scoring.ties_by.emplace_back(candidates);
    for (size_t c = 0; c < candidates; ++c) {
      const auto rules = fired[q].of(c);
      if (rules.empty()) continue;
      places.emplace_back(q, c);
      if (aggregate == Aggregate::max) {
        scores[c] = confidence(rules[0]);
        continue;
      }
      // a likelihood that rounds to 1 is told apart by the logarithm of its doubt
      double doubt = 1, log_doubt = 0;
      for (int32_t rule : rules) {
        doubt *= 1 - confidence(rule);
        log_doubt += std::log(std::max(1 - confidence(rule), kLeastDoubt));
      }
      scores[c] = 1 - doubt, ties[c] = -log_doubt;
    }
  }
  if (aggregate == Aggregate::noisy_or) return scoring;

  // among all candidates, by the confidences one after another; who has one more stands before
  const auto less = [&](const auto& a, const auto& b) {
    const auto of_a = fired[a.first].of(a.second), of_b = fired[b.first].of(b.second);
    return std::lexicographical_compare(
        of_a.begin(), of_a.end(), of_b.begin(), of_b.end(),
        [&](int32_t x, int32_t y) { return confidence(x) < confidence(y); });
  };
  std::sort(places.begin(), places.end(), less);
  double place = 1;
  for (size_t i = 0; i < places.size(); ++i) {
    if (i > 0 && less(places[i - 1], places[i])) ++place;
    scoring.ties_by[places[i].first][places[i].second] = place;
  }
  return scoring;
}

}  // namespace maglev::verbs::rank
