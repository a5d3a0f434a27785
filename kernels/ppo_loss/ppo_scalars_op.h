#pragma once
#include <vector>

#include <ATen/core/Tensor.h>

#include "engine/device/kernel.h"
#include "kernels/ppo_loss/ppo_scalars.h"

namespace maglev {

/// What PPO keeps on its device between minibatches, f32 where nothing else is said.
struct PpoState {
  at::Tensor steps_done;                        ///< scalar f64: environment rows so far
  at::Tensor lr;                                ///< scalar, this update's
  at::Tensor statistics;                        ///< [3], an AdvantageStatistics
  at::Tensor clip, entropy_coef, last_entropy;  ///< scalars
  at::Tensor stop;                              ///< scalar, not 0: no step is taken any more
  at::Tensor scalars;                           ///< [5], a PpoLossScalars
  at::Tensor figures;                           ///< [kPpoFigures]
};

/// Schedules of a run.
struct PpoSchedules {
  Schedule lr, clip, entropy;
  int64_t rows, total;  ///< of an update, of the run
};

/// As ppo_update: advances state.steps_done, writes lr, clip, entropy_coef and stop.
void ppo_update_(PpoState& state, const PpoSchedules& schedules);
/// As ppo_begin: writes state.scalars.
void ppo_begin_(PpoState& state, const PpoNumbers& numbers);
/// As ppo_end, from figures of lanes [lanes, kPpoFigures] f64: writes state.figures, stop and
/// last_entropy.
void ppo_end_(PpoState& state, const PpoNumbers& numbers, const at::Tensor& lane_figures);

/// The three beside plain ATen, for the kernel's table.
std::vector<KernelCase> ppo_scalar_cases(at::Device device);

}  // namespace maglev
