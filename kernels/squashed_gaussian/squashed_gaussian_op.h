#pragma once
#include <ATen/core/Tensor.h>

#include "kernels/squashed_gaussian/squashed_gaussian.h"

namespace maglev {

/// A draw of rows, f32.
struct SquashedDraw {
  at::Tensor head;                     ///< [rows, 2A]: means, then spreads
  at::Tensor noise;                    ///< [rows, A], standard normals
  at::Tensor action;                   ///< [rows, A]
  at::Tensor entropy, scaled_entropy;  ///< [rows], as SquashedGaussian has them
};
/// The draw of a head and noise, contiguous. Not differentiable; graph-safe.
SquashedDraw squashed_draw(const at::Tensor& head, const at::Tensor& noise,
                           const LogStdBounds& bounds, EntropyOf entropy_of = EntropyOf::gaussian);
/// Gradient of the head [rows, 2A], from those of the action [rows, A] and of the scaled entropy:
/// scale * d_scaled_entropy [n], of which row r takes r % n. Graph-safe.
at::Tensor squashed_draw_back(const SquashedDraw& draw, const at::Tensor& d_action,
                              const at::Tensor& d_scaled_entropy, double scale,
                              const LogStdBounds& bounds,
                              EntropyOf entropy_of = EntropyOf::gaussian);

}  // namespace maglev
