#include "networks/proof/lists.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "base/core/error.h"
#include "kernels/ragged/ragged_op.h"

namespace maglev::networks::proof {
namespace {

// numbers drawn beyond this many deviations are cut
constexpr double kFarthestQuery = 6;
constexpr double kPlaceDeviation = 0.02;
constexpr double kNormEps = 1e-5;

}  // namespace

PackedLists pack_lists(const at::Tensor& seen) {
  const int64_t L = seen.size(1);
  const auto rows = seen.flatten().nonzero().squeeze(1);
  const int64_t count = rows.size(0);
  const auto all = at::constant_pad_nd(rows, {0, packed_size(count) - count});
  const auto ends = seen.sum(1).cumsum(0);
  return {.rows = all,
          .place = all.remainder(L),
          .count = count,
          .sequences = {at::constant_pad_nd(ends, {1, 0}).to(at::kInt), L}};
}

ListEmbedder::ListEmbedder(const Shape& shape, Initializer& init) : shape_(shape) {
  const int64_t E = shape.width;
  if (E % shape.heads != 0)
    throw Error("[network.proof] attention has proof.heads=" + std::to_string(shape.heads) +
                " for vectors of " + std::to_string(E) +
                " numbers: heads must divide them, change proof.heads or proof.embedding");
  places_ = add_matrix("places", shape.places, E, init);
  query_ = register_parameter("query", init.weight({1, E}));
  init.normal(places_, kPlaceDeviation, 1), init.normal(query_, 1, kFarthestQuery);
  if (!shape.encoder) return;
  qkv_ = add_matrix("query_key_value", 3 * E, E, init);
  joined_ = add_matrix("joined", E, E, init);
  wide_ = add_matrix("wide", 2 * E, E, init);
  narrow_ = add_matrix("narrow", E, 2 * E, init);
  gain_ = register_parameter("gain", init.weight({2, E}));
  shift_ = register_parameter("shift", init.weight({2, E}));
  at::NoGradGuard no_grad;
  gain_.fill_(1);
}

at::Tensor ListEmbedder::add_matrix(const char* name, int64_t rows, int64_t columns,
                                    Initializer& init) {
  auto matrix = register_parameter(name, init.weight({rows, columns}));
  init.orthogonal(matrix, 1);
  return matrix;
}

int64_t ListEmbedder::multiply_adds() const {
  int64_t layers = 0;
  for (const auto* m : {&qkv_, &joined_, &wide_, &narrow_})
    if (m->defined()) layers += m->numel();
  // products with keys, and values weighted
  const int64_t attended = 2 * shape_.width * (shape_.encoder ? shape_.places + 1 : 1);
  return layers + attended;
}

int64_t ListEmbedder::outputs() const {
  // with its place; queries, keys, values; attended and joined, fed forward, each with sum and norm
  return shape_.width * (shape_.encoder ? 1 + 3 + 4 + 7 : 1);
}

// norms behind their sums
template <class Attend>
at::Tensor ListEmbedder::encoded(const at::Tensor& x, const Attend& attend) const {
  const auto norm = [&](const at::Tensor& sum, int64_t i) {
    return at::layer_norm(sum, {shape_.width}, gain_.select(0, i), shift_.select(0, i), kNormEps);
  };
  const auto y = norm(x + at::linear(attend(at::linear(x, qkv_)), joined_), 0);
  return norm(y + at::linear(at::relu(at::linear(y, wide_)), narrow_), 1);
}

at::Tensor ListEmbedder::forward(const at::Tensor& x, const at::Tensor& seen) const {
  auto y = x + places_;
  if (shape_.encoder)
    y = encoded(y, [&](const at::Tensor& qkv) {
      const auto parts = qkv.chunk(3, 2);
      return attend_padded(parts[0], parts[1], parts[2], seen, shape_.heads);
    });
  const auto query = query_.unsqueeze(0).expand({y.size(0), 1, shape_.width});
  return attend_padded(query, y, y, seen, shape_.heads).squeeze(1).to(at::kFloat);
}

at::Tensor ListEmbedder::forward(const at::Tensor& x, const PackedLists& lists) const {
  const RowSequences& rows = lists.sequences;
  auto y = x + places_.index_select(0, lists.place);
  if (shape_.encoder)
    y = encoded(y, [&](const at::Tensor& qkv) {
      return self_attention(qkv.to(at::kFloat), rows, shape_.heads);
    });
  return attention_pool(query_.select(0, 0), y, rows, shape_.heads);
}

}  // namespace maglev::networks::proof
