#pragma once
// Pictures of what a world model sees and imagines beside what there was.

#include <cstdint>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "base/env/spec.h"
#include "base/picture/animation.h"

namespace maglev::verbs::eval {

/// A stretch of play and a model's account of it. Columns in the order of the environment's.
struct Dreamed {
  std::vector<ObsColumn> columns;
  std::vector<at::Tensor> truth;  ///< [T, N, shape], images [T, N, H, W, C], cells as such
  std::vector<at::Tensor> model;  ///< likewise f32; undefined where the model does not see a column
  at::Tensor is_first;            ///< [T, N] u8
  int64_t seen = 0;               ///< steps that the model was shown; it imagined the others
};

/// How far off the model was, in a column, as a root of mean squares over rows and elements.
struct DreamError {
  std::string column;
  double seen = 0, imagined = 0;  ///< NaN where there were no such steps
  /// Likewise, of who says what was seen last where the model imagined.
  double still = 0;
  double most = 0;  ///< what its numbers go up to, from 0; 0: nobody knows
};
std::vector<DreamError> errors_of(const Dreamed& dreamed);

/// Images as truth, model and difference above each other, numbers as curves; green what the model
/// was shown, orange what it imagined. Several rows, a frame a step:
void draw_moving(const Dreamed& dreamed, Animation& into);
/// Steps of the first row from left to right, one frame:
void draw_strip(const Dreamed& dreamed, Animation& into);

}  // namespace maglev::verbs::eval
