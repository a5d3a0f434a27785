#pragma once
// A fused operation: an obvious reference in ATen beside the version that ships, and the shapes
// both are held to. The parity test, the gradient check, the bench and `maglev kernels` walk the
// same cases.

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "engine/device/tolerance.h"

namespace maglev {

using Tensors = std::vector<at::Tensor>;

/// One kernel at one shape. Reference and fused return the same outputs in the same order; both may
/// be called again and again.
struct KernelCase {
  std::string name;  ///< the shape, e.g. "T=128 N=1024"
  /// What gradients are asked of, f32 leaves; empty: the kernel has no gradient. Everything else a
  /// case reads it captures.
  Tensors inputs = {};
  /// Plain ATen. Where there are inputs: differentiable, and in f64 when they come as f64. An
  /// output that is no function of the inputs for the gradient (a figure) is returned detached.
  std::function<Tensors(const Tensors& inputs)> reference;
  /// What ships. Differentiable where there are inputs, unless `backward` is given. Does not write
  /// its inputs.
  std::function<Tensors(const Tensors& inputs)> fused;
  /// For a kernel that computes its gradients itself, outside autograd: those of the inputs, given
  /// those of the outputs (undefined for a detached one).
  std::function<Tensors(const Tensors& inputs, const Tensors& output_grads)> backward = {};
  Tolerance tolerance = 0;  ///< of every output and gradient
  int64_t bytes = 0;        ///< one repetition reads and writes at least
  int64_t flops = 0;        ///< of one repetition
  /// What the bench times: the work of `reference` and `fused` into outputs that exist already, so
  /// that no set-up counts. Left out: the functions above, without gradients.
  std::function<void()> repeat_reference = {}, repeat_fused = {};
};

struct KernelEntry {
  const char* name;
  const char* summary;
  std::vector<KernelCase> (*cases)(at::Device device);
  /// Whether this build has its CUDA twin: the table says so, which CMake writes from the folders.
  bool cuda = false;
  /// Without a CPU side: what a processor does in its place is another kernel's.
  bool device_only = false;
};

/// Every kernel that was built in, by name.
std::span<const KernelEntry> kernel_table();

}  // namespace maglev
