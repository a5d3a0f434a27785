// Q-learning with one linear layer (Watkins, "Learning from delayed rewards", 1989) on sequences
// out of a replay: the smallest algorithm that wants everything a replay offers.

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include <ATen/ATen.h>

#include "base/core/error.h"
#include "engine/algo/algorithm.h"

namespace maglev::algos::linear_q {

AlgoEntry entry();

namespace {

constexpr int64_t kBlockRows = 64;
constexpr float kDiscount = 0.99f, kEpsilon = 0.2f;

struct Options {
  int64_t collect = 1, capacity = 4000, batch = 16, length = 3;
  int64_t first_steps = 200, first_updates = 10, update_every = 1;
  double updates_per_step = 0.25, lr = 0.01, priorities = 0;
  bool by_start = false, running = false;

  void describe(OptionTable& t) {
    t.add("collect", collect, "steps of each environment between updates",
          {.min = 1, .collecting = true});
    t.add("capacity", capacity, "rows of the replay", {.min = 1, .collecting = true});
    t.add("batch", batch, "sequences an update", {.min = 1});
    t.add("length", length, "transitions a sequence", {.min = 1});
    t.add("first_steps", first_steps, "steps before the first update",
          {.min = 0, .collecting = true});
    t.add("first_updates", first_updates, "updates made at once then",
          {.min = 0, .collecting = true});
    t.add("update_every", update_every, "steps between updates", {.min = 1, .collecting = true});
    t.add("updates_per_step", updates_per_step, "updates a step", {.min = 0, .collecting = true});
    t.add("lr", lr, "step size", {.min = 0});
    t.add("by_start", by_start, "every start alike");
    t.add("running", running, "running episodes too");
    t.add("priorities", priorities, "power of a sequence's errors by which it is drawn; 0: alike",
          {.min = 0, .max = 4});
  }
};

DataPlan plan_of(const Options& o) {
  DataPlan plan{.collect_steps = o.collect, .block_rows = kBlockRows, .overlap = true};
  plan.replay =
      ReplayPlan{.capacity = o.capacity,
                 .batch = o.batch,
                 .length = o.length,
                 .sampling = o.by_start ? SliceSampling::start : SliceSampling::trajectory,
                 .running = o.running,
                 .first_steps = o.first_steps,
                 .first_updates = o.first_updates,
                 .updates_per_step = o.updates_per_step,
                 .update_every = o.update_every};
  if (o.priorities > 0) plan.replay->priorities = o.priorities, plan.replay->running = true;
  return plan;
}

/// Acts by the best value, or sometimes at random.
class LinearPolicy : public Policy {
 public:
  explicit LinearPolicy(const AlgoContext& context)
      : inputs_(context.spec.observations[0].elements()),
        actions_(context.spec.action.heads.at(0)),
        weight(at::zeros({actions_, inputs_ + 1})) {}

  int64_t block_rows() const override { return kBlockRows; }

  void act(TimeStep& step, Carry&, ActMode mode, const ActKey& key) override {
    const float* obs = step.obs[0].const_data_ptr<float>();
    int32_t* action = step.action.data_ptr<int32_t>();
    for (int64_t i = 0; i < step.rows(); ++i) {
      Rng rng(key.seed, stream_id(key.purpose, uint64_t(key.row(step.first, i))),
              uint64_t(key.now()));
      const bool explore = mode == ActMode::sample && rng.uniform() < kEpsilon;
      action[i] = explore ? int32_t(rng.below(uint32_t(actions_)))
                          : best(weight.const_data_ptr<float>(), obs + i * inputs_);
    }
  }

  void visit_state(StateVisitor& visitor) override { visitor.tensor("weight", weight); }

  float value(const float* w, int64_t a, const float* obs) const {
    const float* row = w + a * (inputs_ + 1);
    float sum = row[inputs_];
    for (int64_t k = 0; k < inputs_; ++k) sum += row[k] * obs[k];
    return sum;
  }
  int32_t best(const float* w, const float* obs) const {
    int32_t best = 0;
    for (int32_t a = 1; a < actions_; ++a)
      if (value(w, a, obs) > value(w, best, obs)) best = a;
    return best;
  }

 private:
  int64_t inputs_, actions_;

 public:
  at::Tensor weight;  ///< [actions, inputs + 1] f32, the bias last
};

class LinearQ : public Algorithm {
 public:
  LinearQ(const Options& options, const AlgoContext& context)
      : options_(options),
        plan_(plan_of(options)),
        policy_(context),
        weight_(at::zeros_like(policy_.weight)),
        inputs_(weight_.size(1) - 1),
        grad_(size_t(weight_.numel())) {}

  const DataPlan& plan() const override { return plan_; }
  Policy& policy() override { return policy_; }

  void update(const Batch& batch, Metrics& metrics) override {
    if (first_metric_ < 0) first_metric_ = metrics.declare({"loss/td"});
    const float* obs = batch.obs[0].const_data_ptr<float>();
    const int64_t L = batch.reward.size(0), B = batch.reward.size(1);
    float *w = weight_.data_ptr<float>(), loss = 0;
    std::fill(grad_.begin(), grad_.end(), 0.f);
    const bool prioritised = batch.priority.defined();
    float* priority = prioritised ? batch.priority.data_ptr<float>() : nullptr;
    if (prioritised) std::fill_n(priority, B, 0.f);
    for (int64_t i = 0; i < L * B; ++i) {
      const float *now = obs + i * inputs_, *next = obs + (i + B) * inputs_;
      const int32_t a = batch.action.const_data_ptr<int32_t>()[i];
      const float future = batch.terminated.const_data_ptr<uint8_t>()[i]
                               ? 0.f
                               : policy_.value(w, policy_.best(w, next), next);
      const float target = batch.reward.const_data_ptr<float>()[i] + kDiscount * future;
      const float error = policy_.value(w, a, now) - target;
      loss += error * error;
      if (prioritised) priority[i % B] += std::abs(error) / float(L);
      float* g = grad_.data() + a * (inputs_ + 1);
      for (int64_t k = 0; k < inputs_; ++k) g[k] += error * now[k];
      g[inputs_] += error;
    }
    for (size_t k = 0; k < grad_.size(); ++k) w[k] -= float(options_.lr) * grad_[k] / float(L * B);
    loss /= float(L * B);
    metrics.add(first_metric_, std::span<const float>(&loss, 1), 1);
  }

  void publish() override { policy_.weight.copy_(weight_); }

  void visit_state(StateVisitor& visitor) override { visitor.tensor("weight", weight_); }

 private:
  Options options_;
  DataPlan plan_;
  LinearPolicy policy_;
  at::Tensor weight_;  ///< what update writes, shaped as the policy's
  int64_t inputs_, first_metric_ = -1;
  std::vector<float> grad_;
};

}  // namespace

AlgoEntry entry() {
  return {.name = "linear_q",
          .summary = "Q-learning with one linear layer, for tests of the replay",
          .make_options = box_options<Options>,
          .describe = [](OptionTable& t, void* o) { static_cast<Options*>(o)->describe(t); },
          .make = [](const void* o, const AlgoContext& context) -> std::unique_ptr<Algorithm> {
            return std::make_unique<LinearQ>(*static_cast<const Options*>(o), context);
          },
          .make_policy = [](const void*, const AlgoContext& context) -> std::unique_ptr<Policy> {
            return std::make_unique<LinearPolicy>(context);
          },
          .plan = [](const void* o,
                     const AlgoContext&) { return plan_of(*static_cast<const Options*>(o)); },
          .small = {.env = "cartpole",
                    .settings = {"env.count=24", "linear_q.collect=16", "linear_q.first_steps=700",
                                 "linear_q.first_updates=4", "linear_q.updates_per_step=0.02"}},
          .cpu_only = true};
}

}  // namespace maglev::algos::linear_q
