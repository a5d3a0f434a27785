#include "algos/dreamer/row_weights.h"

#include <ATen/ATen.h>

#include "engine/data/waiting.h"

namespace maglev::dreamer {

at::Tensor row_weights(const at::Tensor& is_first, Group* group) {
  const int64_t T = is_first.size(0) - 1;
  const auto out = at::cat({waiting_rows(is_first.narrow(0, 1, T)), is_first.narrow(0, T, 1)});
  const auto counts = (1 - out).to(at::kFloat);
  at::Tensor count = counts.sum();
  if (group) group->sum(count);
  return counts * (double(counts.numel() * size_of(group)) / count.clamp_min(1));
}

at::Tensor weighted(const at::Tensor& x, const at::Tensor& weight) {
  return weight.defined() ? weight * x : x;
}

}  // namespace maglev::dreamer
