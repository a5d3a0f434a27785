// Proofs by a policy on a device, whose rows the host writes: what the same policy does on a
// processor.

#include <memory>
#include <string>
#include <vector>

#include <ATen/ATen.h>
#include <torch/cuda.h>

#include <gtest/gtest.h>

#include "engine/algo/experiment.h"
#include "engine/host/machine.h"
#include "verbs/prove/policy_scores.h"
#include "verbs/rank/trials.h"

namespace maglev {
namespace {

using datalog::Atom;

/// An untrained policy of few weights that proves on countries_s3, on `device`.
struct UntrainedOn {
  explicit UntrainedOn(at::Device device) : device(device) {
    for (const char* setting :
         {"env.data=countries_s3", "env.count=4", "ppo.network.kind=proof",
          "ppo.network.proof.embedding=16", "ppo.network.proof.width=32", "seed=3"})
      experiment.table().override_with(setting);
    policy = experiment.algo().make_policy(
        experiment.algo_options(),
        context_of(experiment, {.device = device, .threads = pool.threads()}, pool));
    policy->publish();
  }

  at::Device device;
  Experiment experiment{"ppo", "kg"};
  ThreadPool pool{1};
  std::unique_ptr<Policy> policy;
};

class Proving_on_cuda : public testing::Test {
 protected:
  void SetUp() override {
    if (!torch::cuda::is_available()) GTEST_SKIP() << "no CUDA device on this machine";
    claim_threads();
    const auto& test = graph_.dataset.test;
    // more than there are rows, so that some take another's place
    queries_.assign(test.begin(), test.begin() + 9);
  }

  const datalog::Graph& graph_ = datalog::open_graph("countries_s3");
  std::vector<Atom> queries_;
};

TEST_F(Proving_on_cuda, tries_what_a_processor_tries) {
  UntrainedOn host(at::kCPU), device(at::Device("cuda:0"));
  const auto tried = [&](UntrainedOn& by) {
    return verbs::rank::Prover(by.experiment, *by.policy, by.pool, by.device)
        .prove(queries_, {.seed = 1});
  };
  const auto here = tried(host), there = tried(device);
  ASSERT_EQ(there.size(), queries_.size());
  int chosen = 0;
  for (size_t i = 0; i < here.size(); ++i) {
    EXPECT_EQ(there[i].proved, here[i].proved) << i;
    EXPECT_EQ(there[i].steps, here[i].steps) << i;
    EXPECT_NEAR(there[i].log_prob, here[i].log_prob, 1e-4) << i;
    chosen += there[i].log_prob < 0;
  }
  EXPECT_GT(chosen, 0);
}

TEST_F(Proving_on_cuda, scores_a_searchs_children_as_a_processor_does) {
  UntrainedOn host(at::kCPU), device(at::Device("cuda:0"));
  verbs::prove::PolicyScores here(host.experiment, *host.policy),
      there(device.experiment, *device.policy, device.device);
  size_t compared = 0;
  for (const Atom& query : queries_) {
    std::vector<std::vector<Atom>> children;
    datalog::Child child;
    const datalog::Resolve how{.excluded = query};
    datalog::resolve(*graph_.knowledge, how, &query, 1, graph_.knowledge->constants + 1, child,
                     [&](const datalog::Child&) {
                       children.emplace_back(child.atoms, child.atoms + child.size);
                       return true;
                     });
    datalog::Expansion expansion{.goal = {&query, 1}, .children = {}};
    for (const auto& c : children) expansion.children.emplace_back(c);
    std::vector<float> theirs(children.size()), ours(children.size());
    here({&expansion, 1}, theirs);
    there({&expansion, 1}, ours);
    for (size_t i = 0; i < children.size(); ++i) EXPECT_NEAR(ours[i], theirs[i], 1e-5) << i;
    compared += children.size();
  }
  EXPECT_GT(compared, queries_.size() / 2);
}

}  // namespace
}  // namespace maglev
