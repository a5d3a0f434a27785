#pragma once
// Kernels that each do one thing wrong, and their right forms: what the emulated device must catch,
// and what it must let pass. Functions launch and throw Fault.

#include <cstdint>

#include <cuda_runtime.h>

namespace maglev::faults {

/// 64 threads turn 64 numbers around through shared memory.
void reverse(const float* x, float* out, bool barrier);
/// Sums of 32 lanes through shared memory, ordered by __syncwarp or by nothing.
void pairs(const float* x, float* out, bool sync);
/// The first `threads` of 64 wait for the others.
void some_wait(int threads);
/// Both halves of a block wait, each at a barrier of its own.
void two_barriers();
/// out[i] = 2 x[i] in `blocks` blocks of 32, whatever `out` holds.
void twice(const float* x, float* out, int64_t blocks, cudaStream_t stream = nullptr);
void twice_bytes(const uint8_t* x, uint8_t* out, int64_t blocks);
/// Reads shared memory that one thread did not write.
void reads_unwritten_shared(float* out);
/// Writes one behind 32 shared numbers.
void writes_behind_shared(float* out);
void writes_behind_dynamic_shared(int64_t bytes);
/// 2 blocks of 32 threads count themselves.
void count(unsigned long long* counter, bool atomic);
/// Lanes of a warp add up, after all but `lanes` have ended.
void sum_of_some(float* out, int lanes);
/// out = first + x of 32 numbers each; `first` is read before the launch ahead is waited for.
void adds_early(const float* first, const float* x, float* out);
/// Writes 32 numbers before it waits for the launch ahead.
void writes_early(float* out);
/// The first `threads` of 32 wait for the launch ahead, the others end.
void some_wait_for_earlier(float* out, int threads);
/// Launches past the header that refuses it.
void launch_of(dim3 grid, dim3 block, size_t shared_bytes);
/// A block with 60 KiB of static shared memory.
void uses_much_shared(float* out);
/// What the launch header returns for a grid of `blocks` blocks of `threads`.
int launched(int64_t blocks, int64_t threads);

}  // namespace maglev::faults
