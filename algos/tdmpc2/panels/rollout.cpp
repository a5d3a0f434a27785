#include "algos/tdmpc2/panels/rollout.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "kernels/squashed_gaussian/squashed_gaussian.h"
#include "kernels/two_hot/two_hot.h"

namespace maglev::tdmpc2 {
namespace {

// values of a head's logits
void read_values(int64_t rows, const float* logits, RolloutScratch& w) {
  two_hot_inverse_cpu({.bins = kTwoHot,
                       .logits = logits,
                       .value = w.head_value,
                       .stride = kPlanStride,
                       .rows = rows});
}

/// Inputs that a network reads, besides what its sums begin with.
enum class Reads { latent, action, both };

/// The first panels of a scratch, with so many rows each, through networks together.
struct Together {
  RolloutScratch& w;
  std::span<const int64_t> rows;

  void through(const PackedNet& net, SumStart start, Reads reads, float* RolloutPanel::*out) const {
    std::array<NetPanel, kMostTogether> calls;
    for (size_t p = 0; p < rows.size(); ++p) {
      const RolloutPanel& panel = w.panels[p];
      calls[p] = {.latent = reads != Reads::action ? panel.z : nullptr,
                  .action = reads != Reads::latent ? panel.action_words : nullptr,
                  .rows = rows[p],
                  .out = panel.*out};
    }
    net.forward(start, {calls.data(), rows.size()}, w.net);
  }
};

}  // namespace

void rows_to_columns(const float* rows, int64_t count, int64_t width, int64_t column,
                     float* panel) {
  for (int64_t f = 0; f < width; ++f)
    for (int64_t r = 0; r < count; ++r) panel[f * kPlanStride + column + r] = rows[r * width + f];
}

RolloutScratch::RolloutScratch(const ModelShape& shape, const PackedModel& model, int64_t count) {
  const int64_t widest = shape.widest(), A = shape.actions;
  const auto take = [this](int64_t floats) { return memory.take(floats * kPlanStride); };
  for (int64_t p = 0; p < count; ++p) {
    for (auto& hidden : net.hidden[size_t(p)]) hidden = take(model.words(widest));
    RolloutPanel& panel = panels.emplace_back();
    panel.z = take(model.words(shape.latent));
    panel.logits = take(std::max(kBins, 2 * A));
    panel.noise = take(A), panel.action = take(A);
    panel.action_words = model.bf16() ? take(model.words(A)) : panel.action;
    for (float** columns : {&panel.value, &panel.live, &panel.total}) *columns = take(1);
  }
  net.sums = model.bf16() ? take(widest) : nullptr;
  numbers = take(A), head_value = take(1);
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
                        float* numbers, RolloutPanel& panel) const {
  const int64_t A = options_.sizes.A;
  noise_normal_cpu(row.numbers(begin, rows * A), numbers);
  rows_to_columns(numbers, rows, A, column, panel.noise);
}

// dimensions that the task does not have are 0; the action as words
void PanelRollout::finish_action(const RowPlan& row, RolloutPanel& panel) const {
  const int64_t A = options_.sizes.A;
  for (int64_t a = 0; a < A && row.mask; ++a)
    if (row.mask[a] == 0) std::fill_n(panel.action + a * kPlanStride, kPlanStride, 0.f);
  if (model_.bf16())
    panel_to_pairs(panel.action, A, kPlanStride, kPlanStride,
                   reinterpret_cast<uint32_t*>(panel.action_words));
}

// of step t, as sequences [first, first + count)
void PanelRollout::store_actions(RowPlan& row, int64_t t, int64_t first, int64_t count,
                                 const RolloutPanel& panel) const {
  const PlanSizes& s = options_.sizes;
  float* into = row.actions.data() + (t * s.S + first) * s.A;
  for (int64_t column = 0; column < count; ++column)
    for (int64_t a = 0; a < s.A; ++a)
      into[column * s.A + a] = panel.action[a * kPlanStride + column];
}

void PanelRollout::sample_actions(RowPlan& row, const PanelJob& job, int64_t round, int64_t t,
                                  float* numbers, RolloutPanel& panel) const {
  const auto [H, S, P, E, I, A] = options_.sizes;
  const int64_t begin = numbers_.samples + ((round * H + t) * (S - P) + job.first) * A;
  draw(row, begin, job.samples, 0, numbers, panel);
  for (int64_t a = 0; a < A; ++a) {
    const size_t place = size_t(t * A + a);
    const float mean = row.mean[place], std = row.std[place];
    const float* noise = panel.noise + a * kPlanStride;
    for (int64_t column = 0; column < job.samples; ++column)
      panel.action[a * kPlanStride + column] = std::clamp(mean + std * noise[column], -1.f, 1.f);
  }
  finish_action(row, panel);
  store_actions(row, t, P + job.first, job.samples, panel);
}

// one step of the model: rewards into values, latents, and who is still alive
void PanelRollout::step(const RowPlan& row, int64_t t, std::span<const int64_t> rows,
                        float discount, RolloutScratch& w) const {
  const Together panels{w, rows};
  // at first the latent's products are in the sums already
  const bool later = t > 0;
  const Reads reads = later ? Reads::both : Reads::action;
  panels.through(model_.reward, later ? row.reward : row.reward_first, reads,
                 &RolloutPanel::logits);
  for (size_t p = 0; p < rows.size(); ++p) {
    RolloutPanel& panel = w.panels[p];
    read_values(rows[p], panel.logits, w);
    for (int64_t column = 0; column < rows[p]; ++column)
      panel.value[column] += discount * panel.live[column] * w.head_value[column];
  }
  panels.through(model_.dynamics, later ? row.dynamics : row.dynamics_first, reads,
                 &RolloutPanel::z);
  if (model_.termination.empty()) return;
  panels.through(model_.termination[0], row.termination, Reads::latent, &RolloutPanel::logits);
  for (size_t p = 0; p < rows.size(); ++p) {
    RolloutPanel& panel = w.panels[p];
    for (int64_t column = 0; column < rows[p]; ++column) {
      const float chance = 1.f / (1.f + std::exp(-panel.logits[column]));
      if (options_.soft_termination) panel.live[column] *= 1.f - chance;
      else if (chance > 0.5f) panel.live[column] = 0.f;
    }
  }
}

// actions of the head in the logits and the noise
void PanelRollout::policy_action(const RowPlan& row, bool mean, RolloutPanel& panel) const {
  squashed_gaussian_cpu({.actions = options_.sizes.A,
                         .head = panel.logits,
                         .noise = mean ? nullptr : panel.noise,
                         .action = panel.action,
                         .stride = kPlanStride});
  finish_action(row, panel);
}

void PanelRollout::roll_policy(RowPlan& row, int64_t first, int64_t count,
                               RolloutScratch& w) const {
  const auto [H, S, P, E, I, A] = options_.sizes;
  RolloutPanel& panel = w.panels.front();
  const Together alone{w, {&count, 1}};
  std::fill_n(panel.value, kPlanStride, 0.f), std::fill_n(panel.live, kPlanStride, 1.f);
  double discount = 1;
  for (int64_t t = 0; t < H; ++t, discount *= row.discount) {
    if (t > 0) alone.through(model_.policy, row.policy, Reads::latent, &RolloutPanel::logits);
    for (int64_t i = 0; i < 2 * A && t == 0; ++i)
      std::fill_n(panel.logits + i * kPlanStride, kPlanStride, row.head[size_t(i)]);
    draw(row, numbers_.policy + (t * P + first) * A, count, 0, w.numbers, panel);
    policy_action(row, false, panel);
    store_actions(row, t, first, count, panel);
    step(row, t, {&count, 1}, float(discount), w);
  }
  for (int64_t f = 0; f < model_.words(shape_.latent); ++f)
    std::copy_n(panel.z + f * kPlanStride, count, row.policy_z.data() + f * P + first);
  std::copy_n(panel.value, count, row.policy_value.data() + first);
  std::copy_n(panel.live, count, row.policy_live.data() + first);
}

// mean of the values of the round's pair at latents and actions, into totals
void PanelRollout::value_behind(const RowPlan& row, int64_t round, std::span<const int64_t> rows,
                                RolloutScratch& w) const {
  for (size_t k : {0, 1}) {
    const size_t i = size_t(row.pairs[2 * size_t(round) + k]);
    Together{w, rows}.through(model_.q[i], row.q[i], Reads::both, &RolloutPanel::logits);
    for (size_t p = 0; p < rows.size(); ++p) {
      RolloutPanel& panel = w.panels[p];
      read_values(rows[p], panel.logits, w);
      for (int64_t column = 0; column < rows[p]; ++column)
        panel.total[column] = (k ? panel.total[column] : 0.f) + 0.5f * w.head_value[column];
    }
  }
}

// behind the samples: policy trajectories, whose steps were made before the first round
void PanelRollout::join_policies(const RowPlan& row, const PanelJob& job,
                                 RolloutPanel& panel) const {
  const int64_t P = options_.sizes.P;
  const float* from = row.policy_z.data() + job.first_policy;
  for (int64_t f = 0; f < model_.words(shape_.latent); ++f)
    std::copy_n(from + f * P, job.policies, panel.z + f * kPlanStride + job.samples);
  std::copy_n(row.policy_value.data() + job.first_policy, job.policies, panel.value + job.samples);
  std::copy_n(row.policy_live.data() + job.first_policy, job.policies, panel.live + job.samples);
}

void PanelRollout::evaluate(RowPlan& row, std::span<const PanelJob> jobs, int64_t round,
                            RolloutScratch& w) const {
  const auto [H, S, P, E, I, A] = options_.sizes;
  // a job's rows along the horizon and behind it; jobs without samples come last
  std::array<int64_t, kMostTogether> sampled{}, rows{};
  size_t stepping = 0;
  for (size_t p = 0; p < jobs.size(); ++p) {
    sampled[p] = jobs[p].samples, rows[p] = jobs[p].samples + jobs[p].policies;
    if (sampled[p] > 0) stepping = p + 1;
    std::fill_n(w.panels[p].value, kPlanStride, 0.f);
    std::fill_n(w.panels[p].live, kPlanStride, 1.f);
  }
  double discount = 1;
  for (int64_t t = 0; t < H; ++t, discount *= row.discount) {
    for (size_t p = 0; p < stepping; ++p)
      sample_actions(row, jobs[p], round, t, w.numbers, w.panels[p]);
    step(row, t, {sampled.data(), stepping}, float(discount), w);
  }
  for (size_t p = 0; p < jobs.size(); ++p)
    if (jobs[p].policies > 0) join_policies(row, jobs[p], w.panels[p]);
  const std::span<const int64_t> all{rows.data(), jobs.size()};
  // the value behind the horizon, of the policy's actions there
  Together{w, all}.through(model_.policy, row.policy, Reads::latent, &RolloutPanel::logits);
  for (size_t p = 0; p < jobs.size(); ++p) {
    const PanelJob& job = jobs[p];
    if (!options_.mean_terminal_action) {
      const int64_t begin = numbers_.terminal + round * S * A;
      draw(row, begin + (P + job.first) * A, job.samples, 0, w.numbers, w.panels[p]);
      draw(row, begin + job.first_policy * A, job.policies, job.samples, w.numbers, w.panels[p]);
    }
    policy_action(row, options_.mean_terminal_action, w.panels[p]);
  }
  value_behind(row, round, all, w);
  constexpr float kMost = std::numeric_limits<float>::max();
  for (size_t p = 0; p < jobs.size(); ++p) {
    const PanelJob& job = jobs[p];
    const RolloutPanel& panel = w.panels[p];
    for (int64_t column = 0; column < rows[p]; ++column) {
      const float value =
          panel.value[column] + float(discount) * panel.live[column] * panel.total[column];
      const int64_t sequence =
          column < job.samples ? P + job.first + column : job.first_policy + column - job.samples;
      row.values[size_t(sequence)] = std::isnan(value) ? 0.f : std::clamp(value, -kMost, kMost);
    }
  }
}

}  // namespace maglev::tdmpc2
