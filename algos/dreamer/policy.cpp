#include "algos/dreamer/policy.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <c10/core/InferenceMode.h>

#include "engine/data/step_window.h"
#include "kernels/noise/noise_op.h"

namespace maglev::dreamer {
namespace {

// rows a thread acts for at once
constexpr int64_t kRows = 256;

// the networks' parameters lie as their device wants them
ModelShape shape_on(const Options& options, const AlgoContext& context) {
  ModelShape shape = model_shape(options, context.spec);
  shape.alignment = flat_alignment(context.device);
  return shape;
}

std::shared_ptr<ActingNetworks> networks_on(const ModelShape& shape, at::Device device,
                                            Initializer weights) {
  auto networks = std::make_shared<ActingNetworks>(shape, weights);
  networks->to(device);
  return networks;
}

}  // namespace

int64_t block_rows(const AlgoContext& context) {
  return context.device.is_cpu() ? kRows : context.rows;
}

std::vector<ExtraColumn> state_columns(const ModelShape& shape) {
  return {{.name = "deter", .shape = {shape.deter}, .rewritten = true},
          {.name = "stoch",
           .dtype = at::kByte,
           .shape = {shape.stoch},
           .rewritten = true,
           .unwritten = kMostClasses}};
}

DreamerPolicy::DreamerPolicy(const Options& options, const AlgoContext& context,
                             Initializer weights)
    : spec_(context.spec.action),
      shape_(shape_on(options, context)),
      columns_(context.spec, shape_, context.device),
      actions_(shape_),
      numbers_(shape_.stoch, actions_.numbers(shape_.actions)),
      block_rows_(dreamer::block_rows(context)),
      networks_(networks_on(shape_, context.device, weights)),
      params_(*networks_, shape_.alignment) {}

Carry DreamerPolicy::initial_carry(int64_t rows) const {
  const auto f32 = params_.data().options();
  return {{at::zeros({rows, shape_.deter}, f32),
           at::zeros({rows, shape_.stoch}, f32.dtype(at::kByte)),
           at::zeros({rows, shape_.actions}, f32)}};
}

DreamerPolicy::Seen DreamerPolicy::seen(const std::vector<at::Tensor>& obs,
                                        const at::Tensor& is_first, const Carry& carry,
                                        const at::Tensor& uniforms) const {
  const auto f32 = params_.data().options();
  const Rssm& rssm = *networks_->rssm;
  // nothing leads to the first row of an episode
  const auto keep = (1 - is_first.to(at::kFloat)).unsqueeze(1);
  const auto before = one_hot(carry.parts[1], shape_.classes, f32).flatten(1);
  Latent latent{carry.parts[0] * keep, before * keep};
  const auto token = networks_->encoder->forward(columns_.seen(obs, 1));
  latent.deter = rssm.next_deter(latent, carry.parts[2] * keep);
  const auto category =
      drawn_category(rssm.posterior(latent.deter, token).exp(), uniforms).to(at::kByte);
  latent.stoch = one_hot(category, shape_.classes, f32).flatten(1);
  return {latent, category};
}

at::Tensor DreamerPolicy::mean_noise(int64_t first, int64_t rows, const ActKey& key) {
  auto uniforms = at::empty({rows, shape_.stoch}, params_.data().options());
  noise_uniform_(uniforms, act_fill(key, first, rows, numbers_.posterior, numbers_));
  return uniforms;
}

void DreamerPolicy::act(TimeStep& step, Carry& carry, ActMode mode, const ActKey& key) {
  c10::InferenceMode guard;
  const int64_t N = step.rows();
  const auto [latent, category] =
      seen(step.obs, step.is_first, carry, mean_noise(step.first, N, key));

  const auto head = networks_->policy->forward(latent.feature());
  at::Tensor action;
  if (mode == ActMode::mean) {
    action = actions_.mode(head);
  } else {
    auto numbers = at::empty({N, actions_.numbers(shape_.actions)}, params_.data().options());
    const auto fill = act_fill(key, step.first, N, numbers_.action, numbers_);
    if (actions_.takes_normals()) noise_normal_(numbers, fill);
    else noise_uniform_(numbers, fill);
    action = actions_.draw(head, numbers, key.temperature);
  }
  columns_.to_environment(action, step.action);
  carry.parts[0].copy_(latent.deter);
  carry.parts[1].copy_(category);
  // what the environment gets of it, as replayed sequences have it
  carry.parts[2].copy_(action.clamp(-1, 1));
  // play and evaluation keep no states
  if (step.extra.empty()) return;
  step.extra[kDeterColumn].copy_(latent.deter);
  step.extra[kStochColumn].copy_(category);
}

std::optional<StepOutputs> DreamerPolicy::evaluate(const StepInputs& inputs) {
  c10::InferenceMode guard;
  const auto [latent, category] = seen(inputs.obs, inputs.is_first, inputs.carry, inputs.noise);
  const auto head = networks_->policy->forward(latent.feature());
  const at::Tensor action = actions_.mode(head);
  StepOutputs found{.action = columns_.to_environment(action),
                    .carry = {{latent.deter, category, action.clamp(-1, 1)}}};
  if (actions_.takes_normals()) {
    const auto [mean, std] = actions_.normal(head);
    found.figures = {{"mean", columns_.to_environment(mean)},
                     {"log_std", columns_.deviation(std).log()}};
  } else {
    found.figures = {{"log_probs", at::cat(actions_.log_probs(head), 1)}};
  }
  return found;
}

std::optional<Explanation> DreamerPolicy::explain(const ActedStep& acted,
                                                  std::optional<Asked> asked) {
  at::NoGradGuard no_grad;
  // what act has left: the state after the row was seen
  const TimeStep step = cut_rows(acted.step, 0, 1);
  const Carry row = acted.after.rows(0, 1);
  const auto stoch = one_hot(row.parts[1], shape_.classes, params_.data().options()).flatten(1);
  const auto head = networks_->policy->forward(Latent{row.parts[0], stoch}.feature());
  Explanation found;
  if (actions_.takes_normals()) {
    const auto [mean, std] = actions_.normal(head);
    at::Tensor shown = at::empty_like(step.action);
    columns_.to_environment(mean, shown);
    found.mean = shown[0];
    found.deviation = columns_.deviation(std[0]);
  } else {
    found.log_probs = at::cat(actions_.log_probs(head), 1)[0];
  }
  found.layers.push_back({"state", row.parts[0]});
  if (!asked || *asked == Asked::value) return found;

  // what of this step's observation the action came from
  const Observation seen = columns_.seen(step.obs, 1);
  std::vector<at::Tensor> inputs;
  if (seen.image.defined()) {
    found.inputs.push_back({.name = "image"});
    inputs.push_back(seen.image.permute({0, 3, 1, 2}).to(at::kFloat) / 255);
  }
  if (seen.vector.defined()) {
    found.inputs.push_back({.name = "vector"});
    inputs.push_back(seen.vector);
  }
  const at::Tensor mean = actions_.takes_normals() ? actions_.normal(head).mean[0] : at::Tensor();
  const AskedOfAction of_action = asked_of_action(spec_, step.action[0], mean);
  found.question = of_action.words;
  attribute(found, inputs, [&](const std::vector<at::Tensor>& x) {
    const int64_t rows = x[0].size(0);
    size_t next = 0;
    Observation changed;
    if (seen.image.defined()) changed.image = 255 * x[next++].permute({0, 2, 3, 1});
    if (seen.vector.defined()) changed.vector = x[next];
    const at::Tensor deter = row.parts[0].expand({rows, -1});
    const at::Tensor token = networks_->encoder->forward(changed);
    const at::Tensor state = networks_->rssm->posterior(deter, token).exp().flatten(1);
    const at::Tensor of_rows = networks_->policy->forward(Latent{deter, state}.feature());
    const at::Tensor numbers = actions_.takes_normals() ? actions_.normal(of_rows).mean
                                                        : at::cat(actions_.log_probs(of_rows), 1);
    return numbers.index_select(1, of_action.places).sum(1);
  });
  return found;
}

void DreamerPolicy::visit_state(StateVisitor& visitor) { networks_->visit_acting(visitor); }

void DreamerPolicy::publish(const at::Tensor& params) {
  at::NoGradGuard no_grad;
  params_.data().copy_(params.narrow(0, 0, params_.size()));
}

}  // namespace maglev::dreamer
