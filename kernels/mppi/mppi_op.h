#pragma once
#include <ATen/core/Tensor.h>

#include "kernels/mppi/mppi.h"

namespace maglev {

// the steps of mppi.h on `device`, where all pointers lie; graph-safe, and counted by name in
// torch's profiler
void mppi_begin(const MppiBegin& args, at::Device device);
void mppi_sample(const MppiSample& args, at::Device device);
void mppi_policy(const MppiPolicy& args, at::Device device);
void mppi_reward(const MppiReward& args, at::Device device);
void mppi_total(const MppiTotal& args, at::Device device);
void mppi_elites(const MppiElites& args, at::Device device);
void mppi_choose(const MppiChoose& args, at::Device device);

}  // namespace maglev
