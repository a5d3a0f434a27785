#include "base/device/launch.cuh"
#include "kernels/actor_critic/tile.cuh"
#include "kernels/ppo_loss/ppo_loss.cuh"

namespace maglev {
namespace {

using namespace tiles;

constexpr int kLossColumns = 5;
static_assert(kLossColumns <= kWarps);
// what a launch can carry
static_assert(sizeof(ActorCriticArgs) + sizeof(PpoLossArgs) + sizeof(DevicePolicy) +
                  sizeof(TileGradients) <=
              4096);

// the policy with its block's logits, in shared memory: threads index its heads
__device__ void place_policy(const DevicePolicy& given, const ActorCriticArgs& net,
                             const float* tile, DevicePolicy& policy) {
  const TileStack& stack = net.stacks[kPolicyStack];
  policy = given;
  policy.policy.logits = tile + stack.layers[stack.count - 1].y;
  policy.policy.stride = kStride;
}

__device__ __forceinline__ void act_on(const ActorCriticArgs& net, const SampleArgs& sample,
                                       const DevicePolicy& policy, float* tile) {
  const Steps steps(net, kPolicyStack, kPolicyStack);
  const int64_t rows = sample.policy.rows;
  for (int64_t first = blockIdx.x * kTileRows; first < rows; first += gridDim.x * kTileRows) {
    const int count = int(min(kTileRows, rows - first));
    load(net, tile, nullptr, first, count);
    __syncthreads();
    forward(net, steps, tile);
    if (int(threadIdx.x) < count) sample_row(sample, policy, threadIdx.x, first + threadIdx.x);
    __syncthreads();
  }
}

__global__ void act(const __grid_constant__ ActorCriticArgs net, SampleArgs sample,
                    DevicePolicy given) {
  wait_for_earlier();
  __shared__ DevicePolicy policy;
  float* tile = global_tile(net);
  float* near = static_cast<float*>(dynamic_shared());
  const bool is_near = tile_is_shared(net);
  if (threadIdx.x == 0) place_policy(given, net, is_near ? near : tile, policy);
  if (is_near) act_on(net, sample, policy, near);
  else act_on(net, sample, policy, tile);
}

__device__ __forceinline__ void values_on(const ActorCriticArgs& net, float* value, int64_t rows,
                                          float* tile) {
  const Steps steps(net, kValueStack, kValueStack);
  const TileStack& stack = net.stacks[kValueStack];
  const float* out = tile + stack.layers[stack.count - 1].y;
  for (int64_t first = blockIdx.x * kTileRows; first < rows; first += gridDim.x * kTileRows) {
    const int count = int(min(kTileRows, rows - first));
    load(net, tile, nullptr, first, count);
    __syncthreads();
    forward(net, steps, tile);
    if (int(threadIdx.x) < count) value[first + threadIdx.x] = out[threadIdx.x];
    __syncthreads();
  }
}

__global__ void values(const __grid_constant__ ActorCriticArgs net, float* value, int64_t rows) {
  wait_for_earlier();
  if (tile_is_shared(net)) values_on(net, value, rows, static_cast<float*>(dynamic_shared()));
  else values_on(net, value, rows, global_tile(net));
}

// what the block adds up over its tiles
struct LossSums {
  double figure[kPpoTotal][kRows];  // of the rows of each place
  double log_std[kMostDeviceHeads];
};
// what the loss asks of a tile's rows
struct LossRows {
  int64_t at[kRows];  // in the rollout
  float column[kLossColumns][kRows];
};

__device__ const float* loss_column(const PpoLossArgs& loss, int c) {
  switch (c) {
    case 0:
      return loss.old_log_prob;
    case 1:
      return loss.advantage;
    case 2:
      return loss.target;
    case 3:
      return loss.old_value;
    case 4:
      return loss.valid;
    default:
      return nullptr;
  }
}

// everything that is far away of rows at[0..count), so that nothing waits for it later
__device__ __forceinline__ void load_all(const ActorCriticArgs& net, const PpoLossArgs& loss,
                                         int count, LossRows& own, float* tile) {
  // a warp a column; it arrives while others are asked for
  const float* column = loss_column(loss, warp());
  const bool reads = column && thread_in_warp() < count;
  const float given = reads ? column[own.at[thread_in_warp()]] : 0.f;
  const int dims = int(loss.policy.dims), width = int(loss.policy.mask_width);
  // by the last threads first: the first ones have columns
  const int turn = kThreads - 1 - int(threadIdx.x);
  int32_t* chosen = reinterpret_cast<int32_t*>(tile + net.actions);
  for (int e = turn; loss.action_i32 && e < count * dims; e += kThreads)
    chosen[e] = loss.action_i32[own.at[e / dims] * dims + e % dims];
  for (int e = turn; loss.action_f32 && e < count * dims; e += kThreads)
    tile[net.actions + e] = loss.action_f32[own.at[e / dims] * dims + e % dims];
  uint8_t* mask = reinterpret_cast<uint8_t*>(tile + net.masks);
  for (int e = turn; loss.policy.mask && e < count * width; e += kThreads)
    mask[e] = loss.policy.mask[own.at[e / width] * width + e % width];
  load(net, tile, own.at, 0, count);
  if (warp() < kLossColumns) own.column[warp()][thread_in_warp()] = given;
  __syncthreads();
}

// the loss over a tile: what it asks for lies at the row's place in the tile
__device__ __forceinline__ PpoLossArgs loss_of_tile(const PpoLossArgs& loss,
                                                    const ActorCriticArgs& net, const LossRows& own,
                                                    float* tile) {
  const TileStack &policy = net.stacks[kPolicyStack], &value = net.stacks[kValueStack];
  PpoLossArgs of = loss;
  of.old_log_prob = own.column[0], of.advantage = own.column[1], of.target = own.column[2];
  of.old_value = loss.old_value ? own.column[3] : nullptr;
  of.valid = own.column[4];
  of.action_i32 = reinterpret_cast<const int32_t*>(tile + net.actions);
  of.action_f32 = tile + net.actions;
  of.value = tile + value.layers[value.count - 1].y;
  of.d_value = tile + value.layers[value.count - 1].dz;
  of.d_logits = tile + policy.layers[policy.count - 1].dz;
  return of;
}

// a row a thread of the first warp: figures, d_value and d_logits; rows behind the last have 0
__device__ __forceinline__ void tile_loss(const PpoLossArgs& args, const DevicePolicy& policy,
                                          const PpoLossScalars& scalars, int count,
                                          LossSums& sums) {
  const int row = int(threadIdx.x);
  const bool counts = row < count && args.valid[row] != 0.f;
  RowLoss loss{};
  if (counts) loss = row_loss(args, policy, scalars, row, row);
  args.d_value[row] = loss.d_value;
  for (int f = 0; f < kPpoTotal; ++f) sums.figure[f][row] += double(loss.figure[f]);
  for (int i = 0; policy.policy.head_count == 0 && i < int(policy.policy.dims); ++i) {
    const double sum = warp_sum(gaussian_gradient(args, policy, row, row, counts, loss, i));
    if (i % kWarpThreads == row) sums.log_std[i] += sum;
  }
  heads_gradient(args, policy, row, row, counts, loss);
}

__device__ __forceinline__ void learn_on(const ActorCriticArgs& net, const PpoLossArgs& given,
                                         const DevicePolicy& policy, float* lane, LossRows& own,
                                         LossSums& sums, float* tile) {
  const Steps steps(net, kPolicyStack, kValueStack);
  const PpoLossArgs loss = loss_of_tile(given, net, own, tile);
  const PpoLossScalars scalars = *given.scalars;
  const int64_t rows = given.policy.rows, stride = gridDim.x * kTileRows;
  const bool first_warp = warp() == 0;
  const auto index_from = [&](int64_t first) {
    const int64_t row = first + threadIdx.x;
    return first_warp && row < rows ? given.index[row] : 0;
  };
  int64_t next = index_from(blockIdx.x * kTileRows);
  for (int64_t first = blockIdx.x * kTileRows; first < rows; first += stride) {
    const int count = int(min(kTileRows, rows - first));
    const bool begins = first == int64_t(blockIdx.x) * kTileRows;
    if (first_warp) own.at[threadIdx.x] = next;
    __syncthreads();
    next = index_from(first + stride);
    load_all(net, given, count, own, tile);
    forward(net, steps, tile);
    if (first_warp) tile_loss(loss, policy, scalars, count, sums);
    __syncthreads();
    backward(net, steps, tile, lane, begins);
  }
}

__launch_bounds__(kThreads, 2) __global__
    void learn(const __grid_constant__ ActorCriticArgs net,
               const __grid_constant__ PpoLossArgs loss, DevicePolicy given, TileGradients into) {
  wait_for_earlier();
  __shared__ DevicePolicy policy;
  __shared__ LossRows own;
  __shared__ LossSums sums;
  float* lane = into.lanes + blockIdx.x * into.lane_stride;
  float* tile = global_tile(net);
  float* near = static_cast<float*>(dynamic_shared());
  const bool is_near = tile_is_shared(net), first_warp = warp() == 0;
  if (threadIdx.x == 0) {
    float* used = is_near ? near : tile;
    place_policy(given, net, used, policy);
    if (given.policy.mask) policy.policy.mask = reinterpret_cast<uint8_t*>(used + net.masks);
  }
  // thread i of the first warp has rows i, and dimensions i, i + 32
  if (first_warp) {
    for (int f = 0; f < kPpoTotal; ++f) sums.figure[f][threadIdx.x] = 0.;
    for (int i = int(threadIdx.x); i < int(kMostDeviceHeads); i += kWarpThreads)
      sums.log_std[i] = 0.;
  }
  if (is_near) learn_on(net, loss, policy, lane, own, sums, near);
  else learn_on(net, loss, policy, lane, own, sums, tile);

  // the block's figures, and what the deviations get
  if (!first_warp) return;
  double* figures = into.figures + blockIdx.x * kPpoFigures;
  double total[kPpoTotal];
  for (int f = 0; f < kPpoTotal; ++f) total[f] = warp_sum(sums.figure[f][threadIdx.x]);
  for (int i = int(threadIdx.x); policy.policy.head_count == 0 && i < int(policy.policy.dims);
       i += kWarpThreads)
    lane[into.log_std + i] = float(sums.log_std[i]);
  if (threadIdx.x != 0) return;
  for (int f = 0; f < kPpoTotal; ++f) figures[f] = total[f];
  figures[kPpoTotal] = total[kPpoPolicy] + double(loss.settings.value_coef) * total[kPpoValue] -
                       double(loss.scalars->entropy_coef) * total[kPpoEntropy];
}

// what blocks share without asking for more
static_assert(sizeof(DevicePolicy) + sizeof(LossRows) + sizeof(LossSums) + kSharedTileBytes <=
              48 * 1024);

bool takes(const PolicyPanel& policy) {
  return policy.head_count <= kMostDeviceHeads && policy.dims <= kMostDeviceHeads;
}

LaunchShape shape_of(const ActorCriticArgs& args, int64_t blocks) {
  return {.grid = {blocks < args.blocks ? blocks : args.blocks},
          .block = {kThreads},
          .shared_bytes = tile_is_shared(args) ? tile_bytes(args) : 0};
}

}  // namespace

int actor_critic_act_cuda(const ActorCriticArgs& args, const SampleArgs& sample, void* stream) {
  if (!takes(sample.policy)) return int(cudaErrorInvalidValue);
  return launch_kernel(act, shape_of(args, blocks_of(sample.policy.rows, kTileRows)), stream, args,
                       sample, device_policy(sample.policy));
}

int actor_critic_values_cuda(const ActorCriticArgs& args, float* value, int64_t rows,
                             void* stream) {
  return launch_kernel(values, shape_of(args, blocks_of(rows, kTileRows)), stream, args, value,
                       rows);
}

int actor_critic_learn_cuda(const ActorCriticArgs& args, const PpoLossArgs& loss,
                            const TileGradients& into, void* stream) {
  if (!takes(loss.policy)) return int(cudaErrorInvalidValue);
  if (into.count > args.blocks) return int(cudaErrorInvalidValue);
  return launch_kernel(learn, shape_of(args, into.count), stream, args, loss,
                       device_policy(loss.policy), into);
}

}  // namespace maglev
