#pragma once
// The plan as it is written down, one environment row after another in plain operations, all value
// networks evaluated and nothing shared: what the other planners are held to.

#include "algos/tdmpc2/planner.h"

namespace maglev::tdmpc2 {

class ReferencePlanner : public Planner {
 public:
  explicit ReferencePlanner(const PlanOptions& options);

  /// Keeps views: `model` and `params` must outlive it.
  void publish(const WorldModel& model, const at::Tensor& params) override;
  Plan plan(const PlanRequest& request) override;

 private:
  struct Context;  ///< of one row

  void plan_row(const PlanRequest& request, int64_t row, Plan& plan) const;
  at::Tensor normals(const Context& row, int64_t begin, at::IntArrayRef sizes) const;
  at::Tensor uniforms(const Context& row, int64_t begin, int64_t count) const;
  /// Values [S] of action sequences [H, S, A], in round `round`.
  at::Tensor values(const Context& row, const at::Tensor& actions, int64_t round) const;

  PlanOptions options_;
  PlanNumbers numbers_;
  const WorldModel* model_ = nullptr;
  StackedMlp q_;
};

}  // namespace maglev::tdmpc2
