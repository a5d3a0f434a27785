#include "kernels/adam/adam_op.h"

#include <string>
#include <vector>

#include <ATen/ATen.h>

#include "base/core/error.h"
#include "engine/device/kernel.h"
#include "engine/device/launch.h"

namespace maglev {
namespace {

struct AdamInputs {
  AdamTensors tensors;
  at::Tensor grad, unscale, lr, skip;
  AdamNumbers numbers;
};

// moments and counters of an optimiser that has run a while
AdamInputs adam_inputs(int64_t P, int64_t lanes, AdamNumbers numbers, bool scaled,
                       at::Device device) {
  auto gen = at::make_generator<at::CPUGeneratorImpl>(uint64_t(P + lanes));
  // two groups, where there are elements for both
  const int64_t head = P / 3;
  std::vector<AdamGroup> groups{{0, P}};
  std::vector<float> rates{1};
  if (head > 0) groups = {{0, head}, {head, P - head}}, rates = {0.3f, 1};
  AdamInputs in;
  in.tensors = make_adam_tensors(at::randn({P}, gen).to(device), groups, rates);
  in.tensors.first.copy_(at::randn({P}, gen) * 0.1);
  in.tensors.second.copy_(at::rand({P}, gen) * 0.1);
  in.tensors.steps.fill_(5);
  in.grad = at::randn({lanes, P}, gen).to(device);
  in.lr = at::full({}, 1e-2f, at::TensorOptions(device)), in.skip = at::zeros_like(in.lr);
  if (scaled) in.unscale = at::full_like(in.lr, 0.25f);
  in.numbers = numbers;
  return in;
}

void fused_(AdamTensors& t, const AdamInputs& in, at::Tensor& grad) {
  ThreadPool pool(1);
  // the three stages, one after another
  AdamArgs args = adam_args(t, in.numbers);
  adam_reduce(args, grad, in.unscale, pool);
  adam_clip(args, in.skip);
  adam_step(args, in.lr, pool);
}

void reference_(AdamTensors& t, const AdamInputs& in, at::Tensor& grad) {
  adam_reduce_reference(grad, in.unscale);
  adam_clip_reference(t, in.numbers, grad[0], in.skip);
  adam_step_reference(t, in.numbers, grad[0], in.lr);
}

template <class Step>
Tensors stepped(const AdamInputs& in, Step step) {
  // every run begins at the same state
  AdamTensors t = in.tensors;
  for (auto* one : {&t.data, &t.first, &t.second, &t.steps, &t.nonfinite, &t.step})
    *one = one->clone();
  auto grad = in.grad.clone();
  step(t, in, grad);
  // of the step its norm and whether it was taken
  return {t.data, t.first, t.second, t.steps, t.nonfinite, t.step.narrow(0, 0, 2), grad[0]};
}

std::vector<KernelCase> adam_cases(at::Device device) {
  std::vector<KernelCase> list;
  const AdamNumbers adam{
      .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-5, .weight_decay = 0, .max_grad_norm = 0.5};
  const std::string scaled = "unscaled";
  // with decay, without clipping, and with one norm for all groups
  AdamNumbers adamw = adam, free = adam, together = adam;
  adamw.weight_decay = 0.1, free.max_grad_norm = 0;
  together.clip_together = true;
  for (auto [P, lanes] : {std::pair<int64_t, int64_t>{1, 1},
                          {58, 3},
                          {16384, 1},
                          {70001, 4},
                          {2001, 70},
                          {600001, 1}})
    for (const auto& [name, numbers] : {std::pair<const char*, AdamNumbers>{"adam", adam},
                                        {"adamw", adamw},
                                        {"unclipped", free},
                                        {"together", together},
                                        {"unscaled", adam}}) {
      // many chunks once
      if (P > 100000 && name != std::string("adam")) continue;
      AdamInputs in = adam_inputs(P, lanes, numbers, name == scaled, device);
      list.push_back(
          {.name = std::string(name) + " P=" + std::to_string(P) + " L=" + std::to_string(lanes),
           .reference = [=](const Tensors&) { return stepped(in, reference_); },
           .fused = [=](const Tensors&) { return stepped(in, fused_); },
           // a device adds many lanes in another order
           .tolerance = lanes < 32 ? Tolerance(1e-6) : Tolerance::of_sums(2 * lanes),
           .bytes = P * 4 * (lanes + 9),
           .flops = P * (lanes + 14),
           .repeat_reference = [in]() mutable { reference_(in.tensors, in, in.grad); },
           .repeat_fused = [in]() mutable { fused_(in.tensors, in, in.grad); }});
    }
  return list;
}

}  // namespace

AdamTensors make_adam_tensors(const at::Tensor& data, const std::vector<AdamGroup>& groups,
                              const std::vector<float>& rates) {
  const int64_t G = int64_t(groups.size()), P = data.numel();
  const int64_t chunks = data.device().is_cuda() ? adam_device_chunks(P) : adam_chunks(P);
  auto options = data.options();
  AdamTensors t{.data = data,
                .first = at::zeros_like(data),
                .second = at::zeros_like(data),
                .steps = at::zeros({}, options),
                .nonfinite = at::zeros({}, options),
                .groups = at::empty({G, 2}, at::kLong),
                .spans = groups,
                .partial = at::zeros({chunks, G}, options.dtype(at::kDouble)),
                .rate = at::ones({G}),
                .factor = at::zeros({G}, options),
                .step = at::zeros({4}, options)};
  // written on the host, read where the parameters are
  for (int64_t g = 0; g < G; ++g) {
    t.groups[g][0] = groups[size_t(g)].begin;
    t.groups[g][1] = groups[size_t(g)].count;
    if (!rates.empty()) t.rate[g] = rates[size_t(g)];
  }
  t.groups = t.groups.to(data.device());
  t.rate = t.rate.to(data.device());
  return t;
}

AdamArgs adam_args(const AdamTensors& t, const AdamNumbers& numbers) {
  device_of("adam", t.data, t.first, t.second, t.steps, t.nonfinite, t.groups, t.partial, t.rate,
            t.factor, t.step);
  // what a stage reads besides, it adds itself
  return {.grad = nullptr,
          .lanes = 0,
          .lane_stride = 0,
          .unscale = nullptr,
          .P = t.data.numel(),
          .groups = reinterpret_cast<const AdamGroup*>(t.groups.data_ptr<int64_t>()),
          .group_count = t.groups.size(0),
          .rate = t.rate.data_ptr<float>(),
          .clip_together = numbers.clip_together,
          .data = t.data.data_ptr<float>(),
          .first = t.first.data_ptr<float>(),
          .second = t.second.data_ptr<float>(),
          .lr = nullptr,
          .skip = nullptr,
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

void adam_reduce(AdamArgs& args, const at::Tensor& grad, const at::Tensor& unscale,
                 ThreadPool& pool) {
  const at::Device device = device_of("adam", grad, unscale);
  MAGLEV_ASSERT(grad.dim() == 2 && grad.size(1) == args.P && grad.stride(1) == 1 &&
                    grad.scalar_type() == at::kFloat,
                "lanes [lanes, P] f32");
  // the later stages read these too
  args.grad = grad.data_ptr<float>();
  args.lanes = grad.size(0), args.lane_stride = grad.stride(0);
  args.unscale = unscale.defined() ? unscale.const_data_ptr<float>() : nullptr;
  const auto chunks = [&pool](const AdamArgs& a) {
    pool.run(adam_chunks(a.P), [&](int64_t c) { adam_reduce_cpu(a, c); });
  };
  launch<adam_reduce_cuda>("adam_reduce", device, chunks, args);
}

void adam_clip(AdamArgs& args, const at::Tensor& skip) {
  args.skip = skip.const_data_ptr<float>();
  launch<adam_clip_cuda>("adam_clip", device_of("adam", skip), adam_clip_cpu, args);
}

void adam_step(AdamArgs& args, const at::Tensor& lr, ThreadPool& pool) {
  args.lr = lr.const_data_ptr<float>();
  // the step's scalars once, then the chunks on any thread
  const auto chunks = [&pool](const AdamArgs& a) {
    *a.step = adam_begun_step(a);
    pool.run(adam_chunks(a.P), [&](int64_t c) { adam_step_cpu(a, c); });
  };
  launch<adam_step_cuda>("adam_step", device_of("adam", lr), chunks, args);
}

void adam_reduce_reference(const at::Tensor& grad, const at::Tensor& unscale) {
  // lanes are added in order
  auto sum = grad[0];
  for (int64_t l = 1; l < grad.size(0); ++l) sum.add_(grad[l]);
  if (unscale.defined()) sum.mul_(unscale);
}

void adam_clip_reference(AdamTensors& t, const AdamNumbers& n, const at::Tensor& sum,
                         const at::Tensor& skip) {
  const auto norm_of = [](const at::Tensor& x) {
    return at::linalg_vector_norm(x, 2, at::OptionalIntArrayRef(), false, at::kDouble);
  };
  const auto norm = norm_of(sum);
  // a gradient is shortened to max_grad_norm where it is longer
  for (size_t g = 0; g < t.spans.size(); ++g) {
    const auto [begin, count] = t.spans[g];
    const auto length = n.clip_together ? norm : norm_of(sum.narrow(0, begin, count));
    auto factor = t.factor.select(0, int64_t(g));
    if (n.max_grad_norm > 0) factor.copy_(at::clamp_max(n.max_grad_norm / (length + 1e-6), 1.0));
    else factor.fill_(1);
  }
  // a step is left out where it is not wanted or the gradient is not finite
  const auto finite = at::isfinite(norm), wanted = skip == 0;
  const auto apply = at::logical_and(finite, wanted);
  t.nonfinite.add_(at::logical_and(wanted, at::logical_not(finite)));
  t.steps.add_(apply);
  t.step.select(0, 0).copy_(norm), t.step.select(0, 1).copy_(apply);
}

void adam_step_reference(AdamTensors& t, const AdamNumbers& n, const at::Tensor& sum,
                         const at::Tensor& lr) {
  const auto apply = t.step.select(0, 1) != 0;
  const auto set = [&](at::Tensor to, const at::Tensor& x) { to.copy_(at::where(apply, x, to)); };
  // moments begin at 0, which is divided out
  const auto steps = t.steps.to(at::kDouble);
  const auto bias1 = 1 - at::pow(n.beta1, steps), bias2 = 1 - at::pow(n.beta2, steps);
  for (size_t i = 0; i < t.spans.size(); ++i) {
    const auto part = [&](const at::Tensor& all) {
      return all.narrow(0, t.spans[i].begin, t.spans[i].count);
    };
    const auto g = part(sum), m = part(t.first), v = part(t.second), x = part(t.data);
    const auto rate = lr * t.rate[int64_t(i)];
    set(g, g * t.factor[int64_t(i)]);
    // Adam; AdamW lets parameters decay by themselves
    set(m, n.beta1 * m + (1 - n.beta1) * g);
    set(v, n.beta2 * v + (1 - n.beta2) * g * g);
    set(x, x * (1 - rate * n.weight_decay) - rate / bias1 * m / (at::sqrt(v / bias2) + n.eps));
  }
}

namespace kernels::adam {
KernelEntry entry() {
  return {"adam", "gradient lanes summed, clipped by norm and one step of Adam or AdamW",
          adam_cases};
}
}  // namespace kernels::adam

}  // namespace maglev
