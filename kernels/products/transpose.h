#pragma once
// The transpose of a matrix: rows to panels and back, and weights for products that read them the
// other way.

#include <cstdint>

namespace maglev {

/// to[c * to_row + r] = from[r * from_row + c]; nothing else is written.
struct Transpose {
  const float* from;
  int64_t from_row;
  float* to;
  int64_t to_row;
  int64_t rows, columns;  ///< of `from`
};
void transpose_cpu(const Transpose& args);

}  // namespace maglev
