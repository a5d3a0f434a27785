#include "verbs/rank/explain.h"

#include <algorithm>

#include "base/core/printed.h"
#include "verbs/table.h"

namespace maglev::verbs::rank {
namespace {

constexpr size_t kBestShown = 5, kRulesShown = 3;

/// "uncle(ann, ?)".
std::string question_text(const Question& question, const datalog::Program& program) {
  const datalog::Atom& query = question.candidates[0];
  const auto name = [&](int32_t id) { return datalog::quoted_name(program.constants.of(id)); };
  return datalog::quoted_name(program.predicates.of(query.predicate)) + "(" +
         (question.head ? "?, " + name(query.second) : name(query.first) + ", ?") + ")";
}

std::string answer_text(const Question& question, size_t candidate,
                        const datalog::Program& program) {
  const datalog::Atom& atom = question.candidates[candidate];
  return program.constants.of(question.head ? atom.first : atom.second);
}

/// A candidate's own, or null where nothing was tried.
const Trial* trial_of(const Ranking& ranking, size_t question, size_t candidate) {
  if (ranking.trials.empty()) return nullptr;
  const Trial& trial = ranking.trials[question][candidate];
  return trial.tried ? &trial : nullptr;
}

/// "in 2 steps", "no", or "not tried".
std::string trial_text(const Trial* trial) {
  if (!trial) return "not tried";
  return trial->proved ? "in " + counted(trial->steps, "step") : "no";
}

}  // namespace

std::vector<Explained> explain(const Ranking& ranking, const std::vector<Scoring>& scorings,
                               size_t count) {
  std::vector<Explained> all;
  const Scoring places = ties_broken(scorings.back());
  for (size_t q = 0; q < std::min(count, ranking.questions.size()); ++q) {
    const auto& candidates = ranking.questions[q].candidates;
    const auto order = best(places.scores[q], candidates, candidates.size());
    Explained& explained = all.emplace_back(Explained{.question = q, .candidates = {}});
    for (size_t i = 0; i < order.size(); ++i) {
      if (i >= kBestShown && order[i] != 0) continue;
      auto& one = explained.candidates.emplace_back(
          ExplainedCandidate{.candidate = order[i], .place = int64_t(i) + 1, .scores = {}});
      for (const Scoring& scoring : scorings) one.scores.push_back(scoring.scores[q][order[i]]);
    }
  }
  return all;
}

std::string explained_text(const std::vector<Explained>& explained, const Ranking& ranking,
                           const std::vector<Scoring>& scorings, const datalog::Program& program,
                           const Terminal& terminal) {
  std::string text;
  for (const Explained& one : explained) {
    const Question& question = ranking.questions[one.question];
    text += "\n" + question_text(question, program) + " by " + scorings.back().name + "; true is " +
            answer_text(question, 0, program) + "\n";
    std::vector<std::string> headings{">place", "candidate"};
    for (const Scoring& scoring : scorings) headings.push_back(">" + scoring.name);
    const bool tried = !ranking.trials.empty();
    if (tried) headings.push_back("the run proves it");
    headings.push_back("rules that say so, with their confidence");
    Table table(headings);
    for (const ExplainedCandidate& c : one.candidates) {
      std::vector<std::string> row{
          std::to_string(c.place),
          answer_text(question, c.candidate, program) + (c.candidate == 0 ? " (true)" : "")};
      for (double score : c.scores) row.push_back(printed("%.3f", score));
      if (tried) row.push_back(trial_text(trial_of(ranking, one.question, c.candidate)));
      const auto rules = ranking.fired[one.question].of(c.candidate);
      const auto rule_text = [&](size_t i) {
        const datalog::Rule& rule = program.rules[size_t(rules[i])];
        return printed("%.3f ", rule.confidence) + to_text(program, rule);
      };
      row.push_back(rules.empty() ? "none" : rule_text(0));
      table.add(row);
      // the others below, a row each
      std::vector<std::string> below(row.size());
      for (size_t i = 1; i < std::min(rules.size(), kRulesShown); ++i)
        below.back() = rule_text(i), table.add(below);
      if (rules.size() > kRulesShown)
        below.back() = "and " + std::to_string(rules.size() - kRulesShown) + " more",
        table.add(below);
    }
    text += table.text(terminal);
  }
  return text;
}

nlohmann::ordered_json explained_json(const std::vector<Explained>& explained,
                                      const Ranking& ranking, const std::vector<Scoring>& scorings,
                                      const datalog::Program& program) {
  using Json = nlohmann::ordered_json;
  Json all = Json::array();
  for (const Explained& one : explained) {
    const Question& question = ranking.questions[one.question];
    Json candidates = Json::array();
    for (const ExplainedCandidate& c : one.candidates) {
      Json json{{"atom", to_text(program, question.candidates[c.candidate])},
                {"true", c.candidate == 0},
                {"place", c.place},
                {"scores", Json::object()},
                {"rules", Json::array()}};
      if (const Trial* trial = trial_of(ranking, one.question, c.candidate)) {
        json["proved"] = trial->proved;
        json["steps"] = trial->steps;
      }
      for (size_t s = 0; s < scorings.size(); ++s) json["scores"][scorings[s].name] = c.scores[s];
      for (int32_t rule : ranking.fired[one.question].of(c.candidate))
        json["rules"].push_back({{"confidence", program.rules[size_t(rule)].confidence},
                                 {"rule", to_text(program, program.rules[size_t(rule)])},
                                 {"rule_number", rule + 1}});
      candidates.push_back(std::move(json));
    }
    all.push_back({{"question", question_text(question, program)},
                   {"mode", question.head ? "head" : "tail"},
                   {"by", scorings.back().name},
                   {"candidates", std::move(candidates)}});
  }
  return all;
}

}  // namespace maglev::verbs::rank
