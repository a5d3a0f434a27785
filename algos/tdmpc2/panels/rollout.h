#pragma once
// Sequences of a plan through the packed world model, in panels of up to 64 from the first action
// to the value behind the horizon, some panels together, all by one thread.
//
// Threads: a rollout is read-only; a scratch belongs to whoever works on it, and the panels of a
// round write values and actions of their own sequences only.

#include <span>
#include <vector>

#include "algos/tdmpc2/panels/packed_model.h"
#include "algos/tdmpc2/plan.h"
#include "kernels/noise/noise.h"

namespace maglev::tdmpc2 {

/// rows [count, width] row-major to columns [column, column + count) of a panel of kPlanStride.
void rows_to_columns(const float* rows, int64_t count, int64_t width, int64_t column, float* panel);

/// What a panel holds from one step to the next.
struct RolloutPanel {
  float* z;                      ///< latents, words
  float* logits;                 ///< of a head [kBins or 2A][stride]
  float* noise;                  ///< [A][stride]
  float *action, *action_words;  ///< [A][stride] f32, and as words
  float *value, *live;  ///< [stride]: of the sequences so far, rewards and the chance to be alive
  float* total;         ///< [stride]: of both value heads
};

/// A thread's buffers for at most `panels` of them together.
struct RolloutScratch {
  RolloutScratch(const ModelShape& shape, const PackedModel& model, int64_t panels);

  PanelMemory memory;
  PackedScratch net;
  std::vector<RolloutPanel> panels;
  float* numbers;     ///< [A][stride], as rows
  float* head_value;  ///< [stride], of a head
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
  /// behind the horizon. At most a panel of them.
  void roll_policy(RowPlan& row, int64_t first, int64_t count, RolloutScratch& w) const;
  /// Draws the jobs' sequences around the round's moments; their values into row.values. A job is a
  /// panel of the scratch's.
  void evaluate(RowPlan& row, std::span<const PanelJob> jobs, int64_t round,
                RolloutScratch& w) const;

 private:
  void draw(const RowPlan& row, int64_t begin, int64_t rows, int64_t column, float* numbers,
            RolloutPanel& panel) const;
  void finish_action(const RowPlan& row, RolloutPanel& panel) const;
  void sample_actions(RowPlan& row, const PanelJob& job, int64_t round, int64_t t, float* numbers,
                      RolloutPanel& panel) const;
  void store_actions(RowPlan& row, int64_t t, int64_t first, int64_t count,
                     const RolloutPanel& panel) const;
  void step(const RowPlan& row, int64_t t, std::span<const int64_t> rows, float discount,
            RolloutScratch& w) const;
  void policy_action(const RowPlan& row, bool mean, RolloutPanel& panel) const;
  void join_policies(const RowPlan& row, const PanelJob& job, RolloutPanel& panel) const;
  void value_behind(const RowPlan& row, int64_t round, std::span<const int64_t> rows,
                    RolloutScratch& w) const;

  const PlanOptions& options_;
  PlanNumbers numbers_;
  const ModelShape& shape_;
  const PackedModel& model_;
};

}  // namespace maglev::tdmpc2
