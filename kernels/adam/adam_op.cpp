#include "kernels/adam/adam_op.h"

#include <string>
#include <vector>

#include <ATen/ATen.h>

#include "base/core/error.h"
#include "engine/device/device.h"
#include "engine/device/kernel.h"

namespace maglev {
namespace {

struct Inputs {
  AdamTensors tensors;
  at::Tensor grad, lr, skip;
  AdamNumbers numbers;
};

// moments and counters of an optimiser that has run a while
Inputs make_inputs(int64_t P, int64_t lanes, AdamNumbers numbers, at::Device device) {
  auto gen = at::make_generator<at::CPUGeneratorImpl>(uint64_t(P + lanes));
  const int64_t head = P / 3;
  std::vector<AdamGroup> groups{{0, P}};
  std::vector<float> rates{1};
  if (head > 0) groups = {{0, head}, {head, P - head}}, rates = {0.3f, 1};
  Inputs in;
  in.tensors = make_adam_tensors(at::randn({P}, gen).to(device), groups, rates);
  in.tensors.first.copy_(at::randn({P}, gen) * 0.1);
  in.tensors.second.copy_(at::rand({P}, gen) * 0.1);
  in.tensors.steps.fill_(5);
  in.grad = at::randn({lanes, P}, gen).to(device);
  in.lr = at::full({}, 1e-2f, at::TensorOptions(device)), in.skip = at::zeros_like(in.lr);
  in.numbers = numbers;
  return in;
}

template <class Step>
Tensors run(const Inputs& in, Step step) {
  AdamTensors t = in.tensors;
  for (auto* one : {&t.data, &t.first, &t.second, &t.steps, &t.nonfinite, &t.step})
    *one = one->clone();
  auto grad = in.grad.clone();
  auto norm = step(t, grad);
  return {t.data, t.first, t.second, t.steps, t.nonfinite, norm.clone(), grad[0]};
}

std::vector<KernelCase> cases(at::Device device) {
  std::vector<KernelCase> list;
  const AdamNumbers adam{
      .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-5, .weight_decay = 0, .max_grad_norm = 0.5};
  AdamNumbers adamw = adam, free = adam, together = adam;
  adamw.weight_decay = 0.1, free.max_grad_norm = 0;
  together.clip_together = true;
  for (auto [P, lanes] : {std::pair<int64_t, int64_t>{1, 1}, {58, 3}, {16384, 1}, {70001, 4}})
    for (const auto& [name, numbers] : {std::pair<const char*, AdamNumbers>{"adam", adam},
                                        {"adamw", adamw},
                                        {"unclipped", free},
                                        {"together", together}}) {
      Inputs in = make_inputs(P, lanes, numbers, device);
      list.push_back(
          {.name = std::string(name) + " P=" + std::to_string(P) + " L=" + std::to_string(lanes),
           .reference =
               [=](const Tensors&) {
                 return run(in, [&](AdamTensors& t, at::Tensor& grad) {
                   return adam_reference_(t, in.numbers, grad, in.lr, in.skip);
                 });
               },
           .fused =
               [=](const Tensors&) {
                 return run(in, [&](AdamTensors& t, at::Tensor& grad) {
                   adam_(t, in.numbers, grad, in.lr, in.skip);
                   return t.step[0];
                 });
               },
           .tolerance = 1e-6,
           .bytes = P * 4 * (lanes + 9),
           .flops = P * (lanes + 14),
           .repeat_reference =
               [in]() mutable { adam_reference_(in.tensors, in.numbers, in.grad, in.lr, in.skip); },
           .repeat_fused =
               [in]() mutable { adam_(in.tensors, in.numbers, in.grad, in.lr, in.skip); }});
    }
  return list;
}

}  // namespace

AdamTensors make_adam_tensors(const at::Tensor& data, const std::vector<AdamGroup>& groups,
                              const std::vector<float>& rates) {
  const int64_t G = int64_t(groups.size());
  auto options = data.options();
  AdamTensors t{.data = data,
                .first = at::zeros_like(data),
                .second = at::zeros_like(data),
                .steps = at::zeros({}, options),
                .nonfinite = at::zeros({}, options),
                .groups = at::empty({G, 2}, at::kLong),
                .partial = at::zeros({adam_chunks(data.numel()), G}, options.dtype(at::kDouble)),
                .rate = at::ones({G}),
                .factor = at::zeros({G}, options),
                .step = at::zeros({4}, options)};
  for (int64_t g = 0; g < G; ++g) {
    t.groups[g][0] = groups[size_t(g)].begin;
    t.groups[g][1] = groups[size_t(g)].count;
    if (!rates.empty()) t.rate[g] = rates[size_t(g)];
  }
  t.groups = t.groups.to(data.device());
  t.rate = t.rate.to(data.device());
  return t;
}

AdamArgs adam_args(const AdamTensors& t, const AdamNumbers& numbers, const at::Tensor& grad,
                   const at::Tensor& lr, const at::Tensor& skip) {
  const int64_t P = t.data.numel();
  MAGLEV_ASSERT(grad.dim() == 2 && grad.size(1) == P && grad.stride(1) == 1 &&
                    grad.scalar_type() == at::kFloat,
                "lanes [lanes, P] f32");
  return {.grad = grad.data_ptr<float>(),
          .lanes = grad.size(0),
          .lane_stride = grad.stride(0),
          .P = P,
          .groups = reinterpret_cast<const AdamGroup*>(t.groups.data_ptr<int64_t>()),
          .group_count = t.groups.size(0),
          .rate = t.rate.data_ptr<float>(),
          .clip_together = numbers.clip_together,
          .data = t.data.data_ptr<float>(),
          .first = t.first.data_ptr<float>(),
          .second = t.second.data_ptr<float>(),
          .lr = lr.data_ptr<float>(),
          .skip = skip.data_ptr<float>(),
          .steps = t.steps.data_ptr<float>(),
          .nonfinite = t.nonfinite.data_ptr<float>(),
          .beta1 = numbers.beta1,
          .beta2 = numbers.beta2,
          .eps = numbers.eps,
          .weight_decay = numbers.weight_decay,
          .max_grad_norm = numbers.max_grad_norm,
          .partial = t.partial.data_ptr<double>(),
          .factor = t.factor.data_ptr<float>(),
          .step = reinterpret_cast<AdamStep*>(t.step.data_ptr<float>())};
}

void adam_(AdamTensors& t, const AdamNumbers& numbers, at::Tensor& grad, const at::Tensor& lr,
           const at::Tensor& skip) {
  const AdamArgs args = adam_args(t, numbers, grad, lr, skip);
#ifdef MAGLEV_DEVICE_CODE
  if (t.data.is_cuda()) return check_cuda(adam_cuda(args, current_stream()), "adam");
#endif
  MAGLEV_ASSERT(t.data.is_cpu(), "a kernel runs where its tensors are");
  const int64_t chunks = adam_chunks(args.P);
  for (int64_t c = 0; c < chunks; ++c) adam_norm_partial_cpu(args, c);
  adam_finish_norm(args);
  for (int64_t c = 0; c < chunks; ++c) adam_step_cpu(args, c);
}

at::Tensor adam_reference_(AdamTensors& t, const AdamNumbers& n, at::Tensor& grad,
                           const at::Tensor& lr, const at::Tensor& skip) {
  auto sum = grad[0];
  for (int64_t l = 1; l < grad.size(0); ++l) sum.add_(grad[l]);
  const int64_t groups = t.groups.size(0);
  auto part = [&](const at::Tensor& all, int64_t g) {
    return all.narrow(0, t.groups[g][0].item<int64_t>(), t.groups[g][1].item<int64_t>());
  };
  auto clip = [&](const at::Tensor& norm) {
    return n.max_grad_norm > 0 ? at::clamp_max(n.max_grad_norm / (norm + 1e-6), 1.0)
                               : at::ones_like(norm);
  };
  at::Tensor squares = at::zeros_like(lr);
  for (int64_t g = 0; g < groups; ++g)
    squares = squares + at::linalg_vector_norm(part(sum, g)).square();
  auto norm = at::sqrt(squares);
  const auto whole = clip(norm);
  for (int64_t g = 0; g < groups; ++g) {
    auto grads = part(sum, g);
    grads.mul_(n.clip_together ? whole : clip(at::linalg_vector_norm(grads)));
  }
  auto bad = at::logical_not(at::isfinite(norm)).to(at::kFloat);
  t.nonfinite.add_(bad * (skip == 0));
  auto found = at::logical_or(bad != 0, skip != 0).to(at::kFloat);
  t.steps.add_(1 - found);
  for (int64_t g = 0; g < groups; ++g) {
    const auto data = part(t.data, g), grads = part(sum, g), rate = lr * t.rate[g];
    const auto first = part(t.first, g), second = part(t.second, g);
    if (n.weight_decay > 0)
      at::_fused_adamw_({data}, {grads}, {first}, {second}, {}, {t.steps}, rate, n.beta1, n.beta2,
                        n.weight_decay, n.eps, false, false, {}, found);
    else
      at::_fused_adam_({data}, {grads}, {first}, {second}, {}, {t.steps}, rate, n.beta1, n.beta2,
                       0.0, n.eps, false, false, {}, found);
  }
  return norm;
}

namespace kernels::adam {
KernelEntry entry() {
  return {"adam", "gradient lanes summed, clipped by norm and one step of Adam or AdamW", cases};
}
}  // namespace kernels::adam

}  // namespace maglev
