#include "engine/nn/optimizer.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

namespace maglev {

FlatAdam::FlatAdam(const FlatParams& params, AdamOptions options)
    : numbers_{.beta1 = options.beta1,
               .beta2 = options.beta2,
               .eps = options.eps,
               .weight_decay = options.weight_decay,
               .max_grad_norm = options.max_grad_norm} {
  std::vector<AdamGroup> groups{{0, params.size()}};
  if (options.clip_per_module) {
    groups.clear();
    for (const auto& segment : params.segments()) groups.push_back({segment.begin, segment.count});
  }
  tensors_ = make_adam_tensors(params.data(), groups);
  norm_ = tensors_.step[0];
}

FlatAdam::FlatAdam(const at::Tensor& data, const std::vector<AdamGroup>& groups,
                   const std::vector<float>& rates, AdamOptions options)
    : numbers_{.beta1 = options.beta1,
               .beta2 = options.beta2,
               .eps = options.eps,
               .weight_decay = options.weight_decay,
               .max_grad_norm = options.max_grad_norm,
               .clip_together = true},
      tensors_(make_adam_tensors(data, groups, rates)),
      norm_(tensors_.step[0]) {}

void FlatAdam::step(at::Tensor& grads, const at::Tensor& lr, const at::Tensor& skip,
                    ThreadPool& pool) {
  at::NoGradGuard no_grad;
  auto lanes = grads.dim() == 1 ? grads.unsqueeze(0) : grads;
  if (!lanes.is_cpu()) return adam_(tensors_, numbers_, lanes, lr, skip);
  const AdamArgs args = adam_args(tensors_, numbers_, lanes, lr, skip);
  const int64_t chunks = adam_chunks(args.P);
  pool.run(chunks, [&](int64_t c) { adam_norm_partial_cpu(args, c); });
  adam_finish_norm(args);
  pool.run(chunks, [&](int64_t c) { adam_step_cpu(args, c); });
}

void FlatAdam::visit_state(StateVisitor& visitor) {
  visitor.tensor("first_moment", tensors_.first);
  visitor.tensor("second_moment", tensors_.second);
  visitor.tensor("steps", tensors_.steps);
  visitor.tensor("nonfinite", tensors_.nonfinite);
}

}  // namespace maglev
