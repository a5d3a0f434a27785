#pragma once
// One element of a gated recurrent unit (gru.h) on a device.

#include <cuda_runtime.h>

namespace maglev {

/// From an element's gates with their bias; h is what was remembered.
struct GruGates {
  float reset, second, candidate, update;

  __device__ GruGates(float gate0, float gate1, float gate2)
      : reset(sigmoid(gate0)),
        second(gate1),
        candidate(tanhf(reset * gate1)),
        update(sigmoid(gate2 - 1.f)) {}

  __device__ float next(float h) const { return update * (candidate - h) + h; }
  /// Gradients of the gates by that of `next`; its way past them is d_next * (1 - update).
  __device__ void back(float d_next, float h, float (&d_gates)[3]) const {
    const float through_tanh = d_next * update * (1.f - candidate * candidate);
    d_gates[0] = through_tanh * second * reset * (1.f - reset);
    d_gates[1] = through_tanh * reset;
    d_gates[2] = d_next * (candidate - h) * update * (1.f - update);
  }

 private:
  static __device__ float sigmoid(float x) { return 1.f / (1.f + expf(-x)); }
};

}  // namespace maglev
