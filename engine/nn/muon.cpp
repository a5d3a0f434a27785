#include "engine/nn/muon.h"

#include <algorithm>
#include <cmath>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <torch/nn/module.h>

#include "base/trace/span.h"

namespace maglev {

at::Tensor orthogonalized(const at::Tensor& x) {
  // Jordan's coefficients: steep at 0, so that small singular values grow fast
  constexpr double a = 3.4445, b = -4.7750, c = 2.0315;
  const bool tall = x.size(0) > x.size(1);
  auto y = tall ? x.t() : x;
  y = y / (at::linalg_vector_norm(y) + 1e-7);
  for (int step = 0; step < 5; ++step) {
    auto square = at::mm(y, y.t());
    y = a * y + at::mm(b * square + c * at::mm(square, square), y);
  }
  return tall ? y.t() : y;
}

FlatMuon::FlatMuon(const FlatParams& params, const torch::nn::Module& module, AdamOptions adam,
                   MuonOptions options)
    : options_(std::move(options)),
      weight_decay_(adam.weight_decay),
      adam_(params, adam),
      ranges_(params.ranges()),
      data_(params.data()),
      momentum_(at::zeros_like(params.data())) {
  auto range = ranges_.begin();
  for (const auto& p : module.named_parameters()) {
    const auto child = p.key().substr(0, p.key().find('.'));
    const bool for_adam =
        std::count(options_.adam_modules.begin(), options_.adam_modules.end(), child) > 0;
    if (p.value().dim() == 2 && !for_adam)
      matrices_.push_back({range->begin, p.value().size(0), p.value().size(1)});
    ++range;
  }
}

at::Tensor FlatMuon::view(const at::Tensor& flat, const Matrix& m) const {
  return flat.narrow(0, m.begin, m.rows * m.columns).view({m.rows, m.columns});
}

void FlatMuon::step(const at::Tensor& lr, ThreadPool& pool) {
  at::NoGradGuard no_grad;
  const auto span = trace::stage("optimiser");
  // Adam clips and steps everything; matrices are taken back to where they were
  std::vector<at::Tensor> before;
  for (const auto& m : matrices_) before.push_back(view(data_, m).clone());
  adam_.step(lr, pool);
  auto applied = adam_.applied() != 0;
  for (size_t i = 0; i < matrices_.size(); ++i) {
    const Matrix& m = matrices_[i];
    auto weight = view(data_, m), momentum = view(momentum_, m), g = view(adam_.gradient(), m);
    auto next = at::lerp(momentum, g, 1 - options_.momentum);
    // Nesterov: the gradient moved towards the momentum it has just joined
    auto update = orthogonalized(at::lerp(g, next, options_.momentum));
    // an orthogonal matrix has root mean square 1 / sqrt(longer side)
    const double scale = options_.update_rms * std::sqrt(double(std::max(m.rows, m.columns)));
    auto stepped = before[i] * (1 - lr * weight_decay_) - lr * scale * update;
    weight.copy_(at::where(applied, stepped, before[i]));
    momentum.copy_(at::where(applied, next, momentum));
  }
}

void FlatMuon::visit_state(StateVisitor& visitor) {
  adam_.visit_state(visitor);
  visit_packed("momentum", momentum_, ranges_, visitor);
}

}  // namespace maglev
