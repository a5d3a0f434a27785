#include "kernels/mppi/mppi_op.h"

#include <string>
#include <vector>

#include <ATen/ATen.h>
#include <ATen/record_function.h>

#include "base/core/error.h"
#include "engine/device/kernel.h"
#include "engine/device/launch.h"
#include "kernels/noise/noise_op.h"
#include "kernels/two_hot/two_hot_op.h"

namespace maglev {
namespace {

constexpr TwoHotBins kBins;
constexpr uint64_t kSeed = 5;
constexpr double kLogStdLow = -10, kLogStdHigh = 2;

struct Sizes {
  int64_t N, H, S, P, A, E;
};
constexpr Sizes kSizes[] = {{1, 3, 48, 8, 4, 6}, {3, 2, 33, 0, 3, 33}, {8, 3, 512, 24, 4, 64}};

std::string name_of(const char* what, const Sizes& s) {
  return std::string(what) + " N=" + std::to_string(s.N) + " H=" + std::to_string(s.H) +
         " S=" + std::to_string(s.S) + " A=" + std::to_string(s.A);
}

// random tensors on the case's device, alike on every machine
class PlanInputs {
 public:
  PlanInputs(const Sizes& s, at::Device device)
      : generator_(at::make_generator<at::CPUGeneratorImpl>(uint64_t(s.N * 1000 + s.S))),
        device_(device) {}
  at::Tensor normal(at::IntArrayRef sizes) { return at::randn(sizes, generator_).to(device_); }
  at::Tensor uniform(at::IntArrayRef sizes) { return at::rand(sizes, generator_).to(device_); }

 private:
  at::Generator generator_;
  at::Device device_;
};

NoiseFill noise_from(int64_t rows, uint64_t first) {
  return {.seed = kSeed, .stream = stream_id(Purpose::act, 7), .first = first, .rows = rows};
}

at::Tensor drawn_normals(int64_t rows, uint64_t first, const at::Tensor& like) {
  auto out = at::empty_like(like, at::MemoryFormat::Contiguous);
  noise_normal_(out, noise_from(rows, first));
  return out;
}

float* f32(const at::Tensor& t) { return t.data_ptr<float>(); }

KernelCase sample_case(const Sizes& s, at::Device device) {
  const auto [N, H, S, P, A, E] = s;
  const int64_t R = S - P, ld = A + 4;
  PlanInputs in(s, device);
  auto mean = in.normal({N, H, A}), std = in.uniform({N, H, A});
  auto mask = (in.uniform({N, A}) > 0.3).to(at::kFloat);
  // actions lie inside wider rows, as behind a latent
  auto actions = at::zeros({N, H, S, A}, mean.options());
  auto inputs = at::zeros({H, N * R, ld}, mean.options());
  auto fused = [=] {
    mppi_sample({.noise = noise_from(N, 64),
                 .mean = f32(mean),
                 .std = f32(std),
                 .mask = f32(mask),
                 .actions = f32(actions),
                 .inputs = f32(inputs) + 2,
                 .bf16 = false,
                 .ld = ld,
                 .N = N,
                 .H = H,
                 .S = S,
                 .P = P,
                 .A = A},
                device);
  };
  // numbers come as [H][S - P][A]: the policy's sequences draw none of them
  auto reference = [=](const Tensors&) {
    auto wide = [&](const at::Tensor& x) { return x.unsqueeze(2).expand({N, H, R, A}); };
    const auto eps = drawn_normals(N, 64, wide(mean));
    const auto x = (wide(mean) + wide(std) * eps).clamp(-1, 1) * mask.view({N, 1, 1, A});
    return Tensors{x, x.transpose(0, 1).reshape({H, N * R, A})};
  };
  return {.name = name_of("sample", s),
          .reference = reference,
          .fused =
              [=](const Tensors&) {
                fused();
                return Tensors{actions.narrow(2, P, R).clone(), inputs.narrow(2, 2, A).clone()};
              },
          .tolerance = 1e-5,
          .bytes = N * H * R * A * 8,
          .flops = N * H * R * A * 40,
          .repeat_fused = fused};
}

KernelCase policy_case(const Sizes& s, bool shared, at::Device device) {
  const auto [N, H, S, P, A, E] = s;
  const int64_t ld = A + 1;
  PlanInputs in(s, device);
  // where it is shared, all sequences of an environment have one head
  auto head = in.normal({shared ? N : N * S, 2 * A}), bias = in.normal({2 * A});
  auto actions = at::zeros({N, S, A}, head.options());
  auto inputs = at::zeros({N * S, ld}, head.options());
  auto fused = [=] {
    mppi_policy({.noise = noise_from(N, 12),
                 .head = f32(head),
                 .bias = f32(bias),
                 .mask = nullptr,
                 .actions = f32(actions),
                 .inputs = f32(inputs) + 1,
                 .bf16 = false,
                 .shared = shared,
                 .mean = false,
                 .log_std_low = float(kLogStdLow),
                 .log_std_high = float(kLogStdHigh),
                 .actions_env = S * A,
                 .inputs_env = S * ld,
                 .ld = ld,
                 .N = N,
                 .R = S,
                 .A = A},
                device);
  };
  auto reference = [=](const Tensors&) {
    const auto h = (head + bias).view({N, shared ? 1 : S, 2 * A}).expand({N, S, 2 * A});
    // tanh keeps the deviation's logarithm within its bounds
    const auto log_std =
        kLogStdLow + 0.5 * (kLogStdHigh - kLogStdLow) * (at::tanh(h.narrow(2, A, A)) + 1);
    const auto eps = drawn_normals(N, 12, actions);
    const auto x = at::tanh(h.narrow(2, 0, A) + eps * at::exp(log_std));
    return Tensors{x, x.view({N * S, A})};
  };
  return {.name = name_of(shared ? "policy shared" : "policy", s),
          .reference = reference,
          .fused =
              [=](const Tensors&) {
                fused();
                return Tensors{actions.clone(), inputs.narrow(1, 1, A).clone()};
              },
          .tolerance = 2e-5,
          .bytes = N * S * A * 16,
          .flops = N * S * A * 80,
          .repeat_fused = fused};
}

// what is left of the future behind a step whose logit is given
at::Tensor going_on(const at::Tensor& alive, const at::Tensor& logit, bool soft) {
  return soft ? alive * (1 - at::sigmoid(logit)) : alive * (logit <= 0).to(at::kFloat);
}

KernelCase reward_case(const Sizes& s, bool soft, at::ScalarType type, at::Device device) {
  const auto [N, H, S, P, A, E] = s;
  const int64_t R = S - P;
  PlanInputs in(s, device);
  auto logits = in.normal({N * R, kBins.count}).to(type), bias = in.normal({kBins.count});
  auto logit = in.normal({N * R}).to(type), discount = in.uniform({N}), end_bias = in.normal({1});
  auto value = in.normal({N, S}), alive = in.uniform({N, S});
  // a step adds to what it is given: every call gets copies
  auto step = [=](const at::Tensor& to, const at::Tensor& on) {
    mppi_reward({.bins = kBins,
                 .logits = logits.const_data_ptr(),
                 .bias = f32(bias),
                 .end = {.logit = logit.const_data_ptr(), .bias = f32(end_bias), .soft = soft},
                 .discount = f32(discount),
                 .value = f32(to),
                 .alive = f32(on),
                 .bf16 = type != at::kFloat,
                 .begin = false,
                 .discount_env = 1,
                 .N = N,
                 .R = R,
                 .S = S,
                 .first = P},
                device);
  };
  auto reference = [=](const Tensors&) {
    auto to = value.clone(), on = alive.clone();
    // whether a sequence is alive is settled before its reward counts
    auto part = on.narrow(1, P, R);
    part.copy_(going_on(part, logit.to(at::kFloat).view({N, R}) + end_bias, soft));
    const auto reward = two_hot_value_reference(logits.to(at::kFloat) + bias, kBins);
    to.narrow(1, P, R).add_(discount.unsqueeze(1) * part * reward.view({N, R}));
    return Tensors{to, on};
  };
  return {.name = name_of(soft ? "reward soft" : "reward", s) + (type == at::kFloat ? "" : " bf16"),
          .reference = reference,
          .fused =
              [=](const Tensors&) {
                auto to = value.clone(), on = alive.clone();
                step(to, on);
                return Tensors{to, on};
              },
          .tolerance = 1e-4,
          .bytes = N * R * kBins.count * 4,
          .flops = N * R * kBins.count * 12,
          .repeat_fused = [=, to = value.clone(), on = alive.clone()] { step(to, on); }};
}

KernelCase total_case(const Sizes& s, at::Device device) {
  const auto [N, H, S, P, A, E] = s;
  PlanInputs in(s, device);
  auto logits = in.normal({N, 2, S, kBins.count}), bias = in.normal({N, 2, kBins.count});
  auto logit = in.normal({N, S}), discount = in.uniform({N}), end_bias = in.normal({1});
  auto value = in.normal({N, S}), alive = in.uniform({N, S}), total = at::zeros_like(value);
  auto fused = [=] {
    mppi_total({.bins = kBins,
                .logits = f32(logits),
                .bias = f32(bias),
                .end = {.logit = f32(logit), .bias = f32(end_bias), .soft = false},
                .discount = f32(discount),
                .value = f32(value),
                .alive = f32(alive),
                .total = f32(total),
                .bf16 = false,
                .bias_step = kBins.count,
                .discount_env = 1,
                .N = N,
                .S = S},
               device);
  };
  auto reference = [=](const Tensors&) {
    const auto q = two_hot_value_reference(logits + bias.unsqueeze(2), kBins).mean(1);
    return Tensors{value + discount.unsqueeze(1) * going_on(alive, logit + end_bias, false) * q};
  };
  return {.name = name_of("total", s),
          .reference = reference,
          .fused =
              [=](const Tensors&) {
                fused();
                return Tensors{total.clone()};
              },
          .tolerance = 1e-4,
          .bytes = N * 2 * S * kBins.count * 4,
          .flops = N * 2 * S * kBins.count * 12,
          .repeat_fused = fused};
}

KernelCase elites_case(const Sizes& s, at::Device device) {
  const auto [N, H, S, P, A, E] = s;
  PlanInputs in(s, device);
  // whole numbers, so that equal values are among them
  auto total = at::round(in.normal({N, S}) * 20), actions = in.uniform({N, H, S, A}) * 2 - 1;
  auto elites = at::zeros({N, E}, total.options().dtype(at::kLong));
  auto scores = at::zeros({N, E}, total.options());
  auto mean = at::zeros({N, H, A}, total.options()), std = at::zeros_like(mean);
  auto fused = [=] {
    mppi_elites({.total = f32(total),
                 .actions = f32(actions),
                 .mask = nullptr,
                 .elites = elites.data_ptr<int64_t>(),
                 .scores = f32(scores),
                 .mean = f32(mean),
                 .std = f32(std),
                 .temperature = 0.05f,
                 .min_std = 0.05f,
                 .max_std = 2.f,
                 .N = N,
                 .H = H,
                 .S = S,
                 .A = A,
                 .E = E},
                device);
  };
  auto reference = [=](const Tensors&) {
    // the best, among equals the earlier first
    const auto order = std::get<1>(at::sort(total, true, 1, true)).narrow(1, 0, E);
    const auto best = total.gather(1, order);
    // weights by the distance to the best
    auto weight = at::exp(0.05 * (best - best.narrow(1, 0, 1)));
    weight = weight / weight.sum(1, true);
    const auto wide = order.view({N, 1, E, 1}).expand({N, H, E, A});
    const auto chosen = actions.gather(2, wide), w = weight.view({N, 1, E, 1});
    // the weighted moments of their actions
    const auto m = (w * chosen).sum(2);
    const auto deviation = at::sqrt((w * (chosen - m.unsqueeze(2)).square()).sum(2));
    return Tensors{order, weight, m, deviation.clamp(0.05, 2)};
  };
  return {.name = name_of("elites", s),
          .reference = reference,
          .fused =
              [=](const Tensors&) {
                fused();
                return Tensors{elites.clone(), scores.clone(), mean.clone(), std.clone()};
              },
          .tolerance = 1e-5,
          .bytes = N * H * E * A * 4,
          .flops = N * H * E * A * 6,
          .repeat_fused = fused};
}

KernelCase choose_case(const Sizes& s, at::Device device) {
  const auto [N, H, S, P, A, E] = s;
  PlanInputs in(s, device);
  auto scores = at::softmax(in.normal({N, E}), 1), actions = in.normal({N, H, S, A});
  auto std = in.uniform({N, H, A}), action = at::zeros({N, A}, std.options());
  // elites are not in the order of sequences, so that taking them by place shows
  auto elites = at::arange(E, std.options().dtype(at::kLong)).flip(0).expand({N, E}).contiguous();
  auto fused = [=] {
    mppi_choose({.gumbel = noise_from(N, 100),
                 .noise = noise_from(N, 200),
                 .elites = elites.data_ptr<int64_t>(),
                 .scores = f32(scores),
                 .actions = f32(actions),
                 .std = f32(std),
                 .action = f32(action),
                 .explore = true,
                 .N = N,
                 .H = H,
                 .S = S,
                 .A = A,
                 .E = E},
                device);
  };
  auto reference = [=](const Tensors&) {
    auto u = at::empty_like(scores);
    noise_uniform_(u, noise_from(N, 100));
    // the largest of log-weights plus Gumbel noise is a draw by the weights
    const auto pick = (at::log(scores) - at::log(-at::log(u))).argmax(1, true);
    const auto index = elites.gather(1, pick).view({N, 1, 1}).expand({N, 1, A});
    const auto first = actions.select(1, 0).gather(1, index).squeeze(1);
    const auto noisy = first + std.select(1, 0) * drawn_normals(N, 200, first);
    return Tensors{noisy.clamp(-1, 1)};
  };
  return {.name = name_of("choose", s),
          .reference = reference,
          .fused =
              [=](const Tensors&) {
                fused();
                return Tensors{action.clone()};
              },
          .tolerance = 1e-5,
          .bytes = N * E * 12,
          .flops = N * E * 60,
          .repeat_fused = fused};
}

KernelCase begin_case(const Sizes& s, at::Device device) {
  const auto [N, H, S, P, A, E] = s;
  constexpr int64_t I = 6, num_q = 5;
  PlanInputs in(s, device);
  auto prev = in.normal({N, H, A}), mean = at::zeros_like(prev), std = at::zeros_like(prev);
  auto is_first = (in.uniform({N}) < 0.5).to(at::kByte);
  auto pair = at::zeros({I, N, 2}, is_first.options().dtype(at::kLong));
  auto fused = [=] {
    mppi_begin({.pair_noise = noise_from(N, 300),
                .prev_mean = f32(prev),
                .is_first = is_first.data_ptr<uint8_t>(),
                .mean = f32(mean),
                .std = f32(std),
                .pair = pair.data_ptr<int64_t>(),
                .max_std = 2.f,
                .N = N,
                .H = H,
                .A = A,
                .I = I,
                .num_q = num_q},
               device);
  };
  // the last plan one step on; of a first step nothing
  auto reference = [=](const Tensors&) {
    auto m = at::zeros_like(prev);
    m.narrow(1, 0, H - 1)
        .copy_(prev.narrow(1, 1, H - 1).masked_fill((is_first != 0).view({N, 1, 1}), 0));
    auto u = at::empty({N, I}, prev.options());
    noise_uniform_(u, noise_from(N, 300));
    // pairs in the order (0, 1), (0, 2), .., (1, 2), ..
    const auto pairs = at::combinations(at::arange(num_q, pair.options()), 2);
    const auto drawn = (u * double(pairs.size(0))).to(at::kLong).t().reshape({-1});
    return Tensors{m, at::full_like(m, 2), pairs.index_select(0, drawn).view({I, N, 2})};
  };
  return {.name = name_of("begin", s),
          .reference = reference,
          .fused =
              [=](const Tensors&) {
                fused();
                return Tensors{mean.clone(), std.clone(), pair.clone()};
              },
          .tolerance = 0,
          .bytes = N * H * A * 12,
          .repeat_fused = fused};
}

std::vector<KernelCase> mppi_cases(at::Device device) {
  std::vector<KernelCase> list;
  for (const Sizes& s : kSizes) {
    list.push_back(begin_case(s, device));
    list.push_back(sample_case(s, device));
    for (bool shared : {false, true}) list.push_back(policy_case(s, shared, device));
    for (bool soft : {false, true}) list.push_back(reward_case(s, soft, at::kFloat, device));
    list.push_back(reward_case(s, false, at::kBFloat16, device));
    list.push_back(total_case(s, device));
    list.push_back(elites_case(s, device));
    list.push_back(choose_case(s, device));
  }
  return list;
}

}  // namespace

void mppi_begin(const MppiBegin& args, at::Device device) {
  launch<mppi_begin_cuda>("mppi_begin", device, mppi_begin_cpu, args);
}
void mppi_sample(const MppiSample& args, at::Device device) {
  launch<mppi_sample_cuda>("mppi_sample", device, mppi_sample_cpu, args);
}
void mppi_policy(const MppiPolicy& args, at::Device device) {
  launch<mppi_policy_cuda>("mppi_policy", device, mppi_policy_cpu, args);
}
void mppi_reward(const MppiReward& args, at::Device device) {
  launch<mppi_reward_cuda>("mppi_reward", device, mppi_reward_cpu, args);
}
void mppi_total(const MppiTotal& args, at::Device device) {
  launch<mppi_total_cuda>("mppi_total", device, mppi_total_cpu, args);
}
void mppi_elites(const MppiElites& args, at::Device device) {
  launch<mppi_elites_cuda>("mppi_elites", device, mppi_elites_cpu, args);
}
void mppi_choose(const MppiChoose& args, at::Device device) {
  launch<mppi_choose_cuda>("mppi_choose", device, mppi_choose_cpu, args);
}

namespace kernels::mppi {
KernelEntry entry() {
  return {"mppi", "the steps of a plan between a world model's products", mppi_cases};
}
}  // namespace kernels::mppi

}  // namespace maglev
