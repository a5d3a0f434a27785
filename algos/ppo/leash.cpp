#include "algos/ppo/leash.h"

#include <algorithm>

#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>

#include "kernels/policy/policy_op.h"

namespace maglev::ppo {
namespace {

// in fp32 whatever the run computes in; on a device a library's products take TF32 where the run's
// do
AlgoContext base_context(AlgoContext context) {
  context.precision = Precision::fp32;
  return context;
}

}  // namespace

Leash::Leash(const Options& options, const AlgoContext& context)
    : coefficient_(options.leash), context_(context), base_(options, base_context(context)) {
  const auto f32 = at::TensorOptions(at::kFloat).device(context.device);
  for (auto* column : {&reward_, &drift_, &valid_})
    *column = at::zeros({options.rollout, context.rows}, f32);
}

void Leash::hold(const PpoPolicy& policy) {
  at::NoGradGuard no_grad;
  // parameters and running statistics, in the order both have them
  const auto copy = [](std::vector<at::Tensor> into, const std::vector<at::Tensor>& from) {
    for (size_t i = 0; i < into.size(); ++i) into[i].copy_(from[i]);
  };
  copy(base_.network().parameters(), policy.network().parameters());
  copy(base_.network().buffers(), policy.network().buffers());
}

void Leash::find_base_log_probs(const Batch& batch) {
  const int64_t T = batch.action.size(0), rows = T * context_.rows;
  const auto flat = [&](const at::Tensor& column) { return column.narrow(0, 0, T).flatten(0, 1); };
  std::vector<at::Tensor> obs;
  for (const auto& column : batch.obs) obs.push_back(flat(column));
  const at::Tensor mask = batch.mask.defined() ? flat(batch.mask) : batch.mask;
  const at::Tensor action = flat(batch.action), out = drift_.flatten();

  // parts of a fixed size, as large as acting's, so that threads never show
  const int64_t part = base_.block_rows(), parts = (rows + part - 1) / part;
  const auto find = [&](int64_t p) {
    c10::InferenceMode guard;
    const int64_t begin = p * part, count = std::min(part, rows - begin);
    std::vector<at::Tensor> seen;
    for (const auto& column : obs) seen.push_back(column.narrow(0, begin, count));
    const auto given = base_.forward(base_.network(), seen, {.policy = true, .value = false});
    const DistParams dist{given.logits, base_.network().log_std(),
                          mask.defined() ? mask.narrow(0, begin, count) : mask};
    out.narrow(0, begin, count)
        .copy_(
            policy_log_prob(context_.spec.action, dist, action.narrow(0, begin, count)).log_prob);
  };
  // a device's work stays on this thread's stream
  if (!context_.device.is_cuda()) return context_.pool->run(parts, find);
  for (int64_t p = 0; p < parts; ++p) find(p);
}

const Batch& Leash::applied(const Batch& batch, Metrics& metrics) {
  at::NoGradGuard no_grad;
  if (metric_ < 0) metric_ = metrics.declare({"loss/leash_kl"});
  const int64_t T = batch.action.size(0);

  // how much likelier each action was than under the policy the run began with
  find_base_log_probs(batch);
  drift_.neg_().add_(batch.extra[log_prob_column]);

  // a step whose next row begins an episode only reset its environment and costs nothing
  valid_.copy_(1 - batch.is_first.narrow(0, 1, T));
  drift_.mul_(valid_);
  reward_.copy_(batch.reward).sub_(drift_, coefficient_);

  // of all steps that count, however many a rollout or a process has of them
  const at::Tensor count = valid_.sum();
  metrics.add(metric_, (drift_.sum() / count.clamp_min(1)).unsqueeze(0), count);
  leashed_ = batch;
  leashed_.reward = reward_;
  return leashed_;
}

}  // namespace maglev::ppo
