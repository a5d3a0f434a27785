#include "kernels/attention/attention_op.h"

#include <string>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>

#include "base/core/error.h"
#include "engine/device/kernel.h"

namespace maglev {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// what both ask: rows of `width` numbers, of which `sequences` are made
AttentionArgs attention_args(const at::Tensor& rows, int64_t width, int64_t heads,
                             const at::Tensor& offsets, int64_t most) {
  MAGLEV_ASSERT(rows.is_cpu() && rows.scalar_type() == at::kFloat && rows.is_contiguous(),
                "rows of f32 that lie together, of a processor");
  MAGLEV_ASSERT(offsets.is_cpu() && offsets.scalar_type() == at::kInt && offsets.is_contiguous(),
                "offsets of a processor, i32");
  MAGLEV_ASSERT(width % heads == 0 && most <= kMostAttended, "whole heads, and short sequences");
  const int64_t sequences = offsets.size(0) - 1;
  const auto* first = offsets.const_data_ptr<int32_t>();
  MAGLEV_ASSERT(first[0] == 0 && first[sequences] <= rows.size(0), "sequences lie within the rows");
  for (int64_t s = 0; s < sequences; ++s)
    MAGLEV_ASSERT(first[s] < first[s + 1] && first[s + 1] - first[s] <= most,
                  "each sequence has rows, at most so many");
  return {.sequences = sequences,
          .heads = heads,
          .width = width / heads,
          .offsets = first,
          .most = most,
          .q = nullptr,
          .k = nullptr,
          .v = nullptr,
          .q_row = rows.size(1),
          .kv_row = rows.size(1),
          .pooled = false,
          .out = nullptr,
          .weights = nullptr};
}

at::Tensor weights_of(int64_t rows, int64_t heads, int64_t most, const at::Tensor& like) {
  return at::empty({rows, heads, attention_weights(most)}, like.options());
}

// rows that belong to no sequence
void clear_behind(const at::Tensor& rows, const at::Tensor& offsets) {
  const int64_t end = offsets.const_data_ptr<int32_t>()[offsets.size(0) - 1];
  rows.narrow(0, end, rows.size(0) - end).zero_();
}

class SelfAttention : public torch::autograd::Function<SelfAttention> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& qkv,
                            const at::Tensor& offsets, int64_t most, int64_t heads) {
    const int64_t rows = qkv.size(0), E = qkv.size(1) / 3;
    auto out = at::empty({rows, E}, qkv.options()), weights = weights_of(rows, heads, most, qkv);
    AttentionArgs args = asked(qkv, weights, offsets, most);
    args.out = out.data_ptr<float>();
    attention_cpu(args);
    clear_behind(out, offsets);
    context->save_for_backward({qkv, weights, offsets});
    context->saved_data["most"] = most;
    return out;
  }

  static variable_list backward(AutogradContext* context, variable_list grad) {
    const auto saved = context->get_saved_variables();
    const at::Tensor& qkv = saved[0];
    const int64_t E = qkv.size(1) / 3;
    const auto g = grad[0].contiguous();
    auto d_qkv = at::empty_like(qkv);
    float* d = d_qkv.data_ptr<float>();
    attention_back_cpu({.of = asked(qkv, saved[1], saved[2], context->saved_data["most"].toInt()),
                        .d_out = g.const_data_ptr<float>(),
                        .d_q = d,
                        .d_q_row = 3 * E,
                        .d_k = d + E,
                        .d_v = d + 2 * E});
    clear_behind(d_qkv, saved[2]);
    return {d_qkv, {}, {}, {}};
  }

 private:
  static AttentionArgs asked(const at::Tensor& qkv, const at::Tensor& weights,
                             const at::Tensor& offsets, int64_t most) {
    const int64_t E = qkv.size(1) / 3;
    MAGLEV_ASSERT(qkv.size(1) == 3 * E, "queries, keys and values side by side");
    AttentionArgs args = attention_args(qkv, E, weights.size(1), offsets, most);
    const float* first = qkv.const_data_ptr<float>();
    args.q = first, args.k = first + E, args.v = first + 2 * E;
    args.weights = weights.data_ptr<float>();
    return args;
  }
};

class AttentionPool : public torch::autograd::Function<AttentionPool> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& query, const at::Tensor& x,
                            const at::Tensor& offsets, int64_t most, int64_t heads) {
    const int64_t U = offsets.size(0) - 1;
    auto out = at::empty({U, x.size(1)}, x.options()), weights = weights_of(U, heads, most, x);
    AttentionArgs args = asked(query, x, weights, offsets, most);
    args.out = out.data_ptr<float>();
    attention_cpu(args);
    context->save_for_backward({query, x, weights, offsets});
    context->saved_data["most"] = most;
    return out;
  }

  static variable_list backward(AutogradContext* context, variable_list grad) {
    const auto saved = context->get_saved_variables();
    const at::Tensor &x = saved[1], &offsets = saved[3];
    const auto g = grad[0].contiguous();
    auto d_x = at::empty_like(x), d_queries = at::empty_like(g);
    attention_back_cpu(
        {.of = asked(saved[0], x, saved[2], offsets, context->saved_data["most"].toInt()),
         .d_out = g.const_data_ptr<float>(),
         .d_q = d_queries.data_ptr<float>(),
         .d_q_row = x.size(1),
         .d_k = d_x.data_ptr<float>(),
         .d_v = d_x.data_ptr<float>()});
    clear_behind(d_x, offsets);
    return {d_queries.sum(0), d_x, {}, {}, {}};
  }

 private:
  static AttentionArgs asked(const at::Tensor& query, const at::Tensor& x,
                             const at::Tensor& weights, const at::Tensor& offsets, int64_t most) {
    MAGLEV_ASSERT(query.is_contiguous() && query.sizes() == x.sizes().slice(1),
                  "a query as wide as rows");
    AttentionArgs args = attention_args(x, x.size(1), weights.size(1), offsets, most);
    args.q = query.const_data_ptr<float>();
    args.k = args.v = x.const_data_ptr<float>();
    args.pooled = true, args.weights = weights.data_ptr<float>();
    return args;
  }
};

// sequences filled up to one length, [U, most, width], and which places are rows
struct Filled {
  at::Tensor rows, seen;
};
Filled filled(const at::Tensor& rows, const RowSequences& s) {
  const auto seen = at::arange(s.most).unsqueeze(0) < s.offsets.diff().unsqueeze(1);
  const int64_t end = s.offsets[-1].item<int64_t>();
  const auto empty = at::zeros({seen.size(0), s.most, rows.size(1)}, rows.options());
  return {at::index_put(empty, {seen}, rows.narrow(0, 0, end)), seen};
}

// sequences of 1 to `most` rows, all of `most` where `full`, and rows behind them
RowSequences sequences_of(int64_t U, int64_t most, bool full, at::Generator gen) {
  const auto i32 = at::TensorOptions(at::kInt);
  const auto lengths = full ? at::full({U}, most, i32) : at::randint(1, most + 1, {U}, gen, i32);
  return {at::cat({at::zeros({1}, i32), lengths.cumsum(0).to(at::kInt)}), most};
}

struct AttentionShape {
  int64_t U, A, E, heads;
  bool full;
};

KernelCase attention_case(const AttentionShape& s, bool pool) {
  auto gen = at::make_generator<at::CPUGeneratorImpl>(uint64_t(s.U * 100 + s.E));
  const RowSequences rows = sequences_of(s.U, s.A, s.full, gen);
  const auto lengths = rows.offsets.diff();
  const int64_t M = lengths.sum().item<int64_t>(), behind = s.full ? 0 : 3;
  Tensors inputs{at::randn({M + behind, pool ? s.E : 3 * s.E}, gen)};
  if (pool) inputs.push_back(at::randn({s.E}, gen));
  const int64_t heads = s.heads;
  const auto reference = [=](const Tensors& in) {
    return Tensors{pool ? attention_pool_reference(in[1], in[0], rows, heads)
                        : self_attention_reference(in[0], rows, heads)};
  };
  const auto fused = [=](const Tensors& in) {
    return Tensors{pool ? attention_pool(in[1], in[0], rows, heads)
                        : self_attention(in[0], rows, heads)};
  };

  // the bench goes there and back, and the reference finds sequences filled up already
  const auto there_and_back = [](const std::function<at::Tensor(const Tensors&)>& work,
                                 Tensors leaves) {
    for (auto& leaf : leaves) leaf = leaf.detach().clone().requires_grad_();
    const auto grad = at::ones_like(work(leaves));
    return [=] {
      const at::AutoGradMode with_gradients(true);
      torch::autograd::grad({work(leaves)}, leaves, {grad});
    };
  };
  const auto [whole, seen] = filled(inputs[0], rows);
  Tensors padded{whole};
  if (pool) padded.push_back(inputs[1]);
  const auto library = [=, seen = seen](const Tensors& in) {
    if (pool) return attend_padded(in[1].expand({s.U, 1, s.E}), in[0], in[0], seen, heads);
    const auto parts = in[0].chunk(3, 2);
    return attend_padded(parts[0], parts[1], parts[2], seen, heads);
  };
  const int64_t asked = pool ? M : (lengths * lengths).sum().item<int64_t>();
  return {.name = std::string(pool ? "pool" : "self") + " U=" + std::to_string(s.U) +
                  " A=" + std::to_string(s.A) + " E=" + std::to_string(s.E) +
                  " heads=" + std::to_string(heads) + (s.full ? " full" : ""),
          .inputs = inputs,
          .reference = reference,
          .fused = fused,
          // products of a head, sums over a sequence there and back, the query's over all sequences
          .tolerance = Tolerance::of_sums(2 * s.E / heads + 4 * s.A + 20 + (pool ? s.U : 0)),
          .bytes = 4 * M * s.E * (pool ? 4 : 12),
          .flops = 12 * asked * s.E,
          .repeat_reference = there_and_back(library, padded),
          .repeat_fused = there_and_back([=](const Tensors& in) { return fused(in)[0]; }, inputs)};
}

std::vector<KernelCase> attention_cases(at::Device device) {
  if (!device.is_cpu()) return {};
  std::vector<KernelCase> cases;
  for (bool pool : {false, true})
    for (const AttentionShape& s : {AttentionShape{1, 1, 3, 1, false},
                                    {7, 3, 20, 2, false},
                                    {9, 31, 34, 1, false},
                                    {100, 6, 64, 1, true},
                                    {100, 6, 64, 4, false},
                                    {50, 6, 250, 1, true}})
      cases.push_back(attention_case(s, pool));
  return cases;
}

}  // namespace

at::Tensor self_attention(const at::Tensor& qkv, const RowSequences& rows, int64_t heads) {
  return SelfAttention::apply(qkv, rows.offsets, rows.most, heads);
}

at::Tensor attention_pool(const at::Tensor& query, const at::Tensor& x, const RowSequences& rows,
                          int64_t heads) {
  return AttentionPool::apply(query, x, rows.offsets, rows.most, heads);
}

at::Tensor self_attention_reference(const at::Tensor& qkv, const RowSequences& rows,
                                    int64_t heads) {
  const auto [x, seen] = filled(qkv, rows);
  const auto parts = x.chunk(3, 2);
  const auto out = at::index(attend_padded(parts[0], parts[1], parts[2], seen, heads), {seen});
  return at::constant_pad_nd(out, {0, 0, 0, qkv.size(0) - out.size(0)});
}

at::Tensor attention_pool_reference(const at::Tensor& query, const at::Tensor& x,
                                    const RowSequences& rows, int64_t heads) {
  const auto [keys, seen] = filled(x, rows);
  const auto q = query.view({1, 1, -1}).expand({seen.size(0), 1, query.numel()});
  return attend_padded(q, keys, keys, seen, heads).squeeze(1);
}

at::Tensor attend_padded(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                         const at::Tensor& seen, int64_t heads) {
  const auto split = [&](const at::Tensor& t) {
    return t.unflatten(2, {heads, t.size(2) / heads}).transpose(1, 2);
  };
  const auto mask = seen.unsqueeze(1).unsqueeze(1);
  return at::scaled_dot_product_attention(split(q), split(k), split(v), mask)
      .transpose(1, 2)
      .flatten(2);
}

namespace kernels::attention {
KernelEntry entry() {
  return {"attention", "attention within short sequences of different lengths, and by one query",
          attention_cases};
}
}  // namespace kernels::attention

}  // namespace maglev
