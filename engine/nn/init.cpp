#include "engine/nn/init.h"

#include <algorithm>
#include <cmath>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "base/simd/orthonormal.h"
#include "kernels/philox/philox_op.h"

namespace maglev {

at::Tensor Initializer::weight(const std::vector<int64_t>& sizes) const {
  return at::zeros(sizes, at::TensorOptions(meta_ ? at::kMeta : at::kCPU));
}

void Initializer::orthogonal(at::Tensor weight, double gain) {
  if (skip_) return;
  at::NoGradGuard no_grad;
  const int64_t rows = weight.size(0), columns = weight.numel() / rows;
  const int64_t length = std::max(rows, columns), count = std::min(rows, columns);
  auto normal = at::empty({length, count});
  philox_normal_(normal,
                 {.seed = seed_, .purpose = Purpose::init, .first_row = 0, .step = next_++});
  // its columns, made orthonormal in order: uniform over all such sets
  const int64_t stride = (length + kOrthonormalStep - 1) / kOrthonormalStep * kOrthonormalStep;
  auto basis = at::zeros({count, stride}, at::kDouble);
  auto vectors = basis.narrow(1, 0, length);
  vectors.copy_(normal.t());
  orthonormalise(basis.data_ptr<double>(), count, stride);
  weight.copy_((rows < columns ? vectors : vectors.t()).mul(gain).reshape(weight.sizes()));
}

void Initializer::normal(at::Tensor weight, double std, double limit) {
  if (skip_) return;
  at::NoGradGuard no_grad;
  auto numbers = at::empty({weight.size(0), weight.numel() / weight.size(0)});
  philox_normal_(numbers, {.seed = seed_, .purpose = Purpose::init, .step = next_++});
  weight.copy_((numbers * std).clamp(-limit, limit).view(weight.sizes()));
}

void Initializer::truncated_normal(at::Tensor weight, double std, double limit) {
  if (skip_) return;
  at::NoGradGuard no_grad;
  auto numbers = at::empty({weight.size(0), weight.numel() / weight.size(0)});
  philox_uniform_(numbers, {.seed = seed_, .purpose = Purpose::init, .step = next_++});
  // a uniform number in the stretch of the error function between the limits, taken back through it
  const double edge = std::erf(limit / std::sqrt(2.0));
  numbers = at::erfinv((2 * numbers.to(at::kDouble) - 1) * edge) * (std * std::sqrt(2.0));
  weight.copy_(numbers.view(weight.sizes()));
}

void Initializer::uniform(at::Tensor weight, double limit) {
  if (skip_) return;
  at::NoGradGuard no_grad;
  auto numbers = at::empty({weight.size(0), weight.numel() / weight.size(0)});
  philox_uniform_(numbers, {.seed = seed_, .purpose = Purpose::init, .step = next_++});
  weight.copy_(((2 * numbers - 1) * limit).view(weight.sizes()));
}

}  // namespace maglev
