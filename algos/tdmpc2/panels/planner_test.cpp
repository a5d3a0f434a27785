#include "algos/tdmpc2/panels/planner.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <gtest/gtest.h>

#include "algos/tdmpc2/reference/planner.h"
#include "algos/tdmpc2/world_model.h"
#include "engine/nn/flat_params.h"
#include "tests/close.h"
#include "tests/plan_overlap.h"
#include "tests/unlike_widths.h"

namespace maglev {
namespace {

using namespace tdmpc2;

Options panel_options() {
  Options o;
  o.enc_dim = 24, o.mlp_dim = 40, o.latent_dim = 24, o.num_q = 4, o.task_dim = 6;
  o.samples = 150, o.elites = 20, o.policy_trajectories = 24, o.iterations = 4, o.horizon = 3;
  return o;
}

EnvSpec one_task() {
  return {.observations = {{.name = "vector", .shape = {5}}},
          .action = {.low = {-1, -1, -1}, .high = {1, 1, 1}},
          .max_steps = 100};
}
EnvSpec tasks_of_unlike_width() {
  EnvSpec spec = one_task();
  spec.observations.push_back({.name = "task", .dtype = DType::i32, .shape = {1}});
  spec.tasks = {{.name = "wide", .obs_dims = 5, .action_dims = 3, .max_steps = 100},
                {.name = "narrow", .obs_dims = 3, .action_dims = 2, .max_steps = 400}};
  return spec;
}

// a random world model beside both planners
class PanelPlanners {
 public:
  PanelPlanners(const Options& options, const EnvSpec& spec, Precision precision = Precision::fp32,
                int threads = 1, int64_t together = 0)
      : shape(model_shape(options, spec)),
        settings(plan_options(options, shape, spec, at::kCPU)),
        model(std::make_shared<WorldModel>(shape, false, Initializer::none())),
        params(*model),
        reference(settings),
        panels(settings, shape, precision, threads, together) {
    at::manual_seed(5);
    at::NoGradGuard no_grad;
    params.data().copy_(at::randn({params.size()}) * 0.3);
    for (Planner* planner : std::initializer_list<Planner*>{&reference, &panels})
      planner->publish(*model, params.data());
  }

  PlanRequest request(int64_t rows) const {
    const PlanSizes& s = settings.sizes;
    auto is_first = at::zeros({rows}, at::kByte);
    is_first[rows - 1] = 1;
    return {.latent = at::softmax(at::randn({rows, shape.latent / 8, 8}), -1).flatten(1),
            .task = shape.tasks ? at::arange(rows, at::kLong) % shape.tasks : at::Tensor(),
            .is_first = is_first,
            .prev_mean = at::randn({rows, s.H, s.A}).clamp(-1, 1),
            .key = {.seed = 7, .step = 11},
            .first_row = 3,
            .explore = true};
  }

  ModelShape shape;
  PlanOptions settings;
  std::shared_ptr<WorldModel> model;
  FlatParams params;
  ReferencePlanner reference;
  PanelPlanner panels;
};

void expect_same_plan(const Plan& ours, const Plan& reference, double tolerance) {
  EXPECT_TRUE(close(ours.values, reference.values, tolerance));
  EXPECT_TRUE(at::equal(ours.elites, reference.elites));
  EXPECT_TRUE(close(ours.scores, reference.scores, tolerance));
  EXPECT_TRUE(close(ours.mean, reference.mean, tolerance));
  EXPECT_TRUE(close(ours.std, reference.std, tolerance));
  EXPECT_TRUE(close(ours.action, reference.action, tolerance));
}

void expect_parity(const Options& options, const EnvSpec& spec) {
  PanelPlanners planners(options, spec);
  const auto request = planners.request(3);
  expect_same_plan(planners.panels.plan(request), planners.reference.plan(request), 1e-4);
}

TEST(PanelPlanner, encodes_what_the_reference_encodes_and_each_row_alike) {
  for (const auto& spec : {one_task(), tasks_of_unlike_width()}) {
    PanelPlanners planners(panel_options(), spec);
    const ModelShape& s = planners.shape;
    const auto seen = at::randn({70, s.obs + s.task_dim});
    const auto latent = planners.panels.encode(*planners.model, seen, {});
    // over inputs, then two moments over outputs, layer by layer; a softmax of 8
    const int64_t sums = s.obs + s.task_dim + 3 * s.hidden.encoder[0] + 2 * s.latent + 8;
    EXPECT_TRUE(close(latent, planners.model->encode(seen, {}).detach(), Tolerance::of_sums(sums)));
    EXPECT_TRUE(close(planners.panels.encode(*planners.model, seen.narrow(0, 66, 3), {}),
                      latent.narrow(0, 66, 3), 0));
  }
}

TEST(PanelPlanner, plans_what_the_reference_plans) { expect_parity(panel_options(), one_task()); }

TEST(PanelPlanner, ends_hard_where_the_model_says_so) {
  Options o = panel_options();
  o.episodic = true, o.horizon = 5;
  expect_parity(o, one_task());
}

TEST(PanelPlanner, ends_softly_and_takes_the_mean_action_behind_the_horizon) {
  Options o = panel_options();
  o.episodic = true, o.termination = Termination::soft, o.terminal_action = TerminalAction::mean;
  expect_parity(o, one_task());
}

TEST(PanelPlanner, tells_tasks_apart_and_leaves_out_their_missing_actions) {
  expect_parity(panel_options(), tasks_of_unlike_width());
}

TEST(PanelPlanner, takes_networks_of_unlike_widths_and_depths) {
  Options o = panel_options();
  o.hidden = unlike_widths();
  expect_parity(o, tasks_of_unlike_width());
  o.episodic = true;
  expect_parity(o, one_task());
}

TEST(PanelPlanner, takes_shapes_that_fill_no_panel) {
  Options o = panel_options();
  o.horizon = 1, o.samples = 40, o.elites = 40, o.policy_trajectories = 0;
  expect_parity(o, one_task());
  o.samples = 100, o.policy_trajectories = 90;
  expect_parity(o, one_task());
}

TEST(PanelPlanner, rows_and_threads_never_show_in_a_plan) {
  PanelPlanners one(panel_options(), one_task()),
      four(panel_options(), one_task(), Precision::fp32, 4);
  const auto request = one.request(6);
  const Plan together = one.panels.plan(request);
  expect_same_plan(four.panels.plan(request), together, 0);
  for (int64_t n : {0, 5}) {
    auto alone = request;
    alone.latent = request.latent.narrow(0, n, 1),
    alone.is_first = request.is_first.narrow(0, n, 1);
    alone.prev_mean = request.prev_mean.narrow(0, n, 1), alone.first_row = request.first_row + n;
    const Plan plan = four.panels.plan(alone);
    EXPECT_TRUE(close(plan.values, together.values.narrow(0, n, 1), 0));
    EXPECT_TRUE(close(plan.action, together.action.narrow(0, n, 1), 0));
  }
}

TEST(PanelPlanner, panels_that_share_weights_never_show_in_a_plan) {
  // a last group of fewer panels; a panel of policy trajectories alone; ends
  Options many = panel_options(), policies = panel_options(), ending = panel_options();
  many.samples = 400, policies.samples = 100, policies.policy_trajectories = 90;
  ending.samples = 400, ending.episodic = true;
  for (Precision precision : {Precision::fp32, Precision::bf16}) {
    if (precision == Precision::bf16 && !pair_products_available()) continue;
    for (const Options& options : {many, policies, ending}) {
      PanelPlanners one(options, one_task(), precision, 1, 1);
      const auto request = one.request(3);
      const Plan alone = one.panels.plan(request);
      for (int64_t together : {2, 4}) {
        PanelPlanners some(options, one_task(), precision, 1, together);
        expect_same_plan(some.panels.plan(request), alone, 0);
      }
    }
  }
}

// official sizes: values of five-hundred-wide networks, summed in another order
TEST(PanelPlanner, plans_what_the_reference_plans_at_the_official_sizes) {
  Options o;
  o.iterations = 2;
  expect_parity(o, one_task());
}

// the share of elites that both plans have in common
double overlap(const Plan& a, const Plan& b) {
  auto common = (a.elites.unsqueeze(2) == b.elites.unsqueeze(1)).any(2);
  return common.to(at::kDouble).mean().item<double>();
}

TEST(PanelPlanner, bf16_keeps_the_elites_of_the_first_round) {
  if (!pair_products_available()) GTEST_SKIP() << "no products of bfloat16 pairs here";
  Options o;
  o.iterations = 1;
  PanelPlanners exact(o, one_task()), rounded(o, one_task(), Precision::bf16);
  const auto request = exact.request(3);
  const Plan reference = exact.panels.plan(request), plan = rounded.panels.plan(request);
  auto error = (plan.values - reference.values).abs(), spread = reference.values.std(1, true, true);
  const double share = (error / spread).mean().item<double>(), kept = overlap(plan, reference);
  RecordProperty("value_error_in_deviations", std::to_string(share));
  RecordProperty("elite_overlap", std::to_string(kept));
  std::printf(
      "bf16: values differ by %.3f of their deviation, %.1f %% of the elites are the same\n", share,
      100 * kept);
  EXPECT_LT(share, bf16_value_error(o));
  EXPECT_GE(kept, least_overlap(o, 3, share));
}

TEST(PanelPlanner, bf16_tells_tasks_apart_and_ends_as_fp32_does) {
  if (!pair_products_available()) GTEST_SKIP() << "no products of bfloat16 pairs here";
  Options ending = panel_options();
  ending.iterations = 1, ending.episodic = true, ending.termination = Termination::soft;
  for (const auto& [options, spec] :
       {std::pair{ending, one_task()}, {panel_options(), tasks_of_unlike_width()}}) {
    Options once = options;
    once.iterations = 1;
    PanelPlanners exact(once, spec), rounded(once, spec, Precision::bf16);
    const auto request = exact.request(3);
    const Plan reference = exact.panels.plan(request), plan = rounded.panels.plan(request);
    auto error = (plan.values - reference.values).abs(),
         spread = reference.values.std(1, true, true);
    EXPECT_LT((error / spread).mean().item<double>(), 0.1);
  }
}

TEST(PanelPlanner, is_not_offered_where_panels_cannot) {
  ModelShape shape = model_shape(panel_options(), one_task());
  EXPECT_EQ(PanelPlanner::obstacle(shape, Precision::fp32, at::kCPU), "");
  EXPECT_NE(PanelPlanner::obstacle(shape, Precision::fp32, at::kCUDA), "");
  shape.simnorm = 4;
  EXPECT_NE(PanelPlanner::obstacle(shape, Precision::fp32, at::kCPU), "");
}

}  // namespace
}  // namespace maglev
