#pragma once
#include <cstdint>
#include <vector>

#include <ATen/core/Tensor.h>

namespace maglev {

/// Adds to `sums` [2, categories] f32, whose rows are contiguous: in row 0 how often each category
/// of
/// `action` [rows, heads] i32 was taken, in row 1 of how many actions; rows whose `reset` [rows] u8
/// is not 0 took none. `heads`: the categories of each head, at most kCountedCategories together.
/// Exact below 2^24. Graph-safe.
void count_actions_(const at::Tensor& sums, const at::Tensor& action, const at::Tensor& reset,
                    const std::vector<int64_t>& heads);

}  // namespace maglev
