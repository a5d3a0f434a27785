#include "verbs/prove/policy_scores.h"

#include <gtest/gtest.h>

#include "engine/play/run_policy.h"
#include "engine/train/training_run.h"
#include "tests/errors.h"
#include "tests/folder.h"
#include "verbs/prove/query.h"

namespace maglev::verbs::prove {
namespace {

/// A run of a moment, of which only the folder is wanted.
std::string small_run(const std::string& env, const std::vector<std::string>& settings) {
  claim_threads();
  Experiment experiment("ppo", env);
  for (const auto& setting : settings) experiment.table().override_with(setting);
  for (const char* setting : {"train.steps=256", "env.count=8", "ppo.rollout=32",
                              "ppo.minibatch=256", "threads=1", "device=cpu"})
    experiment.table().override_with(setting);
  const std::string out = test_folder() + "/scores_" + env;
  train_new(experiment, {.out = out, .overwrite = true, .sinks = {"jsonl"}});
  return out;
}

TEST(PolicyScores, are_what_the_policy_thinks_in_the_environment) {
  RunPolicy run(small_run("kg", {"env.data=countries_s2", "env.skip_unary=0"}));
  PolicyScores scores(run.experiment(), run.policy());
  const Kg::Params& p = scores.params();
  std::vector<std::max_align_t> memory(Kg::asset_bytes(p) / 16 + 1),
      slot(Kg::state_bytes(p) / 16 + 1);
  auto& assets = *reinterpret_cast<Kg::Assets*>(memory.data());
  auto& state = *reinterpret_cast<Kg::State*>(slot.data());
  Kg::make_assets(p, assets);
  const EnvSpec spec = run.experiment().spec();
  Batch columns =
      make_columns(spec, {}, {.observed = 2, .acted = 1}, 1, at::TensorOptions(at::kCPU));
  StepWindow window(spec, columns, {.T = 1, .rows = 1, .block_rows = 1});
  TimeStep& row = window.step(0);

  int compared = 0;
  const auto& queries = datalog::open_graph("countries_s2").dataset.train;
  for (size_t q = 0; q < queries.size(); q += 23) {
    Kg::ask(p, assets, state, queries[q], false);
    std::byte* places[] = {static_cast<std::byte*>(row.obs[0].data_ptr()),
                           static_cast<std::byte*>(row.obs[1].data_ptr())};
    const int64_t bytes[] = {spec.observations[0].row_bytes(), spec.observations[1].row_bytes()};
    Kg::observe(p, assets, state, 0, {places, bytes, 0, row.mask.data_ptr<uint8_t>()});
    const at::Tensor expected = run.policy().log_probs(row).clone();

    // the same children by the search's own step
    std::vector<std::vector<datalog::Atom>> children;
    datalog::Child child;
    bool proved = false;
    const datalog::Resolve how{.excluded = queries[q],
                               .select_bound = p.select == maglev::kg::Select::bound};
    datalog::resolve(assets.knowledge(), how, &queries[q], 1, assets.knowledge().constants + 1,
                     child, [&](const datalog::Child&) {
                       proved = proved || child.size == 0;
                       children.emplace_back(child.atoms, child.atoms + child.size);
                       return true;
                     });
    if (proved || children.empty()) continue;
    datalog::Expansion expansion{.goal = {&queries[q], 1}, .children = {}};
    for (const auto& c : children) expansion.children.emplace_back(c);
    std::vector<float> came(children.size());
    // beside another, in another row
    const datalog::Expansion two[] = {expansion, expansion};
    std::vector<float> both(2 * children.size());
    scores({&expansion, 1}, came);
    scores(two, both);
    for (size_t i = 0; i < children.size(); ++i, ++compared) {
      EXPECT_NEAR(came[i], expected[0][int64_t(i)].item<float>(), 1e-5);
      EXPECT_NEAR(both[children.size() + i], came[i], 1e-5);
    }
  }
  EXPECT_GT(compared, 20);
}

TEST(PolicyScores, find_the_proofs_that_a_search_finds) {
  RunPolicy run(small_run("kg", {"env.data=countries_s1"}));
  PolicyScores scores(run.experiment(), run.policy());
  const datalog::Graph& graph = datalog::open_graph("countries_s1");
  for (const datalog::Atom& query : graph.dataset.test) {
    datalog::SearchOptions options{.strategy = datalog::Strategy::beam, .width = 1000};
    options.scores = std::ref(scores);
    EXPECT_TRUE(datalog::Search(*graph.knowledge, query, options).next().has_value());
  }
}

TEST(PolicyScores, the_documented_example_is_proved_whatever_was_learned) {
  RunPolicy run(small_run("kg", {"env.data=family"}));
  PolicyScores scores(run.experiment(), run.policy());
  const datalog::Graph& graph = datalog::open_graph("family");
  const datalog::Program& program = graph.dataset.program;
  // docs/knowledge_graphs.md, "From nothing to a proof"
  const datalog::Atom query = parse_query("niece(p02205, p01549)", program).atom;
  datalog::SearchOptions options{.strategy = datalog::Strategy::beam};
  options.scores = std::ref(scores);
  options.how.select_bound = scores.params().select == maglev::kg::Select::bound;
  const auto proof = datalog::Search(*graph.knowledge, query, options).next();
  ASSERT_TRUE(proof.has_value());
  EXPECT_EQ(proof->steps.size(), 2u);
}

TEST(PolicyScores, other_runs_are_refused) {
  RunPolicy run(small_run("cartpole", {}));
  EXPECT_TRUE(contains(error_of([&] { PolicyScores scores(run.experiment(), run.policy()); }),
                       "got one of cartpole"));
}

}  // namespace
}  // namespace maglev::verbs::prove
