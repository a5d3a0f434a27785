#include "kernels/gae/gae_op.h"

#include <string>

#include <ATen/ATen.h>

#include "base/core/error.h"
#include "engine/device/kernel.h"
#include "engine/device/launch.h"
#include "kernels/gae/gae.h"

namespace maglev {
namespace {

void expect_shape(const char* what, const at::Tensor& t, int64_t T, int64_t N) {
  if (t.dim() == 2 && t.size(0) == T && t.size(1) == N && t.is_contiguous()) return;
  std::string came;
  for (int64_t s : t.sizes()) came += (came.empty() ? "" : ", ") + std::to_string(s);
  throw Error("[gae] " + std::string(what) + " must be contiguous [" + std::to_string(T) + ", " +
              std::to_string(N) + "], got [" + came + "]");
}

struct GaeInputs {
  at::Tensor reward, value, terminated, is_first;
};

GaeInputs gae_inputs(int64_t T, int64_t N, at::Device device) {
  auto gen = at::make_generator<at::CPUGeneratorImpl>(uint64_t(T * 1000 + N));
  auto done = at::rand({T, N}, gen) < 0.1;
  auto is_first = at::zeros({T + 1, N}, at::kByte);
  // an episode that ends in step t shows its last observation at t + 1; the next begins at t + 2
  if (T > 1) is_first.narrow(0, 2, T - 1).copy_(done.narrow(0, 0, T - 1));
  // about half of the ends are terminations, the others truncations
  auto terminated = at::logical_and(done, at::rand({T, N}, gen) < 0.5).to(at::kByte);
  return {at::randn({T, N}, gen).to(device), at::randn({T + 1, N}, gen).to(device),
          terminated.to(device), is_first.to(device)};
}

std::vector<KernelCase> gae_cases(at::Device device) {
  std::vector<KernelCase> list;
  for (auto [T, N] :
       {std::pair<int64_t, int64_t>{1, 1}, {7, 3}, {128, 8}, {128, 192}, {32, 1024}}) {
    GaeInputs in = gae_inputs(T, N, device);
    auto fused_into = [=](const Tensors& to) {
      auto advantage = to[0];
      gae_(advantage, in.reward, in.value, in.terminated, in.is_first, 0.99, 0.95,
           {.returns = to[1], .valid = to[2]});
    };
    auto fresh = [=] {
      return Tensors{at::empty_like(in.reward), at::empty_like(in.reward),
                     at::empty_like(in.reward)};
    };
    list.push_back({.name = "T=" + std::to_string(T) + " N=" + std::to_string(N),
                    .reference =
                        [=](const Tensors&) {
                          auto advantage = gae_reference(in.reward, in.value, in.terminated,
                                                         in.is_first, 0.99, 0.95);
                          return Tensors{advantage, advantage + in.value.narrow(0, 0, T),
                                         1 - in.is_first.narrow(0, 1, T).to(at::kFloat)};
                        },
                    .fused =
                        [=](const Tensors&) {
                          auto out = fresh();
                          fused_into(out);
                          return out;
                        },
                    .tolerance = 1e-5,
                    .bytes = T * N * (4 + 4 + 1 + 1 + 12),
                    .flops = T * N * 8,
                    .repeat_fused = [=, out = fresh()] { fused_into(out); }});
  }
  return list;
}

}  // namespace

void gae_(at::Tensor& advantage, const at::Tensor& reward, const at::Tensor& value,
          const at::Tensor& terminated, const at::Tensor& is_first, double gamma, double lambda,
          const GaeExtras& extras) {
  const at::Device device = device_of("gae", reward, advantage, value, terminated, is_first,
                                      extras.returns, extras.valid);
  const int64_t T = reward.size(0), N = reward.size(1);
  expect_shape("reward", reward, T, N);
  expect_shape("value", value, T + 1, N);
  expect_shape("terminated", terminated, T, N);
  expect_shape("is_first", is_first, T + 1, N);
  expect_shape("advantage", advantage, T, N);
  // what is wanted besides advantages
  auto extra = [&](const char* what, const at::Tensor& t) -> float* {
    if (!t.defined()) return nullptr;
    expect_shape(what, t, T, N);
    return t.data_ptr<float>();
  };
  const GaeArgs args{.reward = reward.data_ptr<float>(),
                     .value = value.data_ptr<float>(),
                     .terminated = terminated.data_ptr<uint8_t>(),
                     .next_is_first = is_first.data_ptr<uint8_t>() + N,
                     .advantage = advantage.data_ptr<float>(),
                     .returns = extra("returns", extras.returns),
                     .valid = extra("valid", extras.valid),
                     .T = T,
                     .N = N,
                     .gamma = float(gamma),
                     .lambda = float(lambda)};
  launch<gae_cuda>("gae", device, gae_cpu, args);
}

at::Tensor gae_reference(const at::Tensor& reward, const at::Tensor& value,
                         const at::Tensor& terminated, const at::Tensor& is_first, double gamma,
                         double lambda) {
  const int64_t T = reward.size(0);
  auto advantage = at::zeros_like(reward);
  auto next = at::zeros_like(reward[0]);
  for (int64_t t = T - 1; t >= 0; --t) {
    // terminated: no future; truncated: the final observation's value is value[t + 1]
    auto live = 1 - terminated[t].to(at::kFloat);
    auto delta = reward[t] + gamma * value[t + 1] * live - value[t];
    // a step that only reset has no advantage, and cuts the trace
    next = (delta + gamma * lambda * live * next) * (1 - is_first[t + 1].to(at::kFloat));
    advantage[t].copy_(next);
  }
  return advantage;
}

namespace kernels::gae {
KernelEntry entry() { return {"gae", "advantages over a rollout in one pass", gae_cases}; }
}  // namespace kernels::gae

}  // namespace maglev
