#include "engine/nn/optimizer.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "base/trace/span.h"

namespace maglev {
namespace {

AdamNumbers numbers_of(const AdamOptions& options, bool clip_together) {
  return {.beta1 = options.beta1,
          .beta2 = options.beta2,
          .eps = options.eps,
          .weight_decay = options.weight_decay,
          .max_grad_norm = options.max_grad_norm,
          .clip_together = clip_together};
}

std::vector<AdamGroup> groups_of(const FlatParams& params, bool per_module) {
  if (!per_module) return {{0, params.size()}};
  std::vector<AdamGroup> groups;
  for (const auto& range : params.module_ranges()) groups.push_back({range.begin, range.count});
  return groups;
}

}  // namespace

FlatAdam::FlatAdam(const FlatParams& params, AdamOptions options)
    : fused_(options.fused),
      ranges_(params.ranges()),
      numbers_(numbers_of(options, /*clip_together=*/false)),
      tensors_(make_adam_tensors(params.data(), groups_of(params, options.clip_per_module))),
      args_(adam_args(tensors_, numbers_)),
      norm_(tensors_.step[0]) {}

FlatAdam::FlatAdam(const FlatParams& params, const AdamPart& part, AdamOptions options)
    : fused_(options.fused),
      ranges_(ranges_within(params.ranges(), part.begin, part.count)),
      numbers_(numbers_of(options, /*clip_together=*/true)),
      tensors_(make_adam_tensors(params.data().narrow(0, part.begin, part.count), part.groups,
                                 part.rates)),
      args_(adam_args(tensors_, numbers_)),
      norm_(tensors_.step[0]) {}

void reduce_all(Optimizer& optimizer, const at::Tensor& grads, const at::Tensor& unscale,
                ThreadPool& pool, Group* group) {
  optimizer.reduce(grads, unscale, pool);
  if (!group) return;
  // the sums of all processes, as one lane
  const at::Tensor sum = grads.dim() == 1 ? grads : grads[0];
  group->sum_gradient(sum);
  optimizer.reduce(sum, /*unscale=*/{}, pool);
}

void FlatAdam::reduce(const at::Tensor& grads, const at::Tensor& unscale, ThreadPool& pool) {
  at::NoGradGuard no_grad;
  const auto span = trace::stage("optimiser");
  lanes_ = grads.dim() == 1 ? grads.unsqueeze(0) : grads;
  if (fused_) adam_reduce(args_, lanes_, unscale, pool);
  else adam_reduce_reference(lanes_, unscale);
}

void FlatAdam::clip(const at::Tensor& skip) {
  at::NoGradGuard no_grad;
  const auto span = trace::stage("optimiser");
  if (fused_) adam_clip(args_, skip);
  else adam_clip_reference(tensors_, numbers_, gradient(), skip);
}

void FlatAdam::step(const at::Tensor& lr, ThreadPool& pool) {
  at::NoGradGuard no_grad;
  const auto span = trace::stage("optimiser");
  if (fused_) adam_step(args_, lr, pool);
  else adam_step_reference(tensors_, numbers_, gradient(), lr);
}

void FlatAdam::visit_state(StateVisitor& visitor) {
  visit_packed("first_moment", tensors_.first, ranges_, visitor);
  visit_packed("second_moment", tensors_.second, ranges_, visitor);
  visitor.tensor("steps", tensors_.steps);
  visitor.tensor("nonfinite", tensors_.nonfinite);
}

}  // namespace maglev
