#pragma once
// A gated recurrent unit (kernels/gru, one block) through the time steps of sequences, there and
// back: each step's product with what is remembered, its gates, and what it carries to the next.

#include <cstdint>

namespace maglev {

/// L steps of B sequences, H units; arrays lie together unless a row is named.
struct GruScanArgs {
  int64_t L, B, H;
  const float* products;  ///< [L][B][3 * H]: of what each step sees with the gates' weights
  const float* bias;      ///< [3 * H]
  const float* weight_t;  ///< [H][weight_row], of which 3 * H are read: of what is remembered
  int64_t weight_row;
  const float* h;     ///< [B][H] before the first step
  const float* keep;  ///< [L][B]: 0 where a step forgets what was before it, else 1
  float* gates;       ///< [L][B][3 * H], written: without their bias
  float* before;      ///< [L][B][H], written: what each step begins with
  float* behind;      ///< [L][B][H], written: what is remembered behind each step
};

struct GruScanBack {
  int64_t L, B, H;
  const float *gates, *before, *bias, *keep;  ///< as the way there left them
  const float* weight;                        ///< [3 * H][weight_row], of which H are read
  int64_t weight_row;
  const float* d_behind;  ///< [L][B][H]
  float* d_gates;         ///< [L][B][3 * H], written: of the products, too
  float* d_h;             ///< [B][H], written: of what was before the first step
};

/// Most units on a device, where a block takes its sequences through all steps: wider ones read more
/// weights each step than a multiprocessor keeps.
constexpr int64_t kMostGruScanUnits = 128;

/// On a processor gates may lie where the products do, and d_gates where the gates do.
void gru_scan_cpu(const GruScanArgs& args);
void gru_scan_back_cpu(const GruScanBack& args);
/// On `stream` (a cudaStream_t); return a cudaError_t. One launch each. Only in builds with device
/// code.
int gru_scan_cuda(const GruScanArgs& args, void* stream);
int gru_scan_back_cuda(const GruScanBack& args, void* stream);

}  // namespace maglev
