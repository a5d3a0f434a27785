#pragma once
// Sequences of a plan through the packed world model, a panel of up to 64 at a time from the first
// action to the value behind the horizon, all by one thread.
//
// Threads: a rollout is read-only; a scratch belongs to whoever works on it, and the panels of a
// round write values and actions of their own sequences only.

#include <vector>

#include "algos/tdmpc2/panels/packed_model.h"
#include "algos/tdmpc2/plan.h"
#include "kernels/noise/noise.h"

namespace maglev::tdmpc2 {

/// rows [count, width] row-major to columns [column, column + count) of a panel of kPlanStride.
void rows_to_columns(const float* rows, int64_t count, int64_t width, int64_t column, float* panel);

/// A panel's buffers.
struct RolloutScratch {
  RolloutScratch(const ModelShape& shape, const PackedModel& model);

  PanelMemory memory;
  PackedScratch net;
  float* z;                      ///< latents, words
  float* logits;                 ///< of a head [kBins or 2A][stride]
  float *noise, *numbers;        ///< [A][stride], and as rows
  float *action, *action_words;  ///< [A][stride] f32, and as words
  float *value, *live;  ///< [stride]: of the sequences so far, rewards and the chance to be alive
  float *head_value, *total;  ///< [stride]: of a head, and of both value heads
};

/// What an environment row's panels share during a plan.
struct RowPlan {
  RowPlan(const PlanSizes& sizes, const PackedModel& model, int64_t latent);

  /// Numbers [begin, begin + count) of the plan.
  NoiseFill numbers(int64_t begin, int64_t count) const;

  std::vector<float> actions;    ///< [H, S, A], policy trajectories first
  std::vector<float> values;     ///< [S]
  std::vector<float> mean, std;  ///< [H, A]
  std::vector<int64_t> elites;   ///< [E], best first
  std::vector<float> scores;     ///< [E], their weights
  std::vector<int64_t> pairs;    ///< [I, 2], value networks of each round
  const float* mask = nullptr;   ///< [A], 0 where the task has no such dimension, or null
  float discount = 1;
  NoiseFill fill{};  ///< of the plan, from number 0 on

  /// Where the sums of first layers begin: at the first latent, and elsewhere.
  SumStart dynamics_first, reward_first, dynamics, reward, policy, termination;
  std::vector<SumStart> q;
  std::vector<float> head;  ///< [2A], the policy's at the first latent
  // where policy trajectories have come to, in all rounds
  std::vector<float> policy_z;                   ///< words [words][P]
  std::vector<float> policy_value, policy_live;  ///< [P]
};

/// Sequences that share a panel: of those drawn each round [first, first + samples), and behind
/// the horizon, in the columns that are left, policy trajectories [first_policy, first_policy +
/// policies).
struct PanelJob {
  int64_t first, samples, first_policy, policies;
};
/// All sequences of a round in panels of at most `columns` drawn ones.
std::vector<PanelJob> panel_jobs(const PlanSizes& sizes, int64_t columns);

class PanelRollout {
 public:
  /// Keeps references.
  PanelRollout(const PlanOptions& options, const ModelShape& shape, const PackedModel& model)
      : options_(options), numbers_(options.sizes), shape_(shape), model_(model) {}

  /// Policy trajectories [first, first + count), once a plan: their actions, and all but the value
  /// behind the horizon.
  void roll_policy(RowPlan& row, int64_t first, int64_t count, RolloutScratch& w) const;
  /// Draws a job's sequences around the round's moments; their values into row.values.
  void evaluate(RowPlan& row, const PanelJob& job, int64_t round, RolloutScratch& w) const;

 private:
  void draw(const RowPlan& row, int64_t begin, int64_t rows, int64_t column,
            RolloutScratch& w) const;
  void finish_action(const RowPlan& row, RolloutScratch& w) const;
  void sample_actions(RowPlan& row, const PanelJob& job, int64_t round, int64_t t,
                      RolloutScratch& w) const;
  void store_actions(RowPlan& row, int64_t t, int64_t first, int64_t count,
                     const RolloutScratch& w) const;
  void step(const RowPlan& row, int64_t t, int64_t rows, float discount, RolloutScratch& w) const;
  void policy_action(const RowPlan& row, bool mean, RolloutScratch& w) const;
  void value_behind(const RowPlan& row, int64_t round, int64_t rows, RolloutScratch& w) const;

  const PlanOptions& options_;
  PlanNumbers numbers_;
  const ModelShape& shape_;
  const PackedModel& model_;
};

}  // namespace maglev::tdmpc2
