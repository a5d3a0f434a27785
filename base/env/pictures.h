#pragma once
// Which of what an environment shows is a picture.

#include <algorithm>

#include "base/env/spec.h"

namespace maglev {

/// Bytes [height, width, channels], and no cell codes.
inline bool is_picture(const ObsColumn& column) {
  return column.dtype == DType::u8 && column.cells.bits == 0 && column.shape.size() == 3;
}

/// Codes of a grid's cells.
inline bool is_cells(const ObsColumn& column) { return column.cells.bits > 0; }

/// Whether a policy sees one.
inline bool sees_picture(const EnvSpec& spec) {
  return std::ranges::any_of(spec.observations, [](const ObsColumn& column) {
    return column.audience == Audience::both && is_picture(column);
  });
}

}  // namespace maglev
