#include "verbs/rank/questions.h"

#include <algorithm>
#include <numeric>

#include "base/core/error.h"
#include "base/core/permute.h"
#include "base/trace/span.h"

namespace maglev::verbs::rank {

std::vector<Question> questions_of(const datalog::Graph& graph, const Asked& asked) {
  const auto span = maglev::trace::stage("questions");
  const datalog::Dataset& data = graph.dataset;
  const bool train = asked.split == maglev::kg::Split::train,
             valid = asked.split == maglev::kg::Split::valid;
  const auto& queries = train ? data.train : valid ? data.valid : data.test;
  const auto& depths = train ? data.train_depth : valid ? data.valid_depth : data.test_depth;
  if (queries.empty())
    throw Error("[rank] " + data.name + " has no " + name_of(asked.split) +
                " queries; choose another --split");

  const datalog::Knowledge& truths = asked.truths ? *asked.truths : *graph.truths;
  std::vector<int32_t> every(size_t(graph.knowledge->constants));
  std::iota(every.begin(), every.end(), 1);
  std::vector<Question> questions;
  int64_t candidates = 0;
  const int64_t all = int64_t(queries.size());
  const int64_t count = asked.queries > 0 ? std::min(asked.queries, all) : all;
  const Permutation drawn(asked.seed, 0, uint64_t(all));
  for (int64_t i = 0; i < count; ++i) {
    const size_t q = count == all ? size_t(i) : size_t(drawn(uint64_t(i)));
    for (bool head : {true, false}) {
      if (asked.modes == (head ? Modes::tail : Modes::head)) continue;
      const datalog::Atom& query = queries[q];
      Question question{
          .head = head, .depth = depths.empty() ? -1 : depths[q], .candidates = {query}};
      const size_t predicate = size_t(query.predicate - 1);
      const bool any = head || predicate >= data.domains.size() || data.domains[predicate].empty();
      const std::vector<int32_t>& choices = any ? every : data.domains[predicate];
      // in a random order, until there are enough
      const Permutation order(asked.seed, uint64_t(1 + questions.size()), choices.size());
      for (size_t c = 0; c < choices.size(); ++c) {
        if (asked.corruptions > 0 && int64_t(question.candidates.size()) > asked.corruptions) break;
        datalog::Atom other = query;
        int32_t& asked_for = head ? other.first : other.second;
        asked_for = choices[asked.corruptions > 0 ? size_t(order(c)) : c];
        if (other == query || (asked.filtered && truths.find(other) >= 0)) continue;
        question.candidates.push_back(other);
      }
      candidates += int64_t(question.candidates.size());
      if (candidates > kMostCandidates)
        throw Error("[rank] " + std::to_string(i + 1) + " of " + std::to_string(count) +
                    " queries have more than " + std::to_string(kMostCandidates) +
                    " candidates; give fewer with --queries or --corruptions");
      questions.push_back(std::move(question));
    }
  }
  return questions;
}

}  // namespace maglev::verbs::rank
