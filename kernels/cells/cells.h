#pragma once
// Packed cell codes straight into the layout networks take: one table row a byte, copied.

#include <cstdint>
#include <vector>

#include "base/core/hd.h"

namespace maglev {

/// T: float, or uint16_t for the bits of bfloat16. Rows are decoded apart, so callers may cut them
/// into blocks for threads.
template <class T>
struct CellsArgs {
  const uint8_t* packed;  ///< [rows, row_bytes], cell i at bit i * bits of its row
  const T* table;         ///< [256, 8 / bits * channels], what every byte stands for
  T* out;                 ///< [rows, cells, channels], written
  int64_t rows, row_bytes, cells, channels;
  int bits;  ///< 1, 2, 4 or 8; cells * bits <= row_bytes * 8
};

/// The table of a palette [codes, channels]: row b holds the channels of all cells packed in byte
/// b. Codes the palette does not list are 0.
std::vector<float> cell_table(int bits, int64_t channels, const std::vector<float>& palette);

void cells_cpu(const CellsArgs<float>& args);
void cells_cpu(const CellsArgs<uint16_t>& args);

/// The same on `stream` (a cudaStream_t); returns a cudaError_t. T is one of the two. Only in
/// builds with device code.
template <class T>
int cells_cuda(const CellsArgs<T>& args, void* stream);

/// Element `e` of out, counted over [rows, cells, channels].
template <class T>
MAGLEV_HD T cell_element(const CellsArgs<T>& a, int64_t e) {
  const int64_t per_byte = 8 / a.bits, channel = e % a.channels, at = e / a.channels;
  const int64_t row = at / a.cells, cell = at % a.cells;
  const int64_t byte = a.packed[row * a.row_bytes + cell / per_byte];
  return a.table[(byte * per_byte + cell % per_byte) * a.channels + channel];
}

}  // namespace maglev
