// Soft actor-critic (Haarnoja et al., "Soft actor-critic algorithms and applications", 2018) with a
// temperature that is learned: the example of an algorithm that learns from a replay
// (docs/adding_an_algorithm.md). Three losses, two target networks, one step of Adam an update.

#include <cmath>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <torch/nn/module.h>

#include "base/core/error.h"
#include "engine/algo/algorithm.h"
#include "engine/nn/flat_params.h"
#include "engine/nn/init.h"
#include "engine/nn/optimizer.h"
#include "kernels/philox/philox_op.h"

namespace maglev::algos::sac {

AlgoEntry entry();

namespace {

// rows a thread acts for at once
constexpr int64_t kBlockRows = 256;
// networks of values, the lesser of which is believed
constexpr int64_t kCritics = 2;
constexpr double kLogStdLow = -5, kLogStdHigh = 2;

struct Options {
  int64_t hidden = 256, batch = 256, capacity = 1'000'000, first_steps = 5000;
  double updates_per_step = 1, lr = 3e-4, gamma = 0.99, tau = 0.005;
  double priorities = 0, beta = 0.4;

  void describe(OptionTable& t) {
    t.add("hidden", hidden, "units of both hidden layers", {.min = 1, .max = 65536});
    t.add("batch", batch, "transitions an update", {.min = 1, .max = 1e6});
    t.add("capacity", capacity, "rows of the replay",
          {.min = 1, .unit = "rows", .collecting = true});
    t.add("first_steps", first_steps, "steps of random actions before the first update",
          {.min = 0, .unit = "steps", .collecting = true});
    t.add("updates_per_step", updates_per_step, "updates an environment step",
          {.min = 0, .max = 100, .collecting = true});
    t.add("lr", lr, "learning rate of Adam", {.min = 0, .max = 10});
    t.add("gamma", gamma, "discount", {.min = 0, .max = 1});
    t.add("tau", tau, "share by which target networks follow an update", {.min = 0, .max = 1});
    t.add("priorities", priorities,
          "power of a transition's error by which it is drawn; 0: all alike", {.min = 0, .max = 4});
    t.add("beta", beta, "how far what is drawn more often counts for less", {.min = 0, .max = 1});
  }
};

DataPlan plan_of(const Options& o) {
  return {.collect_steps = 1,
          .block_rows = kBlockRows,
          .replay = ReplayPlan{.capacity = o.capacity,
                               .batch = o.batch,
                               .sampling = SliceSampling::start,
                               .running = true,
                               .priorities =
                                   o.priorities > 0 ? std::optional(o.priorities) : std::nullopt,
                               .first_steps = o.first_steps,
                               .updates_per_step = o.updates_per_step},
          .capturable = true};
}

/// Fully connected layers of N networks at once: [N, rows, in] -> [N, rows, out].
struct Layers : torch::nn::Module {
  Layers(int64_t networks, const std::vector<int64_t>& widths, Initializer& init) {
    for (size_t i = 0; i + 1 < widths.size(); ++i) {
      const std::string name = std::to_string(i);
      const int64_t in = widths[i], out = widths[i + 1];
      weights.push_back(register_parameter("weight" + name, init.weight({networks, in, out})));
      biases.push_back(register_parameter("bias" + name, init.weight({networks, 1, out})));
      // as torch's Linear
      for (const auto* drawn : {&weights, &biases}) init.uniform(drawn->back(), 1 / std::sqrt(in));
    }
  }

  /// `held`: no gradient reaches the weights.
  at::Tensor forward(at::Tensor x, bool held = false) const {
    const auto given = [&](const at::Tensor& p) { return held ? p.detach() : p; };
    for (size_t i = 0; i < weights.size(); ++i) {
      x = at::baddbmm(given(biases[i]), x, given(weights[i]));
      if (i + 1 < weights.size()) x = at::relu(x);
    }
    return x;
  }

  std::vector<at::Tensor> weights, biases;
};

/// tanh of a Gaussian, in [-1, 1].
struct Draw {
  at::Tensor action;    ///< [rows, A]
  at::Tensor log_prob;  ///< [rows]
};

/// What acts: all that playing needs.
class SacPolicy : public Policy {
 public:
  SacPolicy(const Options& options, const AlgoContext& context)
      : first_steps_(options.first_steps), rows_(context.rows), init_(context.seed) {
    const EnvSpec& spec = context.spec;
    if (spec.observations.size() != 1 || spec.observations[0].dtype != DType::f32)
      throw Error("[sac] learns from one vector of f32, " + spec.observations[0].name +
                  " is not or has others beside it; use tdmpc2 or ppo");
    if (spec.action.discrete())
      throw Error("[sac] learns actions that are numbers, here they are categories; use ppo");
    const auto low = at::tensor(spec.action.low), high = at::tensor(spec.action.high);
    middle_ = ((high + low) / 2).to(context.device);
    half_ = ((high - low) / 2).to(context.device);
    if (!std::isfinite((high - low).sum().item<float>()))
      throw Error("[sac] wants actions with bounds, some of these have none; use ppo");
    const int64_t inputs = spec.observations[0].elements(), H = options.hidden;
    actor = std::make_shared<Layers>(1, std::vector{inputs, H, H, 2 * spec.action.dims()}, init_);
    actor->to(context.device);
  }

  int64_t block_rows() const override { return kBlockRows; }
  std::string temperature_obstacle() const override { return ""; }
  bool capturable() const override { return true; }

  /// Mean and standard deviation [rows, A] before tanh.
  std::pair<at::Tensor, at::Tensor> gaussian(const at::Tensor& obs) const {
    const auto head = actor->forward(obs.flatten(1).unsqueeze(0)).squeeze(0).chunk(2, 1);
    const auto share = (at::tanh(head[1]) + 1) / 2;
    return {head[0], at::exp(kLogStdLow + (kLogStdHigh - kLogStdLow) * share)};
  }
  /// By standard normals [rows, A].
  Draw draw(const at::Tensor& obs, const at::Tensor& noise) const {
    const auto [mean, std] = gaussian(obs);
    const auto action = at::tanh(mean + std * noise);
    // of the Gaussian, less what tanh squeezes
    const auto of_gaussian = -noise.square() / 2 - at::log(std) - std::log(2 * M_PI) / 2;
    return {action, (of_gaussian - at::log(1 - action.square() + 1e-6)).sum(1)};
  }
  at::Tensor to_environment(const at::Tensor& action) const { return middle_ + half_ * action; }
  at::Tensor to_unit(const at::Tensor& action) const { return (action - middle_) / half_; }

  void act(TimeStep& step, Carry&, ActMode mode, const ActKey& key) override {
    at::NoGradGuard no_grad;
    const at::Tensor& obs = step.obs[0];
    const auto [mean, std] = gaussian(obs);
    if (mode == ActMode::mean) {
      step.action.copy_(to_environment(at::tanh(mean)));
      return;
    }
    const PhiloxFill fill{.seed = key.seed,
                          .purpose = key.purpose,
                          .first_row = key.row_from(step.first),
                          .step = key.step,
                          .base = key.base,
                          .index = key.rows};
    auto noise = at::empty(step.action.sizes(), obs.options());
    philox_normal_(noise, fill);
    auto action = at::tanh(mean + std * (noise * key.temperature));
    if (key.purpose == Purpose::act) {
      // first steps are random; the steps so far may be counted on the device alone
      auto now = at::full({}, key.step, obs.options().dtype(at::kLong));
      if (key.base) now = now + at::from_blob(const_cast<int64_t*>(key.base), {}, now.options());
      philox_uniform_(noise, fill);
      action = at::where(now * rows_ < first_steps_, 2 * noise - 1, action);
    }
    step.action.copy_(to_environment(action));
  }
  std::optional<StepOutputs> evaluate(const StepInputs& inputs) override {
    at::NoGradGuard no_grad;
    const auto [mean, std] = gaussian(inputs.obs[0]);
    return StepOutputs{.action = to_environment(at::tanh(mean)),
                       .figures = {{"mean", mean}, {"std", std}}};
  }
  void visit_state(StateVisitor& visitor) override {
    visitor.section("actor", [&](StateVisitor& v) { visit_module(*actor, v); });
  }
  /// Weights of what learns beside the actor are drawn behind its own.
  Initializer& init() { return init_; }

 private:
  const int64_t first_steps_, rows_;
  Initializer init_;
  at::Tensor middle_, half_;  ///< [A]

 public:
  // made with the initializer, and so behind it
  std::shared_ptr<Layers> actor;
};

/// All that one optimiser steps.
struct Learned : torch::nn::Module {
  Learned(std::shared_ptr<Layers> actor, std::shared_ptr<Layers> critics, at::Device device)
      : actor(register_module("actor", std::move(actor))),
        critics(register_module("critics", std::move(critics))),
        log_alpha(register_parameter("log_alpha", at::zeros({1}, device))) {}

  std::shared_ptr<Layers> actor, critics;
  at::Tensor log_alpha;  ///< [1], of the temperature: what entropy is worth
};

std::shared_ptr<Layers> make_critics(const Options& o, const AlgoContext& context,
                                     Initializer& init) {
  const int64_t inputs = context.spec.observations[0].elements() + context.spec.action.dims();
  auto made =
      std::make_shared<Layers>(kCritics, std::vector{inputs, o.hidden, o.hidden, int64_t(1)}, init);
  made->to(context.device);
  return made;
}

int64_t begin_of(const FlatParams& params, std::string_view part) {
  for (const auto& range : params.module_ranges())
    if (range.name == part) return range.begin;
  throw Error("[sac] there are no parameters of " + std::string(part));
}

/// [kCritics, rows] what actions in [-1, 1] are worth.
at::Tensor values(const Layers& critics, const at::Tensor& obs, const at::Tensor& action,
                  bool held = false) {
  const auto rows = at::cat({obs.flatten(1), action}, 1);
  return critics.forward(rows.expand({kCritics, -1, -1}), held).squeeze(2);
}

class Sac : public Algorithm {
 public:
  Sac(const Options& options, const AlgoContext& context)
      : options_(options),
        context_(context),
        plan_(plan_of(options)),
        policy_(options, context),
        learned_(policy_.actor, make_critics(options, context, policy_.init()), context.device),
        targets_(make_critics(options, context, policy_.init())),
        params_(learned_),
        target_params_(*targets_),
        grad_(at::zeros_like(params_.data())),
        online_(params_.data().narrow(0, begin_of(params_, "critics"), target_params_.size())),
        adam_(params_, {.eps = 1e-8, .max_grad_norm = 0}),
        lr_(at::full({}, options.lr, grad_.options())),
        never_(at::zeros_like(lr_)),
        updates_(at::zeros({}, lr_.options().dtype(at::kLong))) {
    params_.bind(learned_, learned_, grad_);
    at::NoGradGuard no_grad;
    target_params_.data().copy_(online_);
  }

  const DataPlan& plan() const override { return plan_; }
  Policy& policy() override { return policy_; }

  void update(const Batch& batch, Metrics& metrics) override {
    if (first_metric_ < 0)
      first_metric_ = metrics.declare(
          {"loss/value", "loss/policy", "value/mean", "policy/entropy", "policy/alpha"});
    const int64_t B = options_.batch, A = context_.spec.action.dims();
    const auto obs = batch.obs[0][0], next = batch.obs[0][1];
    const auto action = policy_.to_unit(batch.action[0]);
    const auto alpha = learned_.log_alpha.detach().exp();

    // numbers of this update, the first half for the actions behind it
    auto noise = at::empty({2 * B, A}, grad_.options());
    philox_normal_(noise, {.seed = context_.seed,
                           .purpose = Purpose::update,
                           .base = updates_.const_data_ptr<int64_t>()});

    // what a step led to: its reward, and the lesser target value of an action drawn there, with
    // the entropy that it has
    at::Tensor wanted;
    {
      at::NoGradGuard no_grad;
      const Draw then = policy_.draw(next, noise.narrow(0, 0, B));
      const auto value = values(*targets_, next, then.action).amin(0) - alpha * then.log_prob;
      wanted = batch.reward[0] + options_.gamma * (1 - batch.terminated[0].to(at::kFloat)) * value;
    }
    const auto q = values(*learned_.critics, obs, action);
    auto squares = (q - wanted).square();
    if (batch.chance.defined()) {
      // what is drawn more often counts for less, and is drawn by its errors next time
      batch.priority.copy_((q.detach() - wanted).abs().mean(0));
      squares = squares * (batch.chance.amin() / batch.chance).pow(options_.beta);
    }
    const auto value_loss = squares.mean(1).sum();

    // the actor seeks what critics, held as they are, think most of, and entropy
    const Draw now = policy_.draw(obs, noise.narrow(0, B, B));
    const auto judged = values(*learned_.critics, obs, now.action, /*held=*/true).amin(0);
    const auto policy_loss = (alpha * now.log_prob - judged).mean();

    // the temperature rises while entropy is below the field's usual aim, minus one a dimension
    const auto entropy = -now.log_prob.detach().mean();
    const auto alpha_loss = (learned_.log_alpha.exp() * (entropy + double(A))).sum();

    grad_.zero_();
    (value_loss + policy_loss + alpha_loss).backward();
    adam_.reduce(grad_, /*unscale=*/{}, *context_.pool);
    adam_.clip(/*skip=*/never_);
    adam_.step(lr_, *context_.pool);

    // target networks follow
    at::NoGradGuard no_grad;
    target_params_.data().lerp_(online_, options_.tau);
    updates_.add_(1);
    metrics.add(first_metric_,
                at::stack({value_loss.detach(), policy_loss.detach(), q.detach().mean(), entropy,
                           alpha.squeeze(0)}),
                at::ones_like(lr_));
    metrics.passed(0);
  }

  void visit_state(StateVisitor& visitor) override {
    policy_.visit_state(visitor);
    visitor.section("critics", [&](StateVisitor& v) { visit_module(*learned_.critics, v); });
    visitor.section("targets", [&](StateVisitor& v) { visit_module(*targets_, v); });
    visitor.tensor("log_alpha", learned_.log_alpha);
    visitor.section("adam", [&](StateVisitor& v) { adam_.visit_state(v); });
    visitor.tensor("updates", updates_);
  }

 private:
  const Options options_;
  const AlgoContext context_;
  const DataPlan plan_;
  SacPolicy policy_;
  Learned learned_;
  std::shared_ptr<Layers> targets_;
  FlatParams params_, target_params_;
  at::Tensor grad_;    ///< [P]
  at::Tensor online_;  ///< the critics among the parameters
  FlatAdam adam_;
  at::Tensor lr_, never_;  ///< scalars: the learning rate, and 0
  at::Tensor updates_;     ///< scalar i64, made so far
  int64_t first_metric_ = -1;
};

}  // namespace

AlgoEntry entry() {
  return {.name = "sac",
          .summary = "soft actor-critic, the example of docs/adding_an_algorithm.md with a replay",
          .make_options = box_options<Options>,
          .describe = [](OptionTable& t, void* o) { static_cast<Options*>(o)->describe(t); },
          .make = [](const void* o, const AlgoContext& context) -> std::unique_ptr<Algorithm> {
            return std::make_unique<Sac>(*static_cast<const Options*>(o), context);
          },
          .make_policy = [](const void* o, const AlgoContext& context) -> std::unique_ptr<Policy> {
            return std::make_unique<SacPolicy>(*static_cast<const Options*>(o), context);
          },
          .plan = [](const void* o,
                     const AlgoContext&) { return plan_of(*static_cast<const Options*>(o)); },
          .small = {.env = "pendulum",
                    .settings = {"env.count=16", "sac.hidden=32", "sac.batch=32",
                                 "sac.first_steps=32", "sac.updates_per_step=0.1"}}};
}

}  // namespace maglev::algos::sac
