#include "algos/tdmpc2/plan.h"

#include <string>

#include <ATen/ATen.h>

#include "base/core/error.h"

namespace maglev::tdmpc2 {
namespace {

at::Tensor action_mask(const EnvSpec& spec) {
  if (spec.tasks.empty()) return {};
  auto mask = at::zeros({int64_t(spec.tasks.size()), spec.action.dims()});
  for (size_t i = 0; i < spec.tasks.size(); ++i)
    mask[int64_t(i)].narrow(0, 0, spec.tasks[i].action_dims).fill_(1);
  return mask;
}

}  // namespace

PlanOptions plan_options(const Options& o, const ModelShape& shape, const EnvSpec& spec,
                         at::Device device) {
  const PlanSizes sizes{.H = o.horizon,
                        .S = o.samples,
                        .P = o.policy_trajectories,
                        .E = o.elites,
                        .I = plan_iterations(o, shape.actions),
                        .A = shape.actions};
  o.check();
  if (PlanNumbers(sizes).end > kPlanNumbers)
    throw Error("[tdmpc2] samples * horizon * iterations * actions must be at most " +
                std::to_string(kPlanNumbers) + " numbers a plan, got " +
                std::to_string(PlanNumbers(sizes).end));
  auto mask = action_mask(spec);
  return {.sizes = sizes,
          .temperature = o.temperature,
          .min_std = o.min_std,
          .max_std = o.max_std,
          .mean_terminal_action = o.terminal_action == TerminalAction::mean,
          .soft_termination = o.termination == Termination::soft,
          .discount = discounts(o, spec),
          .action_mask = mask.defined() ? mask.to(device) : mask};
}

Plan empty_plan(const PlanSizes& sizes, int64_t rows, const at::TensorOptions& options) {
  const auto [H, S, P, E, I, A] = sizes;
  const auto f32 = options.dtype(at::kFloat);
  return {.action = at::empty({rows, A}, f32),
          .mean = at::empty({rows, H, A}, f32),
          .std = at::empty({rows, H, A}, f32),
          .values = at::empty({rows, S}, f32),
          .elites = at::empty({rows, E}, f32.dtype(at::kLong)),
          .scores = at::empty({rows, E}, f32)};
}

}  // namespace maglev::tdmpc2
