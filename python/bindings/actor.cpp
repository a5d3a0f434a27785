#include "python/bindings/actor.h"

#include <algorithm>

#include <ATen/ATen.h>

#include "base/core/error.h"
#include "engine/data/step_window.h"
#include "python/bindings/claim.h"

namespace maglev::python {
namespace {

std::string sizes_text(at::IntArrayRef sizes) {
  std::string text = "[rows";
  for (int64_t size : sizes.slice(1)) text += ", " + std::to_string(size);
  return text + "]";
}

at::Tensor column_of(const ObsColumn& column, const at::Tensor& given, at::Device device) {
  std::vector<int64_t> sizes{given.dim() > 0 ? given.size(0) : 0};
  sizes.insert(sizes.end(), column.shape.begin(), column.shape.end());
  const bool floats = column.dtype == DType::f32;
  if (given.sizes() != at::IntArrayRef(sizes))
    throw Error("[act] " + column.name + " must have shape " + sizes_text(sizes) + ", got " +
                (given.dim() > 0 ? sizes_text(given.sizes()) : "a number"));
  if (!floats && at::isFloatingType(given.scalar_type()))
    throw Error("[act] " + column.name +
                " is of whole numbers, as the environment stores it; got " +
                std::string(at::toString(given.scalar_type())));
  const auto dtype = floats ? at::kFloat : column.dtype == DType::u8 ? at::kByte : at::kInt;
  return given.to(device, dtype).contiguous();
}

}  // namespace

Actor::Actor(const std::string& run, const std::string& checkpoint,
             const std::vector<std::string>& settings, const std::string& device, ActMode mode,
             uint64_t seed)
    : seed_(seed) {
  const Claim claim;
  run_ = std::make_unique<RunPolicy>(run, checkpoint, settings, device);
  game_.emplace(game_of(run_->experiment(), run_->placement(), run_->pool()));
  player_ = std::make_unique<PolicyPlayer>(run_->policy(), run_->experiment().algo().name, mode);
}

Actor::Actor(Envs& envs, const std::string& name, ActMode mode, uint64_t seed) : seed_(seed) {
  const Claim claim;
  game_.emplace(envs.game());
  player_ = make_player(name, *game_, mode);
}

TimeStep Actor::step_of(const std::vector<at::Tensor>& obs, const at::Tensor& mask,
                        const at::Tensor& is_first) const {
  const EnvSpec& spec = game_->spec;
  if (obs.size() != spec.observations.size())
    throw Error("[act] expects " + std::to_string(spec.observations.size()) +
                " columns of observations, got " + std::to_string(obs.size()));
  TimeStep step;
  for (size_t c = 0; c < obs.size(); ++c)
    step.obs.push_back(column_of(spec.observations[c], obs[c], device()));
  const int64_t rows = step.obs[0].size(0);
  const auto bytes = at::TensorOptions(at::kByte).device(device());
  const auto flags = [&](const char* name, const at::Tensor& given, at::IntArrayRef sizes) {
    if (given.sizes() != sizes)
      throw Error("[act] " + std::string(name) + " does not belong to " + std::to_string(rows) +
                  " rows");
    return given.to(bytes).contiguous();
  };
  for (const at::Tensor& column : step.obs)
    if (column.size(0) != rows || rows < 1)
      throw Error("[act] columns of observations must have the same rows, at least one");
  step.is_first = is_first.defined() ? flags("is_first", is_first, {rows})
                                     : at::full({rows}, steps_ == 0 ? 1 : 0, bytes);
  if (spec.action.masked)
    step.mask = mask.defined() ? flags("mask", mask, {rows, spec.action.categories()})
                               : at::ones({rows, spec.action.categories()}, bytes);
  step.action = at::zeros({rows, spec.action.dims()},
                          bytes.dtype(spec.action.discrete() ? at::kInt : at::kFloat));
  return step;
}

at::Tensor Actor::act(const std::vector<at::Tensor>& obs, const at::Tensor& mask,
                      const at::Tensor& is_first) {
  const Claim claim;
  const at::NoGradGuard no_grad;
  TimeStep step = step_of(obs, mask, is_first);
  const int64_t rows = step.rows();
  // who remembers nothing takes any rows
  if (rows_ == 0 || carry_.parts.empty()) {
    carry_ = player_->initial_carry(rows);
    rows_ = rows;
  }
  if (rows != rows_)
    throw Error("[act] acted on " + std::to_string(rows_) +
                " rows so far and remembers them, got " + std::to_string(rows) +
                "; call reset() between");
  const ActKey key{.seed = seed_, .purpose = Purpose::eval, .step = steps_};
  const int64_t block = block_rows(player_->block_rows(), rows, game_->env.agents);
  game_->pool.run((rows + block - 1) / block, [&](int64_t b) {
    const at::NoGradGuard no_grad_here;
    const int64_t begin = b * block, count = std::min(block, rows - begin);
    TimeStep part = cut_rows(step, begin, count);
    Carry own = carry_.rows(begin, count);
    player_->act(part, own, key);
  });
  ++steps_;
  return step.action;
}

at::Tensor Actor::log_probs(const std::vector<at::Tensor>& obs, const at::Tensor& mask) {
  if (!run_) return {};
  const Claim claim;
  const at::NoGradGuard no_grad;
  return run_->policy().log_probs(step_of(obs, mask, {}));
}

void Actor::reset() {
  steps_ = rows_ = 0;
  carry_ = {};
}

}  // namespace maglev::python
