#pragma once
#include <ATen/core/Tensor.h>

namespace maglev {

/// Mean, 1 / (std + 1e-8) and 1 / count of advantage [M] f32 over rows where valid [M] f32 is 1, of
/// the positions `index` [count] i64 or, where it is undefined, of all. Contiguous, on one device.
///   returns [3] f32
at::Tensor advantage_statistics(const at::Tensor& advantage, const at::Tensor& valid,
                                const at::Tensor& index);

/// The same in ATen, in f64.
at::Tensor advantage_statistics_reference(const at::Tensor& advantage, const at::Tensor& valid,
                                          const at::Tensor& index);

}  // namespace maglev
