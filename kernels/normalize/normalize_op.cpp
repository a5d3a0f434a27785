#include "kernels/normalize/normalize_op.h"

#include <ATen/ATen.h>

#include "base/core/error.h"
#include "engine/device/aten_only.h"
#include "engine/device/kernel.h"
#include "engine/device/launch.h"
#include "kernels/normalize/normalize.h"

namespace maglev {
namespace {

Moments pointers(RunningMoments& m) {
  return {m.mean.data_ptr<float>(), m.var.data_ptr<float>(), m.count.data_ptr<double>()};
}

void normalize_(at::Tensor& out, const at::Tensor& x, const at::Tensor& mean, const at::Tensor& var,
                double clip) {
  const at::Device device = device_of("normalize", out, x, mean, var);
  const int64_t D = mean.numel();
  MAGLEV_ASSERT(x.is_contiguous() && x.size(-1) == D, "[.., D], contiguous");
  launch<normalize_cuda>("normalize", device, normalize_cpu,
                         NormalizeArgs{.x = x.const_data_ptr<float>(),
                                       .mean = mean.const_data_ptr<float>(),
                                       .var = var.const_data_ptr<float>(),
                                       .out = out.data_ptr<float>(),
                                       .M = x.numel() / D,
                                       .D = D,
                                       .clip = float(clip)});
}

at::Tensor normalize_reference(const at::Tensor& x, const at::Tensor& mean, const at::Tensor& var,
                               double clip) {
  return at::clamp((x - mean) * at::rsqrt(var + 1e-8), -clip, clip);
}

RunningMoments cloned(const RunningMoments& m) {
  return {m.mean.clone(), m.var.clone(), m.count.clone()};
}
Tensors listed(const RunningMoments& m) { return {m.mean, m.var, m.count}; }

// two passes over the rows
void absorb_reference(RunningMoments& moments, const at::Tensor& rows, const at::Tensor& weight) {
  auto x = rows.to(at::kDouble);
  auto w = weight.defined() ? weight.to(at::kDouble).unsqueeze(1)
                            : at::ones({x.size(0), 1}, x.options());
  // the rows' own moments
  auto fresh = w.sum();
  auto batch_mean = (x * w).sum(0) / fresh;
  auto batch_var = ((x - batch_mean).square() * w).sum(0) / fresh;
  // merged with those before them (Chan, Golub and LeVeque, 1983)
  auto mean = moments.mean.to(at::kDouble), var = moments.var.to(at::kDouble);
  auto total = moments.count + fresh, delta = batch_mean - mean;
  auto m2 = var * moments.count + batch_var * fresh + delta * delta * moments.count * fresh / total;
  moments.mean.copy_(mean + delta * fresh / total);
  moments.var.copy_(m2 / total);
  moments.count.copy_(total);
}

void returns_reference(RunningMoments& moments, at::Tensor& running, const at::Tensor& reward,
                       const at::Tensor& done, const at::Tensor& weight, double gamma) {
  auto returns = at::empty_like(reward);
  // a return is taken in before the end of its episode sets it to 0
  for (int64_t t = 0; t < reward.size(0); ++t) {
    running.mul_(gamma).add_(reward[t]);
    returns[t].copy_(running);
    running.mul_(1 - done[t].to(at::kFloat));
  }
  absorb_reference(moments, returns.reshape({-1, 1}), weight.reshape(-1));
}

RunningMoments some_moments(int64_t D, double count, at::Generator& gen, at::Device device) {
  return {at::randn({D}, gen).to(device), (at::rand({D}, gen) + 0.1).to(device),
          at::full({}, count, at::kDouble).to(device)};
}

KernelCase normalize_case(int64_t M, int64_t D, at::Device device) {
  auto gen = at::make_generator<at::CPUGeneratorImpl>(uint64_t(M + D));
  auto moments = some_moments(D, 1000, gen, device);
  auto x = (at::randn({M, D}, gen) * 4).to(device), out = at::empty_like(x);
  return {
      .name = "normalize M=" + std::to_string(M) + " D=" + std::to_string(D),
      .reference =
          [=](const Tensors&) {
            return Tensors{normalize_reference(x, moments.mean, moments.var, 10)};
          },
      .fused = [=](const Tensors&) { return Tensors{normalize(x, moments.mean, moments.var, 10)}; },
      .tolerance = 1e-6,
      .bytes = M * D * 8,
      .flops = M * D * 4,
      .repeat_fused = [=]() mutable { normalize_(out, x, moments.mean, moments.var, 10); }};
}

// `count`: rows that were taken in before
KernelCase absorb_case(int64_t M, int64_t D, bool weighted, double count, at::Device device) {
  auto gen = at::make_generator<at::CPUGeneratorImpl>(uint64_t(M + D));
  auto moments = some_moments(D, count, gen, device);
  auto x = (at::randn({M, D}, gen) * 4 + 2).to(device);
  at::Tensor weight;
  // a tenth of the rows count nothing
  if (weighted) weight = (at::rand({M}, gen) < 0.9).to(at::kFloat).to(device);
  auto fused = [x, weight, scratch = moments_scratch(D, device)](RunningMoments& m) mutable {
    absorb_moments_(m, x, weight, scratch);
  };
  auto of = [=](auto absorb) {
    auto fresh = cloned(moments);
    absorb(fresh);
    return listed(fresh);
  };
  // the bench's own, which every repetition moves on
  auto repeated = cloned(moments);
  return {.name = std::string(weighted ? "absorb weighted M=" : "absorb M=") + std::to_string(M) +
                  " D=" + std::to_string(D) + (count > 0 ? "" : " first"),
          .reference =
              [=](const Tensors&) {
                return of([&](RunningMoments& m) { absorb_reference(m, x, weight); });
              },
          .fused = [=](const Tensors&) { return of(fused); },
          .tolerance = 1e-6,
          .bytes = M * (D + weighted) * 4,
          .flops = M * D * 4,
          .repeat_fused = [=]() mutable { fused(repeated); }};
}

KernelCase returns_case(int64_t T, int64_t N, double count, at::Device device) {
  auto gen = at::make_generator<at::CPUGeneratorImpl>(uint64_t(T + N));
  auto moments = some_moments(1, count, gen, device);
  auto reward = at::randn({T, N}, gen).to(device), running = at::randn({N}, gen).to(device);
  // episodes of about ten steps; a tenth of the steps count nothing
  auto done = (at::rand({T, N}, gen) < 0.1).to(at::kByte).to(device);
  auto weight = (at::rand({T, N}, gen) < 0.9).to(at::kFloat).to(device);
  auto fused = [=, scratch = returns_scratch(N, device)](RunningMoments& m,
                                                         at::Tensor& run_on) mutable {
    absorb_returns_(m, run_on, reward, done, weight, 0.99, scratch);
  };
  auto of = [=](auto absorb) {
    auto fresh = cloned(moments);
    auto run_on = running.clone();
    absorb(fresh, run_on);
    auto outputs = listed(fresh);
    outputs.push_back(run_on);
    return outputs;
  };
  auto repeated = cloned(moments);
  return {.name = "returns T=" + std::to_string(T) + " N=" + std::to_string(N) +
                  (count > 0 ? "" : " first"),
          .reference =
              [=](const Tensors&) {
                return of([&](RunningMoments& m, at::Tensor& run_on) {
                  returns_reference(m, run_on, reward, done, weight, 0.99);
                });
              },
          .fused = [=](const Tensors&) { return of(fused); },
          .tolerance = 1e-6,
          .bytes = T * N * 9,
          .flops = T * N * 8,
          .repeat_fused = [=]() mutable { fused(repeated, running); }};
}

std::vector<KernelCase> normalize_cases(at::Device device) {
  std::vector<KernelCase> list;
  for (auto [M, D] : {std::pair<int64_t, int64_t>{8, 4}, {33, 17}, {1024, 4}, {256, 400}})
    list.push_back(normalize_case(M, D, device));
  for (auto [M, D] :
       {std::pair<int64_t, int64_t>{1, 3}, {33, 17}, {500, 300}, {32768, 4}, {4096, 128}})
    list.push_back(absorb_case(M, D, false, 1000, device));
  for (auto [M, D] : {std::pair<int64_t, int64_t>{1000, 3}, {70001, 3}})
    list.push_back(absorb_case(M, D, true, 1000, device));
  list.push_back(absorb_case(5000, 5, false, 0, device));
  for (auto [T, N] : {std::pair<int64_t, int64_t>{7, 3}, {128, 8}, {32, 1024}, {3, 70001}})
    list.push_back(returns_case(T, N, 1000, device));
  list.push_back(returns_case(9, 600, 0, device));
  return list;
}

at::Tensor normalize_scratch(int64_t count, at::Device device) {
  return at::empty({count}, at::TensorOptions(at::kDouble).device(device));
}

// whether a kernel may write `count` numbers there
bool has_normalize_scratch(const at::Tensor& scratch, int64_t count) {
  return scratch.scalar_type() == at::kDouble && scratch.is_contiguous() &&
         scratch.numel() >= count;
}

}  // namespace

at::Tensor normalize(const at::Tensor& x, const at::Tensor& mean, const at::Tensor& var,
                     double clip) {
  if (AtenOnly::on()) return normalize_reference(x, mean, var, clip);
  auto out = at::empty(x.sizes(), x.options());
  normalize_(out, x.contiguous(), mean, var, clip);
  return out;
}

at::Tensor moments_scratch(int64_t D, at::Device device) {
  return normalize_scratch(absorb_scratch(D), device);
}

at::Tensor returns_scratch(int64_t N, at::Device device) {
  return normalize_scratch(return_scan_scratch(N), device);
}

void absorb_moments_(RunningMoments& moments, const at::Tensor& rows, const at::Tensor& weight,
                     at::Tensor& scratch) {
  const at::Device device =
      device_of("absorb_moments", rows, weight, moments.mean, moments.var, moments.count, scratch);
  const int64_t D = moments.mean.numel();
  MAGLEV_ASSERT(rows.dim() == 2 && rows.size(1) == D, "[M, D]");
  MAGLEV_ASSERT(!weight.defined() || (weight.numel() == rows.size(0) && weight.is_contiguous()),
                "one weight a row");
  MAGLEV_ASSERT(has_normalize_scratch(scratch, absorb_scratch(D)), "moments_scratch");
  auto x = rows.contiguous();
  launch<absorb_moments_cuda>(
      "absorb_moments", device, absorb_moments_cpu,
      AbsorbArgs{.x = x.const_data_ptr<float>(),
                 .weight = weight.defined() ? weight.const_data_ptr<float>() : nullptr,
                 .M = x.size(0),
                 .D = D,
                 .moments = pointers(moments),
                 .scratch = scratch.data_ptr<double>()});
}

void absorb_returns_(RunningMoments& moments, at::Tensor& running, const at::Tensor& reward,
                     const at::Tensor& done, const at::Tensor& weight, double gamma,
                     at::Tensor& scratch) {
  const at::Device device = device_of("absorb_returns", reward, done, weight, running, moments.mean,
                                      moments.var, moments.count, scratch);
  const int64_t T = reward.size(0), N = reward.size(1);
  MAGLEV_ASSERT(done.sizes() == reward.sizes() && weight.sizes() == reward.sizes(), "[T, N]");
  MAGLEV_ASSERT(moments.mean.numel() == 1 && running.numel() == N, "one return a column");
  MAGLEV_ASSERT(has_normalize_scratch(scratch, return_scan_scratch(N)), "returns_scratch");
  auto r = reward.contiguous(), d = done.contiguous(), w = weight.contiguous();
  launch<absorb_returns_cuda>("absorb_returns", device, absorb_returns_cpu,
                              ReturnScanArgs{.reward = r.const_data_ptr<float>(),
                                             .done = d.const_data_ptr<uint8_t>(),
                                             .weight = w.const_data_ptr<float>(),
                                             .running = running.data_ptr<float>(),
                                             .T = T,
                                             .N = N,
                                             .gamma = float(gamma),
                                             .moments = pointers(moments),
                                             .scratch = scratch.data_ptr<double>()});
}

namespace kernels::normalize {
KernelEntry entry() {
  return {"normalize", "columns by their running moments, and the moments themselves",
          normalize_cases};
}
}  // namespace kernels::normalize

}  // namespace maglev
