// Updates and plans of TD-MPC2 as they run on a GPU, on the emulated device: held to autograd's on
// the processor and to each other, and everything that one asks of a device counted.

#include <cstdio>
#include <functional>
#include <map>
#include <string>

#include <ATen/ATen.h>

#include <gtest/gtest.h>

#include "algos/tdmpc2/device/learner.h"
#include "algos/tdmpc2/device/planner.h"
#include "algos/tdmpc2/reference/learner.h"
#include "algos/tdmpc2/work.h"
#include "tests/emulation/counted.h"
#include "tests/emulation/device.h"
#include "tests/tdmpc2_learners.h"

namespace maglev::tdmpc2 {
namespace {

using emulation::CountedOperations;
using emulation::kEmulatedDevice;

TEST(EmulatedTdmpc2, learns_as_autograd_does_on_the_cpu) {
  Setting setting{.B = 11, .alignment = 16};
  Made<ReferenceLearner> reference(setting);
  setting.device = kEmulatedDevice;
  Made<DeviceLearner> device(setting);
  for (uint64_t seed : {3, 4}) {
    reference.learner.update(sequences(reference.options, seed), reference.figures);
    device.learner.update(sequences(reference.options, seed, kEmulatedDevice), device.figures);
  }
  EXPECT_TRUE(close(device.state.params.data().cpu(), reference.state.params.data(), 1e-6));
  EXPECT_TRUE(close(device.state.target_q.cpu(), reference.state.target_q, 1e-6));
  EXPECT_TRUE(close(device.figures.cpu(), reference.figures, 5e-5));
}

/// What a stage asks of a device: launches of ours and operations of ATen.
int64_t asked(const char* stage, const std::function<void()>& run) {
  emulation::clear_launches();
  std::map<std::string, int64_t> all;
  {
    const CountedOperations counted;
    run();
    all = counted.of();
  }
  for (const auto& [name, count] : emulation::launches())
    all[emulation::without_arguments(name)] += count;
  int64_t sum = 0;
  for (const auto& [name, count] : all) {
    sum += count;
    std::printf("  %4ld %s\n", long(count), name.c_str());
  }
  std::printf("%s: %ld\n", stage, long(sum));
  return sum;
}

template <class Learner>
int64_t asked_of_an_update(Precision precision) {
  // the hockey report's steps, with three value networks; widths change no launch
  Made<Learner> made({.B = 4,
                      .H = 8,
                      .dropout = 0.01,
                      .alignment = 16,
                      .precision = precision,
                      .device = kEmulatedDevice});
  const Sequences batch = sequences(made.options, 3, kEmulatedDevice);
  made.learner.update(batch, made.figures);
  at::Tensor latents;
  asked("model", [&] { latents = made.learner.model_gradients(batch, 4, made.figures); });
  asked("policy", [&] { made.learner.policy_gradients(latents, batch, 4, made.figures); });
  return asked("an update", [&] { made.learner.update(batch, made.figures); });
}

// autograd takes more than twice as many
TEST(EmulatedTdmpc2, takes_at_most_300_launches_and_operations_an_update) {
  const int64_t count = asked_of_an_update<DeviceLearner>(Precision::fp32);
  EXPECT_LE(count, 300);
  EXPECT_GT(asked_of_an_update<ReferenceLearner>(Precision::fp32), 2 * count);
}

// what enters a product is rounded: a copy of the weights and casts around losses come besides
TEST(EmulatedTdmpc2, takes_at_most_320_in_bf16) {
  const int64_t count = asked_of_an_update<DeviceLearner>(Precision::bf16);
  EXPECT_LE(count, 320);
  EXPECT_GT(asked_of_an_update<ReferenceLearner>(Precision::bf16), 2 * count);
}

/// Planners of one model on the emulated device in bf16: ends of layers apart, and within products.
struct Planners {
  explicit Planners(const Options& o, const EnvSpec& spec = vectors())
      : options(o),
        shape(model_shape(o, spec)),
        plan(plan_options(o, shape, spec, kEmulatedDevice)),
        model(shape, true, Initializer(4)) {
    // every head counts
    at::NoGradGuard no_grad;
    at::manual_seed(3);
    auto params = at::randn({model.layout().size()}) * 0.15;
    for (const auto& layers : {model.layout().dynamics, model.layout().policy})
      for (const LayerPlace& layer : layers)
        if (layer.normed) params.narrow(0, layer.gain(), layer.out).add_(1);
    model.to(kEmulatedDevice);
    FlatParams flat(model, shape.alignment);
    flat.data().copy_(params);
    for (DevicePlanner* planner : {&apart, &within}) planner->publish(model, flat.data());
  }
  static EnvSpec vectors() {
    return {.observations = {{.name = "vector", .shape = {6}}},
            .action = {.low = {-1, -1, -1}, .high = {1, 1, 1}},
            .max_steps = 100};
  }
  PlanRequest request(int64_t N) const {
    at::manual_seed(9);
    PlanRequest r{.latent = at::softmax(at::randn({N, shape.latent / 8, 8}), 2).flatten(1),
                  .is_first = (at::rand({N}) < 0.4).to(at::kByte),
                  .prev_mean = at::rand({N, plan.sizes.H, plan.sizes.A}) - 0.5,
                  .key = {.seed = 5, .purpose = Purpose::act, .step = 17},
                  .explore = true};
    if (shape.tasks > 0) r.task = (at::arange(N) % shape.tasks).to(kEmulatedDevice);
    for (at::Tensor* t : {&r.latent, &r.is_first, &r.prev_mean}) *t = t->to(kEmulatedDevice);
    return r;
  }

  Options options;
  ModelShape shape;
  PlanOptions plan;
  WorldModel model;
  DevicePlanner apart{plan, shape, Precision::bf16, kEmulatedDevice};
  DevicePlanner within{plan, shape, Precision::bf16, kEmulatedDevice, true};
};

Options plan_sizes() {
  Options o;
  o.enc_dim = 16, o.mlp_dim = 32, o.latent_dim = 48, o.num_q = 4, o.task_dim = 6;
  o.samples = 40, o.elites = 7, o.policy_trajectories = 5, o.iterations = 1;
  return o;
}

// one round: behind the next ones elites that are nearly equal may be others
void expect_one_plan(Planners& p, int64_t N) {
  const Plan a = p.apart.plan(p.request(N)), b = p.within.plan(p.request(N));
  const auto one = a.values.cpu(), other = b.values.cpu();
  ASSERT_GT(one.std().item<float>(), 0);
  // both round in the same places: what was between two bf16 may fall to the other
  EXPECT_LT((one - other).abs().mean().item<double>(), 0.02 * one.std().item<double>());
  EXPECT_TRUE(close(b.mean.cpu(), a.mean.cpu(), 0.1));
}

TEST(EmulatedTdmpc2, plans_are_the_same_with_ends_within_products) {
  for (bool episodic : {false, true}) {
    Options o = plan_sizes();
    o.episodic = episodic;
    Planners p(o);
    for (int64_t N : {1, 3}) expect_one_plan(p, N);
  }
  Options no_policy = plan_sizes(), one_step = plan_sizes(), unlike = plan_sizes();
  no_policy.policy_trajectories = 0, one_step.horizon = 1;
  unlike.hidden = {.reward = {48, 16}, .termination = {16}, .q = {48, 32, 16}};
  for (const Options& o : {no_policy, one_step, unlike}) {
    Planners p(o);
    expect_one_plan(p, 2);
  }
}

TEST(EmulatedTdmpc2, plans_of_several_tasks_are_the_same_with_ends_within_products) {
  EnvSpec spec = Planners::vectors();
  spec.tasks = {{.name = "wide", .obs_dims = 6, .action_dims = 3, .max_steps = 100},
                {.name = "narrow", .obs_dims = 2, .action_dims = 1, .max_steps = 400}};
  Planners p(plan_sizes(), spec);
  expect_one_plan(p, 4);
}

// the hockey report's horizon and rounds, with three value networks
TEST(EmulatedTdmpc2, a_plan_with_ends_within_products_takes_far_fewer_launches) {
  Options o = plan_sizes();
  o.horizon = 8, o.iterations = 6, o.episodic = true, o.num_q = 3;
  Planners p(o);
  const auto request = p.request(1);
  const int64_t apart = asked("a plan, ends apart", [&] { p.apart.plan(request); });
  const int64_t within = asked("a plan, ends within products", [&] { p.within.plan(request); });
  EXPECT_LE(within, 450);
  EXPECT_GT(apart, within * 4 / 3);
}

TEST(EmulatedTdmpc2, a_plan_takes_the_launches_that_are_planned_for_it) {
  Options report = plan_sizes(), plain = plan_sizes(), unlike = plan_sizes();
  report.horizon = 8, report.iterations = 6, report.episodic = true;
  plain.episodic = false, plain.policy_trajectories = 0;
  unlike.episodic = true;
  unlike.hidden = {.reward = {48, 16}, .termination = {16}, .q = {48, 32, 16}};
  for (const Options& o : {report, plain, unlike}) {
    Planners p(o);
    const auto request = p.request(1);
    const double counted = double(asked("a plan", [&] { p.apart.plan(request); }));
    EXPECT_NEAR(plan_launches(o, p.shape), counted, 0.1 * counted);
  }
}

TEST(EmulatedTdmpc2, ends_within_products_are_refused_where_widths_do_not_allow_them) {
  Options o = plan_sizes();
  o.mlp_dim = 40;
  const ModelShape shape = model_shape(o, Planners::vectors());
  EXPECT_NE(DevicePlanner::obstacle(shape, Precision::bf16, kEmulatedDevice), "");
  EXPECT_NE(DevicePlanner::obstacle(shape, Precision::bf16, at::kCPU), "");
  EXPECT_THROW(DevicePlanner(plan_options(o, shape, Planners::vectors(), kEmulatedDevice), shape,
                             Precision::bf16, kEmulatedDevice, true),
               Error);
}

}  // namespace
}  // namespace maglev::tdmpc2
