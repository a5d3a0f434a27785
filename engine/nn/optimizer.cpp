#include "engine/nn/optimizer.h"

#include <torch/torch.h>

namespace maglev {

FlatAdam::FlatAdam(const FlatParams& params, AdamOptions options)
    : options_(options), data_(params.data()) {
  if (options.clip_per_module) groups_ = params.segments();
  else groups_ = {{"all", 0, params.size()}};
  first_ = at::zeros_like(data_);
  second_ = at::zeros_like(data_);
  steps_ = at::zeros({}, data_.options());
  nonfinite_ = at::zeros({}, data_.options());
}

at::Tensor FlatAdam::step(at::Tensor& grad, const at::Tensor& lr, const at::Tensor& skip) {
  at::NoGradGuard no_grad;
  at::Tensor squares;
  for (const auto& group : groups_) {
    auto part = grad.narrow(0, group.begin, group.count);
    auto norm = at::linalg_vector_norm(part);
    if (options_.max_grad_norm > 0)
      part.mul_(at::clamp_max(options_.max_grad_norm / (norm + 1e-6), 1.0));
    squares = squares.defined() ? squares + norm * norm : norm * norm;
  }
  auto norm = at::sqrt(squares);
  auto bad = at::logical_not(at::isfinite(norm)).to(at::kFloat);
  nonfinite_.add_(bad * (skip == 0));
  auto found = at::logical_or(bad != 0, skip != 0).to(at::kFloat);
  steps_.add_(1 - found);
  if (options_.weight_decay > 0)
    at::_fused_adamw_({data_}, {grad}, {first_}, {second_}, {}, {steps_}, lr, options_.beta1,
                      options_.beta2, options_.weight_decay, options_.eps, false, false, {}, found);
  else
    at::_fused_adam_({data_}, {grad}, {first_}, {second_}, {}, {steps_}, lr, options_.beta1,
                     options_.beta2, 0.0, options_.eps, false, false, {}, found);
  return norm;
}

void FlatAdam::visit_state(StateVisitor& visitor) {
  visitor.tensor("first_moment", first_);
  visitor.tensor("second_moment", second_);
  visitor.tensor("steps", steps_);
  visitor.tensor("nonfinite", nonfinite_);
}

}  // namespace maglev
