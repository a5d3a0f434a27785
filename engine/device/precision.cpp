#include "engine/device/precision.h"

#include <torch/torch.h>

#include "base/core/error.h"
#include "engine/device/device.h"

namespace maglev {
namespace {

constexpr const char* kNames[] = {"fp32", "tf32", "bf16", "fp16"};

}  // namespace

const char* precision_name(Precision precision) { return kNames[int(precision)]; }

Precision parse_precision(const std::string& name) {
  for (int i = 0; i < 4; ++i)
    if (name == kNames[i]) return Precision(i);
  throw Error("[train] train.precision must be auto, fp32, tf32, bf16 or fp16, got '" + name + "'");
}

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
