#pragma once
// What is seen, there and back: rows to tokens and their gradients, states to what they should
// show. By autograd, in the part of a lane.

#include <ATen/core/Tensor.h>

#include "algos/dreamer/model_shape.h"
#include "algos/dreamer/networks.h"
#include "algos/dreamer/observation.h"
#include "engine/device/precision.h"

namespace maglev::dreamer {

class Sight {
 public:
  /// `networks` with bound gradients. `products`: of images.
  Sight(const ModelShape& shape, const Networks& networks, Precision products)
      : shape_(shape),
        products_(products),
        encoder_(networks.encoder),
        decoder_(networks.decoder) {}

  /// Tokens [N, E] of rows; `learn`: encode_back() will follow. The same bits either way.
  at::Tensor encode(const Observation& rows, bool learn);
  /// Adds the encoder's gradients by those of the tokens that encode() gave.
  void encode_back(const at::Tensor& d_tokens);
  /// The sum over rows of what feature [N, F] does not show of them, each by its `row_weight` [N]
  /// where there is one, times `weight`; a scalar. Adds the decoder's gradients, and those of the
  /// feature to d_feature.
  at::Tensor decode(const at::Tensor& feature, const Observation& rows, double weight,
                    const at::Tensor& row_weight, at::Tensor& d_feature);

 private:
  ModelShape shape_;
  Precision products_;
  std::shared_ptr<Encoder> encoder_;
  std::shared_ptr<Decoder> decoder_;
  at::Tensor tokens_;
};

}  // namespace maglev::dreamer
