#pragma once
#include <vector>

#include <ATen/core/Tensor.h>

#include "base/core/thread_pool.h"
#include "engine/device/kernel.h"
#include "kernels/ppo_loss/ppo_scalars.h"

namespace maglev {

/// What PPO keeps on its device between minibatches, f32 where nothing else is said.
struct PpoState {
  at::Tensor steps_done;  ///< scalar f64: environment rows so far
  at::Tensor lr;          ///< scalar, this update's
  at::Tensor statistics;  ///< [3], an AdvantageStatistics
  at::Tensor clip, value_clip, entropy_coef, entropy_floor;  ///< scalars, this update's
  at::Tensor last_entropy;                                   ///< scalar
  at::Tensor stop;     ///< scalar, not 0: no step is taken any more
  at::Tensor scalars;  ///< [6], a PpoLossScalars
  at::Tensor figures;  ///< [kPpoFigures]
  at::Tensor counts;   ///< scalar, whether the last minibatch counts
};

/// The rows a minibatch's advantages come from; see advantage_statistics_.
struct PpoAdvantages {
  at::Tensor advantage, valid;  ///< [M]
  at::Tensor index;             ///< [count] i64
  at::Tensor scratch;           ///< advantage_scratch
};

/// Schedules of a run.
struct PpoSchedules {
  Schedule lr, clip, value_clip, entropy, entropy_floor;
  int64_t rows, total;  ///< of an update, of the run
};

/// As ppo_update: advances state.steps_done, writes lr, clip, value_clip, entropy_coef,
/// entropy_floor and stop.
void ppo_update_(PpoState& state, const PpoSchedules& schedules);
/// Statistics of the minibatch's advantages, then as ppo_begin: writes state.statistics and
/// scalars.
void ppo_begin_(PpoState& state, const PpoNumbers& numbers, PpoAdvantages& rows, ThreadPool& pool);
/// As ppo_end, from figures of lanes [lanes, kPpoFigures] f64: writes state.figures, counts, stop
/// and last_entropy.
void ppo_end_(PpoState& state, const PpoNumbers& numbers, const at::Tensor& lane_figures);
/// As ppo_report_step and ppo_report_update: add to `sums` [2, K] f32, a row of sums and one of
/// weights, from column `first` on.
///   norm, explained, nonfinite, scale scalars f32; epochs_done scalar i64
void ppo_report_step_(const PpoState& state, const at::Tensor& norm, const at::Tensor& sums,
                      int64_t first);
struct PpoUpdateFigures {
  at::Tensor explained, nonfinite, scale;
};
void ppo_report_update_(const PpoUpdateFigures& figures, const at::Tensor& sums, int64_t first,
                        int64_t epochs, const at::Tensor& epochs_done);

/// All of them beside plain ATen, for the kernel's table.
std::vector<KernelCase> ppo_scalar_cases(at::Device device);

}  // namespace maglev
