#include "kernels/categoricals/categoricals_op.h"

#include <string>

#include <ATen/ATen.h>

#include "base/core/error.h"
#include "engine/device/kernel.h"
#include "engine/device/launch.h"
#include "kernels/categoricals/categoricals.h"

namespace maglev {
namespace {

Categoricals categoricals_of(const CategoricalShape& shape, const at::Tensor& probs) {
  MAGLEV_ASSERT(probs.is_contiguous() && probs.size(1) == shape.S * shape.C, "[rows, S * C]");
  return {.rows = probs.size(0), .S = shape.S, .C = shape.C, .unimix = float(shape.unimix)};
}

std::string categorical_name(const char* what, int64_t rows, const CategoricalShape& shape) {
  return std::string(what) + " rows=" + std::to_string(rows) + " S=" + std::to_string(shape.S) +
         " C=" + std::to_string(shape.C);
}

// what is drawn: probabilities and categories; the gradient is that of probabilities
KernelCase draw_case(int64_t rows, const CategoricalShape& shape, at::Device device) {
  auto gen = at::make_generator<at::CPUGeneratorImpl>(uint64_t(rows * 100 + shape.C));
  const int64_t S = shape.S, C = shape.C;
  const auto logits = (2 * at::randn({rows, S * C}, gen)).to(device);
  const auto bias = at::randn({S * C}, gen).to(device);
  const auto uniforms = at::rand({rows, S}, gen).to(device);
  const auto f32 = logits.options();
  const auto keep = (at::rand({rows}, gen) < 0.7).to(at::kFloat).to(device);
  const auto run = [=](const at::Tensor& in, at::Tensor& one_hot, at::Tensor& category,
                       at::Tensor& carried) {
    auto probs = at::empty({rows, S * C}, f32);
    carried = at::empty({rows, S * C}, f32);
    draw_categories(shape, in, bias, uniforms, {probs, one_hot, category, {carried, keep}});
    return probs;
  };
  return {.name = categorical_name("draw", rows, shape),
          .inputs = {logits},
          .reference =
              [=](const Tensors& in) {
                const auto probs = mixed_probs_reference(shape, in[0] + bias.to(in[0].dtype()));
                const auto still = probs.detach().to(at::kFloat);
                const auto ends = still.narrow(-1, 0, C - 1).cumsum(-1);
                const auto drawn = (ends <= uniforms.unsqueeze(-1)).sum(-1);
                const auto classes = at::arange(C, drawn.options());
                const auto one_hot = (drawn.unsqueeze(-1) == classes).to(at::kFloat).flatten(1);
                return Tensors{probs.flatten(1), one_hot, drawn.to(at::kFloat),
                               one_hot * keep.unsqueeze(1)};
              },
          .fused =
              [=](const Tensors& in) {
                auto one_hot = at::empty({rows, S * C}, f32);
                auto category = at::empty({rows, S}, f32.dtype(at::kByte));
                at::Tensor carried;
                const auto probs = run(in[0], one_hot, category, carried);
                return Tensors{probs, one_hot, category.to(at::kFloat), carried};
              },
          .backward =
              [=](const Tensors& in, const Tensors& grad) {
                auto one_hot = at::empty({rows, S * C}, f32), d_logits = at::empty_like(in[0]);
                at::Tensor none, carried;
                const auto probs = run(in[0], one_hot, none, carried);
                // a part by the draw, one beside it, and one carried where rows are kept
                const auto part = (0.25 * grad[0]).contiguous();
                const auto rest = (grad[0] - part * (1 + keep.unsqueeze(1))).contiguous();
                draw_categories_back(shape, probs, part, rest, d_logits, {part, keep});
                return Tensors{d_logits};
              },
          .tolerance = Tolerance::of_sums(2 * C + 20),
          .bytes = rows * S * C * 12,
          .flops = rows * S * C * 24,
          .repeat_fused =
              [=, probs = at::empty_like(logits), one_hot = at::empty_like(logits)]() mutable {
                draw_categories(shape, logits, bias, uniforms, {probs, one_hot, {}});
              }};
}

// the weights of both gradients differ, so the reference has the sides still in turn
KernelCase divergence_case(int64_t rows, const CategoricalShape& shape, double free,
                           at::Device device) {
  auto gen = at::make_generator<at::CPUGeneratorImpl>(uint64_t(rows * 100 + shape.C));
  const int64_t S = shape.S, C = shape.C;
  const auto posterior = at::randn({rows, S * C}, gen).to(device);
  const auto prior = at::randn({rows, S * C}, gen).to(device),
             bias = at::randn({S * C}, gen).to(device);
  constexpr double kToPrior = 0.7, kToPosterior = 0.2;
  const auto run = [=](const Tensors& in, at::Tensor& d_prior, at::Tensor& d_posterior) {
    const auto probs = mixed_probs_reference(shape, in[0]).flatten(1).contiguous();
    auto divergence = at::empty({rows}, prior.options());
    d_prior = at::empty_like(probs), d_posterior = at::empty_like(probs);
    categorical_divergence(shape, {probs, in[1], bias, free, kToPrior, kToPosterior}, divergence,
                           d_prior, d_posterior);
    return std::pair{divergence, probs};
  };
  return {.name = categorical_name("divergence", rows, shape),
          .inputs = {posterior, prior},
          .reference =
              [=](const Tensors& in) {
                const auto p = mixed_probs_reference(shape, in[0]);
                const auto q = mixed_probs_reference(shape, in[1] + bias.to(in[1].dtype()));
                const auto of = [](const at::Tensor& from, const at::Tensor& to) {
                  return (from * (from.log() - to.log())).sum(at::IntArrayRef{1, 2});
                };
                return Tensors{of(p, q).detach(), of(p, q).clamp_min(free).sum()};
              },
          .fused =
              [=](const Tensors& in) {
                at::Tensor d_prior, d_posterior;
                const auto divergence = run(in, d_prior, d_posterior).first;
                return Tensors{divergence, divergence.clamp_min(free).sum()};
              },
          .backward =
              [=](const Tensors& in, const Tensors& grad) {
                at::Tensor d_prior, d_posterior;
                const auto probs = run(in, d_prior, d_posterior).second;
                // either side has its own weight, which the divergence itself does not
                auto d_logits = at::empty_like(probs);
                draw_categories_back(shape, probs, d_posterior / kToPosterior, {}, d_logits);
                return Tensors{d_logits * grad[1], d_prior / kToPrior * grad[1]};
              },
          .tolerance = Tolerance::of_sums(4 * S * C + rows + 40),
          .bytes = rows * S * C * 16,
          .flops = rows * S * C * 80};
}

std::vector<KernelCase> categorical_cases(at::Device device) {
  std::vector<KernelCase> list;
  for (const auto& [rows, shape] : {std::pair<int64_t, CategoricalShape>{1, {1, 2, 0.01}},
                                    {5, {3, 7, 0.1}},
                                    {64, {32, 4, 0.01}},
                                    {8, {32, 16, 0.01}}}) {
    list.push_back(draw_case(rows, shape, device));
    // some rows are below, some above
    list.push_back(divergence_case(rows, shape, 0.3 * double(shape.S), device));
  }
  return list;
}

}  // namespace

void draw_categories(const CategoricalShape& shape, const at::Tensor& logits,
                     const at::Tensor& bias, const at::Tensor& uniforms, DrawnCategories drawn) {
  const at::Device device =
      device_of("categoricals", logits, bias, uniforms, drawn.probs, drawn.one_hot, drawn.category,
                drawn.carried.rows, drawn.carried.keep);
  MAGLEV_ASSERT(logits.is_contiguous() && uniforms.is_contiguous(), "rows lie one behind another");
  const CategoricalDraw args{
      .of = categoricals_of(shape, drawn.probs),
      .logits = logits.const_data_ptr<float>(),
      .bias = bias.const_data_ptr<float>(),
      .uniforms = uniforms.const_data_ptr<float>(),
      .probs = drawn.probs.data_ptr<float>(),
      .one_hot = drawn.one_hot.data_ptr<float>(),
      .one_hot_row = drawn.one_hot.stride(0),
      .category = drawn.category.defined() ? drawn.category.data_ptr<uint8_t>() : nullptr,
      .carried = carried_of<float>(drawn.carried)};
  launch<categorical_draw_cuda>("categoricals", device, categorical_draw_cpu, args);
}

void draw_categories_back(const CategoricalShape& shape, const at::Tensor& probs,
                          const at::Tensor& d_one_hot, const at::Tensor& d_probs,
                          at::Tensor& d_logits, const CarriedRows& d_carried) {
  const at::Device device = device_of("categoricals", probs, d_one_hot, d_probs, d_logits,
                                      d_carried.rows, d_carried.keep);
  const CategoricalBack args{
      .of = categoricals_of(shape, probs),
      .probs = probs.const_data_ptr<float>(),
      .d_one_hot = d_one_hot.const_data_ptr<float>(),
      .d_one_hot_row = d_one_hot.stride(0),
      .d_probs = d_probs.defined() ? d_probs.const_data_ptr<float>() : nullptr,
      .d_carried = carried_of<const float>(d_carried),
      .d_logits = d_logits.data_ptr<float>()};
  launch<categorical_back_cuda>("categoricals", device, categorical_back_cpu, args);
}

void categorical_divergence(const CategoricalShape& shape, const DivergenceInputs& in,
                            at::Tensor& divergence, at::Tensor& d_prior, at::Tensor& d_posterior) {
  const at::Device device =
      device_of("categoricals", in.posterior, in.prior, in.bias, divergence, d_prior, d_posterior);
  const CategoricalDivergence args{.of = categoricals_of(shape, in.posterior),
                                   .posterior = in.posterior.const_data_ptr<float>(),
                                   .prior = in.prior.const_data_ptr<float>(),
                                   .bias = in.bias.const_data_ptr<float>(),
                                   .free = float(in.free),
                                   .to_prior = float(in.to_prior),
                                   .to_posterior = float(in.to_posterior),
                                   .divergence = divergence.data_ptr<float>(),
                                   .d_prior = d_prior.data_ptr<float>(),
                                   .d_posterior = d_posterior.data_ptr<float>()};
  launch<categorical_divergence_cuda>("categoricals", device, categorical_divergence_cpu, args);
}

at::Tensor mixed_probs_reference(const CategoricalShape& shape, const at::Tensor& logits) {
  const auto softmax = at::softmax(logits.unflatten(-1, {shape.S, shape.C}), -1);
  return (1 - shape.unimix) * softmax + shape.unimix / double(shape.C);
}

namespace kernels::categoricals {
KernelEntry entry() {
  return {"categoricals", "draws of mixed categoricals, straight through, and their divergence",
          categorical_cases};
}
}  // namespace kernels::categoricals

}  // namespace maglev
