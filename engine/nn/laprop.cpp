#include "engine/nn/laprop.h"

#include <utility>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "base/trace/span.h"

namespace maglev {
namespace {

std::vector<std::pair<int64_t, int64_t>> spans_of(const FlatParams& params) {
  std::vector<std::pair<int64_t, int64_t>> spans;
  for (const FlatRange& range : params.ranges()) spans.push_back({range.begin, range.count});
  return spans;
}

}  // namespace

FlatLaProp::FlatLaProp(const FlatParams& params, LaPropOptions o)
    : fused_(o.fused),
      ranges_(params.ranges()),
      numbers_{.beta1 = o.beta1, .beta2 = o.beta2, .eps = o.eps, .clip = o.clip, .least = o.least},
      tensors_(make_laprop_tensors(params.data(), spans_of(params))),
      args_(laprop_args(tensors_, numbers_)),
      norm_(tensors_.step[0]) {}

void FlatLaProp::reduce(const at::Tensor& grads, const at::Tensor& unscale, ThreadPool& pool) {
  at::NoGradGuard no_grad;
  const auto span = trace::stage("optimiser");
  lanes_ = grads.dim() == 1 ? grads.unsqueeze(0) : grads;
  if (fused_) laprop_reduce(args_, lanes_, unscale, pool);
  else adam_reduce_reference(lanes_, unscale);
}

void FlatLaProp::clip(const at::Tensor& skip) {
  at::NoGradGuard no_grad;
  const auto span = trace::stage("optimiser");
  if (fused_) laprop_clip(args_, skip);
  else laprop_clip_reference(tensors_, numbers_, gradient(), skip);
}

void FlatLaProp::step(const at::Tensor& lr, ThreadPool& pool) {
  at::NoGradGuard no_grad;
  const auto span = trace::stage("optimiser");
  if (fused_) laprop_step(args_, lr, pool);
  else laprop_step_reference(tensors_, numbers_, gradient(), lr);
}

void FlatLaProp::visit_state(StateVisitor& visitor) {
  visit_packed("first_moment", tensors_.momentum, ranges_, visitor);
  visit_packed("second_moment", tensors_.squares, ranges_, visitor);
  visitor.tensor("steps", tensors_.steps);
  visitor.tensor("nonfinite", tensors_.nonfinite);
}

}  // namespace maglev
