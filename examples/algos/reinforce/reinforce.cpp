// REINFORCE (Williams, "Simple statistical gradient-following algorithms for connectionist
// reinforcement learning", 1992) with returns standardised over the rollout as their baseline: the
// smallest algorithm that learns here, and the one docs/adding_an_algorithm.md walks through.

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <c10/core/InferenceMode.h>
#include <torch/nn/module.h>

#include "base/core/error.h"
#include "engine/algo/algorithm.h"
#include "engine/nn/flat_params.h"
#include "engine/nn/init.h"
#include "engine/nn/optimizer.h"
#include "kernels/policy/distribution_op.h"

namespace maglev::algos::reinforce {

AlgoEntry entry();

namespace {

// rows a thread acts for at once
constexpr int64_t kBlockRows = 256;

struct Options {
  int64_t rollout = 512, hidden = 64;
  double lr = 1e-2, gamma = 0.99;

  void describe(OptionTable& t) {
    t.add("rollout", rollout, "time steps between updates; longer episodes are not learned from",
          {.min = 1, .max = 1e6, .unit = "steps"});
    t.add("hidden", hidden, "units of the hidden layer", {.min = 1, .max = 65536});
    t.add("lr", lr, "learning rate of Adam", {.min = 0, .max = 10});
    t.add("gamma", gamma, "discount", {.min = 0, .max = 1});
  }
};

DataPlan plan_of(const Options& o) {
  return {.collect_steps = o.rollout, .block_rows = kBlockRows};
}

/// Observations [B, D] f32 -> what the distribution of actions is made from.
struct Network : torch::nn::Module {
  Network(const EnvSpec& spec, int64_t units, Initializer init) {
    const int64_t inputs = spec.observations[0].elements();
    const bool discrete = spec.action.discrete();
    const int64_t outputs = discrete ? spec.action.categories() : spec.action.dims();
    hidden = register_module("hidden", torch::nn::Linear(inputs, units));
    last = register_module("last", torch::nn::Linear(units, outputs));
    // weights from the run's seed, on every machine the same
    at::NoGradGuard no_grad;
    init.orthogonal(hidden->weight, 1), init.orthogonal(last->weight, 0.01);
    hidden->bias.zero_(), last->bias.zero_();
    if (!discrete) log_std = register_parameter("log_std", at::zeros({outputs}));
  }

  DistParams forward(const at::Tensor& obs, const at::Tensor& mask) {
    return {last(at::tanh(hidden(obs.flatten(1)))), log_std, mask};
  }

  torch::nn::Linear hidden{nullptr}, last{nullptr};
  at::Tensor log_std;  ///< [dims], of continuous actions
};

/// What acts: all that playing needs.
class ReinforcePolicy : public Policy {
 public:
  ReinforcePolicy(const Options& options, const AlgoContext& context)
      : action_(context.spec.action),
        network(context.spec, options.hidden, Initializer(context.seed)) {
    const auto& observations = context.spec.observations;
    if (observations.size() != 1 || observations[0].dtype != DType::f32)
      throw Error("[reinforce] learns from one vector of f32, " + observations[0].name +
                  " is not or has others beside it; use ppo");
    network.to(context.device);
  }

  int64_t block_rows() const override { return kBlockRows; }
  void act(TimeStep& step, Carry&, ActMode mode, const ActKey& key) override {
    at::NoGradGuard no_grad;
    sample(action_, network.forward(step.obs[0], step.mask), mode, key, step.first, step.action);
  }
  void visit_state(StateVisitor& visitor) override {
    visitor.section("network", [&](StateVisitor& v) { visit_module(network, v); });
  }

 private:
  const ActionSpec action_;

 public:
  Network network;
};

class Reinforce : public Algorithm {
 public:
  Reinforce(const Options& options, const AlgoContext& context)
      : options_(options),
        context_(context),
        plan_(plan_of(options)),
        policy_(options, context),
        params_(policy_.network),
        grad_(at::zeros_like(params_.data())),
        adam_(params_, AdamOptions{}),
        lr_(at::full({}, options.lr, grad_.options())),
        never_(at::zeros_like(lr_)) {
    params_.bind(policy_.network, policy_.network, grad_);
  }

  const DataPlan& plan() const override { return plan_; }
  Policy& policy() override { return policy_; }

  void update(const Batch& batch, Metrics& metrics) override {
    if (first_metric_ < 0) first_metric_ = metrics.declare({"loss/policy", "loss/learned_share"});
    const int64_t T = options_.rollout;
    const auto ended = at::bitwise_or(batch.terminated, batch.truncated) != 0;

    // the return behind each step; steps of episodes that end beyond the rollout count nothing
    auto behind = at::zeros_like(batch.reward[0]), known = at::zeros_like(behind);
    std::vector<at::Tensor> returns(size_t(T), behind), counts(size_t(T), known);
    for (int64_t t = T - 1; t >= 0; --t) {
      behind = batch.reward[t] + options_.gamma * at::where(ended[t], 0.0, behind);
      known = at::where(ended[t], 1.0, known);
      // a step whose next row begins an episode only reset its environment
      returns[size_t(t)] = behind, counts[size_t(t)] = known * (1 - batch.is_first[t + 1]);
    }

    // how much better than the others a step did
    const auto weight = at::cat(counts), total = weight.sum().clamp_min(1);
    const auto mean = [&](const at::Tensor& x) { return (x * weight).sum() / total; };
    auto advantage = at::cat(returns);
    advantage = advantage - mean(advantage);
    advantage = advantage / (at::sqrt(mean(advantage.square())) + 1e-8);

    // actions that did better become likelier
    const auto rows = [&](const at::Tensor& x) { return x.narrow(0, 0, T).flatten(0, 1); };
    const auto mask = batch.mask.defined() ? rows(batch.mask) : at::Tensor();
    const auto policy = policy_.network.forward(rows(batch.obs[0]), mask);
    const auto now = log_prob(context_.spec.action, policy, rows(batch.action));
    const auto loss = -mean(now.log_prob * advantage);
    grad_.zero_();
    loss.backward();
    adam_.reduce(grad_, /*unscale=*/{}, *context_.pool);
    adam_.clip(/*skip=*/never_);
    adam_.step(lr_, *context_.pool);
    metrics.add(first_metric_, at::stack({loss.detach(), weight.mean()}), at::ones_like(lr_));
    metrics.passed(0);
  }

  void visit_state(StateVisitor& visitor) override {
    policy_.visit_state(visitor);
    visitor.section("adam", [&](StateVisitor& v) { adam_.visit_state(v); });
  }

 private:
  const Options options_;
  const AlgoContext context_;
  const DataPlan plan_;
  ReinforcePolicy policy_;
  FlatParams params_;
  at::Tensor grad_;  ///< [P]
  FlatAdam adam_;
  at::Tensor lr_, never_;  ///< scalars: the learning rate, and 0
  int64_t first_metric_ = -1;
};

}  // namespace

AlgoEntry entry() {
  return {.name = "reinforce",
          .summary = "REINFORCE, the example of docs/adding_an_algorithm.md",
          .make_options = box_options<Options>,
          .describe = [](OptionTable& t, void* o) { static_cast<Options*>(o)->describe(t); },
          .make = [](const void* o, const AlgoContext& context) -> std::unique_ptr<Algorithm> {
            return std::make_unique<Reinforce>(*static_cast<const Options*>(o), context);
          },
          .make_policy = [](const void* o, const AlgoContext& context) -> std::unique_ptr<Policy> {
            return std::make_unique<ReinforcePolicy>(*static_cast<const Options*>(o), context);
          },
          .plan = [](const void* o,
                     const AlgoContext&) { return plan_of(*static_cast<const Options*>(o)); },
          .small = {.env = "cartpole", .settings = {"env.count=12", "reinforce.rollout=64"}}};
}

}  // namespace maglev::algos::reinforce
