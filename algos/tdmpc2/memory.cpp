#include "algos/tdmpc2/memory.h"

#include <algorithm>

#include "algos/tdmpc2/device/planner.h"
#include "algos/tdmpc2/learner.h"
#include "algos/tdmpc2/model_shape.h"
#include "algos/tdmpc2/panels/packed_model.h"
#include "algos/tdmpc2/policy.h"
#include "base/simd/panel.h"
#include "kernels/dense_grad/dense_grad_bf16.h"

namespace maglev::tdmpc2 {
namespace {

constexpr int64_t kF32 = 4;
// cuBLAS's of one stream, for good; of older GPUs less
constexpr int64_t kStreamWorkspace = 32 << 20;

// elements that autograd keeps of one row of a network: of a normalised layer the product, its
// normalised values and what Mish or SimNorm gives; of the last layer its logits three times. The
// device's learner: the product, what it gives and the gradient
int64_t kept(const MlpPlaces& net) {
  int64_t elements = 0;
  for (const auto& layer : net) elements += 3 * layer.out;
  return elements;
}

// of an update of whole tensors: every row that is learned from at once, at every step
int64_t update_elements(const Options& o, const ModelShape& s, const ModelLayout& l) {
  const int64_t sequences = o.micro_batch > 0 ? std::min(o.micro_batch, o.batch) : o.batch;
  const int64_t rows = sequences * o.horizon, wide = s.latent + s.actions + s.task_dim;
  int64_t row = kept(l.dynamics) + kept(l.reward) + 2 * wide;
  for (const auto& q : l.q) row += kept(q) + wide + 2 * s.hidden.q.front();
  if (s.episodic) row += kept(l.termination);
  // value networks side by side, which are copies, and the gradient of their widest layer
  int64_t widest = 0;
  for (const auto& layer : l.q.front()) widest = std::max(widest, layer.in * layer.out);
  const int64_t stacked = l.q_end() - l.q_begin() + int64_t(l.q.size()) * widest;
  return rows * row + sequences * kept(l.encoder) + stacked;
}

// what a layer's weight gradients wait for: its inputs as columns, and the gradient of what it
// gives; in bf16 half as many words, and the last layer's gradient in f32 besides
int64_t waiting(const MlpPlaces& net, int64_t stride, bool bf16 = false) {
  int64_t floats = bf16 ? net.back().out * stride : 0;
  for (const auto& layer : net) {
    const int64_t columns = dense_columns_size(layer.in, stride);
    floats +=
        bf16 ? columns / 2 + pair_blocks_size(layer.out, stride / 2) : columns + layer.out * stride;
  }
  return floats;
}
// what a layer leaves of a panel on the way forward
int64_t outputs(const MlpPlaces& net, int64_t stride) {
  int64_t floats = 0;
  for (const auto& layer : net) floats += layer.out * stride;
  return floats;
}

// of an update on panels: what weight gradients wait for, and a thread's own buffers
int64_t panel_update_elements(const Options& o, const ModelShape& s, const ModelLayout& l,
                              int64_t threads, bool bf16) {
  const int64_t stride = (std::min(o.batch, kPanelRows) + 15) / 16 * 16;
  const int64_t panels = (o.batch + stride - 1) / stride;
  const int64_t steps = panels * o.horizon, policy_steps = panels * (o.horizon + 1);
  // inputs of the heads' first layers are those of the dynamics
  const int64_t shared = dense_columns_size(l.dynamics.front().in, stride) / (bf16 ? 2 : 1);
  int64_t step = waiting(l.dynamics, stride, bf16) + waiting(l.reward, stride, bf16) - shared;
  for (const auto& q : l.q) step += waiting(q, stride, bf16) - shared;
  if (s.episodic) step += waiting(l.termination, stride, bf16);
  const int64_t policy_step = waiting(l.policy, stride, bf16) + 2 * outputs(l.policy, stride) +
                              (s.latent + 5 * s.actions + 1) * stride;
  // forward without gradients, with them, and a way back that leaves none
  const int64_t scratch =
      3 * outputs(l.encoder, stride) + outputs(l.policy, stride) + 2 * outputs(l.reward, stride) +
      4 * outputs(l.q.front(), stride) + 2 * o.horizon * outputs(l.dynamics, stride) +
      (o.horizon * (s.latent + s.actions) + s.obs + s.hidden.q.front() + kBins) * stride;
  // weights packed, and their transpose; the targets' without it. In bf16 a word is two of them,
  // but for the encoder's
  const int64_t packed =
      (2 * l.size() + l.q_end() - l.q_begin()) / (bf16 ? 2 : 1) + (bf16 ? l.encoder_end() : 0);
  return panels * waiting(l.encoder, stride) + steps * step + policy_steps * policy_step +
         threads * scratch + packed;
}

int64_t plan_elements(const Options& o, const ModelShape& s) {
  // inputs of every step, and the widest layers of a step's heads before and after their end
  const auto widest = [](const std::vector<int64_t>& hidden) { return std::ranges::max(hidden); };
  const int64_t step =
      widest(s.hidden.dynamics) + widest(s.hidden.reward) + widest(s.hidden.termination);
  // and behind the horizon those of the policy and of two value networks
  const int64_t end = 2 * widest(s.hidden.policy) + 4 * s.hidden.q.front() + 2 * widest(s.hidden.q);
  const int64_t row =
      o.horizon * (s.latent + 2 * s.actions) + std::max(2 * step, end) + 3 * s.latent;
  // the pair of value networks that a round draws
  int64_t q = kBins, in = product_tiles(s.latent + s.actions);
  for (int64_t width : s.hidden.q) q += width * (in + 3), in = width;
  q += in * product_tiles(kBins);
  return o.samples * row + 2 * q;
}

// of plans on panels: panels that share weights a thread, first layers of each 64 rows, actions and
// values of each row
int64_t panel_plan_elements(const Options& o, const ModelShape& s, int64_t rows, int64_t threads,
                            bool bf16) {
  const int64_t widest = s.widest();
  // latents, hidden layers and actions are words, of two features each in bf16
  const int64_t words = s.latent + 2 * widest + s.actions;
  const int64_t panel =
      kPanelRows * ((bf16 ? words / 2 : words) + std::max(kBins, 2 * s.actions) + 3 * s.actions);
  const int64_t sums = bf16 ? kPanelRows * widest : 0;
  const int64_t first = 2 * (s.hidden.dynamics.front() + s.hidden.reward.front()) +
                        s.hidden.policy.front() + s.num_q * s.hidden.q.front();
  const int64_t group = panel + sums + kPanelRows * (s.latent + first);
  const int64_t row =
      o.samples * (o.horizon * s.actions + 1) + o.policy_trajectories * (s.latent + 2);
  return threads * (panels_together(o.samples, threads, bf16) * panel + sums) +
         (rows + kPanelRows - 1) / kPanelRows * group + rows * row;
}

int64_t plans_elements(const Options& o, const ModelShape& s, const AlgoContext& context) {
  if (!o.mpc) return 0;
  const int64_t rows = std::max<int64_t>(1, context.rows);
  const int64_t threads = context.pool ? context.pool->threads() : 1;
  if (plans_on_panels(o, s, context))
    return panel_plan_elements(o, s, rows, threads, context.precision == Precision::bf16);
  // a block a thread at once
  const int64_t at_once = block_rows(o, s, context) * (context.device.is_cpu() ? threads : 1);
  const int64_t together = std::min(rows, at_once);
  // rewards beside latents hold the hidden layers of every step
  const bool beside = works_beside(context.device, together, o.samples);
  const int64_t hidden = s.hidden.dynamics.back() + s.hidden.reward.back() +
                         (s.episodic ? s.hidden.termination.back() : 0);
  const int64_t held = o.horizon * (hidden + kBins + 1);
  return together * (plan_elements(o, s) + (beside ? o.samples * held : 0));
}

}  // namespace

std::vector<MemoryPart> policy_memory(const Options& o, const AlgoContext& context) {
  const ModelShape shape = model_shape(o, context.spec);
  // weights as they are, and packed for planning
  std::vector<MemoryPart> parts{
      {"weights to act with", kF32 * (o.mpc && o.prune ? 2 : 1) * model_layout(shape).size()},
      {"activations of plans", kF32 * plans_elements(o, shape, context)}};
  // what a library of products keeps for each stream that a planner works on beside the first
  if (o.mpc && o.prune && context.device.is_cuda())
    parts.push_back({"libraries' memory for plans", kPlanStreams * kStreamWorkspace});
  return parts;
}

std::vector<MemoryPart> planned_memory(const Options& options, const AlgoContext& context) {
  const Options o = options.share_of(context.processes);
  const ModelShape shape = model_shape(o, context.spec);
  const ModelLayout layout = model_layout(shape);
  const int64_t threads = context.pool ? context.pool->threads() : 1;
  const int64_t q = layout.q_end() - layout.q_begin();
  const bool panels = learner_kind({.options = o, .shape = shape, .precision = context.precision},
                                   context.device) == LearnerKind::panels;
  const int64_t update = panels ? panel_update_elements(o, shape, layout, threads,
                                                        context.precision == Precision::bf16)
                                : update_elements(o, shape, layout);
  const int64_t weights = kF32 * (layout.size() + q), moments = kF32 * 2 * layout.size();
  std::vector<MemoryPart> parts{
      {"parameters and targets", weights, weights},
      {"gradients and optimiser", kF32 * layout.size() + moments, moments},
      {"activations of an update", kF32 * update}};
  for (const MemoryPart& part : policy_memory(o, context)) parts.push_back(part);
  return parts;
}

}  // namespace maglev::tdmpc2
