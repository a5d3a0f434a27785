#pragma once
// What dropout multiplies a panel's features by (base/simd/panel.h), drawn from numbered noise
// (kernels/noise): row r's feature f takes uniform number first + r * row_step + f of the stream.

#include <cstdint>

namespace maglev {

struct DropoutPanel {
  uint64_t seed, stream;
  uint64_t first;     ///< of row 0, a multiple of 4
  uint64_t row_step;  ///< a multiple of 4, at least `features`
  int64_t features, stride;
  float share;    ///< dropped where the number is below it; in [0, 1)
  float* factor;  ///< [features][stride], written: 0, or 1 / (1 - share)
};
/// All columns of the stride are drawn.
void dropout_cpu(const DropoutPanel& args);

}  // namespace maglev
