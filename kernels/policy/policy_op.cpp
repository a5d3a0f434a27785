#include "kernels/policy/policy_op.h"

#include <algorithm>
#include <string>

#include <ATen/ATen.h>

#include "base/core/error.h"
#include "engine/device/kernel.h"
#include "engine/device/launch.h"
#include "kernels/policy/policy.h"

namespace maglev {
namespace {

void expect_policy(const char* what, const at::Tensor& t, at::IntArrayRef sizes,
                   at::ScalarType dtype) {
  if (t.defined() && t.sizes() == sizes && t.is_contiguous() && t.scalar_type() == dtype) return;
  throw Error("[policy] " + std::string(what) + " must be contiguous " + toString(dtype) + " " +
              c10::str(sizes) + ", got " +
              (t.defined() ? c10::str(t.toString(), t.sizes()) : "none"));
}

// the panel of `rows` rows without its logits; checks shapes
PolicyPanel panel_of(const ActionSpec& spec, const DistParams& p, const at::Tensor& action) {
  const int64_t B = p.logits.dim() == 2 ? p.logits.size(0) : 0;
  const int64_t width = spec.discrete() ? spec.categories() : spec.dims();
  expect_policy("logits", p.logits, {B, width}, at::kFloat);
  expect_policy("action", action, {B, spec.dims()}, spec.discrete() ? at::kInt : at::kFloat);
  if (!spec.discrete()) expect_policy("log_std", p.log_std, {width}, at::kFloat);
  if (p.mask.defined()) expect_policy("mask", p.mask, {B, width}, at::kByte);
  // logits come with each panel
  return {.heads = spec.heads.data(),
          .head_count = int64_t(spec.heads.size()),
          .dims = spec.dims(),
          .logits = nullptr,
          .stride = 0,
          .log_std = spec.discrete() ? nullptr : p.log_std.data_ptr<float>(),
          .mask = p.mask.defined() ? p.mask.data_ptr<uint8_t>() : nullptr,
          .mask_width = width,
          .rows = B};
}

// calls work(panel, first row) for each block of rows; on a device once for all
template <class Work>
void for_panels(PolicyPanel panel, const at::Tensor& logits, Work work) {
  const int64_t B = panel.rows, width = panel.mask_width;
  // a device takes all rows as one panel
  if (logits.device().is_cuda()) {
    auto columns = logits.t().contiguous();
    panel.logits = columns.data_ptr<float>(), panel.stride = B;
    return work(panel, 0);
  }
  // a processor takes one panel after another, each with its own rows of the mask
  auto block = at::empty({width, kPanelRows}, logits.options());
  panel.logits = block.data_ptr<float>(), panel.stride = kPanelRows;
  const uint8_t* mask = panel.mask;
  for (int64_t first = 0; first < B; first += kPanelRows) {
    panel.rows = std::min(kPanelRows, B - first);
    rows_to_panel(logits.data_ptr<float>() + first * width, panel.rows, width,
                  block.data_ptr<float>());
    panel.mask = mask ? mask + first * width : nullptr;
    work(panel, first);
  }
}

struct PolicyInputs {
  ActionSpec spec;
  DistParams params;
};

PolicyInputs policy_inputs(std::vector<int64_t> heads, int64_t dims, bool masked, int64_t B,
                           at::Device device) {
  auto gen = at::make_generator<at::CPUGeneratorImpl>(uint64_t(B + dims));
  PolicyInputs in;
  in.spec.heads = std::move(heads), in.spec.masked = masked;
  if (!in.spec.discrete())
    in.spec.low.assign(size_t(dims), -1.f), in.spec.high.assign(size_t(dims), 1.f);
  const int64_t width = in.spec.discrete() ? in.spec.categories() : dims;
  in.params.logits = (at::randn({B, width}, gen) * 2).to(device);
  if (!in.spec.discrete()) in.params.log_std = (at::randn({dims}, gen) * 0.5).to(device);
  if (masked) {
    auto mask = (at::rand({B, width}, gen) < 0.7).to(at::kByte);
    // the first category of each head stays allowed, so that no head is left without one
    for (int64_t h = 0, begin = 0; h < in.spec.dims(); begin += in.spec.heads[size_t(h++)])
      mask.select(1, begin).fill_(1);
    in.params.mask = mask.to(device);
  }
  return in;
}

std::vector<KernelCase> policy_cases(at::Device device) {
  std::vector<KernelCase> list;
  auto add = [&](const char* name, PolicyInputs in, ActMode mode, float temperature = 1) {
    const int64_t B = in.params.logits.size(0), width = in.params.logits.size(1);
    const ActKey key{.seed = 7, .step = 3, .temperature = temperature};
    auto empty_action = [=] {
      auto dtype = in.spec.discrete() ? at::kInt : at::kFloat;
      return at::empty({B, in.spec.dims()}, in.params.logits.options().dtype(dtype));
    };
    auto out = empty_action();
    list.push_back(
        {.name = std::string(name) + " B=" + std::to_string(B),
         .reference =
             [=](const Tensors&) {
               // of the draw itself, and of the same action when it is given
               auto action = empty_action();
               auto log_prob = sample(in.spec, in.params, mode, key, 5, action);
               auto again = maglev::log_prob(in.spec, in.params, action);
               return Tensors{action, log_prob, again.log_prob, again.entropy};
             },
         .fused =
             [=](const Tensors&) {
               auto action = empty_action();
               auto log_prob = policy_sample(in.spec, in.params, mode, key, 5, action);
               auto again = policy_log_prob(in.spec, in.params, action);
               return Tensors{action, log_prob, again.log_prob, again.entropy};
             },
         .tolerance = 2e-6,
         .bytes = B * (width + in.spec.dims() + 1) * 4,
         .flops = B * width * 60,
         .repeat_reference = [=]() mutable { sample(in.spec, in.params, mode, key, 5, out); },
         .repeat_fused = [=]() mutable { policy_sample(in.spec, in.params, mode, key, 5, out); }});
  };
  for (int64_t B : {1, 8, 64, 333}) {
    add("heads=2", policy_inputs({2}, 0, false, B, device), ActMode::sample);
    add("heads=5,3 masked", policy_inputs({5, 3}, 0, true, B, device), ActMode::sample);
    add("heads=5,3 mean", policy_inputs({5, 3}, 0, true, B, device), ActMode::mean);
    add("gaussian dims=3", policy_inputs({}, 3, false, B, device), ActMode::sample);
    add("heads=5,3 masked T=2", policy_inputs({5, 3}, 0, true, B, device), ActMode::sample, 2);
    add("gaussian dims=3 T=2", policy_inputs({}, 3, false, B, device), ActMode::sample, 2);
    add("gaussian dims=3 mean", policy_inputs({}, 3, false, B, device), ActMode::mean);
  }
  return list;
}

}  // namespace

at::Tensor policy_sample(const ActionSpec& spec, const DistParams& p, ActMode mode,
                         const ActKey& key, int64_t first_row, at::Tensor& action) {
  const at::Device device = device_of("policy", p.logits, p.log_std, p.mask, action);
  const PolicyPanel whole = panel_of(spec, p, action);
  auto log_prob = at::empty({whole.rows}, p.logits.options());
  for_panels(whole, p.logits, [&](const PolicyPanel& panel, int64_t first) {
    const int64_t offset = first * spec.dims();
    launch<policy_sample_cuda>(
        "policy_sample", device, policy_sample_cpu,
        SampleArgs{.policy = panel,
                   .seed = key.seed,
                   .purpose = key.purpose,
                   .first_row = first_row + first,
                   .step = key.step,
                   .base = key.base,
                   .mean = mode == ActMode::mean,
                   .action_i32 = spec.discrete() ? action.data_ptr<int32_t>() + offset : nullptr,
                   .action_f32 = spec.discrete() ? nullptr : action.data_ptr<float>() + offset,
                   .log_prob = log_prob.data_ptr<float>() + first,
                   .index = key.rows ? key.rows + first : nullptr,
                   .temperature = key.temperature});
  });
  return log_prob;
}

LogProb policy_log_prob(const ActionSpec& spec, const DistParams& p, const at::Tensor& action) {
  const at::Device device = device_of("policy", p.logits, p.log_std, p.mask, action);
  const PolicyPanel whole = panel_of(spec, p, action);
  LogProb out{at::empty({whole.rows}, p.logits.options()),
              at::empty({whole.rows}, p.logits.options())};
  for_panels(whole, p.logits, [&](const PolicyPanel& panel, int64_t first) {
    const int64_t offset = first * spec.dims();
    launch<policy_log_prob_cuda>(
        "policy_log_prob", device, policy_log_prob_cpu,
        LogProbArgs{.policy = panel,
                    .action_i32 = spec.discrete() ? action.data_ptr<int32_t>() + offset : nullptr,
                    .action_f32 = spec.discrete() ? nullptr : action.data_ptr<float>() + offset,
                    .log_prob = out.log_prob.data_ptr<float>() + first,
                    .entropy = out.entropy.data_ptr<float>() + first});
  });
  return out;
}

namespace kernels::policy {
KernelEntry entry() {
  return {"policy", "draws from a policy, log-probabilities and entropies in one pass",
          policy_cases};
}
}  // namespace kernels::policy

}  // namespace maglev
