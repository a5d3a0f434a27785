#include "algos/ppo/policy.h"

#include <algorithm>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <c10/core/InferenceMode.h>

#include "algos/ppo/sizes.h"
#include "base/core/error.h"
#include "engine/data/step_window.h"
#include "engine/nn/autocast.h"
#include "kernels/policy/distribution_op.h"
#include "kernels/policy/policy_op.h"

namespace maglev::ppo {

NetworkContext network_context(const AlgoContext& context) {
  return {.spec = context.spec,
          .bf16 = context.precision == Precision::bf16,
          .on_cuda = context.device.is_cuda()};
}

PpoPolicy::PpoPolicy(const Options& options, const AlgoContext& context)
    : options_(options.network),
      network_context_(network_context(context)),
      device_(context.device),
      precision_(context.precision),
      fused_(options.fused) {
  // the networks, their parameters in one buffer
  network_ = make_network(options_, network_context_, Initializer(context.seed));
  const NetworkEntry& kind = network_for(options_.kind, context.spec);
  if (kind.computes) computes_ = kind.computes(options_);
  network_->to(device_);
  params_ = std::make_unique<FlatParams>(
      *network_, flat_alignment(device_),
      [this](const std::string& parameter) { return network_->part_of(parameter); });
  network_->round_weights();

  block_rows_ = ppo::block_rows(options, context, *network_);

  // where everything is fully connected they also run on panels, on the same parameters
  if (Panels::suit(options, context, *network_))
    panels_ = Panels::make(context, *network_, *params_);
}

void PpoPolicy::round_weights() {
  network_->round_weights();
  if (panels_) panels_->round_weights();
}

Carry PpoPolicy::initial_carry(int64_t rows) const {
  if (!remembers()) return {};
  return {{at::zeros({rows, network_->memory_size()}, params_->data().options())}};
}

std::vector<std::string> PpoPolicy::carry_names() const {
  if (!remembers()) return {};
  return {"memory"};
}

void PpoPolicy::act(TimeStep& step, Carry& carry, ActMode mode, const ActKey& key) {
  if (panels_) return panels_->act(step, carry, mode, key);

  const bool learning = !step.extra.empty();
  // a step as a sequence of one, behind what is remembered
  c10::InferenceMode guard;
  Recall recall;
  if (remembers()) {
    recall = {carry.parts[0], step.is_first.unsqueeze(0)};
    if (learning) step.extra[memory_column].copy_(recall.state);
  }
  const auto out = forward(*network_, step.obs, {.policy = true, .value = learning}, &recall);
  if (remembers()) carry.parts[0].copy_(recall.state);

  // draw from what the networks give
  const DistParams dist{out.logits, network_->log_std(), step.mask};
  const auto draw = fused_ ? policy_sample : sample;
  const auto log_prob =
      draw(network_context_.spec.action, dist, mode, key, key.row_from(step.first), step.action);
  if (!learning) return;

  // what the update compares with
  step.extra[log_prob_column].copy_(log_prob);
  step.extra[value_column].copy_(network_->value_head().denormalize(out.value));
}

at::Tensor PpoPolicy::log_probs(const TimeStep& step) {
  const ActionSpec& action = network_context_.spec.action;
  if (!action.discrete() || remembers()) return {};
  c10::InferenceMode guard;
  const auto out = forward(*network_, step.obs, {.policy = true, .value = false});
  return category_log_probs(action, {out.logits, {}, step.mask});
}

std::optional<Normals> PpoPolicy::normals(const TimeStep& step) {
  if (network_context_.spec.action.discrete() || remembers()) return std::nullopt;
  c10::InferenceMode guard;
  const auto out = forward(*network_, step.obs, {.policy = true, .value = false});
  return Normals{out.logits, network_->log_std().unsqueeze(0).expand_as(out.logits)};
}

std::optional<StepOutputs> PpoPolicy::evaluate(const StepInputs& inputs) {
  c10::InferenceMode guard;
  const EnvSpec& spec = network_context_.spec;
  const ActionSpec& action = spec.action;
  // what only critics are shown is not there where a policy is put to work
  const bool value = std::ranges::none_of(
      spec.observations, [](const ObsColumn& o) { return o.audience == Audience::critic; });
  Recall recall;
  if (remembers()) recall = {inputs.carry.parts[0], inputs.is_first.unsqueeze(0)};
  const auto out = forward(*network_, inputs.obs, {.policy = true, .value = value}, &recall);
  const DistParams dist{out.logits, network_->log_std(), inputs.mask};
  StepOutputs found{.action = most_likely(action, dist)};
  if (remembers()) found.carry = {{recall.state}};
  if (action.discrete()) {
    found.figures = {{"log_probs", category_log_probs(action, dist)}};
  } else {
    found.figures = {{"mean", out.logits},
                     {"log_std", dist.log_std.unsqueeze(0).expand_as(out.logits)}};
  }
  if (value) found.figures.push_back({"value", network_->value_head().denormalize(out.value)});
  return found;
}

std::optional<Explanation> PpoPolicy::explain(const ActedStep& acted, std::optional<Asked> asked) {
  at::NoGradGuard no_grad;
  const ActionSpec& action = network_context_.spec.action;
  const TimeStep row = cut_rows(acted.step, 0, 1);
  // `rows` times the step behind what it was acted with
  const auto recalled = [&](int64_t rows) -> Recall {
    if (!remembers()) return {};
    return {acted.before.rows(0, 1).parts[0].expand({rows, -1}), row.is_first.expand({1, rows})};
  };
  Recall recall = recalled(1);
  const auto seen = network_->encode(row.obs);
  Explanation found;
  const NetworkOutput out =
      seen ? network_->look(*seen, &found.layers, remembers() ? &recall : nullptr)
           : forward(*network_, row.obs, {}, &recall);
  if (action.discrete()) {
    found.log_probs = category_log_probs(action, {out.logits, {}, row.mask})[0];
  } else {
    found.mean = out.logits[0];
    found.deviation = network_->log_std().detach().exp();
  }
  found.value = network_->value_head().denormalize(out.value)[0].item<double>();
  if (!asked || !seen) return found;

  // of what the policy sees; the critic's own inputs stay as they are
  std::vector<at::Tensor> inputs;
  std::string vectors;
  for (const ObsColumn& column : network_context_.spec.observations) {
    if (is_image(column)) found.inputs.push_back({.name = column.name});
    else if (column.audience == Audience::both)
      vectors += (vectors.empty() ? "" : ", ") + column.name;
  }
  if (seen->policy.image.defined()) inputs.push_back(seen->policy.image);
  if (seen->policy.vector.defined()) {
    inputs.push_back(seen->policy.vector);
    found.inputs.push_back({.name = vectors});
  }
  const AskedOfAction of_action = asked_of_action(action, row.action[0], found.mean);
  found.question = *asked == Asked::value ? "the value" : of_action.words;
  attribute(found, inputs, [&](const std::vector<at::Tensor>& x) {
    EncodedObs changed = *seen;
    size_t next = 0;
    for (at::Tensor* part : {&changed.policy.image, &changed.policy.vector})
      if (part->defined()) *part = x[next++];
    if (changed.privileged.defined())
      changed.privileged = changed.privileged.expand({x[0].size(0), -1});
    Recall again = recalled(x[0].size(0));
    const NetworkOutput of_rows = network_->look(changed, nullptr, remembers() ? &again : nullptr);
    return *asked == Asked::value ? network_->value_head().denormalize(of_rows.value)
                                  : of_rows.logits.index_select(1, of_action.places).sum(1);
  });
  return found;
}

at::Tensor PpoPolicy::last_value(const Batch& batch, int64_t begin, int64_t count) const {
  // where it is remembered what led there, it is the second of two steps
  const int64_t T = batch.reward.size(0), steps = remembers() ? 2 : 1;
  const auto last = [&](const at::Tensor& column) {
    return column.narrow(0, T + 1 - steps, steps).narrow(1, begin, count);
  };
  std::vector<at::Tensor> obs;
  for (const auto& o : batch.obs) obs.push_back(last(o).flatten(0, 1));
  Recall recall;
  if (remembers())
    recall = {batch.extra[memory_column][T - 1].narrow(0, begin, count), last(batch.is_first)};
  const auto out = forward(*network_, obs, {.policy = false, .value = true}, &recall);
  return network_->value_head().denormalize(out.value).narrow(0, (steps - 1) * count, count);
}

NetworkOutput PpoPolicy::forward(ActorCritic& network, const std::vector<at::Tensor>& obs,
                                 ActorCritic::Want want, Recall* recall) const {
  NetworkOutput out;
  {
    // on a processor what rounds its own weights needs no casts around it; on a device what is left
    // of it is cast
    const bool casts = !network.rounds_weights() || network_context_.on_cuda;
    Autocast guard(casts ? precision_ : Precision::fp32, device_);
    out = remembers() ? network.forward_through(obs, want, *recall) : network.forward(obs, want);
  }
  for (auto* part : {&out.logits, &out.value})
    if (part->defined()) *part = part->to(at::kFloat);
  return out;
}

std::shared_ptr<ActorCritic> PpoPolicy::replica(const at::Tensor& grad) const {
  NetworkContext context = network_context_;
  context.original = network_.get();
  auto replica = make_network(options_, context, Initializer::none());
  replica->to(device_);
  params_->bind(*network_, *replica, grad);
  replica->share_rounded(*network_);
  return replica;
}

void PpoPolicy::visit_state(StateVisitor& visitor) {
  visitor.section("network", [&](StateVisitor& v) {
    std::string computes = computes_;
    if (!computes_.empty()) v.text("computes", computes);
    if (computes != computes_)
      throw Error("[network] the checkpoint is of a network that computes something else (hash " +
                  computes + ", this one's " + computes_ + "); take the file it was trained with");
    visit_module(*network_, v);
  });
}

}  // namespace maglev::ppo
