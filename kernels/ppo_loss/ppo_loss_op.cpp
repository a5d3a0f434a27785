#include "kernels/ppo_loss/ppo_loss_op.h"

#include <algorithm>
#include <optional>
#include <string>

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include "base/core/error.h"
#include "engine/device/kernel.h"
#include "engine/device/launch.h"
#include "kernels/policy/distribution_op.h"
#include "kernels/ppo_loss/ppo_scalars_op.h"

namespace maglev {
namespace {

void expect_loss(const char* what, const at::Tensor& t, at::IntArrayRef sizes,
                 at::ScalarType dtype) {
  if (t.defined() && t.sizes() == sizes && t.is_contiguous() && t.scalar_type() == dtype) return;
  throw Error("[ppo_loss] " + std::string(what) + " must be contiguous " + toString(dtype) + " " +
              c10::str(sizes) + ", got " +
              (t.defined() ? c10::str(t.toString(), t.sizes()) : "none"));
}

PpoLossArgs make_args(const ActionSpec& spec, const at::Tensor& logits, const at::Tensor& log_std,
                      const at::Tensor& value, const PpoLossBatch& b) {
  const PpoLossRows& r = b.rollout;
  const int64_t B = b.index.size(0), M = r.valid.size(0);
  const int64_t width = spec.discrete() ? spec.categories() : spec.dims();
  // B rows of the network, then the columns of M rows that `index` points into
  expect_loss("index", b.index, {B}, at::kLong);
  expect_loss("logits", logits, {B, width}, at::kFloat);
  expect_loss("value", value, {B}, at::kFloat);
  if (!spec.discrete()) expect_loss("log_std", log_std, {width}, at::kFloat);
  expect_loss("action", r.action, {M, spec.dims()}, spec.discrete() ? at::kInt : at::kFloat);
  expect_loss("old_log_prob", r.old_log_prob, {M}, at::kFloat);
  expect_loss("advantage", r.advantage, {M}, at::kFloat);
  expect_loss("target", r.target, {M}, at::kFloat);
  expect_loss("valid", r.valid, {M}, at::kFloat);
  if (r.old_value.defined() || b.settings.clips_value)
    expect_loss("old_value", r.old_value, {M}, at::kFloat);
  if (r.mask.defined()) expect_loss("mask", r.mask, {M, width}, at::kByte);
  expect_loss("scalars", b.scalars, {6}, at::kFloat);
  // panels, and what is written, come later
  return {.policy = {.heads = spec.heads.data(),
                     .head_count = int64_t(spec.heads.size()),
                     .dims = spec.dims(),
                     .logits = nullptr,
                     .stride = 0,
                     .log_std = spec.discrete() ? nullptr : log_std.data_ptr<float>(),
                     .mask = r.mask.defined() ? r.mask.data_ptr<uint8_t>() : nullptr,
                     .mask_width = width,
                     .rows = B},
          .value = value.data_ptr<float>(),
          .index = b.index.data_ptr<int64_t>(),
          .action_i32 = spec.discrete() ? r.action.data_ptr<int32_t>() : nullptr,
          .action_f32 = spec.discrete() ? nullptr : r.action.data_ptr<float>(),
          .old_log_prob = r.old_log_prob.data_ptr<float>(),
          .advantage = r.advantage.data_ptr<float>(),
          .target = r.target.data_ptr<float>(),
          .old_value = r.old_value.defined() ? r.old_value.data_ptr<float>() : nullptr,
          .valid = r.valid.data_ptr<float>(),
          .settings = b.settings,
          .scalars = reinterpret_cast<const PpoLossScalars*>(b.scalars.data_ptr<float>()),
          .d_logits = nullptr,
          .d_value = nullptr,
          .d_log_std = nullptr,
          .figures = nullptr};
}

// blocks of kPanelRows rows, transposed on the way in and out
void loss_on_cpu(PpoLossArgs args, const at::Tensor& logits, at::Tensor& d_logits,
                 at::Tensor& d_value) {
  const int64_t B = args.policy.rows, width = args.policy.mask_width;
  const float* value = args.value;
  const int64_t* index = args.index;
  // one piece of memory: logits and their gradient, values and theirs
  auto panel = at::empty({2 * width + 2, kPanelRows}, logits.options());
  float* logits_panel = panel.data_ptr<float>();
  args.policy.logits = logits_panel, args.policy.stride = kPanelRows;
  args.d_logits = logits_panel + width * kPanelRows;
  float* value_panel = logits_panel + 2 * width * kPanelRows;
  args.value = value_panel, args.d_value = value_panel + kPanelRows;
  for (int64_t first = 0; first < B; first += kPanelRows) {
    const int64_t rows = std::min(kPanelRows, B - first);
    args.policy.rows = rows, args.index = index + first;
    rows_to_panel(logits.data_ptr<float>() + first * width, rows, width, logits_panel);
    rows_to_panel(value + first, rows, 1, value_panel);
    ppo_loss_cpu(args);
    panel_to_rows(args.d_logits, rows, width, d_logits.data_ptr<float>() + first * width);
    panel_to_rows(args.d_value, rows, 1, d_value.data_ptr<float>() + first);
  }
}

void loss_on_device(PpoLossArgs args, const at::Tensor& logits, at::Tensor& d_logits,
                    at::Tensor& d_value) {
  // the kernel wants features first
  auto columns = logits.t().contiguous(), d_columns = at::empty_like(columns);
  args.policy.logits = columns.data_ptr<float>(), args.policy.stride = args.policy.rows;
  args.d_logits = d_columns.data_ptr<float>(), args.d_value = d_value.data_ptr<float>();
  const int64_t blocks = (args.policy.rows + kPpoDeviceBlock - 1) / kPpoDeviceBlock;
  auto partial =
      at::empty({blocks, kPpoTotal + args.policy.dims}, logits.options().dtype(at::kDouble));
  const auto none = [](const auto&...) { MAGLEV_ASSERT(false, "a processor takes panels"); };
  launch<ppo_loss_cuda>("ppo_loss", logits.device(), none, args, partial.data_ptr<double>());
  d_logits.copy_(d_columns.t());
}

// the gradient is computed with the loss and kept for backward
class PpoLoss : public torch::autograd::Function<PpoLoss> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& logits,
                            const std::optional<at::Tensor>& deviation, const at::Tensor& value,
                            const ActionSpec& spec, const PpoLossBatch& batch,
                            at::Tensor* figures) {
    const at::Tensor log_std = deviation.value_or(at::Tensor());
    PpoLossArgs args = make_args(spec, logits, log_std, value, batch);
    auto d_logits = at::empty_like(logits), d_value = at::empty_like(value);
    at::Tensor d_log_std;
    if (log_std.defined()) d_log_std = at::zeros_like(log_std);
    // figures in f64, over all panels
    auto sums = at::zeros({int64_t(kPpoFigures)}, logits.options().dtype(at::kDouble));
    args.d_log_std = log_std.defined() ? d_log_std.data_ptr<float>() : nullptr;
    args.figures = sums.data_ptr<double>();
    const at::Device device = device_of("ppo_loss", logits, log_std, value, batch.index,
                                        batch.scalars, batch.rollout.action);
    if (device.is_cuda()) loss_on_device(args, logits, d_logits, d_value);
    else loss_on_cpu(args, logits, d_logits, d_value);
    figures->add_(sums);
    context->save_for_backward({d_logits, d_log_std, d_value});
    return sums[kPpoTotal].to(at::kFloat);
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list grad) {
    auto saved = context->get_saved_variables();
    // a scalar loss: its gradient scales what was kept
    for (auto& t : saved)
      if (t.defined()) t = t * grad[0];
    return {saved[0], saved[1], saved[2], {}, {}, {}};
  }
};

struct PpoLossInputs {
  ActionSpec spec;
  at::Tensor logits, log_std, value;
  PpoLossBatch batch;
  PpoLossRows rows;  ///< the batch's, as the reference takes them
  PpoCoefficients coefficients;
};

struct PpoLossShape {
  std::vector<int64_t> heads;
  int64_t dims;
  bool masked;
  PpoLossSettings settings;
};

// the rows a batch is about, their advantages normalised
PpoLossRows rows_of(const PpoLossBatch& b, const PpoLossScalars& scalars) {
  PpoLossRows rows = b.rollout;
  for (auto* column : {&rows.action, &rows.old_log_prob, &rows.advantage, &rows.target,
                       &rows.old_value, &rows.valid, &rows.mask})
    if (column->defined()) *column = column->index_select(0, b.index);
  rows.advantage = (rows.advantage - scalars.advantage_mean) * scalars.advantage_scale;
  return rows;
}

// rows of a rollout of 2 B rows in mixed order, a tenth of them invalid
PpoLossInputs ppo_loss_inputs(const PpoLossShape& shape, int64_t B, at::Device device) {
  auto gen = at::make_generator<at::CPUGeneratorImpl>(uint64_t(B * 10 + shape.dims));
  PpoLossInputs in;
  const int64_t M = 2 * B;
  in.spec.heads = shape.heads;
  if (!in.spec.discrete())
    in.spec.low.assign(size_t(shape.dims), -1.f), in.spec.high.assign(size_t(shape.dims), 1.f);
  const int64_t width = in.spec.discrete() ? in.spec.categories() : shape.dims;
  in.logits = at::randn({B, width}, gen), in.value = at::randn({B}, gen);
  auto& b = in.batch;
  auto& r = b.rollout;
  b.settings = shape.settings;
  b.index = at::randperm(M, gen).narrow(0, 0, B).contiguous();
  if (in.spec.discrete()) {
    std::vector<at::Tensor> columns;
    for (int64_t K : shape.heads) columns.push_back(at::randint(K, {M}, gen));
    r.action = at::stack(columns, 1).to(at::kInt);
  } else {
    in.log_std = at::randn({width}, gen) * 0.3;
    r.action = at::randn({M, width}, gen);
  }
  if (shape.masked) {
    r.mask = (at::rand({M, width}, gen) < 0.6).to(at::kByte);
    // the action that was taken is always allowed
    int64_t begin = 0;
    for (int64_t h = 0; h < in.spec.dims(); begin += shape.heads[size_t(h++)])
      r.mask.narrow(1, begin, shape.heads[size_t(h)])
          .scatter_(1, r.action.narrow(1, h, 1).to(at::kLong), 1);
  }
  // near the new policy's, so that some ratios are clipped and some are not
  r.old_log_prob = at::zeros({M});
  auto mask = r.mask.defined() ? r.mask.index_select(0, b.index) : at::Tensor();
  auto now = log_prob(in.spec, {in.logits, in.log_std, mask}, r.action.index_select(0, b.index));
  r.old_log_prob.index_copy_(0, b.index, now.log_prob + at::randn({B}, gen) * 0.3);
  r.advantage = at::randn({M}, gen) * 3 + 1, r.target = at::randn({M}, gen);
  r.old_value = at::randn({M}, gen), r.valid = (at::rand({M}, gen) < 0.9).to(at::kFloat);
  const float count = std::max(1.f, r.valid.index_select(0, b.index).sum().item<float>());
  // near the advantages' own mean and deviation, 1 and 3
  const PpoLossScalars scalars{.advantage_mean = 1.1f,
                               .advantage_scale = 0.35f,
                               .inverse_count = 1 / count,
                               .clip = 0.2f,
                               .value_clip = 0.2f,
                               .entropy_coef = 0.01f};
  b.scalars = packed(scalars);
  // drawn on the host, so that every device gets the same
  for (auto* t : {&in.logits, &in.log_std, &in.value, &b.index, &r.action, &r.old_log_prob,
                  &r.advantage, &r.target, &r.old_value, &r.valid, &r.mask, &b.scalars})
    if (t->defined()) *t = t->to(device);
  in.rows = rows_of(b, scalars);
  in.coefficients = {.clip = at::full({}, scalars.clip, device),
                     .value_clip = at::full({}, scalars.value_clip, device),
                     .entropy_coef = at::full({}, scalars.entropy_coef, device),
                     .settings = shape.settings};
  return in;
}

std::vector<KernelCase> ppo_loss_cases(at::Device device) {
  std::vector<KernelCase> list;
  const PpoLossSettings free, clipped{.clips_value = true},
      larger{.clips_value = true, .value_clip_max = true};
  const std::vector<std::pair<const char*, PpoLossShape>> shapes{
      {"heads=2", {{2}, 0, false, free}},
      {"heads=5,3 masked value_clip", {{5, 3}, 0, true, clipped}},
      {"heads=4 value_clip max", {{4}, 0, false, larger}},
      {"gaussian dims=3", {{}, 3, false, free}}};
  for (const auto& [name, shape] : shapes)
    for (int64_t B : {1, 64, 333, 8500}) {
      // many blocks once
      if (B > 1000 && name != shapes[0].first) continue;
      PpoLossInputs in = ppo_loss_inputs(shape, B, device);
      Tensors leaves{in.logits, in.value};
      if (in.log_std.defined()) leaves.push_back(in.log_std);
      auto log_std_of = [](const Tensors& t) { return t.size() > 2 ? t[2] : at::Tensor(); };
      list.push_back({.name = std::string(name) + " B=" + std::to_string(B),
                      .inputs = leaves,
                      .reference =
                          [=](const Tensors& t) {
                            const auto loss = ppo_loss_reference(in.spec, t[0], log_std_of(t), t[1],
                                                                 in.rows, in.coefficients);
                            return Tensors{loss.total, loss.figures().detach()};
                          },
                      .fused =
                          [=](const Tensors& t) {
                            auto figures = at::zeros({int64_t(kPpoFigures)}, t[0].options());
                            auto total =
                                ppo_loss(in.spec, t[0], log_std_of(t), t[1], in.batch, figures);
                            return Tensors{total, figures};
                          },
                      .tolerance = 2e-6,
                      .bytes = B * (in.logits.size(1) * 8 + 4 * 8 + 8),
                      .flops = B * in.logits.size(1) * 100});
    }
  for (auto& scalars : ppo_scalar_cases(device)) list.push_back(std::move(scalars));
  return list;
}

}  // namespace

at::Tensor ppo_loss(const ActionSpec& spec, const at::Tensor& logits, const at::Tensor& log_std,
                    const at::Tensor& value, const PpoLossBatch& batch, at::Tensor& figures) {
  std::optional<at::Tensor> deviation;
  if (log_std.defined()) deviation = log_std;
  return PpoLoss::apply(logits, deviation, value, spec, batch, &figures);
}

at::Tensor packed(const PpoLossScalars& s) {
  return at::tensor(
      {s.advantage_mean, s.advantage_scale, s.inverse_count, s.clip, s.value_clip, s.entropy_coef});
}

namespace kernels::ppo_loss {
KernelEntry entry() {
  return {"ppo_loss", "PPO's loss with its gradient, and the scalars around a minibatch",
          ppo_loss_cases};
}
}  // namespace kernels::ppo_loss

}  // namespace maglev
