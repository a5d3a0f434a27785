#pragma once
#include <ATen/core/Tensor.h>

#include "base/core/thread_pool.h"

namespace maglev {

/// Scratch of what follows for up to `count` rows, on `device`.
at::Tensor advantage_scratch(int64_t count, at::Device device);

/// Mean, 1 / (std + 1e-8) and 1 / count of advantage [M] f32 over rows where valid [M] f32 is 1, of
/// the positions `index` [count] i64 or, where it is undefined, of all. Any shape of M elements,
/// contiguous, on one device; on the CPU the pool's threads share it.
///   out [3] f32, an AdvantageStatistics, written
void advantage_statistics_(at::Tensor& out, const at::Tensor& advantage, const at::Tensor& valid,
                           const at::Tensor& index, at::Tensor& scratch, ThreadPool& pool);

/// The same in ATen, in f64; returns [3] f32.
at::Tensor advantage_statistics_reference(const at::Tensor& advantage, const at::Tensor& valid,
                                          const at::Tensor& index);

/// 1 - Var(target - value) / Var(target) over valid rows; NaN where targets are constant. target,
/// value, valid: M elements each, f32, contiguous, on one device.
///   out scalar f32, written; `error` like target is scratch of the CPU's
void explained_variance_(at::Tensor& out, const at::Tensor& target, const at::Tensor& value,
                         const at::Tensor& valid, at::Tensor& error, at::Tensor& scratch,
                         ThreadPool& pool);

/// The same in ATen, in f64; returns a scalar f32.
at::Tensor explained_variance_reference(const at::Tensor& target, const at::Tensor& value,
                                        const at::Tensor& valid);

}  // namespace maglev
