#pragma once
#include <vector>

#include <ATen/core/Tensor.h>

#include "kernels/actor_critic/actor_critic.h"

namespace maglev {

/// A network for the kernel: layers whose parameters are in device memory, and where their
/// gradients lie in a lane.
struct TileNetwork {
  struct Stack {
    std::vector<DenseLayer> layers;
    std::vector<int64_t> weight_at, bias_at;
  };
  struct Column {
    DType dtype;
    int64_t elements;
    bool privileged;  ///< the value's alone; these come last
    const float *mean, *var;
    float clip;
  };
  Stack shared, policy, value;  ///< as DenseStacks has them
  std::vector<Column> columns;  ///< in the order in which layers take them
};

/// The kernel's arguments without stored columns and scratch: where in a tile things lie, and how
/// long it is. Every stack is within kMostTileLayers and kMostTileWidth.
ActorCriticArgs lay_out(const TileNetwork& network);

/// The kernel's functions on `device`, whose current stream they take. There is no CPU side: a
/// processor runs networks on panels.
void actor_critic_act(at::Device device, const ActorCriticArgs& args, const SampleArgs& sample);
void actor_critic_values(at::Device device, const ActorCriticArgs& args, float* value,
                         int64_t rows);
void actor_critic_learn(at::Device device, const ActorCriticArgs& args, const PpoLossArgs& loss,
                        const TileGradients& into);

}  // namespace maglev
