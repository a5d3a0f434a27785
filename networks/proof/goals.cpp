#include "networks/proof/goals.h"

#include <cmath>
#include <optional>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "engine/device/launch.h"
#include "kernels/atom_sum/atom_sum_op.h"

namespace maglev::networks::proof {
namespace {

// numbers drawn beyond this many deviations are cut
constexpr double kFarthest = 6;
constexpr double kPlaceDeviation = 0.02;
// below this a modulus is taken as 0 and has no slope
constexpr double kLeastSquare = 1e-9;
constexpr double kNormEps = 1e-5;

bool has_complex_arguments(AtomEmbedding atom) {
  return atom == AtomEmbedding::complex || atom == AtomEmbedding::rotate;
}

// where goals are sums of table rows
std::optional<AtomSumRule> sum_rule(AtomEmbedding atom, GoalEmbedding goal) {
  AtomSumRule rule{1, -1, AtomDivisor::one};
  if (atom == AtomEmbedding::sum) rule.first_sign = -1;
  else if (atom != AtomEmbedding::transe) return std::nullopt;
  if (goal == GoalEmbedding::mean) rule.divisor = AtomDivisor::slots;
  else if (goal == GoalEmbedding::masked_mean) rule.divisor = AtomDivisor::atoms;
  else if (goal != GoalEmbedding::sum) return std::nullopt;
  return rule;
}

}  // namespace

GoalEmbedder::GoalEmbedder(const Shape& shape, AtomEmbedding atoms, GoalEmbedding goals,
                           Initializer& init)
    : shape_(shape), atom_(atoms), goal_(goals) {
  const int64_t E = shape.width;
  const auto table = [&](const char* name, int64_t rows, int64_t columns) {
    auto made = register_parameter(name, init.weight({rows, columns}));
    init.normal(made, 1, kFarthest);
    at::NoGradGuard no_grad;
    made.narrow(0, 0, 1).zero_();
    return made;
  };
  predicates_ = table("predicates", shape.predicates, atoms == AtomEmbedding::complex ? 2 * E : E);
  constants_ = table("constants", shape.constants, has_complex_arguments(atoms) ? 2 * E : E);

  if (goals != GoalEmbedding::attention && goals != GoalEmbedding::transformer) return;
  places_ = add_matrix("places", shape.atoms, E, init);
  query_ = register_parameter("query", init.weight({1, E}));
  init.normal(places_, kPlaceDeviation, 1), init.normal(query_, 1, kFarthest);
  if (goals != GoalEmbedding::transformer) return;
  qkv_ = add_matrix("query_key_value", 3 * E, E, init);
  joined_ = add_matrix("joined", E, E, init);
  wide_ = add_matrix("wide", 2 * E, E, init);
  narrow_ = add_matrix("narrow", E, 2 * E, init);
  gain_ = register_parameter("gain", init.weight({2, E}));
  shift_ = register_parameter("shift", init.weight({2, E}));
  at::NoGradGuard no_grad;
  gain_.fill_(1);
}

at::Tensor GoalEmbedder::add_matrix(const char* name, int64_t rows, int64_t columns,
                                    Initializer& init) {
  auto matrix = register_parameter(name, init.weight({rows, columns}));
  init.orthogonal(matrix, 1);
  return matrix;
}

int64_t GoalEmbedder::features() const {
  return goal_ == GoalEmbedding::concat ? shape_.atoms * shape_.width : shape_.width;
}

int64_t GoalEmbedder::multiply_adds() const {
  int64_t layers = 0;
  for (const auto* m : {&qkv_, &joined_, &wide_, &narrow_})
    if (m->defined()) layers += m->numel();
  return shape_.atoms * (3 * shape_.width + layers);
}

at::Tensor GoalEmbedder::forward(const at::Tensor& goals, bool fused) const {
  const auto rule = sum_rule(atom_, goal_);
  if (fused && rule && !runs_on_cuda(goals.device()))
    return atom_sum(goals, predicates_, constants_, *rule);
  return pooled(atoms(goals), goals.select(2, 0) != 0);
}

// [U, A, E]
at::Tensor GoalEmbedder::atoms(const at::Tensor& goals) const {
  const auto rows = [&](const at::Tensor& table, int64_t k) {
    return at::embedding(table, goals.select(2, k), /*padding_idx=*/0);
  };
  const auto r = rows(predicates_, 0), h = rows(constants_, 1), t = rows(constants_, 2);
  if (atom_ == AtomEmbedding::transe) return r + h - t;
  if (atom_ == AtomEmbedding::sum) return r - (h + t);

  const auto re = [&](const at::Tensor& x) { return x.narrow(2, 0, shape_.width); };
  const auto im = [&](const at::Tensor& x) { return x.narrow(2, shape_.width, shape_.width); };
  at::Tensor e;
  if (atom_ == AtomEmbedding::complex) {
    // h conj(t), of whose product with r the real part is taken
    const auto real = re(h) * re(t) + im(h) * im(t), imaginary = im(h) * re(t) - re(h) * im(t);
    e = real * re(r) - imaginary * im(r);
  } else {
    const auto cosine = r.cos(), sine = r.sin();
    const auto real = re(h) * cosine - im(h) * sine - re(t);
    const auto imaginary = re(h) * sine + im(h) * cosine - im(t);
    e = (real.square() + imaginary.square()).clamp_min(kLeastSquare).sqrt();
  }
  const auto alone = goals.narrow(2, 1, 2).eq(0).all(2, /*keepdim=*/true);
  return at::where(alone, re(r), e);
}

// [U, A, E] and which atoms are there [U, A] -> [U, features]
at::Tensor GoalEmbedder::pooled(const at::Tensor& atoms, const at::Tensor& present) const {
  switch (goal_) {
    case GoalEmbedding::mean:
      return atoms.sum(1) / double(shape_.atoms);
    case GoalEmbedding::masked_mean:
      return atoms.sum(1) / present.sum(1, true).clamp_min(1);
    case GoalEmbedding::sum:
      return atoms.sum(1);
    case GoalEmbedding::concat:
      return atoms.flatten(1);
    case GoalEmbedding::attention:
    case GoalEmbedding::transformer:
      break;
  }
  // a goal without atoms is seen by its first place
  auto seen =
      at::cat({at::ones_like(present.narrow(1, 0, 1)), present.narrow(1, 1, shape_.atoms - 1)}, 1);
  auto x = atoms + places_;
  if (goal_ == GoalEmbedding::transformer) x = self_attended(x, seen);
  const auto score = (x * query_).sum(2) / std::sqrt(double(shape_.width));
  const auto weight = at::softmax(score.masked_fill(~seen, -INFINITY), 1);
  return (weight.unsqueeze(2) * x).sum(1);
}

// a layer of a transformer's encoder with one head, norms behind their sums
at::Tensor GoalEmbedder::self_attended(const at::Tensor& x, const at::Tensor& seen) const {
  const auto norm = [&](const at::Tensor& sum, int64_t i) {
    return at::layer_norm(sum, {shape_.width}, gain_.select(0, i), shift_.select(0, i), kNormEps);
  };
  const auto qkv = at::linear(x, qkv_).chunk(3, 2);
  const auto mask = seen.unsqueeze(1).unsqueeze(1);
  const auto heads = [](const at::Tensor& t) { return t.unsqueeze(1); };
  const auto attended =
      at::scaled_dot_product_attention(heads(qkv[0]), heads(qkv[1]), heads(qkv[2]), mask);
  const auto y = norm(x + at::linear(attended.squeeze(1), joined_), 0);
  return norm(y + at::linear(at::relu(at::linear(y, wide_)), narrow_), 1);
}

}  // namespace maglev::networks::proof
