#include "kernels/ragged/ragged_op.h"

#include <bit>
#include <string>

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include "base/core/error.h"
#include "engine/device/kernel.h"
#include "engine/device/launch.h"
#include "kernels/keyed_sum/keyed_sum_op.h"
#include "kernels/ragged/ragged.h"

namespace maglev {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

RaggedDot ragged_dot_of(const variable_list& t, double scale) {
  return {.u = t[0].const_data_ptr<float>(),
          .v = t[1].const_data_ptr<float>(),
          .state = t[2].const_data_ptr<int32_t>(),
          .successor = t[3].const_data_ptr<int32_t>(),
          .B = t[3].size(0),
          .slots = t[3].size(1),
          .width = t[0].size(1),
          .scale = float(scale),
          .logits = nullptr};
}

class RaggedProducts : public torch::autograd::Function<RaggedProducts> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& u, const at::Tensor& v,
                            const PackedGoals& rows, double scale) {
    const at::Device device = device_of("ragged_dot", u, v, rows.state, rows.successor);
    MAGLEV_ASSERT(u.is_contiguous() && v.is_contiguous() && u.size(1) == v.size(1),
                  "rows of one width that lie together");
    const variable_list tensors{u, v, rows.state, rows.successor};
    auto logits = at::empty(rows.successor.sizes(), u.options());
    RaggedDot args = ragged_dot_of(tensors, scale);
    args.logits = logits.data_ptr<float>();
    launch<ragged_dot_cuda>("ragged_dot", device, ragged_dot_cpu, args);
    context->save_for_backward(tensors);
    context->saved_data["scale"] = scale;
    return logits;
  }

  static variable_list backward(AutogradContext* context, variable_list grad) {
    const auto saved = context->get_saved_variables();
    const at::Tensor &u = saved[0], &v = saved[1], &state = saved[2], &successor = saved[3];
    const double scale = context->saved_data["scale"].toDouble();
    const auto g = grad[0].contiguous();
    // of each row's u, and of those the ones in one state together
    auto d_rows = at::empty({state.size(0), u.size(1)}, u.options());
    const RaggedDotBack args{.of = ragged_dot_of(saved, scale),
                             .d_logits = g.const_data_ptr<float>(),
                             .d_u = d_rows.data_ptr<float>()};
    launch<ragged_dot_back_cuda>("ragged_dot_back", u.device(), ragged_dot_back_cpu, args);
    const auto d_u = keyed_sum({.key = state, .rows = d_rows}, u.size(0));
    // of each successor the u of all rows that have it
    const auto d_v = keyed_sum({.key = successor,
                                .rows = u,
                                .source = state.unsqueeze(1).expand_as(successor),
                                .weight = g * scale},
                               v.size(0));
    return {d_u, d_v, {}, {}};
  }
};

// states and successors of few different goals; row b has b mod (S + 1) of them, of which those
// with the last number found no room
KernelCase ragged_case(int64_t B, int64_t S, int64_t E, at::Device device) {
  constexpr int64_t kGoals = 7;
  auto gen = at::make_generator<at::CPUGeneratorImpl>(uint64_t(B * 100 + E));
  const auto i32 = at::TensorOptions(at::kInt);
  const auto count = at::arange(B, i32) % (S + 1);
  const auto present = (at::arange(S, i32).unsqueeze(0) < count.unsqueeze(1)).to(device);
  const auto number = at::randint(kGoals + (B > 1), {B, S}, gen, i32).to(device);
  const auto outside = present.logical_and(number == kGoals);
  PackedGoals rows;
  rows.state = at::randint(kGoals, {B}, gen, i32).to(device);
  rows.successor = number.masked_fill(outside, kNoRoom).masked_fill(present.logical_not(), kNoGoal);
  const auto there = present.logical_and(outside.logical_not());
  const double scale = 0.5;
  const int64_t products = there.sum().item<int64_t>();
  return {
      .name = "B=" + std::to_string(B) + " S=" + std::to_string(S) + " E=" + std::to_string(E),
      .inputs = {at::randn({kGoals, E}, gen).to(device), at::randn({kGoals, E}, gen).to(device)},
      .reference =
          [=](const Tensors& in) {
            const auto u = in[0].index_select(0, rows.state).unsqueeze(1);
            const auto v = in[1].index_select(0, number.flatten().clamp_max(kGoals - 1));
            return Tensors{
                (scale * (u * v.view({B, S, E})).sum(2)).masked_fill(there.logical_not(), 0),
                outside.to(in[0].scalar_type())};
          },
      .fused =
          [=](const Tensors& in) {
            const auto logits = ragged_dot(in[0], in[1], rows, scale);
            return Tensors{logits.masked_fill(outside, 0), logits.isnan().to(at::kFloat)};
          },
      .tolerance = Tolerance::of_sums(E + B * S),
      .bytes = products * E * 4 + B * S * 4,
      .flops = products * E * 2};
}

// goals of which some are equal, at `room` places; what is compared are the numbers and the goals
KernelCase unique_case(int64_t B, int64_t S, int64_t room, at::Device device) {
  auto gen = at::make_generator<at::CPUGeneratorImpl>(uint64_t(B * 100 + S));
  const auto i32 = at::TensorOptions(at::kInt);
  constexpr int64_t kAtoms = 2;
  const auto states = at::randint(1, 4, {B, kAtoms, 3}, gen, i32).to(device);
  auto successors = at::randint(1, 3, {B, S, kAtoms, 3}, gen, i32);
  const auto present =
      at::arange(S, i32).unsqueeze(0) < (at::arange(B, i32) % (S + 1)).unsqueeze(1);
  successors = (successors * present.unsqueeze(2).unsqueeze(3)).to(device);
  const auto there = present.to(device);
  const auto outputs = [](const at::Tensor& state, const at::Tensor& successor,
                          const at::Tensor& goals) {
    return Tensors{state.to(at::kFloat), successor.to(at::kFloat), goals.to(at::kFloat)};
  };
  return {
      .name = "goals B=" + std::to_string(B) + " S=" + std::to_string(S) + " in " +
              std::to_string(room),
      .reference =
          [=](const Tensors&) {
            const auto all = at::cat({states.flatten(1), successors.flatten(0, 1).flatten(1)});
            const auto is = at::cat({at::ones({B}, there.options()), there.flatten()});
            const int64_t n = all.size(0);
            // the first place of an equal goal, and how many first ones are before it
            const auto equal = all.unsqueeze(0).eq(all.unsqueeze(1)).all(2).logical_and(is);
            const auto first = equal.to(at::kInt).argmax(1);
            const auto firsts = first.eq(at::arange(n, first.options())).logical_and(is);
            auto number = (firsts.cumsum(0) - 1).index_select(0, first);
            number =
                number.masked_fill(number.ge(room), kNoRoom).masked_fill(is.logical_not(), kNoGoal);
            const auto found = at::nonzero(firsts).squeeze(1);
            const int64_t known = std::min(room, found.size(0));
            const auto goals = at::constant_pad_nd(all.index_select(0, found.narrow(0, 0, known)),
                                                   {0, 0, 0, room - known});
            return outputs(number.narrow(0, 0, B), number.narrow(0, B, n - B).view({B, S}),
                           goals.view({room, kAtoms, 3}));
          },
      .fused =
          [=](const Tensors&) {
            const PackedGoals packed = pack_goals(states, successors, room);
            return outputs(packed.state, packed.successor, packed.goals);
          },
      .tolerance = 0,
      .bytes = 4 * (B * (1 + S) * (2 * kAtoms * 3 + 4)),
      .flops = 0};
}

std::vector<KernelCase> ragged_cases(at::Device device) {
  return {ragged_case(1, 2, 3, device),    ragged_case(5, 4, 16, device),
          ragged_case(40, 7, 250, device), unique_case(1, 1, 2, device),
          unique_case(9, 40, 300, device), unique_case(90, 12, 100, device)};
}

}  // namespace

int64_t packed_size(int64_t count) {
  // a few rows more cost less than code for one more size
  const int64_t step = count <= 512 ? 16 : 64;
  return (count + step - 1) / step * step;
}

PackedGoals pack_goals(const at::Tensor& states, const at::Tensor& successors,
                       std::optional<int64_t> room) {
  const at::Tensor& any = states.defined() ? states : successors;
  const at::Device device = device_of("unique_goals", any, states, successors);
  MAGLEV_ASSERT(any.scalar_type() == at::kInt, "goals, i32");
  MAGLEV_ASSERT(room || !device.is_cuda(), "how many goals there are only a processor can say");
  GoalColumns columns{.states = nullptr,
                      .successors = nullptr,
                      .B = any.size(0),
                      .slots = 0,
                      .width = any.size(-1) * any.size(-2)};
  const auto i32 = any.options();
  PackedGoals packed;
  if (states.defined()) {
    MAGLEV_ASSERT(states.is_contiguous(), "goals that lie together");
    columns.states = states.const_data_ptr<int32_t>();
    packed.state = at::empty({columns.B}, i32);
  }
  if (successors.defined()) {
    MAGLEV_ASSERT(successors.is_contiguous() && successors.size(0) == columns.B,
                  "successors of the same rows that lie together");
    columns.successors = successors.const_data_ptr<int32_t>(), columns.slots = successors.size(1);
    packed.successor = at::empty({columns.B, columns.slots}, i32);
  }
  MAGLEV_ASSERT(!room || !states.defined() || *room >= columns.B, "every state has room");
  const int64_t places = columns.places();
  MAGLEV_ASSERT(places <= INT32_MAX / 4, "places have numbers of 32 bits");
  int64_t most = places;
  if (!room && successors.defined())
    most = (states.defined() ? columns.B : 0) + count_successors_cpu(columns);
  // at most half full
  const int64_t table_size = int64_t(std::bit_ceil(uint64_t(2 * most + 1)));
  auto table = at::full({table_size}, -1, i32);
  const bool on_cuda = device.is_cuda();
  auto number = on_cuda ? at::empty({table_size}, i32) : at::Tensor(),
       firsts = on_cuda ? at::empty({goal_blocks(places)}, i32) : at::Tensor();
  auto goals = room ? at::zeros({*room, columns.width}, i32)
                    : at::empty({packed_size(most), columns.width}, i32);
  const auto place = [](const at::Tensor& t) {
    return t.defined() ? t.data_ptr<int32_t>() : nullptr;
  };
  const UniqueGoals args{.columns = columns,
                         .room = room.value_or(most),
                         .goals = place(goals),
                         .state = place(packed.state),
                         .successor = place(packed.successor),
                         .table = place(table),
                         .table_size = table_size,
                         .number = place(number),
                         .firsts = place(firsts)};
  GoalCounts counts{states.defined() ? columns.B : 0, room.value_or(0)};
  launch<unique_goals_cuda>(
      "unique_goals", device,
      [&](const UniqueGoals& of) {
        const GoalCounts found = unique_goals_cpu(of);
        if (!room) counts = found;
      },
      args);
  packed.states = counts.states, packed.all = counts.all;
  const int64_t size = room.value_or(packed_size(counts.all));
  if (!room) goals.narrow(0, counts.all, size - counts.all).zero_();
  packed.goals = goals.narrow(0, 0, size).view({size, any.size(-2), any.size(-1)});
  return packed;
}

at::Tensor ragged_dot(const at::Tensor& u, const at::Tensor& v, const PackedGoals& rows,
                      double scale) {
  return RaggedProducts::apply(u, v, rows, scale);
}

namespace kernels::ragged {
KernelEntry entry() {
  return {"ragged",
          "rows with another number of successors each: packed, equal ones once; products",
          ragged_cases};
}
}  // namespace kernels::ragged

}  // namespace maglev
