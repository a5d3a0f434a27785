#pragma once
// A policy and a value network of small fully connected layers on a CUDA device, with what PPO does
// around them: acting, values, and a minibatch's gradients are one launch each.
//
// A block of threads is what a thread is on a processor (algos/ppo/host_panels): it takes one tile
// of rows after another from stored observations through all layers, and for learning through the
// loss and back, in its multiprocessor's shared memory or, where a network's tile is too long for
// that, in memory of its own that stays in the caches. Gradients of the blocks are lanes, as those
// of threads are; whoever steps adds them in order.

#include <cstdint>

#include "base/env/env.h"
#include "base/env/spec.h"
#include "kernels/mlp/mlp.h"
#include "kernels/policy/policy.h"
#include "kernels/ppo_loss/ppo_loss.h"

namespace maglev {

/// Rows of a tile: a warp's threads.
constexpr int64_t kTileRows = 32;
/// Floats from a feature of a tile to the next: 16 bytes of eight features in turn lie in banks of
/// their own.
constexpr int64_t kTileStride = 36;
/// Bytes of a tile that shared memory takes; what a block has besides is less than 4 KiB.
constexpr int64_t kSharedTileBytes = 44 * 1024;
/// Blocks at most, and so lanes: two a multiprocessor of an H100's 132, which is what its registers
/// hold of them.
constexpr int64_t kMostTileBlocks = 256;
/// What a launch can name and a tile's time is still short for: layers of a stack, and inputs or
/// outputs of a layer. A layer of 256 x 256 on 32 rows is 2.1 million multiply-adds, 16 thousand
/// clocks at the 128 a clock of one multiprocessor; where layers are wider a library cuts one row's
/// work up better.
constexpr int64_t kMostTileLayers = 6, kMostTileWidth = 256;

/// A tile holds features side by side, feature f of row r at [f * kTileStride + r]. Places are in
/// floats, within the tile or, where they say so, within a gradient lane.
struct TileLayer {
  DenseLayer layer;
  int64_t y, slope;  ///< in the tile; slope is written for silu alone
  /// The gradient, in the tile: over y, but behind it where the loss reads y as it writes dz.
  int64_t dz;
  int64_t weight_grad, bias_grad;  ///< in a lane
};
struct TileStack {
  TileLayer layers[kMostTileLayers];
  int64_t count;  ///< 0: none, what comes in goes out
  int64_t x;      ///< in the tile
};
struct TileColumn {
  const std::byte* rows;  ///< row 0 of the stored column
  DType dtype;
  int32_t elements;
  int64_t to;               ///< its first feature in the tile
  int64_t again;            ///< where it is wanted besides; negative: nowhere
  const float *mean, *var;  ///< [elements], standardised by them; null: taken as it is
  float clip;
};
/// The shared one gives what the others take; or it has no layer.
enum TileStackPlace : int { kSharedStack, kPolicyStack, kValueStack, kTileStacks };
struct ActorCriticArgs {
  TileStack stacks[kTileStacks];
  TileColumn columns[kMaxObsColumns];
  int32_t column_count;
  int64_t actions, masks;  ///< in the tile: what the loss asks of its rows
  float* tiles;            ///< [blocks][tile_floats], scratch; not read where tile_is_shared
  int64_t tile_floats;
  int64_t blocks;  ///< 1 to kMostTileBlocks
};
constexpr int64_t tile_bytes(const ActorCriticArgs& args) {
  return args.tile_floats * int64_t(sizeof(float));
}
constexpr bool tile_is_shared(const ActorCriticArgs& args) {
  return tile_bytes(args) <= kSharedTileBytes;
}

// Each on `stream` (a cudaStream_t), pointers to device memory but policy.heads; at most
// kMostDeviceHeads heads or Gaussian dimensions. Return a cudaError_t. Only in builds with device
// code.

/// Draws for rows 0, 1, ... of the columns. Of `sample`, policy.logits and stride are not read.
int actor_critic_act_cuda(const ActorCriticArgs& args, const SampleArgs& sample, void* stream);

/// value [rows], in the value head's units, of rows 0, 1, ... of the columns.
int actor_critic_values_cuda(const ActorCriticArgs& args, float* value, int64_t rows, void* stream);

struct TileGradients {
  float* lanes;  ///< [count][lane_stride], what layers and log_std have is overwritten
  int64_t lane_stride;
  int64_t count;    ///< of lanes: at most args.blocks, and as many as there are tiles
  int64_t log_std;  ///< where d_log_std lies in a lane; Gaussian
  double* figures;  ///< [count][kPpoFigures], overwritten
};
/// Gradients and figures of rows loss.index[0 .. loss.policy.rows) of the columns: tile t goes to
/// lane t % into.count. Of `loss`, what lies in a panel (logits, value, d_logits, d_value, stride),
/// d_log_std and figures are not read.
int actor_critic_learn_cuda(const ActorCriticArgs& args, const PpoLossArgs& loss,
                            const TileGradients& into, void* stream);

}  // namespace maglev
