// The planner of one program against the plan as it is written down: same numbers, same plan.

#include "algos/tdmpc2/device/planner.h"

#include <atomic>
#include <map>
#include <set>
#include <string>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <ATen/record_function.h>

#include <gtest/gtest.h>

#include "algos/tdmpc2/reference/planner.h"
#include "engine/host/machine.h"
#include "engine/nn/flat_params.h"
#include "tests/close.h"
#include "tests/plan_overlap.h"
#include "tests/unlike_widths.h"

namespace maglev::tdmpc2 {
namespace {

EnvSpec vectors(int64_t obs, int64_t actions) {
  return {.observations = {{.name = "vector", .shape = {obs}}},
          .action = {.low = std::vector<float>(size_t(actions), -1),
                     .high = std::vector<float>(size_t(actions), 1)},
          .max_steps = 100};
}

Options device_options() {
  Options o;
  o.enc_dim = 16, o.mlp_dim = 32, o.latent_dim = 24, o.num_q = 4, o.task_dim = 6;
  o.samples = 40, o.elites = 7, o.policy_trajectories = 5, o.iterations = 3;
  return o;
}

/// A model with weights of size, and both planners of it.
struct DevicePlanners {
  DevicePlanners(const EnvSpec& spec, const Options& options, Precision precision = Precision::fp32,
                 int64_t alignment = 1)
      : shape(shape_of(spec, options, alignment)),
        plan(plan_options(options, shape, spec, at::kCPU)),
        model(shape, true, Initializer(4)),
        params(model, alignment),
        planner(plan, shape, precision, at::kCPU),
        reference(plan) {
    // every head counts: rewards of size 1, terminations now and then
    at::NoGradGuard no_grad;
    at::manual_seed(3);
    const ModelLayout& layout = model.layout();
    params.data().normal_(0, 0.15);
    for (const auto* mlp :
         {&layout.encoder, &layout.dynamics, &layout.reward, &layout.termination, &layout.policy})
      for (const auto& layer : *mlp) fill_gain(layer);
    for (const auto& q : layout.q)
      for (const auto& layer : q) fill_gain(layer);
    planner.publish(model, params.data());
    reference.publish(model, params.data());
  }
  static ModelShape shape_of(const EnvSpec& spec, const Options& options, int64_t alignment) {
    claim_threads();
    ModelShape shape = model_shape(options, spec);
    shape.alignment = alignment;
    return shape;
  }
  void fill_gain(const LayerPlace& layer) {
    if (layer.normed) params.data().narrow(0, layer.gain(), layer.out).add_(1);
  }
  PlanRequest request(int64_t N, bool explore = true) {
    at::manual_seed(9);
    PlanRequest r{.is_first = (at::rand({N}) < 0.4).to(at::kByte),
                  .prev_mean = at::rand({N, plan.sizes.H, plan.sizes.A}) - 0.5,
                  .key = {.seed = 5, .purpose = Purpose::act, .step = 17},
                  .first_row = 3,
                  .explore = explore};
    at::Tensor e;
    if (shape.tasks > 0) {
      r.task = at::arange(N) % shape.tasks;
      e = model.embedding(r.task);
    }
    r.latent = model.encode(at::randn({N, shape.obs}), e).detach();
    return r;
  }

  ModelShape shape;
  PlanOptions plan;
  WorldModel model;
  FlatParams params;
  DevicePlanner planner;
  ReferencePlanner reference;
};

void expect_same(const Plan& ours, const Plan& reference) {
  EXPECT_TRUE(at::equal(ours.elites, reference.elites));
  EXPECT_TRUE(close(ours.values, reference.values, 1e-5));
  EXPECT_TRUE(close(ours.scores, reference.scores, 1e-5));
  EXPECT_TRUE(close(ours.mean, reference.mean, 1e-5));
  EXPECT_TRUE(close(ours.std, reference.std, 1e-5));
  EXPECT_TRUE(close(ours.action, reference.action, 1e-5));
}

TEST(Tdmpc2DevicePlanner, gives_the_reference_plan) {
  Options o = device_options();
  for (bool episodic : {false, true})
    for (Termination termination : {Termination::hard, Termination::soft})
      for (TerminalAction terminal : {TerminalAction::sample, TerminalAction::mean}) {
        o.episodic = episodic, o.termination = termination, o.terminal_action = terminal;
        DevicePlanners p(vectors(6, 3), o);
        const auto request = p.request(3);
        SCOPED_TRACE(std::string(episodic ? "episodic " : "") + name_of(termination) + " " +
                     name_of(terminal));
        expect_same(p.planner.plan(request), p.reference.plan(request));
      }
}

TEST(Tdmpc2DevicePlanner, gives_the_reference_plan_at_the_edges_of_its_sizes) {
  Options one_step = device_options(), no_policy = device_options(), all_elites = device_options(),
          many_actions = device_options();
  one_step.horizon = 1;
  no_policy.policy_trajectories = 0;
  all_elites.elites = all_elites.samples;
  for (const auto& o : {one_step, no_policy, all_elites}) {
    DevicePlanners p(vectors(6, 3), o);
    expect_same(p.planner.plan(p.request(2)), p.reference.plan(p.request(2)));
  }
  DevicePlanners p(vectors(6, 21), many_actions);
  ASSERT_EQ(p.plan.sizes.I, 5);
  expect_same(p.planner.plan(p.request(1, false)), p.reference.plan(p.request(1, false)));
}

TEST(Tdmpc2DevicePlanner, gives_the_reference_plan_of_networks_of_unlike_widths_and_depths) {
  // the report's: reward and termination narrower than the rest; then each network another
  Options report = device_options(), each = device_options();
  report.hidden = {.reward = {24, 24}, .termination = {16, 16}};
  each.hidden = unlike_widths();
  EnvSpec tasks = vectors(6, 3);
  tasks.tasks = {{.name = "wide", .obs_dims = 6, .action_dims = 3, .max_steps = 100},
                 {.name = "narrow", .obs_dims = 2, .action_dims = 1, .max_steps = 400}};
  for (Options o : {report, each}) {
    DevicePlanners several(tasks, o);
    expect_same(several.planner.plan(several.request(4)),
                several.reference.plan(several.request(4)));
    o.episodic = true;
    DevicePlanners one(vectors(6, 3), o);
    expect_same(one.planner.plan(one.request(3)), one.reference.plan(one.request(3)));
  }
}

TEST(Tdmpc2DevicePlanner, gives_the_reference_plan_of_parameters_aligned_for_a_gpu) {
  Options o = device_options();
  o.episodic = true;
  DevicePlanners p(vectors(6, 3), o, Precision::fp32, /*alignment=*/16);
  ASSERT_GT(p.params.size(), DevicePlanners(vectors(6, 3), o).params.size());
  expect_same(p.planner.plan(p.request(3)), p.reference.plan(p.request(3)));
}

TEST(Tdmpc2DevicePlanner, plans_rows_of_several_tasks_each_with_its_own) {
  EnvSpec spec = vectors(6, 3);
  spec.tasks = {{.name = "wide", .obs_dims = 6, .action_dims = 3, .max_steps = 100},
                {.name = "narrow", .obs_dims = 2, .action_dims = 1, .max_steps = 400}};
  DevicePlanners p(spec, device_options());
  const auto request = p.request(4);
  const Plan plan = p.planner.plan(request);
  expect_same(plan, p.reference.plan(request));
  EXPECT_EQ(plan.action[1].narrow(0, 1, 2).abs().max().item<float>(), 0);
  EXPECT_GT(plan.action[0].abs().min().item<float>(), 0);
}

TEST(Tdmpc2DevicePlanner, the_reward_of_the_step_that_ends_counts_and_nothing_behind_it) {
  Options o = device_options();
  o.episodic = true, o.horizon = 3;
  DevicePlanners p(vectors(6, 3), o);
  const auto& termination = *p.model.termination_head()->layers.back();
  auto values = [&](float logit) {
    at::NoGradGuard no_grad;
    termination.weight.zero_();
    at::Tensor(termination.bias).fill_(logit);
    p.planner.publish(p.model, p.params.data());
    return p.planner.plan(p.request(1)).values[0][0].item<float>();
  };
  const float ending = values(5);
  {
    // what follows the first step cannot matter
    at::NoGradGuard no_grad;
    for (const auto& q : p.model.layout().q)
      p.params.data().narrow(0, q.back().bias(), kBins).normal_();
  }
  EXPECT_EQ(values(5), ending);
  EXPECT_NE(values(-5), ending);
}

TEST(Tdmpc2DevicePlanner, in_bf16_finds_nearly_the_same_elites) {
  Options o;
  o.size = ModelSize::m5, o.iterations = 1, o.episodic = false;
  DevicePlanners exact(vectors(18, 4), o), half(vectors(18, 4), o, Precision::bf16);
  const auto request = exact.request(2);
  const Plan a = exact.planner.plan(request), b = half.planner.plan(request);
  const double spread = a.values.std().item<double>();
  const double error = (a.values - b.values).abs().mean().item<double>() / spread;
  int64_t shared = 0;
  for (int64_t n = 0; n < 2; ++n)
    shared += at::isin(a.elites[n], b.elites[n]).sum().item<int64_t>();
  const double overlap = double(shared) / double(2 * o.elites);
  RecordProperty("elite_overlap", std::to_string(overlap));
  EXPECT_GE(overlap, least_overlap(o, 2, error)) << "error " << error << " of their deviation";
  EXPECT_LT(error, bf16_value_error(o));
}

// tensor cores read 16 bytes at once: rows that begin elsewhere go through slower kernels
TEST(Tdmpc2DevicePlanner, in_bf16_keeps_weights_whose_rows_begin_at_16_bytes) {
  Options o;
  o.size = ModelSize::m5, o.episodic = true;
  // inputs of 516, heads of 101, 8 and 1
  const DevicePlanners p(vectors(18, 4), o, Precision::bf16);
  for (const at::Tensor& weight : p.planner.weights()) {
    EXPECT_EQ(reinterpret_cast<uintptr_t>(weight.const_data_ptr()) % 16, 0u) << weight.sizes();
    EXPECT_EQ(weight.stride(-1), 1) << weight.sizes();
    for (int64_t d = 0; d + 1 < weight.dim(); ++d)
      EXPECT_EQ(weight.stride(d) * weight.element_size() % 16, 0) << weight.sizes();
  }
}

// ATen's operations of a plan but views and allocations, and our kernels. On a GPU each is one
// kernel or a few: a count of what to mend, and no count of launches
int64_t operations(DevicePlanner& planner, const PlanRequest& request,
                   std::map<std::string, int64_t>& names) {
  static std::map<std::string, int64_t>* counts = nullptr;
  counts = &names;
  at::RecordFunctionCallback callback(
      [](const at::RecordFunction& f) -> std::unique_ptr<at::ObserverContext> {
        static const std::set<std::string> free{
            "aten::narrow",     "aten::slice",        "aten::select",      "aten::view",
            "aten::transpose",  "aten::permute",      "aten::t",           "aten::unsqueeze",
            "aten::as_strided", "aten::expand",       "aten::empty",       "aten::empty_like",
            "aten::reshape",    "aten::squeeze",      "aten::to",          "aten::detach",
            "aten::alias",      "aten::_unsafe_view", "aten::resolve_conj"};
        const std::string name = f.name();
        if (!free.count(name)) ++(*counts)[name];
        return nullptr;
      });
  const auto handle = at::addThreadLocalCallback(
      callback.scopes({at::RecordScope::FUNCTION, at::RecordScope::USER_SCOPE}));
  planner.plan(request);
  at::removeCallback(handle);
  int64_t sum = 0;
  for (const auto& [name, count] : names) sum += count;
  return sum;
}

TEST(Tdmpc2DevicePlanner, a_plan_is_at_most_300_operations_and_700_at_horizon_8) {
  for (auto [horizon, samples, episodic, bar] :
       {std::tuple<int64_t, int64_t, bool, int64_t>{3, 512, false, 300}, {8, 256, true, 700}}) {
    Options o;
    o.enc_dim = 16, o.mlp_dim = 32, o.latent_dim = 24;
    o.horizon = horizon, o.samples = samples, o.episodic = episodic;
    DevicePlanners p(vectors(18, 4), o);
    std::map<std::string, int64_t> names;
    const int64_t count = operations(p.planner, p.request(2), names);
    std::string listed;
    for (const auto& [name, n] : names) listed += name + " " + std::to_string(n) + "\n";
    EXPECT_LE(count + 4, bar) << "with the encoder's four:\n" << listed;
    EXPECT_GT(names["aten::bmm"], 0) << "operations were not counted";
    EXPECT_GT(names["maglev::dense_end"], 0);
    RecordProperty("operations_at_horizon_" + std::to_string(horizon), int(count + 4));
  }
}

}  // namespace
}  // namespace maglev::tdmpc2
