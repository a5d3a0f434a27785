#include "algos/tdmpc2/panels/rollout.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/squashed_gaussian/squashed_gaussian.h"
#include "kernels/two_hot/two_hot.h"

namespace maglev::tdmpc2 {
namespace {

// values of a head's logits
void read_values(int64_t rows, RolloutScratch& w) {
  two_hot_inverse_cpu({.bins = kTwoHot,
                       .logits = w.logits,
                       .value = w.head_value,
                       .stride = kPlanStride,
                       .rows = rows});
}

}  // namespace

void rows_to_columns(const float* rows, int64_t count, int64_t width, int64_t column,
                     float* panel) {
  for (int64_t f = 0; f < width; ++f)
    for (int64_t r = 0; r < count; ++r) panel[f * kPlanStride + column + r] = rows[r * width + f];
}

RolloutScratch::RolloutScratch(const ModelShape& shape, const PackedModel& model) {
  const int64_t widest = std::max(shape.mlp_dim, shape.latent), A = shape.actions;
  z = memory.take(model.words(shape.latent) * kPlanStride);
  for (auto& hidden : net.hidden) hidden = memory.take(model.words(widest) * kPlanStride);
  net.sums = model.bf16() ? memory.take(widest * kPlanStride) : nullptr;
  logits = memory.take(std::max(kBins, 2 * A) * kPlanStride);
  noise = memory.take(A * kPlanStride), numbers = memory.take(A * kPlanStride);
  action = memory.take(A * kPlanStride);
  action_words = model.bf16() ? memory.take(model.words(A) * kPlanStride) : action;
  for (float** columns : {&value, &live, &head_value, &total}) *columns = memory.take(kPlanStride);
}

RowPlan::RowPlan(const PlanSizes& s, const PackedModel& model, int64_t latent)
    : actions(size_t(s.H * s.S * s.A)),
      values(size_t(s.S)),
      mean(size_t(s.H * s.A)),
      std(size_t(s.H * s.A)),
      elites(size_t(s.E)),
      scores(size_t(s.E)),
      pairs(size_t(2 * s.I)),
      q(model.q.size()),
      head(size_t(2 * s.A)),
      policy_z(size_t(model.words(latent) * s.P)),
      policy_value(size_t(s.P)),
      policy_live(size_t(s.P)) {}

NoiseFill RowPlan::numbers(int64_t begin, int64_t count) const {
  NoiseFill out = fill;
  out.first += uint64_t(begin);
  out.count = count;
  return out;
}

std::vector<PanelJob> panel_jobs(const PlanSizes& s, int64_t columns) {
  std::vector<PanelJob> jobs;
  for (int64_t first = 0; first < s.S - s.P; first += columns)
    jobs.push_back({first, std::min(columns, s.S - s.P - first), 0, 0});
  for (int64_t p = 0; p < s.P;) {
    // where the last panel has columns left, policy trajectories join it
    if (jobs.back().samples + jobs.back().policies == kPlanStride) jobs.push_back({0, 0, p, 0});
    PanelJob& job = jobs.back();
    if (job.policies == 0) job.first_policy = p;
    const int64_t join = std::min(s.P - p, kPlanStride - job.samples - job.policies);
    job.policies += join, p += join;
  }
  return jobs;
}

// normals of `rows` rows from number `begin` on, into columns from `column` on
void PanelRollout::draw(const RowPlan& row, int64_t begin, int64_t rows, int64_t column,
                        RolloutScratch& w) const {
  const int64_t A = options_.sizes.A;
  noise_normal_cpu(row.numbers(begin, rows * A), w.numbers);
  rows_to_columns(w.numbers, rows, A, column, w.noise);
}

// dimensions that the task does not have are 0; the action as words
void PanelRollout::finish_action(const RowPlan& row, RolloutScratch& w) const {
  const int64_t A = options_.sizes.A;
  for (int64_t a = 0; a < A && row.mask; ++a)
    if (row.mask[a] == 0) std::fill_n(w.action + a * kPlanStride, kPlanStride, 0.f);
  if (model_.bf16())
    panel_to_pairs(w.action, A, kPlanStride, kPlanStride,
                   reinterpret_cast<uint32_t*>(w.action_words));
}

// of step t, as sequences [first, first + count)
void PanelRollout::store_actions(RowPlan& row, int64_t t, int64_t first, int64_t count,
                                 const RolloutScratch& w) const {
  const PlanSizes& s = options_.sizes;
  float* into = row.actions.data() + (t * s.S + first) * s.A;
  for (int64_t column = 0; column < count; ++column)
    for (int64_t a = 0; a < s.A; ++a) into[column * s.A + a] = w.action[a * kPlanStride + column];
}

void PanelRollout::sample_actions(RowPlan& row, const PanelJob& job, int64_t round, int64_t t,
                                  RolloutScratch& w) const {
  const auto [H, S, P, E, I, A] = options_.sizes;
  draw(row, numbers_.samples + ((round * H + t) * (S - P) + job.first) * A, job.samples, 0, w);
  for (int64_t a = 0; a < A; ++a) {
    const size_t place = size_t(t * A + a);
    const float mean = row.mean[place], std = row.std[place];
    const float* noise = w.noise + a * kPlanStride;
    for (int64_t column = 0; column < job.samples; ++column)
      w.action[a * kPlanStride + column] = std::clamp(mean + std * noise[column], -1.f, 1.f);
  }
  finish_action(row, w);
  store_actions(row, t, P + job.first, job.samples, w);
}

// one step of the model: rewards into values, latents, and who is still alive
void PanelRollout::step(const RowPlan& row, int64_t t, int64_t rows, float discount,
                        RolloutScratch& w) const {
  const InputPanel z{Input::latent, w.z}, a{Input::action, w.action_words};
  if (t == 0) model_.reward.forward(row.reward_first, {a}, rows, w.net, w.logits);
  else model_.reward.forward(row.reward, {z, a}, rows, w.net, w.logits);
  read_values(rows, w);
  for (int64_t column = 0; column < rows; ++column)
    w.value[column] += discount * w.live[column] * w.head_value[column];
  if (t == 0) model_.dynamics.forward(row.dynamics_first, {a}, rows, w.net, w.z);
  else model_.dynamics.forward(row.dynamics, {z, a}, rows, w.net, w.z);
  if (model_.termination.empty()) return;
  model_.termination[0].forward(row.termination, {z}, rows, w.net, w.logits);
  for (int64_t column = 0; column < rows; ++column) {
    const float chance = 1.f / (1.f + std::exp(-w.logits[column]));
    if (options_.soft_termination) w.live[column] *= 1.f - chance;
    else if (chance > 0.5f) w.live[column] = 0.f;
  }
}

// actions of the head in w.logits and the noise in w.noise
void PanelRollout::policy_action(const RowPlan& row, bool mean, RolloutScratch& w) const {
  squashed_gaussian_cpu({.actions = options_.sizes.A,
                         .head = w.logits,
                         .noise = mean ? nullptr : w.noise,
                         .action = w.action,
                         .stride = kPlanStride});
  finish_action(row, w);
}

void PanelRollout::roll_policy(RowPlan& row, int64_t first, int64_t count,
                               RolloutScratch& w) const {
  const auto [H, S, P, E, I, A] = options_.sizes;
  std::fill_n(w.value, kPlanStride, 0.f), std::fill_n(w.live, kPlanStride, 1.f);
  double discount = 1;
  for (int64_t t = 0; t < H; ++t, discount *= row.discount) {
    if (t > 0) model_.policy.forward(row.policy, {{Input::latent, w.z}}, count, w.net, w.logits);
    for (int64_t i = 0; i < 2 * A && t == 0; ++i)
      std::fill_n(w.logits + i * kPlanStride, kPlanStride, row.head[size_t(i)]);
    draw(row, numbers_.policy + (t * P + first) * A, count, 0, w);
    policy_action(row, false, w);
    store_actions(row, t, first, count, w);
    step(row, t, count, float(discount), w);
  }
  for (int64_t f = 0; f < model_.words(shape_.latent); ++f)
    std::copy_n(w.z + f * kPlanStride, count, row.policy_z.data() + f * P + first);
  std::copy_n(w.value, count, row.policy_value.data() + first);
  std::copy_n(w.live, count, row.policy_live.data() + first);
}

// mean of the values of the round's pair at w.z and w.action, into w.total
void PanelRollout::value_behind(const RowPlan& row, int64_t round, int64_t rows,
                                RolloutScratch& w) const {
  std::fill_n(w.total, kPlanStride, 0.f);
  for (size_t k : {0, 1}) {
    const size_t i = size_t(row.pairs[2 * size_t(round) + k]);
    model_.q[i].forward(row.q[i], {{Input::latent, w.z}, {Input::action, w.action_words}}, rows,
                        w.net, w.logits);
    read_values(rows, w);
    for (int64_t column = 0; column < rows; ++column)
      w.total[column] += 0.5f * w.head_value[column];
  }
}

void PanelRollout::evaluate(RowPlan& row, const PanelJob& job, int64_t round,
                            RolloutScratch& w) const {
  const auto [H, S, P, E, I, A] = options_.sizes;
  const int64_t samples = job.samples, rows = samples + job.policies;
  std::fill_n(w.value, kPlanStride, 0.f), std::fill_n(w.live, kPlanStride, 1.f);
  double discount = 1;
  for (int64_t t = 0; t < H; ++t, discount *= row.discount) {
    if (samples == 0) continue;
    sample_actions(row, job, round, t, w);
    step(row, t, samples, float(discount), w);
  }
  // policy trajectories, whose steps were made before the first round
  if (job.policies > 0) {
    const float* from = row.policy_z.data() + job.first_policy;
    for (int64_t f = 0; f < model_.words(shape_.latent); ++f)
      std::copy_n(from + f * P, job.policies, w.z + f * kPlanStride + samples);
    std::copy_n(row.policy_value.data() + job.first_policy, job.policies, w.value + samples);
    std::copy_n(row.policy_live.data() + job.first_policy, job.policies, w.live + samples);
  }
  model_.policy.forward(row.policy, {{Input::latent, w.z}}, rows, w.net, w.logits);
  if (!options_.mean_terminal_action) {
    const int64_t begin = numbers_.terminal + round * S * A;
    draw(row, begin + (P + job.first) * A, samples, 0, w);
    draw(row, begin + job.first_policy * A, job.policies, samples, w);
  }
  policy_action(row, options_.mean_terminal_action, w);
  value_behind(row, round, rows, w);
  constexpr float kMost = std::numeric_limits<float>::max();
  for (int64_t column = 0; column < rows; ++column) {
    const float value = w.value[column] + float(discount) * w.live[column] * w.total[column];
    const int64_t sequence =
        column < samples ? P + job.first + column : job.first_policy + column - samples;
    row.values[size_t(sequence)] = std::isnan(value) ? 0.f : std::clamp(value, -kMost, kMost);
  }
}

}  // namespace maglev::tdmpc2
