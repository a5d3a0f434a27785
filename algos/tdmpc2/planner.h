#pragma once
// Who plans: the plain reference, one program of fixed shape for a device, or panels on a
// processor.

#include "algos/tdmpc2/plan.h"
#include "algos/tdmpc2/world_model.h"

namespace maglev::tdmpc2 {

class Planner {
 public:
  virtual ~Planner() = default;

  /// Later plans are made with `model`, whose flat parameters are `params` [P] f32 (ModelLayout).
  /// Runs alone.
  virtual void publish(const WorldModel& model, const at::Tensor& params) = 0;
  /// Latents [N, D] f32 of what rows see [N, obs] f32, with their tasks' embeddings [N, T]
  /// (undefined without tasks), by the weights that were published. Not for images.
  virtual at::Tensor encode(const WorldModel& model, const at::Tensor& seen,
                            const at::Tensor& embedding) {
    return model.encode(seen, embedding);
  }
  /// A plan for every row of the request. On a processor any number of threads may be here at once,
  /// on a device one; a row's plan depends neither on them nor on the rows beside it.
  virtual Plan plan(const PlanRequest& request) = 0;
};

}  // namespace maglev::tdmpc2
