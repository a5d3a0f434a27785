#include "engine/device/precision.h"

#include <cstdlib>

#include <ATen/ATen.h>
#include <ATen/autocast_mode.h>

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

at::ScalarType product_type(at::Device device) {
  return at::autocast::is_autocast_enabled(device.type())
             ? at::autocast::get_autocast_dtype(device.type())
             : at::kFloat;
}

void apply_precision(Precision precision, at::Device device, bool deterministic) {
  if (!device.is_cuda()) return;
  at::Context& context = at::globalContext();
  const bool tf32 = precision != Precision::fp32;
  context.setAllowTF32CuBLAS(tf32);
  context.setAllowTF32CuDNN(tf32);
  // on ROCm the same switch is MIOpen's
  context.setBenchmarkCuDNN(!deterministic && !at::Context::hasROCM());
  context.setDeterministicCuDNN(deterministic);
  context.setDeterministicAlgorithms(deterministic, /*warn_only=*/false);
  // torch would fill what nobody has written yet, in every graph anew
  context.setDeterministicFillUninitializedMemory(false);
  // eight of 4 MiB for each stream; what the user has set stays
  if (deterministic) setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8", /*overwrite=*/0);
}

}  // namespace maglev
