#include "algos/ppo/sizes.h"

#include <algorithm>

#include "engine/nn/panel_network.h"

namespace maglev::ppo {
namespace {

// gradients are added over this many lanes at most, however many threads there are
constexpr int64_t kMostLanes = 16;
// multiply-adds a shard should have at least, so that its operations outweigh their dispatch
constexpr int64_t kShardWork = 16'000'000;
// rows a shard has where a row costs this many multiply-adds, so that reading weights counts little
constexpr int64_t kLargeNetwork = 1'000'000, kLargeShard = 512;

bool reduced(Precision precision) {
  return precision == Precision::bf16 || precision == Precision::fp16;
}

// what the layers of a row give, f32: of a convolution a value a cell, of a dense layer its outputs
int64_t row_outputs(const ActorCritic& network, const EnvSpec& spec) {
  int64_t cells = 1, outputs = 0;
  for (const auto& column : spec.observations) {
    const auto& grid = column.cells.bits ? column.cells.grid : column.shape;
    if (grid.size() >= 2) cells = std::max(cells, grid[0] * grid[1]);
  }
  for (const auto& p : network.parameters())
    if (p.dim() >= 2) outputs += p.size(0) * (p.dim() == 4 ? cells : 1);
  return outputs;
}

}  // namespace

bool on_panels(const Options& o, const AlgoContext& context, const ActorCritic& network) {
  return o.fused && context.device.is_cpu() && !reduced(context.precision) &&
         PanelNetwork::obstacle(network, context.spec).empty();
}

int64_t minibatch_rows(const Options& o, const AlgoContext& context) {
  return o.minibatch == 0 ? o.rollout * context.rows : o.minibatch;
}

int64_t shard_rows(const Options& o, const AlgoContext& context, const ActorCritic& network) {
  if (on_panels(o, context, network)) return kPanelRows;
  const int64_t minibatch = minibatch_rows(o, context);
  int64_t rows = o.shard_rows;
  if (context.device.is_cuda()) rows = minibatch;
  else if (rows == 0)
    rows = network.cost() > kLargeNetwork
               ? kLargeShard
               : std::clamp<int64_t>(kShardWork / network.cost(), 64, 1024);
  return std::min(rows, std::max<int64_t>(64, (minibatch + 1) / 2));
}

int64_t lane_count(int64_t minibatch, int64_t shard) {
  return std::min((minibatch + shard - 1) / shard, kMostLanes);
}

NetworkOptions network_options(const Options& o, const AlgoContext& context) {
  NetworkOptions network = o.network;
  network.bf16 = context.precision == Precision::bf16 && context.device.is_cpu();
  return network;
}

int64_t block_rows(const Options& o, const AlgoContext& context, const ActorCritic& network) {
  return context.device.is_cuda() ? context.rows
                                  : std::min<int64_t>(256, shard_rows(o, context, network));
}

DataPlan planned_data(const Options& options, const AlgoContext& context,
                      const ActorCritic& network) {
  DataPlan plan;
  plan.collect_steps = options.rollout;
  plan.columns = {{.name = "log_prob"}, {.name = "value", .has_last = true}};
  plan.block_rows = block_rows(options, context, network);
  plan.autocast = true;
  plan.capturable = context.device.is_cuda();
  return plan;
}

DataPlan planned_data(const Options& options, const AlgoContext& context) {
  const ActorCritic network(context.spec, network_options(options, context), Initializer::none());
  return planned_data(options, context, network);
}

std::vector<MemoryPart> planned_memory(const Options& o, const AlgoContext& context) {
  const ActorCritic network(context.spec, network_options(o, context), Initializer::none());
  constexpr int64_t f32 = 4;
  int64_t parameters = 0;
  for (const auto& p : network.parameters()) parameters += p.numel();
  const int64_t shard = shard_rows(o, context, network);
  const int64_t lanes = lane_count(minibatch_rows(o, context), shard);
  // at work at once; each row keeps what its layers give, its gradients and what fused layers add
  const int64_t threads = context.pool ? context.pool->threads() : 1;
  const int64_t working = context.device.is_cpu() ? std::min(threads, lanes) : 1;
  // advantages, returns, valid, targets, old values, errors; the permutation
  const int64_t row = 6 * f32 + 8;
  return {{"parameters and optimiser", 3 * f32 * parameters},
          {"gradients", lanes * f32 * parameters},
          {"activations", 3 * f32 * working * shard * row_outputs(network, context.spec)},
          {"advantages and targets", o.rollout * context.rows * row}};
}

}  // namespace maglev::ppo
