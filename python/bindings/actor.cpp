#include "python/bindings/actor.h"

#include <algorithm>

#include <ATen/ATen.h>
#include <c10/core/DeviceGuard.h>

#include "base/core/error.h"
#include "base/core/printed.h"
#include "base/trace/span.h"
#include "engine/data/step_window.h"
#include "python/bindings/claim.h"

namespace maglev::python {

Actor::Actor(const std::string& run, const std::string& checkpoint,
             const std::vector<std::string>& settings, const std::string& device, ActMode mode,
             float temperature, uint64_t seed)
    : seed_(seed) {
  const Claim claim;
  const IdleEnd ends_idle;
  const auto named = run_named(run);
  const bool in_name = named && named->checkpoint != "latest";
  if (in_name && checkpoint != "latest")
    throw Error("[load] " + run + " names a checkpoint already; leave out checkpoint=");
  run_ = std::make_unique<RunPolicy>(named ? named->folder : run,
                                     in_name ? named->checkpoint : checkpoint, settings, device);
  game_.emplace(game_of(run_->experiment(), run_->placement(), run_->pool()));
  policy_ = &run_->policy();
  player_ =
      std::make_unique<PolicyPlayer>(*policy_, run_->experiment().algo().name, mode, temperature);
}

Actor::Actor(Envs& envs, const std::string& name, const std::vector<std::string>& settings,
             ActMode mode, float temperature, uint64_t seed)
    : seed_(seed), busy_(&envs.busy()) {
  const Claim claim;
  game_.emplace(envs.game());
  game_->acting = sorted_settings("player", settings, {name}).acting;
  game_->temperature = temperature;
  player_ = make_player(name, *game_, mode);
  if (auto* run = dynamic_cast<RunPlayer*>(player_.get())) policy_ = &run->policy();
}

TimeStep Actor::step_of(const std::vector<at::Tensor>& obs, const at::Tensor& mask,
                        const at::Tensor& is_first) const {
  const EnvSpec& spec = game_->spec;
  TimeStep step;
  step.obs = stored_columns(spec, obs, device());
  const int64_t rows = step.obs[0].size(0);
  const auto bytes = at::TensorOptions(at::kByte).device(device());
  const auto flags = [&](const char* name, const at::Tensor& given, at::IntArrayRef sizes) {
    if (given.sizes() != sizes)
      throw Error("[act] " + std::string(name) + " does not belong to " + counted(rows, "row"));
    return given.to(bytes).contiguous();
  };
  step.is_first = is_first.defined() ? flags("is_first", is_first, {rows})
                                     : at::full({rows}, steps_ == 0 ? 1 : 0, bytes);
  if (spec.action.masked && !mask.defined())
    throw Error(
        "[act] this environment says which actions are allowed: give what came with the "
        "observation, info with \"mask\"");
  if (spec.action.masked) step.mask = flags("mask", mask, {rows, spec.action.categories()});
  step.action = at::zeros({rows, spec.action.dims()},
                          bytes.dtype(spec.action.discrete() ? at::kInt : at::kFloat));
  return step;
}

at::Tensor Actor::act(const std::vector<at::Tensor>& obs, const at::Tensor& mask,
                      const at::Tensor& is_first) {
  const OneAtATime turn(*busy_);
  const auto span = trace::stage("act");
  const Claim claim;
  const at::NoGradGuard no_grad;
  const c10::OptionalDeviceGuard guard(device());
  TimeStep step = step_of(obs, mask, is_first);
  const int64_t rows = step.rows();
  // who remembers nothing takes any rows
  if (rows_ == 0 || carry_.parts.empty()) {
    carry_ = player_->initial_carry(rows);
    rows_ = rows;
  }
  if (rows != rows_)
    throw Error("[act] acted on " + counted(rows_, "row") + " so far, which it remembers, got " +
                std::to_string(rows) + "; call reset() between");
  const ActKey key{.seed = seed_, .purpose = Purpose::eval, .step = steps_};
  // on a device all rows at once, on the stream of who calls
  const int64_t block =
      device().is_cuda() ? rows : block_rows(player_->block_rows(), rows, game_->spec.agents);
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
  if (!policy_) return {};
  const OneAtATime turn(*busy_);
  const Claim claim;
  const at::NoGradGuard no_grad;
  const c10::OptionalDeviceGuard guard(device());
  return policy_->log_probs(step_of(obs, mask, {}));
}

std::optional<Normals> Actor::normals(const std::vector<at::Tensor>& obs, const at::Tensor& mask) {
  if (!policy_) return std::nullopt;
  const OneAtATime turn(*busy_);
  const Claim claim;
  const at::NoGradGuard no_grad;
  const c10::OptionalDeviceGuard guard(device());
  auto found = policy_->normals(step_of(obs, mask, {}));
  // the caller's own, for gradients of what comes of them
  if (found) found = Normals{found->mean.clone(), found->log_std.clone()};
  return found;
}

at::Tensor Actor::value(const std::vector<at::Tensor>& obs, const at::Tensor& mask) {
  if (!policy_ || !policy_->initial_carry(1).parts.empty()) return {};
  const OneAtATime turn(*busy_);
  const Claim claim;
  const at::NoGradGuard no_grad;
  const c10::OptionalDeviceGuard guard(device());
  const TimeStep step = step_of(obs, mask, {});
  const auto outputs = policy_->evaluate(
      {.obs = step.obs, .mask = step.mask, .is_first = step.is_first, .carry = {}, .noise = {}});
  if (!outputs) return {};
  for (const auto& [name, figure] : outputs->figures)
    if (name == "value") return figure;
  return {};
}

void Actor::reset() {
  const OneAtATime turn(*busy_);
  steps_ = rows_ = 0;
  carry_ = {};
}

}  // namespace maglev::python
