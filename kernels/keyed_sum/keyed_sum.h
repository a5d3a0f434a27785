#pragma once
// Rows added up by key: what comes back to rows that were gathered, each as often as it was taken.
// Every sum has one order, on a device too, without an atomic.

#include <cstdint>

namespace maglev {

struct KeyedSum {
  int64_t count;          ///< addends
  const int32_t* key;     ///< [count]: the row of out that one is added to; no row: it is left out
  const int32_t* source;  ///< [count]: the row that is added; null: row i
  const float* weight;    ///< [count]: times this; null: as it is
  const float* rows;      ///< [.., width]
  int64_t width;
  float* out;  ///< [keys, width], added to
  int64_t keys;
  // a device's alone
  const int32_t* sorted;  ///< [count], the keys in order
  const int64_t* order;   ///< [count]: which addend each is; equal keys in the addends' order
  float* partial;         ///< [keyed_sum_partials(count), width], scratch
  int32_t* partial_key;   ///< [keyed_sum_partials(count)], scratch
};

/// In the order of the addends.
void keyed_sum_cpu(const KeyedSum& args);

/// Addends that a block of a device adds. A key's addends that lie in several blocks leave a sum in
/// each, and these are added likewise, until one block has them all.
constexpr int64_t kKeyedAddends = 64;
constexpr int64_t keyed_sum_blocks(int64_t count) {
  return (count + kKeyedAddends - 1) / kKeyedAddends;
}
/// Sums that blocks leave, on all levels: two each, of the keys they begin and end with.
constexpr int64_t keyed_sum_partials(int64_t count) {
  int64_t all = 0;
  while (keyed_sum_blocks(count) > 1) all += count = 2 * keyed_sum_blocks(count);
  return all;
}

/// On `stream` (a cudaStream_t); returns a cudaError_t. Only in builds with device code.
int keyed_sum_cuda(const KeyedSum& args, void* stream);

}  // namespace maglev
