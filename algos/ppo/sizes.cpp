#include "algos/ppo/sizes.h"

#include <algorithm>
#include <string>

#include <ATen/ATen.h>

#include "algos/ppo/panels.h"
#include "algos/ppo/policy.h"
#include "engine/device/launch.h"

namespace maglev::ppo {
namespace {

// multiply-adds a shard should have, so that its operations outweigh their dispatch and what is done
// once a shard with all weights: gradients set to zero, made, added
constexpr int64_t kShardWork = 64'000'000;
// the same of a block that acts, which makes no gradients
constexpr int64_t kBlockWork = 16'000'000;
// rows of a product that a shard has where a row costs this many multiply-adds, so that reading
// weights counts little; and the least rows of a shard, of these and of others
constexpr int64_t kLargeNetwork = 1'000'000, kLargeShard = 512;
constexpr int64_t kLeastLargeShard = 128, kLeastShard = 64;
// rows act gets at once, where threads share them
constexpr int64_t kLeastBlock = 64, kMostBlock = 256;

std::shared_ptr<ActorCritic> unmade(const Options& o, const AlgoContext& context) {
  return make_network(o.network, network_context(context), Initializer::shapes());
}

int64_t parameter_count(const ActorCritic& network) {
  int64_t count = 0;
  for (const auto& p : network.parameters()) count += p.numel();
  return count;
}

// rows of a shard that is cut for threads
int64_t thread_rows(const Options& o, const AlgoContext& context, const ActorCritic& network) {
  int64_t rows = o.shard_rows;
  const RowCost cost = network.cost();
  const int64_t work = cost.multiply_adds, batch = minibatch_rows(o, context);
  if (rows == 0)
    rows = work > kLargeNetwork ? std::max(kLeastLargeShard, kLargeShard / cost.uses)
                                : std::clamp<int64_t>(kShardWork / work, kLeastShard, 1024);
  rows = std::min(rows, std::max(kLeastShard, (batch + 1) / 2));
  if (o.shard_rows > 0) return rows;
  // a minibatch's shards as even as can be: threads end together
  const int64_t shards = std::max<int64_t>(1, (batch + rows / 2) / rows);
  return (batch + shards - 1) / shards;
}

}  // namespace

int64_t minibatch_rows(const Options& o, const AlgoContext& context) {
  return o.minibatch == 0 ? o.rollout * context.rows : o.minibatch;
}

int64_t shard_rows(const Options& o, const AlgoContext& context, const ActorCritic& network) {
  if (Panels::suit(o, context, network)) return Panels::sizes(context.device).rows;
  // off panels a device and the reference take a minibatch as a whole
  if (!o.fused || runs_on_cuda(context.device)) return minibatch_rows(o, context);
  return thread_rows(o, context, network);
}

int64_t lane_count(const AlgoContext& context, int64_t minibatch, int64_t shard) {
  return std::min((minibatch + shard - 1) / shard, Panels::sizes(context.device).lanes);
}

int64_t panel_rows_at_once(const Options& o, const AlgoContext& context) {
  return std::max(minibatch_rows(o, context), (o.rollout + 1) * context.rows);
}

bool takes_pairs(const Options& o, const AlgoContext& context, const ActorCritic& network) {
  return pairs_suit(context) && Panels::suit(o, context, network);
}

int64_t block_rows(const Options& o, const AlgoContext& context, const ActorCritic& network) {
  if (runs_on_cuda(context.device)) return context.rows;
  if (Panels::suit(o, context, network)) return Panels::sizes(context.device).rows;
  const int64_t work = network.cost().multiply_adds;
  const int64_t rows =
      work > kLargeNetwork ? kMostBlock : std::clamp(kBlockWork / work, kLeastBlock, kMostBlock);
  // a shard's memory is enough for it
  return std::min(rows, thread_rows(o, context, network));
}

DataPlan planned_data(const Options& o, const AlgoContext& context) {
  DataPlan plan;
  plan.collect_steps = o.rollout;
  plan.columns = {{.name = "log_prob"}, {.name = "value", .has_last = true}};
  plan.block_rows = block_rows(o, context, *unmade(o, context));
  plan.precisions = {Precision::bf16, Precision::fp16};
  plan.capturable = runs_on_cuda(context.device);
  return plan;
}

std::vector<MemoryPart> planned_memory(const Options& o, const AlgoContext& context) {
  const auto made = unmade(o, context);
  const ActorCritic& network = *made;
  constexpr int64_t f32 = 4;
  const int64_t parameters = parameter_count(network);
  const int64_t shard = shard_rows(o, context, network);
  const int64_t lanes = lane_count(context, minibatch_rows(o, context), shard);
  // at work at once; each row keeps what its layers give, its gradients and what fused layers add
  const int64_t threads = context.pool ? context.pool->threads() : 1;
  int64_t working = std::min(threads, lanes);
  if (runs_on_cuda(context.device))
    working = Panels::suit(o, context, network)
                  ? lane_count(context, panel_rows_at_once(o, context), shard)
                  : 1;
  // advantages, returns, valid, targets, old values, errors; the permutation
  const int64_t row = 6 * f32 + 8;
  // in pairs each weight twice, straight and turned, and each activation, both ways
  const int64_t pairs = takes_pairs(o, context, network) ? 1 : 0;
  std::vector<MemoryPart> parts{
      {"parameters and optimiser", (3 + pairs) * f32 * parameters},
      {"gradients", lanes * f32 * parameters},
      {"activations", (3 + pairs) * f32 * working * shard * network.cost().outputs},
      {"advantages and targets", o.rollout * context.rows * row}};
  // the policy it is held by; rewards, drift, valid
  if (o.leash > 0) {
    int64_t leash = f32 * 3 * o.rollout * context.rows;
    for (const MemoryPart& part : planned_policy_memory(o, context)) leash += part.bytes;
    parts.push_back({"leash", leash});
  }
  return parts;
}

std::vector<MemoryPart> planned_policy_memory(const Options& o, const AlgoContext& context) {
  const auto made = unmade(o, context);
  const ActorCritic& network = *made;
  constexpr int64_t f32 = 4;
  const int64_t parameters = parameter_count(network);
  // a thread acts for a block of rows at a time
  const int64_t threads =
      context.pool && !runs_on_cuda(context.device) ? context.pool->threads() : 1;
  const int64_t pairs = takes_pairs(o, context, network) ? 1 : 0;
  return {{"parameters", (1 + pairs) * f32 * parameters},
          {"activations",
           (1 + pairs) * f32 * threads * block_rows(o, context, network) * network.cost().outputs}};
}

}  // namespace maglev::ppo
