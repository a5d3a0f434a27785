#include "networks/proof/goals.h"

#include <optional>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "kernels/atom_sum/atom_sum_op.h"

namespace maglev::networks::proof {
namespace {

// numbers drawn beyond this many deviations are cut
constexpr double kFarthest = 6;
// below this a modulus is taken as 0 and has no slope
constexpr double kLeastSquare = 1e-9;

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

// a list of which nothing is there is seen by its first place
at::Tensor with_first(const at::Tensor& present) {
  const auto first = present.narrow(1, 0, 1), rest = present.narrow(1, 1, present.size(1) - 1);
  return at::cat({at::ones_like(first), rest}, 1);
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

  const auto list = [&](const char* name, int64_t places, int64_t width, bool encoder) {
    const ListEmbedder::Shape of{places, width, shape.heads, encoder};
    return register_module(name, std::make_shared<ListEmbedder>(of, init));
  };
  if (atoms == AtomEmbedding::attention || atoms == AtomEmbedding::transformer)
    atom_list_ = list("words", 3, E, atoms == AtomEmbedding::transformer);
  if (goals == GoalEmbedding::attention || goals == GoalEmbedding::transformer)
    goal_list_ = list("list", shape.atoms, atom_width(), goals == GoalEmbedding::transformer);
}

int64_t GoalEmbedder::atom_width() const {
  return atom_ == AtomEmbedding::concat ? 3 * shape_.width : shape_.width;
}

int64_t GoalEmbedder::features() const {
  return goal_ == GoalEmbedding::concat ? shape_.atoms * atom_width() : atom_width();
}

int64_t GoalEmbedder::multiply_adds() const {
  int64_t atom = 3 * shape_.width;
  if (atom_list_) atom += 3 * atom_list_->multiply_adds();
  if (goal_list_) atom += goal_list_->multiply_adds();
  return shape_.atoms * atom;
}

int64_t GoalEmbedder::outputs() const {
  // sums of rows keep the numbers of their atoms alone
  if (sum_rule(atom_, goal_)) return features();
  int64_t atom = 3 * shape_.width + atom_width();
  if (atom_list_) atom += 3 * atom_list_->outputs();
  if (goal_list_) atom += goal_list_->outputs();
  return features() + shape_.atoms * atom;
}

at::Tensor GoalEmbedder::forward(const at::Tensor& goals, bool fused) const {
  const auto rule = sum_rule(atom_, goal_);
  if (fused && rule) return atom_sum(goals, predicates_, constants_, *rule);
  const auto present = goals.select(2, 0) != 0;
  if (fused && shape_.atoms <= kMostAttended && !goals.device().is_cuda())
    return forward_packed(goals, present);
  return pooled(atoms(goals, false), present);
}

// only atoms that are there
at::Tensor GoalEmbedder::forward_packed(const at::Tensor& goals, const at::Tensor& present) const {
  const PackedLists there = pack_lists(with_first(present));
  const auto x = atoms(goals.flatten(0, 1).index_select(0, there.rows), true);
  if (goal_list_) return goal_list_->forward(x, there);
  const auto slots =
      at::zeros({present.numel(), x.size(1)}, x.options())
          .index_copy(0, there.rows.narrow(0, 0, there.count), x.narrow(0, 0, there.count));
  return pooled(slots.view({present.size(0), present.size(1), x.size(1)}), present);
}

// goals [.., 3] -> [.., atom_width()]
at::Tensor GoalEmbedder::atoms(const at::Tensor& goals, bool packed) const {
  const auto rows = [&](const at::Tensor& table, int64_t k) {
    return at::embedding(table, goals.select(-1, k), /*padding_idx=*/0);
  };
  const auto r = rows(predicates_, 0), h = rows(constants_, 1), t = rows(constants_, 2);
  const auto re = [&](const at::Tensor& x) { return x.narrow(-1, 0, shape_.width); };
  const auto im = [&](const at::Tensor& x) { return x.narrow(-1, shape_.width, shape_.width); };
  at::Tensor e;
  switch (atom_) {
    case AtomEmbedding::transe:
      return r + h - t;
    case AtomEmbedding::sum:
      return r - (h + t);
    case AtomEmbedding::concat:
      return at::cat({r, h, t}, -1);
    case AtomEmbedding::complex: {
      // h conj(t), of whose product with r the real part is taken
      const auto real = re(h) * re(t) + im(h) * im(t), imaginary = im(h) * re(t) - re(h) * im(t);
      e = real * re(r) - imaginary * im(r);
      break;
    }
    case AtomEmbedding::rotate: {
      const auto cosine = r.cos(), sine = r.sin();
      const auto real = re(h) * cosine - im(h) * sine - re(t);
      const auto imaginary = re(h) * sine + im(h) * cosine - im(t);
      e = (real.square() + imaginary.square()).clamp_min(kLeastSquare).sqrt();
      break;
    }
    case AtomEmbedding::attention:
    case AtomEmbedding::transformer:
      e = words(goals, {r, h, t}, packed);
      break;
  }
  const auto alone = goals.narrow(-1, 1, 2).eq(0).all(-1, /*keepdim=*/true);
  return at::where(alone, re(r), e);
}

// an atom as the list of its words, from their rows [.., E]
at::Tensor GoalEmbedder::words(const at::Tensor& goals, const std::array<at::Tensor, 3>& rows,
                               bool packed) const {
  const auto x = at::stack(rows, -2).view({-1, 3, shape_.width});
  const auto seen = with_first(goals.view({-1, 3}) != 0);
  if (!packed) return atom_list_->forward(x, seen).view_as(rows[0]);
  const PackedLists there = pack_lists(seen);
  return atom_list_->forward(x.flatten(0, 1).index_select(0, there.rows), there);
}

// [U, A, atom_width()] and which atoms are there [U, A] -> [U, features]
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
  return goal_list_->forward(atoms, with_first(present));
}

}  // namespace maglev::networks::proof
