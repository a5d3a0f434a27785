#include "kernels/symexp_bins/symexp_bins_op.h"

#include <string>

#include <ATen/ATen.h>

#include "base/core/error.h"
#include "engine/device/kernel.h"
#include "engine/device/launch.h"
#include "kernels/symexp_bins/symexp_bins.h"

namespace maglev {
namespace {

SymexpBins symexp_bins_of(const at::Tensor& bins, const at::Tensor& logits) {
  MAGLEV_ASSERT(logits.is_contiguous() && logits.size(-1) == bins.size(0), "[rows, bins]");
  MAGLEV_ASSERT(bins.size(0) % 2 == 1 && bins.size(0) <= kMostSymexpBins, "an odd number of bins");
  return {bins.const_data_ptr<float>(), bins.size(0)};
}

int64_t symexp_rows(const at::Tensor& logits) { return logits.numel() / logits.size(-1); }

// even in symlog space from -20 to 20
at::Tensor symexp_bin_values(int64_t count, const at::TensorOptions& options) {
  constexpr double kEdge = 20;
  const auto f64 = options.dtype(at::kDouble);
  const auto half = -at::expm1(-at::linspace(-kEdge, 0, count / 2 + 1, f64));
  return at::cat({half, -half.narrow(0, 0, count / 2).flip(0)}).to(options.dtype());
}

at::Tensor symexp_code(const at::Tensor& x, const at::Tensor& bins) {
  const int64_t last = bins.size(0) - 1;
  const auto within = x.clamp(bins[0], bins[last]).unsqueeze(-1);
  const auto above = at::searchsorted(bins, within, false, /*right=*/true).clamp_max(last);
  const auto low = bins.take(above - 1), high = bins.take(above);
  const auto share = (within - low) / (high - low);
  return at::zeros({x.size(0), last + 1}, x.options())
      .scatter_(-1, above - 1, 1 - share)
      .scatter_(-1, above, share);
}

KernelCase symexp_mean_case(int64_t rows, int64_t count, at::Device device) {
  auto gen = at::make_generator<at::CPUGeneratorImpl>(uint64_t(rows * count));
  const auto logits = at::randn({rows, count}, gen).to(device);
  const auto bias = at::randn({count}, gen).to(device);
  const auto bins = symexp_bin_values(count, logits.options());
  auto mean = at::empty({rows}, logits.options());
  return {.name = "mean rows=" + std::to_string(rows) + " bins=" + std::to_string(count),
          .reference =
              [=](const Tensors&) {
                const auto shares = at::softmax(logits + bias, -1).to(at::kDouble);
                return Tensors{(shares * bins.to(at::kDouble)).sum(-1).to(at::kFloat)};
              },
          .fused =
              [=](const Tensors&) {
                auto fresh = at::empty_like(mean);
                symexp_mean(bins, logits, bias, fresh);
                return Tensors{fresh};
              },
          // a mean is far below the outermost bins, of which it has the rounding
          .tolerance = Tolerance(Tolerance::of_sums(2 * count).share * 8, true),
          .bytes = rows * count * 4,
          .flops = rows * count * 24,
          .repeat_fused = [=]() mutable { symexp_mean(bins, logits, bias, mean); }};
}

KernelCase symexp_loss_case(int64_t rows, int64_t count, at::Device device) {
  auto gen = at::make_generator<at::CPUGeneratorImpl>(uint64_t(rows * count + 1));
  const auto logits = (2 * at::randn({rows, count}, gen)).to(device);
  const auto bias = at::randn({count}, gen).to(device);
  const auto bins = symexp_bin_values(count, logits.options());
  // from 0 over the bins' ends
  const auto target = (at::randn({rows}, gen) * at::exp(8 * at::randn({rows}, gen))).to(device);
  const auto second = at::randn({rows}, gen).to(device), weight = at::rand({rows}, gen).to(device);
  constexpr double kSecond = 0.6;
  const auto run = [=](const at::Tensor& in, at::Tensor& d_logits) {
    auto loss = at::empty({rows}, in.options());
    d_logits = in.detach().clone();
    symexp_loss_(bins, d_logits, bias,
                 {.target = target, .second = second, .second_weight = kSecond, .weight = weight},
                 loss);
    return loss;
  };
  return {.name = "loss rows=" + std::to_string(rows) + " bins=" + std::to_string(count),
          .inputs = {logits},
          .reference =
              [=](const Tensors& in) {
                const auto code = symexp_code(target, bins) + kSecond * symexp_code(second, bins);
                const auto log_probs = at::log_softmax(in[0] + bias.to(in[0].dtype()), -1);
                const auto loss = -(code.to(in[0].dtype()) * log_probs).sum(-1);
                return Tensors{loss.detach(), (weight.to(loss.dtype()) * loss).sum()};
              },
          .fused =
              [=](const Tensors& in) {
                at::Tensor d_logits;
                const auto loss = run(in[0], d_logits);
                return Tensors{loss, (weight * loss).sum()};
              },
          .backward =
              [=](const Tensors& in, const Tensors& grad) {
                at::Tensor d_logits;
                run(in[0], d_logits);
                return Tensors{d_logits * grad[1]};
              },
          .tolerance = Tolerance::of_sums(4 * count + rows),
          .bytes = rows * count * 8,
          .flops = rows * count * 24};
}

std::vector<KernelCase> symexp_cases(at::Device device) {
  std::vector<KernelCase> list;
  for (auto [rows, count] : {std::pair<int64_t, int64_t>{1, 3}, {5, 17}, {40, 255}}) {
    list.push_back(symexp_mean_case(rows, count, device));
    list.push_back(symexp_loss_case(rows, count, device));
  }
  return list;
}

}  // namespace

void symexp_mean(const at::Tensor& bins, const at::Tensor& logits, const at::Tensor& bias,
                 at::Tensor& mean) {
  const at::Device device = device_of("symexp_bins", bins, logits, bias, mean);
  const SymexpMean args{.bins = symexp_bins_of(bins, logits),
                        .rows = symexp_rows(logits),
                        .logits = logits.const_data_ptr<float>(),
                        .bias = bias.const_data_ptr<float>(),
                        .mean = mean.data_ptr<float>()};
  launch<symexp_mean_cuda>("symexp_bins", device, symexp_mean_cpu, args);
}

void symexp_loss_(const at::Tensor& bins, at::Tensor& logits, const at::Tensor& bias,
                  const SymexpTargets& t, at::Tensor& loss) {
  const at::Device device =
      device_of("symexp_bins", bins, logits, bias, t.target, t.second, t.weight, loss);
  const auto data = [](const at::Tensor& x) {
    return x.defined() ? x.const_data_ptr<float>() : nullptr;
  };
  const SymexpLoss args{.bins = symexp_bins_of(bins, logits),
                        .rows = symexp_rows(logits),
                        .logits = data(logits),
                        .bias = data(bias),
                        .target = data(t.target),
                        .second = data(t.second),
                        .second_weight = float(t.second_weight),
                        .weight = data(t.weight),
                        .factor = float(t.factor),
                        .loss = loss.data_ptr<float>(),
                        .d_logits = logits.data_ptr<float>()};
  launch<symexp_loss_cuda>("symexp_bins", device, symexp_loss_cpu, args);
}

namespace kernels::symexp_bins {
KernelEntry entry() {
  return {"symexp_bins", "means of bins even in symlog space, and cross-entropy of two-hot codes",
          symexp_cases};
}
}  // namespace kernels::symexp_bins

}  // namespace maglev
