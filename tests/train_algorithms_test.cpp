// What the table of algorithms promises (docs/architecture.md), of each one on each device: a run
// learns, depends on nothing but its settings, continues as if it had never stopped, is the same as
// a graph, and leaves a policy that plays. An algorithm brings its small run in its row.
//
// On a processor a graph's iterations are plain calls whose counters live in memory, as a graph's
// do; they must not differ by a bit either.

#include <array>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string_view>

#include <ATen/ATen.h>
#include <torch/cuda.h>

#include <gtest/gtest.h>

#include "base/core/error.h"
#include "engine/device/device.h"
#include "engine/play/evaluate.h"
#include "engine/run/checkpoint.h"
#include "engine/train/trainer.h"
#include "tests/folder.h"
#ifdef MAGLEV_SLOW_DEVICE
#include "tests/small_plans.h"
#endif
#ifdef MAGLEV_DEVICE_CODE
#include <c10/cuda/CUDAFunctions.h>
#endif

namespace maglev {
namespace {

using Settings = std::vector<std::string>;
using Figures = std::vector<std::pair<std::string, double>>;

constexpr int kIterations = 6;

struct Outcome {
  std::string hash;
  Figures figures;  ///< of learning, without times
};

class AnAlgorithm : public testing::TestWithParam<std::tuple<size_t, const char*>> {
 protected:
  void SetUp() override {
    if (device().is_cuda() && !torch::cuda::is_available())
      GTEST_SKIP() << "no CUDA device on this machine";
    if (device().is_cuda() && entry().cpu_only)
      GTEST_SKIP() << entry().name << " runs on a processor only";
    ASSERT_TRUE(entry().small.env) << entry().name << " has no small run in its row";
    claim_threads();
  }

  const AlgoEntry& entry() const { return algo_table()[std::get<0>(GetParam())]; }
  at::Device device() const { return at::Device(std::get<1>(GetParam())); }
  CheckpointIdentity identity() const { return {.algo = entry().name, .env = entry().small.env}; }

  std::unique_ptr<Experiment> experiment(const Settings& settings = {}) const {
    auto made = std::make_unique<Experiment>(entry().name, entry().small.env);
    for (const auto& s : entry().small.settings) made->table().override_with(s);
#ifdef MAGLEV_SLOW_DEVICE
    if (entry().name == std::string_view("tdmpc2"))
      for (const auto* some : {&kSmallPlans, &kShortEpisodes})
        for (const auto& s : *some) made->table().override_with(s);
#endif
    made->run.device = device().str();
    // a GPU promises bits only where it was told to
    if (device().is_cuda()) made->table().override_with("train.deterministic=true");
    for (const auto& s : settings) made->table().override_with(s);
    return made;
  }
  std::unique_ptr<Trainer> trainer(const Experiment& experiment, int threads = 1) const {
    return std::make_unique<Trainer>(experiment, Placement{.device = device(), .threads = threads});
  }
  static Outcome outcome(Trainer& trainer) {
    Outcome o;
    for (auto& figure : trainer.flush().values)
      if (!figure.first.starts_with("time/")) o.figures.push_back(figure);
    o.hash = state_hash([&](StateVisitor& v) { trainer.visit_state(v); });
    return o;
  }
  Outcome trained(const Settings& settings = {}, int threads = 1) const {
    const auto made = experiment(settings);
    const auto run = trainer(*made, threads);
    run->warm_up();
    for (int i = 0; i < kIterations; ++i) run->iterate();
    EXPECT_GT(run->updates(), 0) << "the small run of " << entry().name << " makes no update in "
                                 << kIterations << " iterations";
    const bool capturable = run->algorithm().plan().capturable;
    EXPECT_EQ(run->captured(), device().is_cuda() && capturable && made->run.graph.value_or(true))
        << run->graph_note();
    return outcome(*run);
  }
  std::string saved(Trainer& run) const {
    return save_checkpoint(test_folder() + "/" + entry().name, identity(),
                           [&](StateVisitor& v) { run.visit_state(v); });
  }
};

void expect_same(const Outcome& a, const Outcome& b) {
  EXPECT_EQ(a.hash, b.hash);
  ASSERT_EQ(a.figures.size(), b.figures.size());
  for (size_t i = 0; i < a.figures.size(); ++i) {
    EXPECT_EQ(a.figures[i].first, b.figures[i].first);
    const double x = a.figures[i].second, y = b.figures[i].second;
    EXPECT_TRUE(x == y || (std::isnan(x) && std::isnan(y)))
        << a.figures[i].first << ": " << x << " and " << y;
  }
}

TEST_P(AnAlgorithm, learns_and_its_figures_are_finite) {
  const auto made = experiment();
  const auto run = trainer(*made);
  const auto parameters = [&] {
    return state_hash([&](StateVisitor& v) { run->algorithm().policy().visit_state(v); });
  };
  const auto before = parameters();
  for (int i = 0; i < kIterations; ++i) run->iterate();
  EXPECT_NE(parameters(), before) << "the policy never moved";
  for (const auto& [name, value] : outcome(*run).figures)
    if (name.starts_with("loss/")) {
      EXPECT_TRUE(std::isfinite(value)) << name << " = " << value;
    }
}

TEST_P(AnAlgorithm, learns_in_every_precision_of_the_device_that_it_offers) {
  const auto made = experiment();
  const DataPlan plan = trainer(*made)->algorithm().plan();
  for (Precision precision : precisions_of(device())) {
    if (!plan.offers(precision)) continue;
    SCOPED_TRACE(name_of(precision));
    Trainer run(*made, {.device = device(), .threads = 1, .precision = precision});
    run.warm_up();
    const auto policy = [&](StateVisitor& v) { run.algorithm().policy().visit_state(v); };
    const auto before = state_hash(policy);
    for (int i = 0; i < kIterations; ++i) run.iterate();
    EXPECT_NE(state_hash(policy), before) << "the policy never moved";
    run.flush();
    EXPECT_EQ(run.report().divergence(), "");
  }
}

TEST_P(AnAlgorithm, does_not_depend_on_threads) {
  const auto reference = trained();
  for (int threads : {2, 3}) expect_same(trained({}, threads), reference);
  EXPECT_NE(trained({"seed=99"}).hash, reference.hash) << "nor on its seed";
}

TEST_P(AnAlgorithm, as_a_graph_equals_the_eager_one) {
  expect_same(trained({"train.graph=on"}), trained({"train.graph=off"}));
}

TEST_P(AnAlgorithm, warmed_up_equals_a_cold_one) {
  const auto cold = trained({"train.graph=off"});
  for (const char* graph : {"train.graph=on", "train.graph=off"})
    expect_same(trained({"train.warmup=3", graph}), cold);
}

// figures too: those since the last flush are part of the state
TEST_P(AnAlgorithm, continues_from_a_checkpoint_as_the_unbroken_run_does) {
  const auto whole = trained();
  const auto made = experiment();
  const auto first = trainer(*made);
  first->warm_up();
  for (int i = 0; i < kIterations / 2; ++i) first->iterate();
  const auto path = saved(*first);
  const auto second = trainer(*made);
  load_checkpoint(path, identity(), [&](StateVisitor& v) { second->visit_state(v); });
  second->warm_up();
  for (int i = kIterations / 2; i < kIterations; ++i) second->iterate();
  expect_same(outcome(*second), whole);
}

TEST_P(AnAlgorithm, leaves_a_policy_that_acts_without_the_learner) {
  const auto made = experiment();
  const auto run = trainer(*made);
  for (int i = 0; i < kIterations; ++i) run->iterate();
  const auto path = saved(*run);
  const Placement placement{.device = device(), .threads = 1};
  ThreadPool pool(1);
  const auto policy = entry().make_policy(made->algo_options(), context_of(*made, placement, pool));
  load_section(path, "algo", identity(), [&](StateVisitor& v) { policy->visit_state(v); });
  policy->publish();
  for (ActMode mode : {ActMode::mean, ActMode::sample}) {
    const auto judged = [&](Policy& one) {
      PolicyPlayer player(one, "policy", mode);
      return evaluate(player, game_of(*made, placement, pool), {.steps = 60, .envs = 3});
    };
    const auto alone = judged(*policy), learner = judged(run->algorithm().policy());
    EXPECT_GT(alone.steps, 0);
    EXPECT_EQ(alone.steps, learner.steps);
    EXPECT_EQ(alone.returns, learner.returns);
  }
}

TEST_P(AnAlgorithm, gives_its_networks_alone_to_another_run) {
  const auto made = experiment(), other = experiment({"seed=99"});
  const auto run = trainer(*made), heir = trainer(*other);
  for (int i = 0; i < kIterations; ++i) run->iterate();
  const auto policy = [](Trainer& t) {
    return [&t](StateVisitor& v) { t.algorithm().policy().visit_state(v); };
  };
  const auto algorithm = [](Trainer& t) {
    return [&t](StateVisitor& v) { t.algorithm().visit_state(v); };
  };
  load_networks(saved(*run), identity(), algorithm(*heir), policy(*heir));
  heir->algorithm().follow_networks();
  heir->algorithm().publish();
  EXPECT_EQ(state_hash(policy(*heir)), state_hash(policy(*run)));
  EXPECT_EQ(heir->updates(), 0);
}

#ifdef MAGLEV_DEVICE_CODE
TEST_P(AnAlgorithm, holds_no_second_copy_of_activations_beside_its_graphs) {
  if (!device().is_cuda()) GTEST_SKIP() << "a processor captures nothing";
  // what an algorithm's own memory is, eager and replayed; libraries have set themselves up
  const auto reserved = [&](const char* graph) {
    release_device_memory();
    const auto made = experiment({graph});
    const auto run = trainer(*made);
    run->warm_up();
    for (int i = 0; i < kIterations; ++i) run->iterate();
    return device_memory().reserved;
  };
  // each once before: libraries keep workspaces for the streams of either
  for (const char* graph : {"train.graph=off", "train.graph=on"}) reserved(graph);
  const int64_t eager = reserved("train.graph=off"), replayed = reserved("train.graph=on");
  // segments of the graphs' own and a workspace of the library's for their stream
  EXPECT_LE(replayed, eager + eager / 10 + (int64_t(96) << 20));
  RecordProperty("eager_mib", int(eager >> 20)),
      RecordProperty("replayed_mib", int(replayed >> 20));
}

TEST_P(AnAlgorithm, says_where_a_gpus_time_goes_also_when_it_replays) {
  if (!device().is_cuda()) GTEST_SKIP() << "a processor's time is measured where it passes";
  const auto made = experiment({"train.graph=on"});
  const auto run = trainer(*made);
  run->warm_up();
  for (int i = 0; i < 3 * kIterations; ++i) run->iterate();
  // the stream has passed what it was given
  wait_for_stream();
  const MetricRow row = run->flush();
  for (const auto& [name, share] : row.values)
    if (name == "time/environment" || name == "time/policy" || name == "time/learn") {
      EXPECT_GT(share, 0) << name;
      EXPECT_LE(share, 1.5) << name;
    }
}

TEST_P(AnAlgorithm, waits_for_nothing_on_a_gpu) {
  if (!device().is_cuda()) GTEST_SKIP() << "a processor has nothing to wait for";
  for (const char* graph : {"train.graph=on", "train.graph=off"}) {
    const auto made = experiment({graph});
    const auto run = trainer(*made);
    run->warm_up();
    for (int i = 0; i < kIterations; ++i) run->iterate();
    auto& state = c10::cuda::warning_state();
    state.set_sync_debug_mode(c10::cuda::SyncDebugMode::L_ERROR);
    const auto go_on = [&] {
      for (int i = 0; i < 3; ++i) run->iterate(), run->begin_flush();
    };
    EXPECT_NO_THROW(go_on());
    state.set_sync_debug_mode(c10::cuda::SyncDebugMode::L_DISABLED);
  }
}
#endif

// what a plan says of collecting, and the rest of it
std::array<std::vector<double>, 2> halves(const DataPlan& plan) {
  const ReplayPlan& r = *plan.replay;
  return {{{double(plan.collect_steps), double(r.capacity), double(r.first_steps),
            double(r.first_updates), r.updates_per_step, double(r.update_every)},
           {double(r.batch), double(r.length), double(r.sampling), double(r.running),
            double(r.crossing), double(plan.block_rows), double(plan.columns.size())}}};
}

// the plan of an algorithm's small run but for one setting, "name=value"
DataPlan small_plan(const AlgoEntry& algo, const std::string& other = "") {
  Experiment experiment(algo.name, algo.small.env);
  for (const auto& s : algo.small.settings) experiment.table().override_with(s);
  if (!other.empty()) experiment.table().override_with(other);
  ThreadPool pool(1);
  return algo.plan(experiment.algo_options(),
                   context_of(experiment, {.device = at::kCPU, .threads = 1}, pool));
}

// the same with another number for the setting; none where it takes no other
std::optional<DataPlan> plan_with_another(const AlgoEntry& algo, const Field& setting) {
  const std::string now = setting.plain();
  char* end = nullptr;
  const double number = std::strtod(now.c_str(), &end);
  if (now.empty() || *end) return std::nullopt;
  for (const double other : {2 * number + 1, number / 2}) try {
      return small_plan(algo, setting.name + "=" + std::to_string(int64_t(other)));
    } catch (const Error&) {
      // beyond its range, or beside the others
    }
  return std::nullopt;
}

TEST(Algorithms, settings_of_collecting_are_those_that_change_nothing_else_of_a_plan) {
  for (const AlgoEntry& algo : algo_table()) {
    if (!algo.plan || !small_plan(algo).replay) continue;
    const auto [collected, rest] = halves(small_plan(algo));
    Experiment experiment(algo.name, algo.small.env);
    for (const auto& s : algo.small.settings) experiment.table().override_with(s);
    for (const Field& field : experiment.table().fields()) {
      if (!field.name.starts_with(algo.name + std::string("."))) continue;
      const auto other = plan_with_another(algo, field);
      const bool alone = other && halves(*other)[0] != collected && halves(*other)[1] == rest;
      EXPECT_EQ(field.rule.collecting, alone) << field.name;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(OfTheTable, AnAlgorithm,
                         testing::Combine(testing::Range<size_t>(0, algo_table().size()),
                                          testing::Values("cpu", "cuda:0")),
                         [](const auto& info) {
                           const std::string device = std::get<1>(info.param);
                           return algo_table()[std::get<0>(info.param)].name + std::string("_on_") +
                                  device.substr(0, device.find(':'));
                         });

}  // namespace
}  // namespace maglev
