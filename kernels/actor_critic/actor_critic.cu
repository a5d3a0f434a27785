#include "base/device/launch.cuh"
#include "base/device/warp.cuh"
#include "kernels/actor_critic/actor_critic.h"
#include "kernels/ppo_loss/ppo_loss.cuh"

// Arithmetic, not yet measured on a GPU. A thread is a row and holds kOutputs sums: a step over
// four inputs reads 4 activations (a line of the cache each, shared by the warp) and kOutputs times
// four weights (one broadcast each), 12 reads for 32 multiply-adds. A multiprocessor issues four
// warps' multiply-adds and one warp's read a clock, so reads bind at two thirds of its peak. A
// network of two stacks 4-64-64 is 9 thousand multiply-adds a row forward and twice that back: a
// minibatch of 8192 rows is 256 tiles, 0.2 GFMA or 7 us of an H100's peak; 256 rows are 8 tiles on
// 8 multiprocessors, each 3 x 9 thousand x 32 / 85 = 10 thousand clocks or 6 us.

namespace maglev {
namespace {

constexpr int kWarps = 8, kThreads = kWarps * kWarpThreads;
constexpr int kRows = int(kTileRows);
constexpr int kOutputs = 8;  // sums of a row that a thread keeps
constexpr int kPiece = 64;   // inputs and outputs of a piece of a weight's gradient
constexpr int kEach = 4;     // of both that a thread has: kPiece / 16
static_assert(kRows == kWarpThreads && kPiece * kPiece == kThreads * kEach * kEach);
// what a launch can carry
static_assert(sizeof(ActorCriticArgs) + sizeof(PpoLossArgs) + sizeof(DevicePolicy) +
                  sizeof(TileGradients) <=
              4096);

__device__ float activate(Activation activation, float z, float* slope) {
  switch (activation) {
    case Activation::tanh:
      return tanhf(z);
    case Activation::relu:
      return fmaxf(z, 0.f);
    case Activation::silu: {
      const float share = 1.f / (1.f + expf(-z));
      if (slope) *slope = share * (1.f + z * (1.f - share));
      return z * share;
    }
    default:
      return z;
  }
}

// the layer's slope where it gave y[at]
__device__ float slope_of(const TileLayer& l, const float* tile, int64_t at) {
  const float y = tile[l.y + at];
  switch (l.layer.activation) {
    case Activation::tanh:
      return 1.f - y * y;
    case Activation::relu:
      return y > 0.f ? 1.f : 0.f;
    case Activation::silu:
      return tile[l.slope + at];
    default:
      return 1.f;
  }
}

// four numbers that lie side by side, in one read where they begin at 16 bytes
__device__ float4 four(const float* from, bool aligned) {
  if (aligned) return *reinterpret_cast<const float4*>(from);
  return {from[0], from[1], from[2], from[3]};
}

// rows index[0..rows), or first .. without an index, of all columns into the tile; 0 behind them
__device__ void load(const ActorCriticArgs& net, float* tile, const int64_t* index, int64_t first,
                     int rows) {
  for (int c = 0; c < net.column_count; ++c) {
    const TileColumn& column = net.columns[c];
    for (int e = int(threadIdx.x); e < kRows * column.elements; e += kThreads) {
      // neighbours read what lies side by side in a row
      const int r = e / column.elements, d = e % column.elements;
      float x = 0.f;
      if (r < rows) {
        const int64_t at = (index ? index[r] : first + r) * column.elements + d;
        x = column.dtype == DType::f32   ? reinterpret_cast<const float*>(column.rows)[at]
            : column.dtype == DType::i32 ? float(reinterpret_cast<const int32_t*>(column.rows)[at])
                                         : float(reinterpret_cast<const uint8_t*>(column.rows)[at]);
        if (column.mean) {
          const float scaled = (x - column.mean[d]) * (1.f / sqrtf(column.var[d] + 1e-8f));
          x = scaled < -column.clip ? -column.clip : scaled > column.clip ? column.clip : scaled;
        }
      }
      tile[column.to + d * kRows + r] = x;
      if (column.again >= 0) tile[column.again + d * kRows + r] = x;
    }
  }
  __syncthreads();
}

// a warp has kOutputs outputs of all rows at a time
__device__ void forward_layer(const TileLayer& l, const float* x, float* tile) {
  const int r = int(threadIdx.x) % kWarpThreads, in = int(l.layer.in), out = int(l.layer.out);
  const float* weight = l.layer.weight;
  const bool aligned = in % 4 == 0 && reinterpret_cast<uintptr_t>(weight) % 16 == 0;
  for (int first = int(threadIdx.x) / kWarpThreads * kOutputs; first < out;
       first += kWarps * kOutputs) {
    // outputs behind the last one are computed as the last and left
    const float* row[kOutputs];
    float sum[kOutputs];
    for (int i = 0; i < kOutputs; ++i) {
      const int o = min(first + i, out - 1);
      row[i] = weight + o * in, sum[i] = l.layer.bias[o];
    }
    int k = 0;
    for (; k + 4 <= in; k += 4) {
      const float* from = x + k * kRows + r;
      const float x0 = from[0], x1 = from[kRows], x2 = from[2 * kRows], x3 = from[3 * kRows];
      for (int i = 0; i < kOutputs; ++i) {
        const float4 w = four(row[i] + k, aligned);
        sum[i] = fmaf(w.w, x3, fmaf(w.z, x2, fmaf(w.y, x1, fmaf(w.x, x0, sum[i]))));
      }
    }
    for (; k < in; ++k) {
      const float x0 = x[k * kRows + r];
      for (int i = 0; i < kOutputs; ++i) sum[i] = fmaf(row[i][k], x0, sum[i]);
    }
    for (int i = 0; i < kOutputs; ++i) {
      if (first + i >= out) break;
      const int at = (first + i) * kRows + r;
      tile[l.y + at] = activate(l.layer.activation, sum[i], tile + l.slope + at);
    }
  }
  __syncthreads();
}

__device__ void forward(const TileStack& stack, float* tile) {
  const float* x = tile + stack.x;
  for (int l = 0; l < stack.count; ++l) {
    forward_layer(stack.layers[l], x, tile);
    x = tile + stack.layers[l].y;
  }
}

// dx[k] = sum over o of W[o][k] dz[o], of the first `features` inputs; added where dx has a part of
// it, times the slope of the layer below where there is one
__device__ void input_gradient(const DenseLayer& layer, const float* dz, const TileLayer* below,
                               int features, bool add, float* dx, const float* tile) {
  const int r = int(threadIdx.x) % kWarpThreads, in = int(layer.in), out = int(layer.out);
  const bool aligned = in % 4 == 0 && reinterpret_cast<uintptr_t>(layer.weight) % 16 == 0;
  for (int first = int(threadIdx.x) / kWarpThreads * kOutputs; first < features;
       first += kWarps * kOutputs) {
    float sum[kOutputs] = {};
    if (first + kOutputs <= in) {
      for (int o = 0; o < out; ++o) {
        const float grad = dz[o * kRows + r];
        const float* row = layer.weight + o * in + first;
        const float4 a = four(row, aligned), b = four(row + 4, aligned);
        sum[0] = fmaf(a.x, grad, sum[0]), sum[1] = fmaf(a.y, grad, sum[1]);
        sum[2] = fmaf(a.z, grad, sum[2]), sum[3] = fmaf(a.w, grad, sum[3]);
        sum[4] = fmaf(b.x, grad, sum[4]), sum[5] = fmaf(b.y, grad, sum[5]);
        sum[6] = fmaf(b.z, grad, sum[6]), sum[7] = fmaf(b.w, grad, sum[7]);
      }
    } else {
      for (int o = 0; o < out; ++o) {
        const float grad = dz[o * kRows + r];
        for (int i = 0; i < kOutputs; ++i)
          if (first + i < in) sum[i] = fmaf(layer.weight[o * in + first + i], grad, sum[i]);
      }
    }
    for (int i = 0; i < kOutputs; ++i) {
      if (first + i >= features) break;
      const int at = (first + i) * kRows + r;
      if (add) sum[i] += dx[at];
      dx[at] = below ? sum[i] * slope_of(*below, tile, at) : sum[i];
    }
  }
  __syncthreads();
}

struct Pieces {
  float in[kPiece][kRows + 1], out[kPiece][kRows + 1];
};

// a piece of the weights at a time, both sides of it in shared memory: a warp's threads read their
// inputs from banks of their own. The block's first tile writes its lane, others add to it.
__device__ void weight_gradient(const TileLayer& l, const float* x, const float* dz, float* lane,
                                bool begins, Pieces& pieces) {
  const int in = int(l.layer.in), out = int(l.layer.out);
  const int own_k = int(threadIdx.x) % 16, own_o = int(threadIdx.x) / 16;
  for (int first_o = 0; first_o < out; first_o += kPiece)
    for (int first_k = 0; first_k < in; first_k += kPiece) {
      const int count_o = min(kPiece, out - first_o), count_k = min(kPiece, in - first_k);
      for (int e = int(threadIdx.x); e < count_k * kRows; e += kThreads)
        pieces.in[e / kRows][e % kRows] = x[first_k * kRows + e];
      for (int e = int(threadIdx.x); e < count_o * kRows; e += kThreads)
        pieces.out[e / kRows][e % kRows] = dz[first_o * kRows + e];
      __syncthreads();
      float sum[kEach][kEach] = {};
      if (own_o < count_o && own_k < count_k)
        for (int r = 0; r < kRows; ++r)
          for (int i = 0; i < kEach; ++i) {
            const int o = own_o + 16 * i;
            if (o >= count_o) break;
            const float grad = pieces.out[o][r];
            for (int j = 0; j < kEach; ++j)
              if (own_k + 16 * j < count_k)
                sum[i][j] = fmaf(grad, pieces.in[own_k + 16 * j][r], sum[i][j]);
          }
      for (int i = 0; i < kEach; ++i)
        for (int j = 0; j < kEach; ++j) {
          const int o = own_o + 16 * i, k = own_k + 16 * j;
          if (o >= count_o || k >= count_k) continue;
          float* to = lane + l.weight_grad + (first_o + o) * in + first_k + k;
          *to = begins ? sum[i][j] : *to + sum[i][j];
        }
      // a bias is summed once, with the first inputs
      if (first_k == 0 && int(threadIdx.x) < count_o) {
        float bias = 0.f;
        for (int r = 0; r < kRows; ++r) bias += pieces.out[threadIdx.x][r];
        float* to = lane + l.bias_grad + first_o + threadIdx.x;
        *to = begins ? bias : *to + bias;
      }
      __syncthreads();
    }
}

// from the last layer's dy, which is given before its slope; the inputs' gradient goes to dx where
// `features` of them want one
__device__ void backward(const TileStack& stack, float* tile, float* lane, bool begins,
                         int features, bool add, float* dx, Pieces& pieces) {
  const TileLayer& last = stack.layers[stack.count - 1];
  if (last.layer.activation != Activation::none) {
    for (int e = int(threadIdx.x); e < int(last.layer.out) * kRows; e += kThreads)
      tile[last.dy + e] *= slope_of(last, tile, e);
    __syncthreads();
  }
  for (int l = int(stack.count) - 1; l >= 0; --l) {
    const TileLayer& layer = stack.layers[l];
    const TileLayer* below = l > 0 ? &stack.layers[l - 1] : nullptr;
    const float* dz = tile + layer.dy;
    weight_gradient(layer, tile + (below ? below->y : stack.x), dz, lane, begins, pieces);
    if (below)
      input_gradient(layer.layer, dz, below, int(layer.layer.in), false, tile + below->dy, tile);
    else if (features > 0) input_gradient(layer.layer, dz, nullptr, features, add, dx, tile);
  }
}

// the policy with its block's logits, in shared memory: threads index its heads
__device__ void place_policy(const DevicePolicy& given, const ActorCriticArgs& net,
                             const float* tile, DevicePolicy& policy) {
  if (threadIdx.x != 0) return;
  policy = given;
  policy.policy.logits = tile + net.policy.layers[net.policy.count - 1].y;
  policy.policy.stride = kRows;
}

__global__ void act(const __grid_constant__ ActorCriticArgs net, SampleArgs sample,
                    DevicePolicy given) {
  __shared__ DevicePolicy policy;
  float* tile = net.tiles + blockIdx.x * net.tile_floats;
  place_policy(given, net, tile, policy);
  const int64_t rows = sample.policy.rows;
  for (int64_t first = blockIdx.x * kTileRows; first < rows; first += gridDim.x * kTileRows) {
    const int count = int(min(kTileRows, rows - first));
    load(net, tile, nullptr, first, count);
    forward(net.shared, tile);
    forward(net.policy, tile);
    if (int(threadIdx.x) < count) sample_row(sample, policy, threadIdx.x, first + threadIdx.x);
    __syncthreads();
  }
}

__global__ void values(const __grid_constant__ ActorCriticArgs net, float* value, int64_t rows) {
  float* tile = net.tiles + blockIdx.x * net.tile_floats;
  const float* out = tile + net.value.layers[net.value.count - 1].y;
  for (int64_t first = blockIdx.x * kTileRows; first < rows; first += gridDim.x * kTileRows) {
    const int count = int(min(kTileRows, rows - first));
    load(net, tile, nullptr, first, count);
    forward(net.shared, tile);
    forward(net.value, tile);
    if (int(threadIdx.x) < count) value[first + threadIdx.x] = out[threadIdx.x];
    __syncthreads();
  }
}

// what one warp adds up over its block's tiles
struct LossSums {
  double figure[kPpoTotal];               // of each thread's rows
  double log_std[kMostDeviceHeads / 32];  // thread i has dimensions i, i + 32
};

// a row a thread of the first warp: figures, d_value and d_logits; rows behind the last have 0
__device__ void tile_loss(const PpoLossArgs& args, const DevicePolicy& policy,
                          const PpoLossScalars& scalars, int count, LossSums& sums) {
  const int row = int(threadIdx.x);
  const int64_t at = row < count ? args.index[row] : 0;
  const bool counts = row < count && args.valid[at] != 0.f;
  RowLoss loss{};
  if (counts) loss = row_loss(args, policy, scalars, row, at);
  args.d_value[row] = loss.d_value;
  for (int f = 0; f < kPpoTotal; ++f) sums.figure[f] += double(loss.figure[f]);
  for (int i = 0; policy.policy.head_count == 0 && i < int(policy.policy.dims); ++i) {
    const double sum = warp_sum(gaussian_gradient(args, policy, row, at, counts, loss, i));
    if (i % 32 == row) sums.log_std[i / 32] += sum;
  }
  heads_gradient(args, policy, row, at, counts, loss);
}

__launch_bounds__(kThreads, 2) __global__
    void learn(const __grid_constant__ ActorCriticArgs net, PpoLossArgs loss, DevicePolicy given,
               TileGradients into) {
  __shared__ Pieces pieces;
  __shared__ DevicePolicy policy;
  float* tile = net.tiles + blockIdx.x * net.tile_floats;
  float* lane = into.lanes + blockIdx.x * into.lane_stride;
  const PpoLossScalars scalars = *loss.scalars;
  const int64_t rows = loss.policy.rows;
  const int64_t* index = loss.index;
  const bool first_warp = int(threadIdx.x) < kWarpThreads;
  const TileLayer &logits = net.policy.layers[net.policy.count - 1],
                  &value = net.value.layers[net.value.count - 1];
  place_policy(given, net, tile, policy);
  loss.value = tile + value.y, loss.d_logits = tile + logits.dy, loss.d_value = tile + value.dy;
  // the layers that both stacks stand on
  const bool shares = net.shared.count > 0;
  const TileLayer& trunk = net.shared.layers[shares ? net.shared.count - 1 : 0];
  const int features = shares ? int(trunk.layer.out) : 0;
  LossSums sums{};

  for (int64_t first = blockIdx.x * kTileRows; first < rows; first += gridDim.x * kTileRows) {
    const int count = int(min(kTileRows, rows - first));
    const bool begins = first == int64_t(blockIdx.x) * kTileRows;
    load(net, tile, index + first, 0, count);
    forward(net.shared, tile);
    forward(net.policy, tile);
    forward(net.value, tile);
    loss.index = index + first;
    if (first_warp) tile_loss(loss, policy, scalars, count, sums);
    __syncthreads();
    float* d_trunk = tile + trunk.dy;
    backward(net.policy, tile, lane, begins, features, /*add=*/false, d_trunk, pieces);
    backward(net.value, tile, lane, begins, features, /*add=*/true, d_trunk, pieces);
    if (shares) backward(net.shared, tile, lane, begins, 0, false, nullptr, pieces);
  }

  // the block's figures, and what the deviations get
  if (!first_warp) return;
  double* figures = into.figures + blockIdx.x * kPpoFigures;
  double total[kPpoTotal];
  for (int f = 0; f < kPpoTotal; ++f) total[f] = warp_sum(sums.figure[f]);
  for (int i = int(threadIdx.x); policy.policy.head_count == 0 && i < int(policy.policy.dims);
       i += kWarpThreads)
    lane[into.log_std + i] = float(sums.log_std[i / kWarpThreads]);
  if (threadIdx.x != 0) return;
  for (int f = 0; f < kPpoTotal; ++f) figures[f] = total[f];
  figures[kPpoTotal] = total[kPpoPolicy] + double(loss.settings.value_coef) * total[kPpoValue] -
                       double(scalars.entropy_coef) * total[kPpoEntropy];
}

bool takes(const PolicyPanel& policy) {
  return policy.head_count <= kMostDeviceHeads && policy.dims <= kMostDeviceHeads;
}

LaunchShape shape_of(const ActorCriticArgs& args, int64_t rows) {
  const int64_t tiles = blocks_of(rows, kTileRows);
  return {.grid = {tiles < args.blocks ? tiles : args.blocks}, .block = {kThreads}};
}

}  // namespace

int actor_critic_act_cuda(const ActorCriticArgs& args, const SampleArgs& sample, void* stream) {
  if (!takes(sample.policy)) return int(cudaErrorInvalidValue);
  return launch_kernel(act, shape_of(args, sample.policy.rows), stream, args, sample,
                       device_policy(sample.policy));
}

int actor_critic_values_cuda(const ActorCriticArgs& args, float* value, int64_t rows,
                             void* stream) {
  return launch_kernel(values, shape_of(args, rows), stream, args, value, rows);
}

int actor_critic_learn_cuda(const ActorCriticArgs& args, const PpoLossArgs& loss,
                            const TileGradients& into, void* stream) {
  if (!takes(loss.policy)) return int(cudaErrorInvalidValue);
  if (into.count > args.blocks) return int(cudaErrorInvalidValue);
  return launch_kernel(learn, {.grid = {into.count}, .block = {kThreads}}, stream, args, loss,
                       device_policy(loss.policy), into);
}

}  // namespace maglev
