#include "engine/nn/laprop.h"

#include <utility>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

namespace maglev {

FlatLaProp::FlatLaProp(const FlatParams& params, LaPropOptions options)
    : options_(options),
      ranges_(params.ranges()),
      data_(params.data()),
      momentum_(at::zeros_like(data_)),
      squares_(at::zeros_like(data_)),
      steps_(at::zeros({}, data_.options())),
      nonfinite_(at::zeros_like(steps_)),
      norm_(at::zeros_like(steps_)),
      applied_(at::ones({}, data_.options().dtype(at::kBool))) {}

void FlatLaProp::reduce(const at::Tensor& grads, const at::Tensor& unscale, ThreadPool&) {
  at::NoGradGuard no_grad;
  sum_ = grads.dim() == 1 ? grads : grads[0];
  adam_reduce_reference(grads.dim() == 1 ? grads.unsqueeze(0) : grads, unscale);
}

void FlatLaProp::clip(const at::Tensor& skip) {
  at::NoGradGuard no_grad;
  norm_.copy_(at::linalg_vector_norm(sum_));
  const auto finite = at::isfinite(norm_);
  nonfinite_.add_(finite.logical_not());
  applied_.copy_(finite.logical_and(skip == 0));
  if (options_.clip == 0) return;
  for (const FlatRange& range : ranges_) {
    auto grad = sum_.narrow(0, range.begin, range.count);
    const auto size = at::linalg_vector_norm(data_.narrow(0, range.begin, range.count));
    const auto most = options_.clip * size.clamp_min(options_.least);
    grad.div_((at::linalg_vector_norm(grad) / most).clamp_min(1));
  }
}

void FlatLaProp::step(const at::Tensor& lr, ThreadPool&) {
  at::NoGradGuard no_grad;
  const auto steps = steps_ + 1;
  const auto unbiased = [&](double beta) { return 1 - at::pow(beta, steps); };
  // the gradient over its running size, then the running mean of that
  const auto squares = at::lerp(squares_, sum_.square(), 1 - options_.beta2);
  const auto size = (squares / unbiased(options_.beta2)).sqrt_().add_(options_.eps);
  const auto momentum = at::lerp(momentum_, sum_ / size, 1 - options_.beta1);
  const auto stepped = data_ - lr * momentum / unbiased(options_.beta1);
  // a step that is left out changes nothing
  for (const auto& [state, next] :
       {std::pair{&squares_, &squares}, std::pair{&momentum_, &momentum},
        std::pair{&data_, &stepped}, std::pair{&steps_, &steps}})
    state->copy_(at::where(applied_, *next, *state));
}

void FlatLaProp::visit_state(StateVisitor& visitor) {
  visit_packed("first_moment", momentum_, ranges_, visitor);
  visit_packed("second_moment", squares_, ranges_, visitor);
  visitor.tensor("steps", steps_);
  visitor.tensor("nonfinite", nonfinite_);
}

}  // namespace maglev
