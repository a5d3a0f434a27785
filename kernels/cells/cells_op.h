#pragma once
#include <ATen/core/Tensor.h>

#include "base/env/spec.h"

namespace maglev {

/// [256, 8 / bits * channels] f32: what every byte of packed cells stands for in a palette [codes,
/// channels]. In another dtype, decode_cells gives that dtype.
at::Tensor make_cell_table(const CellCoding& cells, const std::vector<float>& palette);

/// Cell codes as networks take them, channels innermost.
///   packed [B, bytes] u8          table of make_cell_table, f32, bf16 or u8, on the same device
///   returns [B, H, W, C] of the table's dtype
at::Tensor decode_cells(const at::Tensor& packed, const at::Tensor& table, const CellCoding& cells);

}  // namespace maglev
