#pragma once
// A tile of rows through the layers of kernels/actor_critic and back, by a block of threads.

#include <cuda_runtime.h>

#include "base/device/warp.cuh"
#include "kernels/actor_critic/actor_critic.h"

// Arithmetic of a multiprocessor, whose nearest memory returns 128 bytes a clock: a thread keeps
// kEach x kEach sums, and a step over four numbers of depth reads 2 x kEach times 16 bytes for 64
// multiply-adds. A warp's 8 reads are 32 clocks where its multiply-adds are 16, so half of the peak
// is what can be had; 2 rows by 4 outputs would be a third. A network of two stacks 4-64-64 is 27
// thousand multiply-adds a row there and back: 6,750 clocks of a tile at the peak. By nvcc's code
// a tile takes 60 thousand instructions, 15 thousand clocks to issue them, and reads and writes of
// 18 thousand clocks.

namespace maglev::tiles {

constexpr int kWarps = 8, kThreads = kWarps * kWarpThreads;
constexpr int kRows = int(kTileRows), kStride = int(kTileStride);
constexpr int kEach = 4;  // numbers of both sides that a thread has sums of
// a warp's piece of a layer: kPiece features of all rows
constexpr int kRowGroups = kRows / kEach, kPiece = kWarpThreads / kRowGroups * kEach;
// a warp's piece of a weight's gradient: kPiece outputs of kPieceIn inputs
constexpr int kOutLanes = kPiece / kEach, kInLanes = kWarpThreads / kOutLanes;
constexpr int kPieceIn = kInLanes * kEach;
constexpr int kFew = kOutLanes;  // outputs of a layer that a warp's threads have one each of
static_assert(kRows == kWarpThreads && kOutLanes == kWarpThreads / kRowGroups);

// z becomes y; the slopes of silu are written
__device__ inline void activate(Activation activation, float (&z)[kEach], float* slope) {
  switch (activation) {
    case Activation::tanh:
#pragma unroll
      for (int r = 0; r < kEach; ++r) z[r] = tanhf(z[r]);
      break;
    case Activation::relu:  // a NaN stays one, which fmaxf makes 0 of
#pragma unroll
      for (int r = 0; r < kEach; ++r) z[r] = z[r] < 0.f ? 0.f : z[r];
      break;
    case Activation::silu:
#pragma unroll
      for (int r = 0; r < kEach; ++r) {
        const float share = 1.f / (1.f + expf(-z[r]));
        slope[r] = share * (1.f + z[r] * (1.f - share));
        z[r] *= share;
      }
      break;
    default:
      break;
  }
}

// x times the layer's slope where it gave y; `slope` is what it wrote besides
__device__ inline void times_slope(Activation activation, const float (&y)[kEach],
                                   const float* slope, float (&x)[kEach]) {
  switch (activation) {
    case Activation::tanh:
#pragma unroll
      for (int r = 0; r < kEach; ++r) x[r] *= 1.f - y[r] * y[r];
      break;
    case Activation::relu:
#pragma unroll
      for (int r = 0; r < kEach; ++r) x[r] *= y[r] > 0.f ? 1.f : 0.f;
      break;
    case Activation::silu:
#pragma unroll
      for (int r = 0; r < kEach; ++r) x[r] *= slope[r];
      break;
    default:
      break;
  }
}

// where the block's tile lies when it does not fit
__device__ inline float* global_tile(const ActorCriticArgs& net) {
  return net.tiles + blockIdx.x * net.tile_floats;
}

__device__ inline int thread_in_warp() { return int(threadIdx.x) % kWarpThreads; }
__device__ inline int warp() { return int(threadIdx.x) / kWarpThreads; }
__device__ inline int pieces_of(int64_t features, int size) {
  return (int(features) + size - 1) / size;
}

// four numbers that lie side by side, in one read; they begin at 16 bytes
__device__ inline void read_four(const float* from, float (&to)[kEach]) {
  const float4 x = *reinterpret_cast<const float4*>(from);
  to[0] = x.x, to[1] = x.y, to[2] = x.z, to[3] = x.w;
}
__device__ inline void write_four(float* to, const float (&from)[kEach]) {
  *reinterpret_cast<float4*>(to) = {from[0], from[1], from[2], from[3]};
}

// four weights at offset[0..3]; aligned ones lie side by side. Known where this is compiled, so
// that reads of many weights are on their way together.
template <bool kAligned>
__device__ inline void read_weights(const float* row, const int (&offset)[kEach],
                                    float (&to)[kEach]) {
  if constexpr (kAligned) {
    read_four(row + offset[0], to);
  } else {
#pragma unroll
    for (int i = 0; i < kEach; ++i) to[i] = row[offset[i]];
  }
}

__device__ inline bool has_aligned_rows(const DenseLayer& layer) {
  return layer.in % kEach == 0 && reinterpret_cast<uintptr_t>(layer.weight) % 16 == 0;
}

// rows at[0..rows), or first .. without, of all columns into the tile; 0 behind them
__device__ __forceinline__ void load(const ActorCriticArgs& net, float* tile, const int64_t* at,
                                     int64_t first, int rows) {
  for (int c = 0; c < net.column_count; ++c) {
    const TileColumn& column = net.columns[c];
    for (int e = int(threadIdx.x); e < kRows * column.elements; e += kThreads) {
      // neighbours read what lies side by side in a row
      const int r = e / column.elements, d = e % column.elements;
      float x = 0.f;
      if (r < rows) {
        const int64_t from = (at ? at[r] : first + r) * column.elements + d;
        x = column.dtype == DType::f32 ? reinterpret_cast<const float*>(column.rows)[from]
            : column.dtype == DType::i32
                ? float(reinterpret_cast<const int32_t*>(column.rows)[from])
                : float(reinterpret_cast<const uint8_t*>(column.rows)[from]);
        if (column.mean) {
          const float scaled = (x - column.mean[d]) * (1.f / sqrtf(column.var[d] + 1e-8f));
          x = scaled < -column.clip ? -column.clip : scaled > column.clip ? column.clip : scaled;
        }
      }
      tile[column.to + d * kStride + r] = x;
      if (column.again >= 0) tile[column.again + d * kStride + r] = x;
    }
  }
}

// sums[output][row] of kOuts outputs from `first` on and kEach rows from x on; outputs behind the
// last one are computed as the last
template <int kOuts, bool kAligned>
__device__ __forceinline__ void forward_sums(const DenseLayer& layer, const float* x, int first,
                                             float (&sum)[kOuts][kEach]) {
  const int in = int(layer.in), out = int(layer.out);
  const float* row[kOuts];
#pragma unroll
  for (int i = 0; i < kOuts; ++i) {
    const int o = min(first + i, out - 1);
    row[i] = layer.weight + o * in;
    const float bias = layer.bias[o];
#pragma unroll
    for (int r = 0; r < kEach; ++r) sum[i][r] = bias;
  }
  int k = 0;
#pragma unroll(kOuts == 1 ? 4 : 2)
  for (; k + kEach <= in; k += kEach) {
    float w[kOuts][kEach], from[kEach][kEach];
    const int offset[kEach] = {k, k + 1, k + 2, k + 3};
#pragma unroll
    for (int i = 0; i < kOuts; ++i) read_weights<kAligned>(row[i], offset, w[i]);
#pragma unroll
    for (int j = 0; j < kEach; ++j) read_four(x + (k + j) * kStride, from[j]);
#pragma unroll
    for (int j = 0; j < kEach; ++j)
#pragma unroll
      for (int i = 0; i < kOuts; ++i)
#pragma unroll
        for (int r = 0; r < kEach; ++r) sum[i][r] = fmaf(w[i][j], from[j][r], sum[i][r]);
  }
  for (; !kAligned && k < in; ++k) {
    float from[kEach];
    read_four(x + k * kStride, from);
#pragma unroll
    for (int i = 0; i < kOuts; ++i)
#pragma unroll
      for (int r = 0; r < kEach; ++r) sum[i][r] = fmaf(row[i][k], from[r], sum[i][r]);
  }
}

// a warp's piece of a layer: outputs first .. of all rows, kOuts a thread
template <int kOuts>
__device__ __forceinline__ void forward_piece(const TileLayer& l, const float* x, int first,
                                              float* tile) {
  const int out = int(l.layer.out), rows = thread_in_warp() % kRowGroups * kEach;
  first += thread_in_warp() / kRowGroups * kOuts;
  float sum[kOuts][kEach];
  if (has_aligned_rows(l.layer)) forward_sums<kOuts, true>(l.layer, x + rows, first, sum);
  else forward_sums<kOuts, false>(l.layer, x + rows, first, sum);
  float* y = tile + l.y + first * kStride + rows;
#pragma unroll
  for (int i = 0; i < kOuts; ++i)
    if (first + i < out) write_four(y + i * kStride, sum[i]);
  if (l.layer.activation == Activation::none) return;
  // read back, so that the code of an activation is there for four numbers, not for sixteen
  float* slope = tile + l.slope + first * kStride + rows;
#pragma unroll 1
  for (int i = 0; i < min(kOuts, out - first); ++i) {
    float z[kEach];
    read_four(y + i * kStride, z);
    activate(l.layer.activation, z, slope + i * kStride);
    write_four(y + i * kStride, z);
  }
}

// Stacks from .. to of the network stand beside each other on the shared one: layer l of all of
// them is one step, so that no warp waits while another stack has work.
struct Steps {
  int from, to, shared, count;

  __device__ Steps(const ActorCriticArgs& net, int first, int last)
      : from(first), to(last), shared(int(net.stacks[kSharedStack].count)), count(0) {
    for (int s = from; s <= to; ++s) count = max(count, int(net.stacks[s].count));
    count += shared;
  }
};
// what of the network a step has: layer `layer` of stacks from .. to, as far as they have it
struct Step {
  int from, to, layer;

  __device__ Step(const Steps& steps, int step)
      : from(step < steps.shared ? int(kSharedStack) : steps.from),
        to(step < steps.shared ? int(kSharedStack) : steps.to),
        layer(step < steps.shared ? step : step - steps.shared) {}
};

__device__ inline int64_t inputs_of(const TileStack& stack, int layer) {
  return layer > 0 ? stack.layers[layer - 1].y : stack.x;
}

__device__ __forceinline__ void forward(const ActorCriticArgs& net, const Steps& steps,
                                        float* tile) {
  for (int s = 0; s < steps.count; ++s) {
    const Step step(steps, s);
    int turn = warp();  // of the step's pieces every kWarps-th is this warp's
    for (int of = step.from; of <= step.to; ++of) {
      const TileStack& stack = net.stacks[of];
      if (step.layer >= stack.count) continue;
      const TileLayer& l = stack.layers[step.layer];
      const float* x = tile + inputs_of(stack, step.layer);
      const int pieces = pieces_of(l.layer.out, kPiece);
      for (; turn < pieces; turn += kWarps) {
        // few outputs, as heads have: one a thread
        if (l.layer.out <= kFew) forward_piece<1>(l, x, 0, tile);
        else forward_piece<kEach>(l, x, turn * kPiece, tile);
      }
      turn -= pieces;
    }
    __syncthreads();
  }
}

// sum[input][row] += over o of W[o][input] dz[o][row], of kEach inputs from `first` on and kEach
// rows from dz on; inputs behind the last one are computed as the last
template <bool kAligned>
__device__ __forceinline__ void add_input_sums(const DenseLayer& layer, const float* dz, int first,
                                               float (&sum)[kEach][kEach]) {
  const int in = int(layer.in), out = int(layer.out);
  int offset[kEach];
#pragma unroll
  for (int i = 0; i < kEach; ++i)
    offset[i] = kAligned ? min(first, in - kEach) + i : min(first + i, in - 1);
#pragma unroll 4
  for (int o = 0; o < out; ++o) {
    float w[kEach], grad[kEach];
    read_weights<kAligned>(layer.weight + o * in, offset, w);
    read_four(dz + o * kStride, grad);
#pragma unroll
    for (int i = 0; i < kEach; ++i)
#pragma unroll
      for (int r = 0; r < kEach; ++r) sum[i][r] = fmaf(w[i], grad[r], sum[i][r]);
  }
}

// a warp's piece of the gradient of what layer l of stacks from .. to takes: it is of outputs of
// the layer below, whose slope it takes and whose y it overwrites
__device__ __forceinline__ void input_piece(const ActorCriticArgs& net, int from, int to, int l,
                                            const TileLayer& below, int first, float* tile) {
  const int rows = thread_in_warp() % kRowGroups * kEach, features = int(below.layer.out);
  first += thread_in_warp() / kRowGroups * kEach;
  float sum[kEach][kEach] = {};
  for (int of = from; of <= to; ++of) {
    const TileLayer& above = net.stacks[of].layers[l];
    const float* dz = tile + above.dz + rows;
    if (has_aligned_rows(above.layer)) add_input_sums<true>(above.layer, dz, first, sum);
    else add_input_sums<false>(above.layer, dz, first, sum);
  }
  float* y = tile + below.y + first * kStride + rows;
  const float* slope = tile + below.slope + first * kStride + rows;
#pragma unroll
  for (int i = 0; i < kEach; ++i) {
    if (first + i >= features) break;
    float gave[kEach];
    read_four(y + i * kStride, gave);
    times_slope(below.layer.activation, gave, slope + i * kStride, sum[i]);
    write_four(y + i * kStride, sum[i]);
  }
}

__device__ __forceinline__ void input_gradients(const ActorCriticArgs& net, const Steps& steps,
                                                const Step& step, float* tile) {
  const bool on_shared = step.layer == 0 && step.from != kSharedStack && steps.shared > 0;
  if (step.layer == 0 && !on_shared) return;
  int turn = warp();
  for (int of = step.from; of <= step.to; ++of) {
    const TileStack& stack = net.stacks[on_shared ? int(kSharedStack) : of];
    if (!on_shared && step.layer >= stack.count) continue;
    const TileLayer& below = stack.layers[on_shared ? steps.shared - 1 : step.layer - 1];
    // what stacks stand on takes the sum of their parts, in their order
    const int to = on_shared ? step.to : of;
    const int pieces = pieces_of(below.layer.out, kPiece);
    for (; turn < pieces; turn += kWarps)
      input_piece(net, of, to, step.layer, below, turn * kPiece, tile);
    turn -= pieces;
    of = to;
  }
}

// A warp's piece of a layer's gradients: a thread has kOuts outputs and kIns inputs, every
// kOutLanes-th and kInLanes-th, so that neighbours read features of other banks and write side by
// side. The block's first tile writes its lane, others add to it.
template <int kOuts, int kIns>
__device__ __forceinline__ void weight_piece(const TileLayer& l, const float* x, const float* dz,
                                             int first_o, int first_k, float* lane, bool begins) {
  const int in = int(l.layer.in), out = int(l.layer.out);
  const int own_o = first_o + thread_in_warp() / kInLanes,
            own_k = first_k + thread_in_warp() % kInLanes;
  float* to = lane + l.weight_grad + own_o * in + own_k;
  // on their way while the sums are made
  float old[kOuts][kIns] = {};
  if (!begins) {
#pragma unroll
    for (int i = 0; i < kOuts; ++i)
#pragma unroll
      for (int j = 0; j < kIns; ++j)
        if (own_o + kOutLanes * i < out && own_k + kInLanes * j < in)
          old[i][j] = to[kOutLanes * i * in + kInLanes * j];
  }
  // those behind the last are computed as the last and left
  const float *from_o[kOuts], *from_k[kIns];
#pragma unroll
  for (int i = 0; i < kOuts; ++i) from_o[i] = dz + min(own_o + kOutLanes * i, out - 1) * kStride;
#pragma unroll
  for (int j = 0; j < kIns; ++j) from_k[j] = x + min(own_k + kInLanes * j, in - 1) * kStride;
  float sum[kOuts][kIns] = {};
#pragma unroll(kOuts* kIns == kEach * kEach ? 1 : 2)
  for (int r = 0; r < kRows; r += kEach) {
    float grad[kOuts][kEach], given[kIns][kEach];
#pragma unroll
    for (int i = 0; i < kOuts; ++i) read_four(from_o[i] + r, grad[i]);
#pragma unroll
    for (int j = 0; j < kIns; ++j) read_four(from_k[j] + r, given[j]);
#pragma unroll
    for (int n = 0; n < kEach; ++n)
#pragma unroll
      for (int i = 0; i < kOuts; ++i)
#pragma unroll
        for (int j = 0; j < kIns; ++j) sum[i][j] = fmaf(grad[i][n], given[j][n], sum[i][j]);
  }
#pragma unroll
  for (int i = 0; i < kOuts; ++i)
#pragma unroll
    for (int j = 0; j < kIns; ++j)
      if (own_o + kOutLanes * i < out && own_k + kInLanes * j < in)
        to[kOutLanes * i * in + kInLanes * j] = old[i][j] + sum[i][j];
}

// of the bias, with the first inputs: a thread an output
__device__ __forceinline__ void bias_piece(const TileLayer& l, const float* dz, int first,
                                           float* lane, bool begins) {
  const int o = first + thread_in_warp();
  if (thread_in_warp() >= kPiece || o >= int(l.layer.out)) return;
  float* to = lane + l.bias_grad + o;
  const float old = begins ? 0.f : *to;
  float bias = 0.f;
#pragma unroll
  for (int r = 0; r < kRows; r += kEach) {
    float grad[kEach];
    read_four(dz + o * kStride + r, grad);
#pragma unroll
    for (int n = 0; n < kEach; ++n) bias += grad[n];
  }
  *to = old + bias;
}

__device__ __forceinline__ void weight_gradients(const ActorCriticArgs& net, const Step& step,
                                                 const float* tile, float* lane, bool begins) {
  int turn = warp();
  for (int of = step.from; of <= step.to; ++of) {
    const TileStack& stack = net.stacks[of];
    if (step.layer >= stack.count) continue;
    const TileLayer& l = stack.layers[step.layer];
    const int across = pieces_of(l.layer.in, kPieceIn);
    const int pieces = pieces_of(l.layer.out, kPiece) * across;
    const float *x = tile + inputs_of(stack, step.layer), *dz = tile + l.dz;
    for (; turn < pieces; turn += kWarps) {
      const int first_o = turn / across * kPiece, first_k = turn % across * kPieceIn;
      if (first_k == 0) bias_piece(l, dz, first_o, lane, begins);
      // few outputs or inputs, as heads and first layers have: one a thread
      if (l.layer.out - first_o <= kOutLanes)
        weight_piece<1, kEach>(l, x, dz, first_o, first_k, lane, begins);
      else if (l.layer.in - first_k <= kInLanes)
        weight_piece<kEach, 1>(l, x, dz, first_o, first_k, lane, begins);
      else weight_piece<kEach, kEach>(l, x, dz, first_o, first_k, lane, begins);
    }
    turn -= pieces;
  }
}

// a stack's last layer is given its dy; where it has a slope
__device__ __forceinline__ void end_slopes(const ActorCriticArgs& net, const Steps& steps,
                                           float* tile) {
  for (int of = steps.from; of <= steps.to; ++of) {
    const TileLayer& last = net.stacks[of].layers[net.stacks[of].count - 1];
    if (last.layer.activation == Activation::none) continue;
    for (int e = int(threadIdx.x); e < int(last.layer.out) * kRowGroups; e += kThreads) {
      const int place = e / kRowGroups * kStride + e % kRowGroups * kEach;
      float dy[kEach], y[kEach];
      read_four(tile + last.dz + place, dy), read_four(tile + last.y + place, y);
      times_slope(last.layer.activation, y, tile + last.slope + place, dy);
      write_four(tile + last.dz + place, dy);
    }
    __syncthreads();
  }
}

// from d_logits and d_value back
__device__ __forceinline__ void backward(const ActorCriticArgs& net, const Steps& steps,
                                         float* tile, float* lane, bool begins) {
  end_slopes(net, steps, tile);
  for (int s = steps.count - 1; s >= 0; --s) {
    const Step step(steps, s);
    weight_gradients(net, step, tile, lane, begins);
    // what is overwritten now was read before
    __syncthreads();
    input_gradients(net, steps, step, tile);
    __syncthreads();
  }
}

}  // namespace maglev::tiles
