#include "kernels/popart/popart_op.h"

#include <ATen/ATen.h>

#include "base/core/error.h"
#include "engine/device/kernel.h"
#include "engine/device/launch.h"
#include "kernels/popart/popart.h"

namespace maglev {
namespace {

void popart_reference(PopArtState& s, const at::Tensor& returns, const at::Tensor& weight,
                      double beta_min) {
  const auto r = returns.to(at::kDouble), w = weight.to(at::kDouble);
  const auto total = w.sum();
  // nothing came: nothing changes
  const auto any = total > 0;
  const auto kept = [&](at::Tensor& old, const at::Tensor& moved) {
    old.copy_(at::where(any, moved.to(at::kFloat), old));
  };
  // moments of these returns by themselves
  const auto of_returns = (r * w).sum() / total;
  const auto spread = (w * (r - of_returns).square()).sum() / total;
  // and of a mixture of them and the old ones
  const auto count = s.count + 1;
  const auto beta = at::clamp_min(1 / count.to(at::kDouble), beta_min);
  const auto old_mean = s.mean.to(at::kDouble), old_std = s.std.to(at::kDouble);
  const auto above = of_returns - old_mean;
  const auto var =
      (1 - beta) * s.var.to(at::kDouble) + beta * spread + beta * (1 - beta) * above.square();
  kept(s.count, count);
  kept(s.mean, old_mean + beta * above);
  kept(s.var, var);
  kept(s.std, at::sqrt(at::clamp_min(var, 1e-8)));
  // every denormalised output stays
  const auto std = s.std.to(at::kDouble);
  s.scale.copy_(old_std / std);
  s.weight.mul_(s.scale);
  s.bias.copy_((s.bias.to(at::kDouble) * old_std + old_mean - s.mean.to(at::kDouble)) / std);
  if (!s.adam_first.defined()) return;
  s.adam_first.mul_(s.scale);
  s.adam_second.mul_(s.scale * s.scale);
}

Tensors listed(const PopArtState& s) {
  Tensors all{s.mean, s.var, s.std, s.count, s.scale, s.weight, s.bias};
  if (s.adam_first.defined()) all.insert(all.end(), {s.adam_first, s.adam_second});
  return all;
}

PopArtState cloned(const PopArtState& s) {
  const auto copy = [](const at::Tensor& t) { return t.defined() ? t.clone() : t; };
  return {copy(s.mean),   copy(s.var),  copy(s.std),        copy(s.count),      copy(s.scale),
          copy(s.weight), copy(s.bias), copy(s.adam_first), copy(s.adam_second)};
}

std::vector<KernelCase> popart_cases(at::Device device) {
  std::vector<KernelCase> list;
  struct Sizes {
    int64_t M, F;
    bool adam;
    double mean, std;       // before
    double centre, spread;  // of the returns that come
    double share;           // of them that count
  };
  // also returns ten thousand times as large as their spread, and none at all
  for (const auto [M, F, adam, mean, std, centre, spread, share] :
       {Sizes{1, 1, false, 3, 2, 100, 30, 1},
        {33, 17, true, 3, 2, 100, 30, 0.9},
        {33, 17, true, 3, 2, 100, 30, 0},
        {1024, 64, true, 3, 2, 100, 30, 0.9},
        {2048, 64, true, 1000, 0.1, 1000, 0.1, 0.9},
        {32768, 64, true, 3, 2, 100, 30, 0.9},
        {70001, 300, true, 3, 2, 100, 30, 0.9}}) {
    auto gen = at::make_generator<at::CPUGeneratorImpl>(uint64_t(M));
    const auto f32 = at::TensorOptions(at::kFloat).device(device);
    const auto normal = [&](at::IntArrayRef sizes) { return at::randn(sizes, gen).to(device); };
    PopArtState state{.mean = at::full({}, mean, f32),
                      .var = at::full({}, std * std, f32),
                      .std = at::full({}, std, f32),
                      .count = at::full({}, 4., f32),
                      .scale = at::ones({}, f32),
                      .weight = normal({1, F}),
                      .bias = normal({1})};
    if (adam) state.adam_first = normal({F + 1}), state.adam_second = normal({F + 1}).square();
    auto returns = normal({M}) * spread + centre;
    auto weight = (at::rand({M}, gen) < share).to(at::kFloat).to(device);
    auto fused = [returns, weight, scratch = popart_scratch(device)](PopArtState& s) mutable {
      popart_(s, returns, weight, 1e-3, scratch);
    };
    auto of = [=](auto update) {
      auto fresh = cloned(state);
      update(fresh);
      return listed(fresh);
    };
    auto repeated = cloned(state);
    list.push_back(
        {.name = "M=" + std::to_string(M) + " F=" + std::to_string(F) + (adam ? " with Adam" : "") +
                 (share == 0   ? ", none counts"
                  : mean > 100 ? ", far from 0"
                               : ""),
         .reference =
             [=](const Tensors&) {
               return of([&](PopArtState& s) { popart_reference(s, returns, weight, 1e-3); });
             },
         .fused = [=](const Tensors&) { return of(fused); },
         .tolerance = 1e-6,
         .bytes = M * 8 + (adam ? 3 : 1) * F * 8,
         .flops = M * 5 + (adam ? 3 : 1) * F,
         .repeat_fused = [=]() mutable { fused(repeated); }});
  }
  return list;
}

}  // namespace

at::Tensor popart_scratch(at::Device device) {
  return at::empty({kMostPopArtParts, 3}, at::TensorOptions(at::kDouble).device(device));
}

void popart_(PopArtState& s, const at::Tensor& returns, const at::Tensor& weight, double beta_min,
             at::Tensor& scratch) {
  const at::Device device =
      device_of("popart", returns, weight, s.mean, s.var, s.std, s.count, s.scale, s.weight, s.bias,
                s.adam_first, s.adam_second, scratch);
  const int64_t M = returns.numel(), F = s.weight.numel();
  MAGLEV_ASSERT(weight.numel() == M && returns.is_contiguous() && weight.is_contiguous(),
                "one weight a return");
  MAGLEV_ASSERT(s.weight.is_contiguous() && s.bias.numel() == 1, "a head of one output");
  const bool adam = s.adam_first.defined();
  MAGLEV_ASSERT(!adam || (s.adam_first.numel() == F + 1 && s.adam_first.is_contiguous() &&
                          s.adam_second.numel() == F + 1 && s.adam_second.is_contiguous()),
                "moments of weight and bias");
  MAGLEV_ASSERT(scratch.size(0) >= popart_parts(M) && scratch.scalar_type() == at::kDouble,
                "popart_scratch");
  const PopArtArgs args{.returns = returns.const_data_ptr<float>(),
                        .weight = weight.const_data_ptr<float>(),
                        .M = M,
                        .beta_min = float(beta_min),
                        .mean = s.mean.data_ptr<float>(),
                        .var = s.var.data_ptr<float>(),
                        .std = s.std.data_ptr<float>(),
                        .count = s.count.data_ptr<float>(),
                        .scale = s.scale.data_ptr<float>(),
                        .head_weight = s.weight.data_ptr<float>(),
                        .head_bias = s.bias.data_ptr<float>(),
                        .adam_first = adam ? s.adam_first.data_ptr<float>() : nullptr,
                        .adam_second = adam ? s.adam_second.data_ptr<float>() : nullptr,
                        .F = F};
  const auto on_cpu = [](const PopArtArgs& a, ShiftedSums*) { popart_cpu(a); };
  launch<popart_cuda>("popart", device, on_cpu, args,
                      reinterpret_cast<ShiftedSums*>(scratch.data_ptr<double>()));
}

namespace kernels::popart {
KernelEntry entry() {
  return {"popart", "moments of returns, with the head and its optimiser rescaled", popart_cases};
}
}  // namespace kernels::popart

}  // namespace maglev
