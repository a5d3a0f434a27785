#pragma once
// A fused operation: an obvious reference in ATen beside the version that ships, and the shapes
// both are held to. The parity test, the bench and `maglev kernels` walk the same cases.

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

namespace maglev {

/// One kernel at one shape. Both functions return the same outputs in the same order.
struct KernelCase {
  std::string name;  ///< the shape, e.g. "T=128 N=1024"
  std::function<std::vector<at::Tensor>()> reference;
  std::function<std::vector<at::Tensor>()> fused;
  double tolerance = 0;  ///< relative and absolute; 0 = bit for bit
  int64_t bytes = 0;     ///< read and written at least
  int64_t flops = 0;
};

struct KernelEntry {
  const char* name;
  const char* summary;
  std::vector<KernelCase> (*cases)(at::Device device);
};

/// Every kernel that was built in, by name.
std::span<const KernelEntry> kernel_table();

}  // namespace maglev
