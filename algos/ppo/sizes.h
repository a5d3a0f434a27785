#pragma once
// How PPO cuts rollouts and minibatches, from settings and network alone, and what that takes.

#include <cstdint>
#include <vector>

#include "algos/ppo/options.h"
#include "engine/algo/algorithm.h"
#include "engine/nn/actor_critic.h"

namespace maglev::ppo {

/// The network's settings, in the run's precision.
NetworkOptions network_options(const Options& options, const AlgoContext& context);
/// Whether fused kernels do the work of a network, a panel of rows at a time.
bool on_panels(const Options& options, const AlgoContext& context, const ActorCritic& network);
/// Rows act gets at once.
int64_t block_rows(const Options& options, const AlgoContext& context, const ActorCritic& network);

int64_t minibatch_rows(const Options& options, const AlgoContext& context);
int64_t shard_rows(const Options& options, const AlgoContext& context, const ActorCritic& network);
/// Gradient buffers of a minibatch cut into such shards.
int64_t lane_count(int64_t minibatch, int64_t shard);

DataPlan planned_data(const Options& options, const AlgoContext& context,
                      const ActorCritic& network);
/// The plan and the memory of such an algorithm, without making it.
DataPlan planned_data(const Options& options, const AlgoContext& context);
std::vector<MemoryPart> planned_memory(const Options& options, const AlgoContext& context);

}  // namespace maglev::ppo
