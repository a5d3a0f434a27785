#pragma once
// How PPO cuts its work, and what it will hold: functions of settings and sizes alone, so that a
// run does not depend on how many threads there are.

#include <cstdint>
#include <vector>

#include "algos/ppo/options.h"
#include "engine/algo/algorithm.h"
#include "engine/nn/actor_critic.h"

namespace maglev::ppo {

/// Rows of an optimiser step that this process learns from: of ppo.minibatch, or the whole rollout.
int64_t minibatch_rows(const Options& options, const AlgoContext& context);
/// Environment rows of all updates of a run, of all processes: schedules go over these.
int64_t scheduled_rows(const Options& options, const AlgoContext& context);
/// Whether the network will be on panels.
bool learns_on_panels(const Options& options, const AlgoContext& context);
/// Rows learned from at once: a panel, a shard of a thread, or the whole minibatch.
int64_t shard_rows(const Options& options, const AlgoContext& context, const ActorCritic& network);
/// Gradient buffers a minibatch cut into shards of `shard` rows is added up in.
int64_t lane_count(const AlgoContext& context, int64_t minibatch, int64_t shard);
/// Rows panels get at once at most: a time step's, a minibatch's, or a rollout's to find their
/// values.
int64_t panel_rows_at_once(const Options& options, const AlgoContext& context);
/// Rows act gets at once.
int64_t block_rows(const Options& options, const AlgoContext& context, const ActorCritic& network);
/// Rows from which it pays that another thread acts for them.
int64_t least_rows(const Options& options, const AlgoContext& context, const ActorCritic& network);
/// Rows of a time step that a thread acts for (block_rows of engine/data/step_window.h).
int64_t acting_rows(const Options& options, const AlgoContext& context, const ActorCritic& network);
/// "ppo.shard_rows=32", where shards of the network's size leave threads of `context` without one
/// and smaller ones would not; else empty. Advice for people, by which nothing is computed.
std::string for_more_threads(const Options& options, const AlgoContext& context,
                             const ActorCritic& network);

/// The plan and the memory of such an algorithm, without making it.
DataPlan planned_data(const Options& options, const AlgoContext& context);
std::vector<MemoryPart> planned_memory(const Options& options, const AlgoContext& context);
/// Of a policy that only acts.
std::vector<MemoryPart> planned_policy_memory(const Options& options, const AlgoContext& context);
/// What an iteration of such an algorithm computes.
std::vector<StageWork> planned_work(const Options& options, const AlgoContext& context);

}  // namespace maglev::ppo
