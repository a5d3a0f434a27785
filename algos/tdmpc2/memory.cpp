#include "algos/tdmpc2/memory.h"

#include <algorithm>

#include "algos/tdmpc2/model_shape.h"
#include "algos/tdmpc2/tdmpc2.h"

namespace maglev::tdmpc2 {
namespace {

constexpr int64_t kF32 = 4;

// elements that autograd keeps of one row of a network: of a normalised layer the product, its
// normalised values and what Mish or SimNorm gives; of the last layer its logits three times
int64_t kept(const MlpPlaces& net) {
  int64_t elements = 0;
  for (const auto& layer : net) elements += 3 * layer.out;
  return elements;
}

int64_t update_elements(const Options& o, const ModelShape& s, const ModelLayout& l) {
  const int64_t rows = o.batch * o.horizon, wide = s.latent + s.actions + s.task_dim;
  int64_t row = kept(l.dynamics) + kept(l.reward) + 2 * wide;
  for (const auto& q : l.q) row += kept(q) + wide + 2 * s.mlp_dim;
  if (s.episodic) row += kept(l.termination);
  return rows * row + o.batch * kept(l.encoder);
}

int64_t plan_elements(const Options& o, const ModelShape& s) {
  // inputs of every step, and the widest layers before and after their end
  const int64_t row = o.horizon * (s.latent + 2 * s.actions) + 6 * s.mlp_dim + 3 * s.latent;
  return o.samples * row;
}

}  // namespace

std::vector<MemoryPart> planned_memory(const Options& o, const AlgoContext& context) {
  const ModelShape shape = model_shape(o, context.spec);
  const ModelLayout layout = model_layout(shape);
  const DataPlan plan = data_plan(o, context);
  const int64_t rows = std::max<int64_t>(1, context.rows);
  // planned at once: on panels a row a thread, else a block a thread
  const int64_t threads = context.pool ? context.pool->threads() : 1;
  const int64_t block = plans_on_panels(o, shape, context) ? 1 : plan.block_rows;
  const int64_t planned = std::min(rows, block * (context.device.is_cpu() ? threads : 1));
  const int64_t q = layout.q_end() - layout.q_begin();
  return {{"parameters and targets", kF32 * (layout.size() + q)},
          {"gradients and optimiser", kF32 * 3 * layout.size()},
          // as they are, and packed for planning
          {"weights to act with", kF32 * (o.mpc && o.prune ? 2 : 1) * layout.size()},
          {"activations of an update", kF32 * update_elements(o, shape, layout)},
          {"activations of plans", o.mpc ? kF32 * planned * plan_elements(o, shape) : 0}};
}

}  // namespace maglev::tdmpc2
