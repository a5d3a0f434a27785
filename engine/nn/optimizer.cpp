#include "engine/nn/optimizer.h"

#include <torch/torch.h>

namespace maglev {

FlatAdam::FlatAdam(const FlatParams& params, AdamOptions options)
    : numbers_{.beta1 = options.beta1,
               .beta2 = options.beta2,
               .eps = options.eps,
               .weight_decay = options.weight_decay,
               .max_grad_norm = options.max_grad_norm} {
  std::vector<AdamGroup> groups;
  if (options.clip_per_module)
    for (const auto& s : params.segments()) groups.push_back({s.begin, s.count});
  else groups.push_back({0, params.size()});
  tensors_ = make_adam_tensors(params.data(), groups);
}

at::Tensor FlatAdam::step(at::Tensor& grad, const at::Tensor& lr, const at::Tensor& skip) {
  at::NoGradGuard no_grad;
  auto lanes = grad.dim() == 1 ? grad.unsqueeze(0) : grad;
  adam_(tensors_, numbers_, lanes, lr, skip);
  return tensors_.step.select(0, 0);
}

void FlatAdam::visit_state(StateVisitor& visitor) {
  visitor.tensor("first_moment", tensors_.first);
  visitor.tensor("second_moment", tensors_.second);
  visitor.tensor("steps", tensors_.steps);
  visitor.tensor("nonfinite", tensors_.nonfinite);
}

}  // namespace maglev
