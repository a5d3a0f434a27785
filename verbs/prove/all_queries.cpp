#include "verbs/prove/all_queries.h"

#include <algorithm>

#include <nlohmann/json.hpp>

#include "base/core/clock.h"
#include "base/core/error.h"
#include "base/core/printed.h"
#include "base/core/split.h"
#include "base/core/thread_pool.h"
#include "base/datalog/answers.h"
#include "base/datalog/knowledge.h"
#include "verbs/table.h"

namespace maglev::verbs::prove {
namespace {

const std::vector<datalog::Atom>& split_of(const datalog::Dataset& data, const std::string& name) {
  if (name == "train") return data.train;
  if (name == "valid") return data.valid;
  if (name == "test") return data.test;
  throw Error("[--queries] " + unknown_name("split", name, {"train", "valid", "test"}));
}

/// How many queries are provable in each number of steps from 0; the last: not at all.
std::vector<int64_t> histogram(const AllAnswers& answers) {
  std::vector<int64_t> count(size_t(answers.asked.depth) + 2, 0);
  for (int32_t steps : answers.steps) ++count[steps < 0 ? count.size() - 1 : size_t(steps)];
  return count;
}

}  // namespace

AllAnswers answer_all(const datalog::Dataset& data, const AllQueries& asked) {
  AllAnswers all{.asked = asked};
  const std::vector<std::string> splits = split_list(asked.splits, "--queries");
  for (const std::string& split : splits) {
    const auto& queries = split_of(data, split);
    if (std::ranges::count(splits, split) > 1)
      throw Error("[--queries] names " + split + " twice in '" + asked.splits + "'; leave one out");
    all.queries.insert(all.queries.end(), queries.begin(), queries.end());
  }
  if (all.queries.empty())
    throw Error("[--queries] " + data.name + " has no query in " + asked.splits +
                "; choose among train, valid and test");
  const double begin_s = steady_s();
  const datalog::OwnedKnowledge knowledge(data.program);
  all.index_seconds = steady_s() - begin_s;
  ThreadPool pool(asked.threads ? int(asked.threads) : usable_cpus());
  all.asked.threads = pool.threads();
  const double indexed_s = steady_s();
  all.steps = least_steps(*knowledge, all.queries, asked.depth, asked.exclude_query, pool);
  all.seconds = steady_s() - indexed_s;
  for (size_t i = 0; i < all.queries.size(); ++i)
    all.may_need_more +=
        all.steps[i] < 0 && knowledge->rules_of(all.queries[i].predicate).size() > 0;
  return all;
}

datalog::Dataset with_depths(datalog::Dataset data, const AllAnswers& answers) {
  auto steps = answers.steps.begin();
  for (const std::string& split : split_list(answers.asked.splits, "--queries")) {
    auto& depths = split == "train"   ? data.train_depth
                   : split == "valid" ? data.valid_depth
                                      : data.test_depth;
    const auto end = steps + std::ptrdiff_t(split_of(data, split).size());
    depths.assign(steps, end);
    steps = end;
  }
  return data;
}

std::string answers_text(const datalog::Dataset& data, const AllAnswers& answers,
                         const Terminal& terminal) {
  const std::vector<int64_t> count = histogram(answers);
  const double total = double(std::max<size_t>(answers.queries.size(), 1));
  Table table({">steps", ">queries", ">share"});
  const auto add = [&](const std::string& steps, int64_t queries) {
    table.add({steps, std::to_string(queries), printed("%.1f %%", 100 * double(queries) / total)});
  };
  for (size_t s = 1; s + 1 < count.size(); ++s) add(std::to_string(s), count[s]);
  add("none", count.back());
  std::string more;
  if (answers.may_need_more > 0)
    more = std::to_string(answers.may_need_more) + " more may need more steps: --depth " +
           std::to_string(answers.asked.depth + 1) + "\n";
  const std::string speed =
      printed("%.3g s on %s, %.3g queries/s\n", answers.seconds,
              counted(answers.asked.threads, "thread").c_str(), total / answers.seconds);
  return data.name + ", " + answers.asked.splits + ": " +
         std::to_string(int64_t(answers.queries.size()) - count.back()) + " of " +
         counted(int64_t(answers.queries.size()), "query", "queries") +
         " are provable in at most " + counted(answers.asked.depth, "step") +
         (answers.asked.exclude_query ? ", none by itself\n" : "\n") + table.text(terminal) + more +
         speed;
}

std::string answers_json(const datalog::Dataset& data, const AllAnswers& answers) {
  nlohmann::ordered_json json{{"data", data.name},
                              {"queries", answers.asked.splits},
                              {"depth", answers.asked.depth},
                              {"exclude_query", answers.asked.exclude_query},
                              {"threads", answers.asked.threads},
                              {"index_seconds", answers.index_seconds},
                              {"seconds", answers.seconds},
                              {"may_need_more_steps", answers.may_need_more},
                              {"steps", nlohmann::ordered_json::array()}};
  for (size_t i = 0; i < answers.queries.size(); ++i)
    json["steps"].push_back({datalog::to_text(data.program, answers.queries[i]), answers.steps[i]});
  return json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace maglev::verbs::prove
