#include "kernels/atom_sum/atom_sum_op.h"

#include <string>

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include "base/core/error.h"
#include "engine/device/kernel.h"
#include "engine/device/launch.h"
#include "kernels/keyed_sum/keyed_sum_op.h"

namespace maglev {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

AtomSum atom_sum_args(const variable_list& t, const AtomSumRule& rule) {
  return {.goals = t[0].const_data_ptr<int32_t>(),
          .count = t[0].size(0),
          .slots = t[0].size(1),
          .predicates = t[1].const_data_ptr<float>(),
          .constants = t[2].const_data_ptr<float>(),
          .predicate_rows = t[1].size(0),
          .constant_rows = t[2].size(0),
          .width = t[1].size(1),
          .first_sign = float(rule.first_sign),
          .second_sign = float(rule.second_sign),
          .divisor = rule.divisor,
          .out = nullptr};
}

// an environment may show other numbers than its vocabulary has: they must not be read as rows
void expect_known(const AtomSum& a) {
  const auto is_known = [&](const int32_t* atom) {
    return uint32_t(atom[0]) < uint64_t(a.predicate_rows) &&
           uint32_t(atom[1]) < uint64_t(a.constant_rows) &&
           uint32_t(atom[2]) < uint64_t(a.constant_rows);
  };
  for (const int32_t *atom = a.goals, *end = atom + a.count * a.slots * 3; atom != end; atom += 3)
    if (!is_known(atom))
      throw Error("[atom_sum] predicates must be below " + std::to_string(a.predicate_rows) +
                  " and arguments below " + std::to_string(a.constant_rows) + ", got " +
                  std::to_string(atom[0]) + "(" + std::to_string(atom[1]) + ", " +
                  std::to_string(atom[2]) +
                  "): an environment's columns must keep to their vocabulary");
}

class SumOfAtoms : public torch::autograd::Function<SumOfAtoms> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& goals,
                            const at::Tensor& predicates, const at::Tensor& constants,
                            const AtomSumRule& rule) {
    const at::Device device = device_of("atom_sum", goals, predicates, constants);
    MAGLEV_ASSERT(goals.is_contiguous() && goals.scalar_type() == at::kInt,
                  "goals, i32, that lie together");
    const variable_list tensors{goals, predicates, constants};
    auto out = at::empty({goals.size(0), predicates.size(1)}, predicates.options());
    AtomSum args = atom_sum_args(tensors, rule);
    if (!device.is_cuda()) expect_known(args);
    args.out = out.data_ptr<float>();
    launch<atom_sum_cuda>("atom_sum", device, atom_sum_cpu, args);
    context->save_for_backward(tensors);
    context->saved_data["first_sign"] = rule.first_sign;
    context->saved_data["second_sign"] = rule.second_sign;
    context->saved_data["divisor"] = int64_t(rule.divisor);
    return out;
  }

  static variable_list backward(AutogradContext* context, variable_list grad) {
    const auto saved = context->get_saved_variables();
    const AtomSumRule rule{context->saved_data["first_sign"].toDouble(),
                           context->saved_data["second_sign"].toDouble(),
                           AtomDivisor(context->saved_data["divisor"].toInt())};
    // every word's row gets a share of its goal's gradient
    const at::Tensor& goals = saved[0];
    const int64_t P = saved[1].size(0), C = saved[2].size(0);
    auto row = at::empty_like(goals), goal = at::empty_like(goals);
    auto weight = at::empty(goals.sizes(), grad[0].options());
    const AtomWords words{.of = atom_sum_args(saved, rule),
                          .row = row.data_ptr<int32_t>(),
                          .goal = goal.data_ptr<int32_t>(),
                          .weight = weight.data_ptr<float>()};
    launch<atom_words_cuda>("atom_words", goals.device(), atom_words_cpu, words);
    const auto tables =
        keyed_sum({.key = row, .rows = grad[0], .source = goal, .weight = weight}, P + C);
    return {{}, tables.narrow(0, 0, P), tables.narrow(0, P, C), {}};
  }
};

KernelCase atom_sum_case(int64_t U, int64_t A, int64_t E, const AtomSumRule& rule,
                         at::Device device) {
  constexpr int64_t kPredicates = 5, kConstants = 9;
  auto gen = at::make_generator<at::CPUGeneratorImpl>(uint64_t(U * 100 + E));
  const auto i32 = at::TensorOptions(at::kInt);
  // predicates and arguments by turns missing, whole atoms too
  auto goals = at::stack(
      {at::randint(kPredicates, {U, A}, gen, i32), at::randint(kConstants, {U, A}, gen, i32),
       at::randint(kConstants, {U, A}, gen, i32)},
      2);
  goals.mul_((goals.select(2, 0) != 0).unsqueeze(2));
  auto predicates = at::randn({kPredicates, E}, gen), constants = at::randn({kConstants, E}, gen);
  // row 0 is 0 and stays so: what gradients are asked of are the others
  const auto with_padding = [](const at::Tensor& rows) {
    return at::cat({at::zeros({1, rows.size(1)}, rows.options()), rows});
  };
  const int64_t rows = goals.count_nonzero().item<int64_t>();
  goals = goals.to(device);
  return {.name = "U=" + std::to_string(U) + " A=" + std::to_string(A) + " E=" + std::to_string(E) +
                  " divisor " + std::to_string(int(rule.divisor)),
          .inputs = {predicates.narrow(0, 1, kPredicates - 1).to(device).contiguous(),
                     constants.narrow(0, 1, kConstants - 1).to(device).contiguous()},
          .reference =
              [=](const Tensors& in) {
                return Tensors{
                    atom_sum_reference(goals, with_padding(in[0]), with_padding(in[1]), rule)};
              },
          .fused =
              [=](const Tensors& in) {
                return Tensors{atom_sum(goals, with_padding(in[0]), with_padding(in[1]), rule)};
              },
          .tolerance = Tolerance::of_sums(3 * A + U * A),
          .bytes = 4 * (rows * E + U * E + U * A * 3),
          .flops = 2 * rows * E};
}

std::vector<KernelCase> atom_sum_cases(at::Device device) {
  return {atom_sum_case(1, 1, 3, {1, -1, AtomDivisor::one}, device),
          atom_sum_case(9, 3, 20, {1, -1, AtomDivisor::slots}, device),
          atom_sum_case(33, 6, 250, {-1, -1, AtomDivisor::atoms}, device)};
}

}  // namespace

at::Tensor atom_sum(const at::Tensor& goals, const at::Tensor& predicates,
                    const at::Tensor& constants, const AtomSumRule& rule) {
  return SumOfAtoms::apply(goals, predicates, constants, rule);
}

at::Tensor atom_sum_reference(const at::Tensor& goals, const at::Tensor& predicates,
                              const at::Tensor& constants, const AtomSumRule& rule) {
  const auto r = at::embedding(predicates, goals.select(2, 0), /*padding_idx=*/0);
  const auto h = at::embedding(constants, goals.select(2, 1), 0);
  const auto t = at::embedding(constants, goals.select(2, 2), 0);
  const auto sum = (r + rule.first_sign * h + rule.second_sign * t).sum(1);
  if (rule.divisor == AtomDivisor::one) return sum;
  if (rule.divisor == AtomDivisor::slots) return sum / double(goals.size(1));
  return sum / (goals.select(2, 0) != 0).sum(1, /*keepdim=*/true).clamp_min(1);
}

namespace kernels::atom_sum {
KernelEntry entry() {
  return {"atom_sum", "goals embedded as sums of table rows, a goal's atoms each", atom_sum_cases};
}
}  // namespace kernels::atom_sum

}  // namespace maglev
