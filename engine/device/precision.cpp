#include "engine/device/precision.h"

#include <ATen/ATen.h>

#include "engine/device/device.h"

namespace maglev {

std::vector<Precision> precisions_of(at::Device device) {
  if (device.is_cpu()) return {Precision::fp32, Precision::bf16};
  std::vector<Precision> all{Precision::fp32};
  const int capability = compute_capability(device.index());
  if (capability >= 80) all.insert(all.end(), {Precision::tf32, Precision::bf16});
  if (capability >= 70) all.push_back(Precision::fp16);
  return all;
}

void apply_precision(Precision precision, at::Device device) {
  if (!device.is_cuda()) return;
  const bool tf32 = precision != Precision::fp32;
  at::globalContext().setAllowTF32CuBLAS(tf32);
  at::globalContext().setAllowTF32CuDNN(tf32);
  // on ROCm the same switch is MIOpen's
  at::globalContext().setBenchmarkCuDNN(!at::Context::hasROCM());
}

}  // namespace maglev
