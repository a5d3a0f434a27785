#include "kernels/two_hot/two_hot_op.h"

#include <algorithm>
#include <vector>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/custom_function.h>

#include "base/core/error.h"
#include "base/simd/panel.h"
#include "engine/device/kernel.h"
#include "engine/device/launch.h"

namespace maglev {
namespace {

// rows turned into panels, one after the other
void loss_by_panels(const TwoHotRows& rows) {
  const int64_t bins = rows.bins.count;
  auto memory = at::empty({bins * kPanelRows});
  float* panel = memory.data_ptr<float>();
  // targets of a panel's rows lie together: a panel ends where they begin anew
  for (int64_t first = 0, count; first < rows.rows; first += count) {
    const int64_t place = first % rows.cycle;
    count = std::min({kPanelRows, rows.rows - first, rows.cycle - place});
    rows_to_panel(rows.logits + first * bins, count, bins, panel);
    two_hot_loss_cpu({.bins = rows.bins,
                      .logits = panel,
                      .target = rows.target + place,
                      .weight = 1,
                      .loss = rows.loss + first,
                      .stride = kPanelRows,
                      .rows = count});
    if (!rows.d_logits) continue;
    float* d = rows.d_logits + first * bins;
    panel_to_rows(panel, count, bins, d);
    for (int64_t i = 0; i < count * bins; ++i) d[i] *= rows.weight_of(first + i / bins);
  }
}

void values_by_panels(const TwoHotValueRows& rows) {
  const int64_t bins = rows.bins.count;
  auto memory = at::empty({(bins + 1) * kPanelRows});
  float *panel = memory.data_ptr<float>(), *value = panel + bins * kPanelRows;
  for (int64_t first = 0; first < rows.rows; first += kPanelRows) {
    const int64_t count = std::min(kPanelRows, rows.rows - first);
    rows_to_panel(rows.logits + first * bins, count, bins, panel);
    two_hot_value_grad_cpu(
        {.bins = rows.bins, .logits = panel, .value = value, .stride = kPanelRows, .rows = count});
    if (rows.value) std::copy_n(value, count, rows.value + first);
    if (!rows.d_value) continue;
    float* d = rows.d_logits + first * bins;
    panel_to_rows(panel, count, bins, d);
    for (int64_t i = 0; i < count * bins; ++i)
      d[i] *= rows.scale * rows.d_value[(first + i / bins) % rows.cycle];
  }
}

// losses [rows] and, where wanted, their gradients [rows, bins]
void loss_rows(const at::Tensor& logits, const at::Tensor& target, const TwoHotBins& bins,
               at::Tensor& loss, at::Tensor* d_logits) {
  const at::Device device = device_of("two_hot", logits, target, loss);
  const TwoHotRows args{.bins = bins,
                        .logits = logits.const_data_ptr<float>(),
                        .target = target.const_data_ptr<float>(),
                        .cycle = logits.size(0),
                        .weight = nullptr,
                        .scale = 1,
                        .loss = loss.data_ptr<float>(),
                        .d_logits = d_logits ? d_logits->data_ptr<float>() : nullptr,
                        .rows = logits.size(0)};
  launch<two_hot_loss_cuda>("two_hot", device, loss_by_panels, args);
}

class TwoHotCrossEntropy : public torch::autograd::Function<TwoHotCrossEntropy> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& logits,
                            const at::Tensor& target, const TwoHotBins& bins) {
    // the loss gives its gradient on the way: backward only scales it
    auto loss = at::empty_like(target), d_logits = at::empty_like(logits);
    loss_rows(logits, target, bins, loss, &d_logits);
    context->save_for_backward({d_logits});
    return loss;
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list grad) {
    return {context->get_saved_variables()[0] * grad[0].unsqueeze(-1), {}, {}};
  }
};

KernelCase loss_case(int64_t rows, const TwoHotBins& bins, at::Device device) {
  auto gen = at::make_generator<at::CPUGeneratorImpl>(uint64_t(rows * bins.count));
  auto logits = (at::randn({rows, bins.count}, gen) * 3).to(device);
  // from 0 over the bins' ends, some exactly on a bin
  auto target = (at::randn({rows}, gen) * at::exp(at::randn({rows}, gen) * 4)).to(device);
  target.narrow(0, 0, 1).zero_();
  auto loss = at::empty_like(target), d_logits = at::empty_like(logits);
  return {
      .name = "loss rows=" + std::to_string(rows) + " bins=" + std::to_string(bins.count),
      .inputs = {logits},
      .reference =
          [=](const Tensors& in) { return Tensors{two_hot_loss_reference(in[0], target, bins)}; },
      .fused = [=](const Tensors& in) { return Tensors{two_hot_loss(in[0], target, bins)}; },
      // a position among 100 bins has 17 bits behind the point
      .tolerance = 5e-5,
      .bytes = rows * bins.count * 8,
      .flops = rows * bins.count * 40,
      .repeat_fused = [=]() mutable { loss_rows(logits, target, bins, loss, &d_logits); }};
}

// of a panel, which only the CPU has
KernelCase value_case(int64_t rows, const TwoHotBins& bins) {
  auto gen = at::make_generator<at::CPUGeneratorImpl>(uint64_t(rows + bins.count));
  auto logits = at::randn({rows, bins.count}, gen);
  const auto run = [=](const at::Tensor& in) {
    // one panel, with zeros behind the last row
    auto panel = at::zeros({bins.count, kPanelRows}), value = at::empty({kPanelRows});
    panel.narrow(1, 0, rows).copy_(in.t());
    two_hot_value_grad_cpu({.bins = bins,
                            .logits = panel.data_ptr<float>(),
                            .value = value.data_ptr<float>(),
                            .stride = kPanelRows,
                            .rows = rows});
    return std::pair{value.narrow(0, 0, rows).clone(), panel.narrow(1, 0, rows).t().contiguous()};
  };
  return {
      .name = "value rows=" + std::to_string(rows) + " bins=" + std::to_string(bins.count),
      .inputs = {logits},
      .reference = [=](const Tensors& in) { return Tensors{two_hot_value_reference(in[0], bins)}; },
      .fused = [=](const Tensors& in) { return Tensors{run(in[0]).first}; },
      .backward =
          [=](const Tensors& in, const Tensors& grad) {
            return Tensors{run(in[0]).second * grad[0].unsqueeze(-1)};
          },
      .tolerance = 1e-5,
      .bytes = rows * bins.count * 8,
      .flops = rows * bins.count * 30};
}

// rows as a learner of several networks has them: each network's rows take the same targets
KernelCase weighted_loss_case(int64_t nets, int64_t rows, at::Device device) {
  constexpr double kScale = 0.1;
  const TwoHotBins bins;
  auto gen = at::make_generator<at::CPUGeneratorImpl>(uint64_t(nets * rows));
  auto logits = (at::randn({nets, rows, bins.count}, gen) * 3).to(device);
  auto target = (at::randn({rows}, gen) * 20).to(device), weight = at::rand({rows}, gen).to(device);
  return {.name = "weighted loss nets=" + std::to_string(nets) + " rows=" + std::to_string(rows),
          .inputs = {logits},
          .reference =
              [=](const Tensors& in) {
                const auto wanted = target.unsqueeze(0).expand({nets, rows});
                const auto loss = two_hot_loss_reference(in[0], wanted, bins);
                return Tensors{loss.detach(), (loss * weight).sum() * kScale};
              },
          .fused =
              [=](const Tensors& in) {
                auto d_logits = in[0].detach().clone();
                const auto loss = two_hot_loss_back_(d_logits, target, weight, kScale, bins);
                return Tensors{loss, (loss * weight).sum() * kScale};
              },
          .backward =
              [=](const Tensors& in, const Tensors& grad) {
                auto d_logits = in[0].detach().clone();
                two_hot_loss_back_(d_logits, target, weight, kScale, bins);
                return Tensors{d_logits * grad[1]};
              },
          .tolerance = 5e-5,
          .bytes = nets * rows * bins.count * 8,
          .flops = nets * rows * bins.count * 40};
}

// values of rows
KernelCase row_value_case(int64_t nets, int64_t rows, at::Device device) {
  constexpr double kScale = -0.5;
  const TwoHotBins bins;
  auto gen = at::make_generator<at::CPUGeneratorImpl>(uint64_t(nets * rows + 1));
  auto logits = at::randn({nets, rows, bins.count}, gen).to(device);
  auto weight = at::rand({rows}, gen).to(device);
  return {.name = "row values nets=" + std::to_string(nets) + " rows=" + std::to_string(rows),
          .inputs = {logits},
          .reference =
              [=](const Tensors& in) {
                const auto value = two_hot_value_reference(in[0], bins);
                return Tensors{value.detach(), (value * weight).sum() * kScale};
              },
          .fused =
              [=](const Tensors& in) {
                const auto value = two_hot_value(in[0].detach(), bins);
                return Tensors{value, (value * weight).sum() * kScale};
              },
          .backward =
              [=](const Tensors& in, const Tensors& grad) {
                auto d_logits = in[0].detach().clone();
                two_hot_value_back_(d_logits, weight, kScale, bins);
                return Tensors{d_logits * grad[1]};
              },
          .tolerance = 1e-5,
          .bytes = nets * rows * bins.count * 8,
          .flops = nets * rows * bins.count * 30};
}

// of a panel, without the gradient
KernelCase inverse_case(int64_t rows, const TwoHotBins& bins) {
  auto gen = at::make_generator<at::CPUGeneratorImpl>(uint64_t(rows * bins.count));
  auto logits = at::randn({rows, bins.count}, gen) * 3;
  auto panel = at::zeros({bins.count, kPanelRows}), value = at::empty({kPanelRows});
  panel.narrow(1, 0, rows).copy_(logits.t());
  const auto run = [=] {
    two_hot_inverse_cpu({.bins = bins,
                         .logits = panel.data_ptr<float>(),
                         .value = value.data_ptr<float>(),
                         .stride = kPanelRows,
                         .rows = rows});
  };
  return {
      .name = "inverse rows=" + std::to_string(rows) + " bins=" + std::to_string(bins.count),
      .reference = [=](const Tensors&) { return Tensors{two_hot_value_reference(logits, bins)}; },
      .fused =
          [=](const Tensors&) {
            run();
            return Tensors{value.narrow(0, 0, rows).clone()};
          },
      .tolerance = 1e-5,
      .bytes = rows * bins.count * 4,
      .flops = rows * bins.count * 25,
      .repeat_fused = run};
}

std::vector<KernelCase> two_hot_cases(at::Device device) {
  std::vector<KernelCase> list;
  for (int64_t rows : {1, 64, 768})
    for (int64_t count : {2, 101}) list.push_back(loss_case(rows, {.count = count}, device));
  list.push_back(loss_case(100, {.count = 41, .low = -5, .high = 5}, device));
  for (auto [nets, rows] : {std::pair<int64_t, int64_t>{1, 1}, {2, 70}, {5, 24}}) {
    list.push_back(weighted_loss_case(nets, rows, device));
    list.push_back(row_value_case(nets, rows, device));
  }
  if (device.is_cpu())
    for (int64_t rows : {1, 17, 64}) {
      list.push_back(value_case(rows, {}));
      list.push_back(inverse_case(rows, {}));
    }
  return list;
}

}  // namespace

at::Tensor two_hot_loss(const at::Tensor& logits, const at::Tensor& target,
                        const TwoHotBins& bins) {
  MAGLEV_ASSERT(logits.scalar_type() == at::kFloat && logits.size(-1) == bins.count,
                "[..., bins] f32");
  MAGLEV_ASSERT(target.scalar_type() == at::kFloat && target.numel() * bins.count == logits.numel(),
                "[...] f32");
  // all leading dimensions are rows
  auto rows = logits.reshape({-1, bins.count}).contiguous();
  auto targets = target.detach().reshape({-1}).contiguous();
  // the gradient only where it will be asked for
  if (at::GradMode::is_enabled() && logits.requires_grad())
    return TwoHotCrossEntropy::apply(rows, targets, bins).view(target.sizes());
  auto loss = at::empty_like(targets);
  loss_rows(rows, targets, bins, loss, nullptr);
  return loss.view(target.sizes());
}

at::Tensor two_hot_loss_back_(at::Tensor& logits, const at::Tensor& target,
                              const at::Tensor& weight, double scale, const TwoHotBins& bins) {
  const at::Device device = device_of("two_hot", logits, target, weight);
  const int64_t rows = logits.numel() / bins.count, cycle = target.numel();
  MAGLEV_ASSERT(logits.is_contiguous() && target.is_contiguous() && weight.is_contiguous() &&
                    weight.numel() == cycle && rows % cycle == 0,
                "a target and a weight for each row, in turns");
  auto loss = at::empty({rows / cycle, cycle}, target.options());
  const TwoHotRows args{.bins = bins,
                        .logits = logits.const_data_ptr<float>(),
                        .target = target.const_data_ptr<float>(),
                        .cycle = cycle,
                        .weight = weight.const_data_ptr<float>(),
                        .scale = float(scale),
                        .loss = loss.data_ptr<float>(),
                        .d_logits = logits.data_ptr<float>(),
                        .rows = rows};
  launch<two_hot_loss_cuda>("two_hot", device, loss_by_panels, args);
  return loss;
}

at::Tensor two_hot_value(const at::Tensor& logits, const TwoHotBins& bins) {
  const at::Device device = device_of("two_hot", logits);
  MAGLEV_ASSERT(logits.is_contiguous() && logits.size(-1) == bins.count, "[..., bins]");
  auto value = at::empty(logits.sizes().slice(0, size_t(logits.dim() - 1)), logits.options());
  const TwoHotValueRows args{.bins = bins,
                             .logits = logits.const_data_ptr<float>(),
                             .value = value.data_ptr<float>(),
                             .d_value = nullptr,
                             .cycle = 1,
                             .scale = 1,
                             .d_logits = nullptr,
                             .rows = value.numel()};
  launch<two_hot_value_cuda>("two_hot_value", device, values_by_panels, args);
  return value;
}

void two_hot_value_back_(at::Tensor& logits, const at::Tensor& d_value, double scale,
                         const TwoHotBins& bins) {
  const at::Device device = device_of("two_hot", logits, d_value);
  MAGLEV_ASSERT(logits.is_contiguous() && d_value.is_contiguous(), "rows one behind the other");
  MAGLEV_ASSERT(logits.numel() / bins.count % d_value.numel() == 0, "each network has all rows");
  const TwoHotValueRows args{.bins = bins,
                             .logits = logits.const_data_ptr<float>(),
                             .value = nullptr,
                             .d_value = d_value.const_data_ptr<float>(),
                             .cycle = d_value.numel(),
                             .scale = float(scale),
                             .d_logits = logits.data_ptr<float>(),
                             .rows = logits.numel() / bins.count};
  launch<two_hot_value_cuda>("two_hot_value", device, values_by_panels, args);
}

at::Tensor two_hot_loss_reference(const at::Tensor& logits, const at::Tensor& target,
                                  const TwoHotBins& bins) {
  auto x = target.to(logits.scalar_type());
  // the target's place among the bins, shared by the two beside it
  auto symlog = at::sign(x) * at::log1p(at::abs(x));
  auto position = (at::clamp(symlog, bins.low, bins.high) - bins.low) *
                  (double(bins.count - 1) / (double(bins.high) - double(bins.low)));
  auto below = at::floor(position), share = (position - below).unsqueeze(-1);
  auto index = below.to(at::kLong).unsqueeze(-1);
  auto code = at::zeros_like(logits.detach());
  code.scatter_add_(-1, index, 1 - share);
  // on the last bin the upper one's share is 0, wherever that is added
  code.scatter_add_(-1, (index + 1) % bins.count, share);
  return -(code * at::log_softmax(logits, -1)).sum(-1);
}

at::Tensor two_hot_value_reference(const at::Tensor& logits, const TwoHotBins& bins) {
  auto bin = at::linspace(bins.low, bins.high, bins.count, logits.options());
  auto mean = (at::softmax(logits, -1) * bin).sum(-1);
  return at::sign(mean) * (at::exp(at::abs(mean)) - 1);
}

namespace kernels::two_hot {
KernelEntry entry() {
  return {"two_hot", "cross-entropy of two-hot targets in symlog space, and values", two_hot_cases};
}
}  // namespace kernels::two_hot

}  // namespace maglev
