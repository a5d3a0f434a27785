#include "engine/nn/init.h"

#include <torch/torch.h>

#include "kernels/philox/philox_op.h"

namespace maglev {

at::Tensor Initializer::weight(const std::vector<int64_t>& sizes) const {
  return at::zeros(sizes, at::TensorOptions(meta_ ? at::kMeta : at::kCPU));
}

void Initializer::orthogonal(at::Tensor weight, double gain) {
  if (skip_) return;
  at::NoGradGuard no_grad;
  const int64_t rows = weight.size(0), columns = weight.numel() / rows;
  const bool wide = rows < columns;
  auto normal = at::empty({std::max(rows, columns), std::min(rows, columns)});
  philox_normal_(normal,
                 {.seed = seed_, .purpose = Purpose::init, .first_row = 0, .step = next_++});
  auto [q, r] = at::linalg_qr(normal);
  // the sign of R's diagonal makes Q uniform over orthogonal matrices
  q = q * at::diagonal(r).sign();
  if (wide) q = q.t();
  weight.copy_((q * gain).reshape(weight.sizes()));
}

void Initializer::normal(at::Tensor weight, double std, double limit) {
  if (skip_) return;
  at::NoGradGuard no_grad;
  auto numbers = at::empty({weight.size(0), weight.numel() / weight.size(0)});
  philox_normal_(numbers, {.seed = seed_, .purpose = Purpose::init, .step = next_++});
  weight.copy_((numbers * std).clamp(-limit, limit).view(weight.sizes()));
}

void Initializer::uniform(at::Tensor weight, double limit) {
  if (skip_) return;
  at::NoGradGuard no_grad;
  auto numbers = at::empty({weight.size(0), weight.numel() / weight.size(0)});
  philox_uniform_(numbers, {.seed = seed_, .purpose = Purpose::init, .step = next_++});
  weight.copy_(((2 * numbers - 1) * limit).view(weight.sizes()));
}

}  // namespace maglev
