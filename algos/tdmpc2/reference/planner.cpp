#include "algos/tdmpc2/reference/planner.h"

#include <cmath>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "algos/tdmpc2/policy_prior.h"
#include "kernels/noise/noise_op.h"
#include "kernels/two_hot/two_hot_op.h"

namespace maglev::tdmpc2 {
struct ReferencePlanner::Context {
  at::Tensor z, e, mask;  ///< [1, D], [1, T], [1, A]; undefined without tasks
  ActKey key;
  int64_t first_row, row;
  double discount;
};

ReferencePlanner::ReferencePlanner(const PlanOptions& options)
    : options_(options), numbers_(options.sizes) {}

void ReferencePlanner::publish(const WorldModel& model, const at::Tensor& params) {
  model_ = &model;
  const ModelLayout& layout = model.layout();
  q_ = stacked(params.narrow(0, layout.q_begin(), layout.q_end() - layout.q_begin()), layout.q[0],
               model.shape().num_q);
}

at::Tensor ReferencePlanner::normals(const Context& c, int64_t begin, at::IntArrayRef sizes) const {
  auto out = at::empty(sizes, c.z.options());
  noise_normal_(out, plan_fill_of_row(c.key, c.first_row, c.row, begin));
  return out;
}

at::Tensor ReferencePlanner::uniforms(const Context& c, int64_t begin, int64_t count) const {
  auto out = at::empty({count}, c.z.options());
  noise_uniform_(out, plan_fill_of_row(c.key, c.first_row, c.row, begin));
  return out;
}

at::Tensor ReferencePlanner::values(const Context& c, const at::Tensor& actions,
                                    int64_t round) const {
  const auto [H, S, P, E, I, A] = options_.sizes;
  auto wide = [&](const at::Tensor& x) { return x.defined() ? x.expand({S, x.size(1)}) : x; };
  auto z = wide(c.z);
  const auto e = wide(c.e), mask = wide(c.mask);
  auto value = at::zeros({S}, z.options()), ended = at::zeros({S}, z.options());
  // discounted rewards of H imagined steps; what has ended earns no more
  double discount = 1;
  for (int64_t t = 0; t < H; ++t) {
    const auto reward = two_hot_value_reference(model_->reward(z, actions[t], e), kTwoHot);
    value = value + discount * (1 - ended) * reward;
    z = model_->next(z, actions[t], e);
    discount *= c.discount;
    if (!model_->shape().episodic) continue;
    const auto chance = at::sigmoid(model_->termination(z, e));
    // soft: the chance of having ended by now; hard: over once it exceeds one half
    if (options_.soft_termination) ended = 1 - (1 - ended) * (1 - chance);
    else ended = (ended + (chance > 0.5).to(at::kFloat)).clamp_max(1);
  }
  // and behind the horizon the mean of two drawn value networks at the policy's action
  const auto draw = draw_policy(model_->policy(z, e),
                                normals(c, numbers_.terminal + round * S * A, {S, A}), mask);
  const auto action = options_.mean_terminal_action ? draw.mean : draw.action;
  const auto all = two_hot_value_reference(stacked_forward(q_, joined(z, action, e)), kTwoHot);
  const auto pair = q_pair(uniforms(c, numbers_.pair + round, 1).item<float>(), all.size(0));
  const auto q = (all[pair.first] + all[pair.second]) / 2;
  return value + discount * (1 - ended) * q;
}

void ReferencePlanner::plan_row(const PlanRequest& request, int64_t row, Plan& plan) const {
  const auto [H, S, P, E, I, A] = options_.sizes;
  Context c{.z = request.latent.narrow(0, row, 1),
            .key = request.key,
            .first_row = request.first_row,
            .row = row,
            .discount = options_.discount[0]};
  // the task's embedding, dimensions and discount
  if (request.task.defined()) {
    const auto task = request.task.narrow(0, row, 1);
    c.e = model_->embedding(task);
    c.mask = at::index_select(options_.action_mask, 0, task);
    c.discount = options_.discount[size_t(task.item<int64_t>())];
  }
  auto masked = [&](const at::Tensor& a) { return c.mask.defined() ? a * c.mask : a; };
  // P of the S sequences are the policy's own trajectories, the same in every round
  auto actions = at::zeros({H, S, A}, c.z.options());
  if (P > 0) {
    const auto noise = normals(c, numbers_.policy, {H, P, A});
    auto z = c.z.expand({P, c.z.size(1)});
    const auto e = c.e.defined() ? c.e.expand({P, c.e.size(1)}) : c.e;
    const auto mask = c.mask.defined() ? c.mask.expand({P, A}) : c.mask;
    for (int64_t t = 0; t < H; ++t) {
      const auto action = draw_policy(model_->policy(z, e), noise[t], mask).action;
      actions[t].narrow(0, 0, P).copy_(action);
      z = model_->next(z, action, e);
    }
  }
  // the last plan, one step on, is where this one begins
  auto mean = at::zeros({H, A}, c.z.options()), std = at::full_like(mean, options_.max_std);
  if (H > 1 && request.is_first[row].item<uint8_t>() == 0)
    mean.narrow(0, 0, H - 1).copy_(request.prev_mean[row].narrow(0, 1, H - 1));
  at::Tensor value, elites, scores, chosen;
  for (int64_t round = 0; round < I; ++round) {
    // the others are drawn around the mean
    const auto noise = normals(c, numbers_.samples + round * H * (S - P) * A, {H, S - P, A});
    const auto drawn = (mean.unsqueeze(1) + std.unsqueeze(1) * noise).clamp(-1, 1);
    actions.narrow(1, P, S - P).copy_(masked(drawn));
    // the best E, weighted by exp(temperature * (value - best))
    value = at::nan_to_num(values(c, actions, round), 0.0);
    elites = std::get<1>(at::sort(value, true, 0, true)).narrow(0, 0, E);
    const auto best = at::index_select(value, 0, elites);
    scores = at::exp(options_.temperature * (best - best[0]));
    scores = scores / scores.sum();
    // their weighted moments are the next round's
    chosen = at::index_select(actions, 1, elites);
    const auto weight = scores.view({1, E, 1});
    mean = (weight * chosen).sum(1);
    std = at::sqrt((weight * (chosen - mean.unsqueeze(1)).square()).sum(1))
              .clamp(options_.min_std, options_.max_std);
    mean = masked(mean), std = masked(std);
  }
  // one elite is drawn by its weight, and explores by the last deviation
  const auto gumbel = -at::log(-at::log(uniforms(c, numbers_.gumbel, E)));
  const auto pick = (at::log(scores) + gumbel).argmax().view({1});
  auto action = at::index_select(chosen[0], 0, pick)[0];
  if (request.explore) action = action + std[0] * normals(c, numbers_.explore, {A});
  plan.action[row].copy_(action.clamp(-1, 1));
  plan.mean[row].copy_(mean);
  plan.std[row].copy_(std);
  plan.values[row].copy_(value);
  plan.elites[row].copy_(elites);
  plan.scores[row].copy_(scores);
}

Plan ReferencePlanner::plan(const PlanRequest& request) {
  at::NoGradGuard no_grad;
  const int64_t rows = request.latent.size(0);
  Plan plan = empty_plan(options_.sizes, rows, request.latent.options());
  for (int64_t row = 0; row < rows; ++row) plan_row(request, row, plan);
  return plan;
}

}  // namespace maglev::tdmpc2
