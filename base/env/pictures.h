#pragma once
// Which of what an environment shows is a picture.

#include <algorithm>
#include <cstdint>
#include <vector>

#include "base/env/spec.h"

namespace maglev {

/// Codes of a grid's cells.
inline bool is_cells(const ObsColumn& column) { return column.cells.bits > 0; }

/// Bytes [height, width, channels], and no cell codes.
inline bool is_picture(const ObsColumn& column) {
  return column.dtype == DType::u8 && !is_cells(column) && column.shape.size() == 3;
}

/// [height, width, channels] of a picture, or of cells as one; empty: it is neither.
inline std::vector<int64_t> image_shape(const ObsColumn& column) {
  if (is_cells(column) && column.cells.grid.size() == 2)
    return {column.cells.grid[0], column.cells.grid[1], column.cells.channels};
  return is_picture(column) ? column.shape : std::vector<int64_t>();
}

/// Whether a policy sees one.
inline bool sees_picture(const EnvSpec& spec) {
  return std::ranges::any_of(spec.observations, [](const ObsColumn& column) {
    return column.audience == Audience::both && is_picture(column);
  });
}

}  // namespace maglev
