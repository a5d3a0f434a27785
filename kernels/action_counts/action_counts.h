#pragma once
// How often each category of an action was taken: integers in f32 sums that others read as shares.

#include <cstdint>

namespace maglev {

/// Categories of all heads together that are counted; with more nobody could look at them.
constexpr int kCountedCategories = 32;

struct ActionCountArgs {
  const int32_t* action;  ///< [rows, heads], each within its head
  const uint8_t* reset;   ///< [rows]: 1 where the step only began an episode and took no action
  int64_t rows;
  int heads, categories;              ///< categories: of all heads, at most kCountedCategories
  int32_t begin[kCountedCategories];  ///< where the categories of each head begin
  float* counts;  ///< [categories] += how often it was taken; exact below 2^24, in any order
  float* taken;   ///< [categories] += rows that took an action
};

void action_counts_cpu(const ActionCountArgs& args);
/// On `stream` (a cudaStream_t); returns a cudaError_t. Only in builds with device code.
int action_counts_cuda(const ActionCountArgs& args, void* stream);

}  // namespace maglev
