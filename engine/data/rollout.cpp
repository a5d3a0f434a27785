#include "engine/data/rollout.h"

#include <cstring>

#include <ATen/ATen.h>

namespace maglev {

Rollout::Rollout(const EnvSpec& spec, RolloutShape shape, const std::vector<ExtraColumn>& columns,
                 at::Device device, const MakeColumn& observations)
    : batch_(make_columns(spec, columns, {.observed = shape.T + 1, .acted = shape.T}, shape.rows,
                          at::TensorOptions(device), observations)),
      window_(spec, batch_, shape) {}

std::vector<int64_t> Rollout::observed_columns(const EnvSpec& spec) {
  std::vector<int64_t> bytes;
  for (const ObsColumn& column : spec.observations) bytes.push_back(column.row_bytes());
  return bytes;
}

int64_t Rollout::observed_bytes(const EnvSpec& spec, const RolloutShape& shape) {
  int64_t row = 0;
  for (int64_t bytes : observed_columns(spec)) row += bytes;
  return (shape.T + 1) * shape.rows * row;
}

void Rollout::roll_over() {
  auto copy = [](at::Tensor& to, const at::Tensor& from) {
    if (!to.defined()) return;
    if (to.device().is_cuda()) to.copy_(from);
    else std::memcpy(to.data_ptr(), from.const_data_ptr(), to.nbytes());
  };
  TimeStep &first = step(0), &last = step(shape().T);
  for (size_t c = 0; c < first.obs.size(); ++c) copy(first.obs[c], last.obs[c]);
  copy(first.mask, last.mask);
  copy(first.is_first, last.is_first);
}

void Rollout::visit_state(StateVisitor& visitor) {
  TimeStep& first = step(0);
  for (size_t c = 0; c < first.obs.size(); ++c)
    visitor.rows("obs" + std::to_string(c), first.obs[c]);
  if (first.mask.defined()) visitor.rows("mask", first.mask);
  visitor.rows("is_first", first.is_first);
}

}  // namespace maglev
