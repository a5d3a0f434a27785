#include "engine/train/finite_check.h"

#include <ATen/ATen.h>

#include "base/core/error.h"
#include "kernels/finite/finite.h"
#include "kernels/finite/finite_op.h"

namespace maglev {

FiniteCheck::FiniteCheck(std::string env, const EnvSpec& spec, int64_t agents, int64_t first_env,
                         StepWindow& window, at::Device device, bool flagged)
    : env_(std::move(env)), spec_(spec), agents_(agents), first_env_(first_env), window_(&window) {
  if (flagged) flag_ = at::ones({1}, at::TensorOptions(at::kFloat).device(device));
}

bool FiniteCheck::rows_finite(const StepIo& io, int64_t begin, int64_t count) const {
  bool finite = all_finite(io.reward + begin, count);
  for (size_t c = 0; c < spec_.observations.size(); ++c) {
    const ObsColumn& column = spec_.observations[c];
    if (column.dtype != DType::f32) continue;
    const std::byte* rows = io.obs[c] + begin * io.obs_row_bytes[c];
    finite &= all_finite(reinterpret_cast<const float*>(rows), count * column.elements());
  }
  return finite;
}

void FiniteCheck::look(const Batch& collected) {
  std::vector<at::Tensor> columns{collected.reward};
  for (const auto& column : collected.obs)
    if (column.scalar_type() == at::kFloat)
      columns.push_back(column.narrow(0, 1, collected.reward.size(0)));
  look_finite_(columns, flag_);
}

void FiniteCheck::raise_flag() {
  if (flag_.defined()) flag_.fill_(1);
}

void FiniteCheck::name_first(int64_t first_step) const {
  const auto check = [&](const at::Tensor& values, const std::string& name, int64_t t) {
    const auto rows = values.reshape({values.size(0), -1});
    const auto bad = at::isfinite(rows).all(1).logical_not().nonzero();
    if (bad.size(0) == 0) return;
    throw Error(
        "[env] " + env_ + " gave a number that is not finite: " + name + " of environment " +
        std::to_string(first_env_ + bad[0][0].item<int64_t>() / agents_) + " at time step " +
        std::to_string(first_step + t) + "; checkpoints before it are intact");
  };
  const int64_t T = window_->shape().T;
  for (int64_t t = 0; t < T; ++t) check(window_->reward(t), "reward", t);
  // an observation belongs to the step it is seen at
  for (size_t c = 0; c < spec_.observations.size(); ++c)
    for (int64_t t = 1; t <= T && spec_.observations[c].dtype == DType::f32; ++t)
      check(window_->step(t).obs[c], "observation '" + spec_.observations[c].name + "'", t);
}

}  // namespace maglev
