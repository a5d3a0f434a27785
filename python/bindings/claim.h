#pragma once
// The engine's ways with torch, for as long as it works in somebody else's process.

#include <ATen/Context.h>
#include <ATen/Parallel.h>

#include "engine/host/machine.h"

namespace maglev::python {

/// While one lives torch is as claim_threads leaves it; then it has the threads and the precision of
/// products again that its user gave it. Tensors in host memory come from the engine's cache from
/// the first one on.
class Claim {
 public:
  Claim()
      : threads_(at::get_num_threads()),
        tf32_convolutions_(at::globalContext().allowTF32CuDNN()),
        tf32_products_(at::globalContext().allowTF32CuBLAS()) {
    claim_threads();
  }
  ~Claim() {
    at::set_num_threads(threads_);
    at::globalContext().setAllowTF32CuDNN(tf32_convolutions_);
    at::globalContext().setAllowTF32CuBLAS(tf32_products_);
  }
  Claim(const Claim&) = delete;
  Claim& operator=(const Claim&) = delete;

 private:
  int threads_;
  bool tf32_convolutions_, tf32_products_;
};

}  // namespace maglev::python
