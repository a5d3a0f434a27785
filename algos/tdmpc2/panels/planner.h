#pragma once
// Plans on a processor: a thread takes a panel of up to 64 sequences through all steps of the
// horizon, every layer in its cache, without a barrier; what cannot change a plan is left out. Of
// the value networks only the drawn pair is evaluated, the first step's products with the latent
// are made once a row, and so are the trajectories of the policy.
//
// Threads: any number may plan at once; one of them gets the planner's own threads. A plan depends
// on neither. publish() runs alone.

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "algos/tdmpc2/panels/rollout.h"
#include "algos/tdmpc2/planner.h"
#include "base/core/thread_pool.h"
#include "engine/device/precision.h"

namespace maglev::tdmpc2 {

class PanelPlanner : public Planner {
 public:
  /// Why such plans cannot be made on panels, in a few words; empty when they can.
  static std::string obstacle(const ModelShape& shape, Precision precision, at::Device device);

  /// `precision` fp32 or bf16: of weights and activations; sums, values and moments are f32.
  /// `together`, at most kMostTogether: panels that share a layer's weights; 0: panels_together().
  PanelPlanner(const PlanOptions& options, const ModelShape& shape, Precision precision,
               int threads, int64_t together = 0);
  ~PanelPlanner() override;

  void publish(const WorldModel& model, const at::Tensor& params) override;
  /// By the engine's own arithmetic, so that a plan is the same on every processor.
  at::Tensor encode(const WorldModel& model, const at::Tensor& seen,
                    const at::Tensor& embedding) override;
  Plan plan(const PlanRequest& request) override;
  /// Into tensors that exist, contiguous, of the shapes Plan names. Allocates nothing once as many
  /// rows were planned.
  void plan_into(const PlanRequest& request, Plan& plan);

 private:
  struct Group;     ///< first layers of up to kPlanStride rows
  struct Encoding;  ///< the encoder's buffers
  struct Session;   ///< the rows of a plan
  template <class T>
  class Lease;

  void begin_rows(Session& session, const PlanRequest& request, int64_t first, int64_t rows) const;
  void first_layers(Group& group, const PlanRequest& request, int64_t first, int64_t rows) const;
  void begin_row(RowPlan& row, const PlanRequest& request, int64_t n) const;
  void roll_policy(RowPlan& row, int64_t part);
  void evaluate(RowPlan& row, int64_t part, int64_t round);
  void end_round(RowPlan& row) const;
  void finish_row(RowPlan& row, const PlanRequest& request, int64_t n, Plan& plan) const;

  PlanOptions options_;
  PlanNumbers numbers_;
  ModelShape shape_;
  PackedModel model_;
  PanelRollout rollout_;
  std::vector<float> embedding_;  ///< [tasks, T]
  std::vector<float> mask_;       ///< [tasks, A]
  std::vector<PanelJob> jobs_;    ///< of a row and round
  int64_t together_;              ///< of them that share a layer's weights
  int64_t policy_rows_;           ///< of a panel of policy trajectories

  ThreadPool pool_;
  std::mutex pool_mutex_, lease_mutex_;
  std::vector<std::unique_ptr<RolloutScratch>> scratches_;  ///< idle ones
  std::vector<std::unique_ptr<Session>> sessions_;          ///< idle ones
  std::vector<std::unique_ptr<Encoding>> encodings_;        ///< idle ones
};

}  // namespace maglev::tdmpc2
