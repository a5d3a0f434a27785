#include "engine/nn/init.h"

#include <torch/torch.h>

#include "kernels/philox/philox_op.h"

namespace maglev {

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

}  // namespace maglev
