#include "kernels/lambda_returns/lambda_returns_op.h"

#include <string>

#include <ATen/ATen.h>

#include "base/core/error.h"
#include "engine/device/kernel.h"
#include "engine/device/launch.h"
#include "kernels/lambda_returns/lambda_returns.h"

namespace maglev {
namespace {

at::Tensor lambda_returns_reference(const ReturnInputs& in) {
  const int64_t T = in.reward.size(0) - 1;
  const auto live = in.discount * (1 - in.terminated);
  const auto more =
      in.ended.defined() ? in.lambda * (1 - in.ended) : at::full_like(in.reward, in.lambda);
  Tensors returns(static_cast<size_t>(T));
  auto next = in.value[T];
  for (int64_t t = T; t-- > 0;) {
    next =
        in.reward[t + 1] + live[t + 1] * ((1 - more[t + 1]) * in.value[t + 1] + more[t + 1] * next);
    returns[size_t(t)] = next;
  }
  return at::stack(returns);
}

KernelCase lambda_return_case(int64_t T, int64_t N, bool ends, at::Device device) {
  auto gen = at::make_generator<at::CPUGeneratorImpl>(uint64_t(T * 100 + N));
  const auto reward = at::randn({T + 1, N}, gen).to(device);
  const auto value = at::randn({T + 1, N}, gen).to(device);
  const auto terminated = at::rand({T + 1, N}, gen).pow(8).to(device);
  at::Tensor ended;
  if (ends) ended = (at::rand({T + 1, N}, gen) < 0.2).to(at::kFloat).to(device);
  const auto inputs = [=] {
    return ReturnInputs{reward, value, terminated, ended, /*discount=*/0.99, /*lambda=*/0.95};
  };
  auto returns = at::empty({T, N}, reward.options());
  return {.name = "T=" + std::to_string(T) + " N=" + std::to_string(N),
          .reference = [=](const Tensors&) { return Tensors{lambda_returns_reference(inputs())}; },
          .fused =
              [=](const Tensors&) {
                auto fresh = at::empty_like(returns);
                lambda_returns_(inputs(), fresh);
                return Tensors{fresh};
              },
          .tolerance = Tolerance::of_sums(8 * T),
          .bytes = T * N * (ends ? 20 : 16),
          .flops = T * N * 9,
          .repeat_fused = [=]() mutable { lambda_returns_(inputs(), returns); }};
}

std::vector<KernelCase> lambda_return_cases(at::Device device) {
  return {lambda_return_case(1, 1, true, device), lambda_return_case(15, 1024, false, device),
          lambda_return_case(63, 16, true, device)};
}

}  // namespace

void lambda_returns_(const ReturnInputs& in, at::Tensor& returns) {
  const at::Device device =
      device_of("lambda_returns", in.reward, in.value, in.terminated, in.ended, returns);
  const auto data = [&](const at::Tensor& x) {
    MAGLEV_ASSERT(x.is_contiguous() && x.sizes() == in.reward.sizes(), "[T + 1, N]");
    return x.const_data_ptr<float>();
  };
  const LambdaReturnArgs args{.T = in.reward.size(0) - 1,
                              .N = in.reward.size(1),
                              .reward = data(in.reward),
                              .value = data(in.value),
                              .terminated = data(in.terminated),
                              .ended = in.ended.defined() ? data(in.ended) : nullptr,
                              .discount = float(in.discount),
                              .lambda = float(in.lambda),
                              .returns = returns.data_ptr<float>()};
  launch<lambda_returns_cuda>("lambda_returns", device, lambda_returns_cpu, args);
}

namespace kernels::lambda_returns {
KernelEntry entry() {
  return {"lambda_returns", "lambda returns of trajectories whose futures count by a share",
          lambda_return_cases};
}
}  // namespace kernels::lambda_returns

}  // namespace maglev
