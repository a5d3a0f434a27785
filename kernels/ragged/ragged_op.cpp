#include "kernels/ragged/ragged_op.h"

#include <algorithm>
#include <bit>
#include <string>

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include "base/core/error.h"
#include "engine/device/kernel.h"
#include "kernels/ragged/ragged.h"

namespace maglev {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

RaggedDot ragged_dot_of(const variable_list& t, int64_t S, double scale) {
  return {.u = t[0].const_data_ptr<float>(),
          .v = t[1].const_data_ptr<float>(),
          .state = t[2].const_data_ptr<int32_t>(),
          .successor = t[3].const_data_ptr<int32_t>(),
          .offsets = t[4].const_data_ptr<int32_t>(),
          .B = t[2].size(0),
          .slots = S,
          .width = t[0].size(1),
          .scale = float(scale),
          .logits = nullptr};
}

class RaggedProducts : public torch::autograd::Function<RaggedProducts> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& u, const at::Tensor& v,
                            const PackedGoals& rows, int64_t S, double scale) {
    MAGLEV_ASSERT(u.is_cpu() && u.is_contiguous() && v.is_contiguous() && u.size(1) == v.size(1),
                  "rows of one width that lie together, of a processor");
    const variable_list tensors{u, v, rows.state, rows.successor, rows.offsets};
    auto logits = at::empty({rows.state.size(0), S}, u.options());
    RaggedDot args = ragged_dot_of(tensors, S, scale);
    args.logits = logits.data_ptr<float>();
    ragged_dot_cpu(args);
    context->save_for_backward(tensors);
    context->saved_data["slots"] = S;
    context->saved_data["scale"] = scale;
    return logits;
  }

  static variable_list backward(AutogradContext* context, variable_list grad) {
    const auto saved = context->get_saved_variables();
    const auto g = grad[0].contiguous();
    auto d_u = at::zeros_like(saved[0]), d_v = at::zeros_like(saved[1]);
    ragged_dot_back_cpu({.of = ragged_dot_of(saved, context->saved_data["slots"].toInt(),
                                             context->saved_data["scale"].toDouble()),
                         .d_logits = g.const_data_ptr<float>(),
                         .d_u = d_u.data_ptr<float>(),
                         .d_v = d_v.data_ptr<float>()});
    return {d_u, d_v, {}, {}, {}};
  }
};

// states and successors of few different goals; row b has b mod (S + 1) of them
KernelCase ragged_case(int64_t B, int64_t S, int64_t E) {
  constexpr int64_t kGoals = 7;
  auto gen = at::make_generator<at::CPUGeneratorImpl>(uint64_t(B * 100 + E));
  const auto i32 = at::TensorOptions(at::kInt);
  const auto count = at::arange(B, i32) % (S + 1);
  const auto present = at::arange(S, i32).unsqueeze(0) < count.unsqueeze(1);
  PackedGoals rows;
  rows.state = at::randint(kGoals, {B}, gen, i32);
  const auto successor = at::randint(kGoals, {B, S}, gen, i32);
  rows.successor = successor.masked_select(present);
  rows.offsets = at::cat({at::zeros({1}, i32), count.cumsum(0).to(at::kInt)});
  const double scale = 0.5;
  return {
      .name = "B=" + std::to_string(B) + " S=" + std::to_string(S) + " E=" + std::to_string(E),
      .inputs = {at::randn({kGoals, E}, gen), at::randn({kGoals, E}, gen)},
      .reference =
          [=](const Tensors& in) {
            const auto u = in[0].index_select(0, rows.state).unsqueeze(1);
            const auto v = in[1].index_select(0, successor.flatten()).view({B, S, E});
            return Tensors{(scale * (u * v).sum(2)).masked_fill(~present, 0)};
          },
      .fused = [=](const Tensors& in) { return Tensors{ragged_dot(in[0], in[1], rows, S, scale)}; },
      .tolerance = Tolerance::of_sums(E + B * S),
      .bytes = rows.successor.numel() * E * 4 + B * S * 4,
      .flops = rows.successor.numel() * E * 2};
}

std::vector<KernelCase> ragged_cases(at::Device device) {
  if (!device.is_cpu()) return {};
  return {ragged_case(1, 2, 3), ragged_case(5, 4, 16), ragged_case(40, 7, 250)};
}

}  // namespace

int64_t packed_size(int64_t count) {
  // a few rows more cost less than code for one more size
  const int64_t step = count <= 512 ? 16 : 64;
  return (count + step - 1) / step * step;
}

PackedGoals pack_goals(const at::Tensor& states, const at::Tensor& successors) {
  const at::Tensor& any = states.defined() ? states : successors;
  MAGLEV_ASSERT(any.is_cpu() && any.scalar_type() == at::kInt, "goals of a processor, i32");
  GoalColumns columns{.states = nullptr,
                      .successors = nullptr,
                      .B = any.size(0),
                      .slots = 0,
                      .width = any.size(-1) * any.size(-2)};
  const auto i32 = any.options();
  PackedGoals packed;
  int64_t most = 0;
  if (states.defined()) {
    MAGLEV_ASSERT(states.is_contiguous(), "goals that lie together");
    columns.states = states.const_data_ptr<int32_t>();
    packed.state = at::empty({columns.B}, i32);
    most += columns.B;
  }
  if (successors.defined()) {
    MAGLEV_ASSERT(successors.is_contiguous() && successors.size(0) == columns.B,
                  "successors of the same rows that lie together");
    columns.successors = successors.const_data_ptr<int32_t>(), columns.slots = successors.size(1);
    packed.offsets = at::empty({columns.B + 1}, i32);
    auto* offsets = packed.offsets.data_ptr<int32_t>();
    successor_offsets_cpu(columns, offsets);
    packed.successor = at::empty({offsets[columns.B]}, i32);
    most += offsets[columns.B];
  }
  // at most half full
  const int64_t table_size = int64_t(std::bit_ceil(uint64_t(2 * most + 1)));
  auto table = at::empty({table_size}, i32);
  auto goals = at::empty({packed_size(most), columns.width}, i32);
  const auto place = [](const at::Tensor& t) {
    return t.defined() ? t.data_ptr<int32_t>() : nullptr;
  };
  const GoalCounts counts = unique_goals_cpu({.columns = columns,
                                              .offsets = place(packed.offsets),
                                              .goals = goals.data_ptr<int32_t>(),
                                              .state = place(packed.state),
                                              .successor = place(packed.successor),
                                              .table = table.data_ptr<int32_t>(),
                                              .table_size = table_size});
  const int64_t size = packed_size(counts.all);
  goals.narrow(0, counts.all, size - counts.all).zero_();
  packed.goals = goals.narrow(0, 0, size).view({size, any.size(-2), any.size(-1)});
  packed.states = counts.states, packed.all = counts.all;
  return packed;
}

at::Tensor ragged_dot(const at::Tensor& u, const at::Tensor& v, const PackedGoals& rows, int64_t S,
                      double scale) {
  return RaggedProducts::apply(u, v, rows, S, scale);
}

namespace kernels::ragged {
KernelEntry entry() {
  return {"ragged",
          "rows with another number of successors each: packed, equal ones once; products",
          ragged_cases};
}
}  // namespace kernels::ragged

}  // namespace maglev
