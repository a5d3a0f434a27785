#include "algos/tdmpc2/policy.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <c10/core/InferenceMode.h>

#include "algos/tdmpc2/device/planner.h"
#include "algos/tdmpc2/panels/planner.h"
#include "algos/tdmpc2/policy_prior.h"
#include "algos/tdmpc2/reference/planner.h"
#include "base/core/error.h"
#include "engine/data/step_window.h"
#include "engine/nn/autocast.h"
#include "kernels/noise/noise_op.h"
#include "kernels/two_hot/two_hot_op.h"

namespace maglev::tdmpc2 {
namespace {

// rows a thread acts for at once: a plan has hundreds of sequences a row
constexpr int64_t kPlannedRows = 8, kPolicyRows = 256;

// the model's parameters lie as their device wants them
ModelShape shape_on(const Options& options, const AlgoContext& context) {
  ModelShape shape = model_shape(options, context.spec);
  shape.alignment = flat_alignment(context.device);
  return shape;
}

std::shared_ptr<WorldModel> made_model(const Options& options, const ModelShape& shape,
                                       at::Device device, Initializer weights) {
  auto model = std::make_shared<WorldModel>(shape, options.q_init == QInit::kaiming, weights);
  model->to(device);
  return model;
}

at::Tensor side_by_side(const std::vector<at::Tensor>& parts, int64_t dim) {
  return parts.size() == 1 ? parts[0] : at::cat(parts, dim);
}

}  // namespace

bool may_be_captured(const Options& o, at::Device device) { return !device.is_cpu() && o.prune; }

bool plans_on_panels(const Options& o, const ModelShape& shape, const AlgoContext& context) {
  return o.mpc && o.prune && o.fused.value_or(true) &&
         PanelPlanner::obstacle(shape, context.precision, context.device).empty();
}

bool use_fused(const Options& o, const std::string& obstacle) {
  // they leave out what cannot matter: the plain reference does not
  const bool fused = o.fused.value_or(true) && o.prune;
  if (o.fused.value_or(false) && (!fused || !obstacle.empty()))
    throw Error("[tdmpc2] tdmpc2.fused=on cannot be: " +
                (fused ? obstacle : "tdmpc2.prune is off") + "; use auto");
  return fused && obstacle.empty();
}

int64_t block_rows(const Options& o, const ModelShape& shape, const AlgoContext& context) {
  // on panels the planner deals its rows out itself
  const bool whole = !context.device.is_cpu() || plans_on_panels(o, shape, context);
  return whole ? context.rows : o.mpc ? kPlannedRows : kPolicyRows;
}

Columns::Columns(const EnvSpec& spec, const ModelShape& shape, at::Device device) {
  for (size_t i = 0; i < spec.observations.size(); ++i) {
    // the critic's columns stay unseen; model_shape() has refused what is no vector or image
    const ObsColumn& column = spec.observations[i];
    if (column.name == "task" && shape.tasks > 0) task_ = int64_t(i);
    else if (column.audience == Audience::critic) continue;
    else if (column.dtype == DType::f32) vectors_.push_back(i);
    else image_ = int64_t(i);
  }
  if (shape.tasks > 0 && task_ < 0)
    throw Error("[tdmpc2] an environment of several tasks needs a column 'task'");
  // the model's actions are in [-1, 1]; middle and half map them to the environment's bounds
  const auto low = at::tensor(spec.action.low), high = at::tensor(spec.action.high);
  if (!at::isfinite(high - low).all().item<bool>())
    throw Error("[tdmpc2] plans within bounds, and an action of this environment has none");
  middle_ = ((high + low) / 2).to(device);
  half_ = ((high - low) / 2).to(device);
}

at::Tensor Columns::task(const std::vector<at::Tensor>& obs) const {
  if (task_ < 0) return {};
  return obs[size_t(task_)].squeeze(-1).to(at::kLong);
}

at::Tensor Columns::seen(const std::vector<at::Tensor>& obs, int64_t lead) const {
  // an image comes without vectors
  if (image_ >= 0) return obs[size_t(image_)];
  std::vector<at::Tensor> parts;
  for (size_t i : vectors_) parts.push_back(obs[i].flatten(lead));
  return side_by_side(parts, lead);
}

at::Tensor Columns::to_model(const at::Tensor& action) const {
  return ((action - middle_) / half_).clamp(-1, 1);
}

Tdmpc2Policy::Tdmpc2Policy(const Options& options, const AlgoContext& context, Initializer weights)
    : context_(context),
      shape_(shape_on(options, context)),
      plan_options_(plan_options(options, shape_, context.spec, context.device)),
      numbers_(plan_options_.sizes),
      block_rows_(tdmpc2::block_rows(options, shape_, context)),
      run_rows_(context.rows * context.processes),
      seed_steps_(seed_steps(options, context.spec, run_rows_)),
      capturable_(may_be_captured(options, context.device)),
      columns_(context.spec, shape_, context.device),
      model_(made_model(options, shape_, context.device, weights)),
      params_(*model_, shape_.alignment) {
  planner_ = made_planner(options);
}

std::unique_ptr<Planner> Tdmpc2Policy::made_planner(const Options& options) const {
  if (!options.mpc) return nullptr;
  // panels where they can be, else one program for a device; prune=off wants the plan as written
  const Precision precision = context_.precision;
  if (context_.device.is_cpu() &&
      use_fused(options, PanelPlanner::obstacle(shape_, precision, context_.device)))
    return std::make_unique<PanelPlanner>(plan_options_, shape_, precision,
                                          context_.pool ? context_.pool->threads() : 1);
  if (options.prune)
    return std::make_unique<DevicePlanner>(
        plan_options_, shape_, precision, context_.device,
        options.fused.value_or(false) &&
            DevicePlanner::obstacle(shape_, precision, context_.device).empty());
  return std::make_unique<ReferencePlanner>(plan_options_);
}

Carry Tdmpc2Policy::initial_carry(int64_t rows) const {
  const PlanSizes& s = plan_options_.sizes;
  return {{at::zeros({rows, s.H, s.A}, params_.data().options())}};
}

at::Tensor Tdmpc2Policy::masked(const at::Tensor& action, const at::Tensor& task) const {
  if (!task.defined()) return action;
  return action * at::index_select(plan_options_.action_mask, 0, task);
}

at::Tensor Tdmpc2Policy::drawn(const PlanRequest& request, bool uniform) const {
  const int64_t N = request.is_first.size(0);
  auto out = at::empty({N, shape_.actions}, params_.data().options());
  // one place in the stream for both: an action is random or has noise added, never both
  const NoiseFill fill = plan_fill(request.key, request.first_row, N, numbers_.explore);
  if (uniform) noise_uniform_(out, fill);
  else noise_normal_(out, fill);
  return masked(uniform ? 2 * out - 1 : out, request.task);
}

PlanRequest Tdmpc2Policy::request(const TimeStep& step, const Carry& carry, ActMode mode,
                                  const ActKey& key) const {
  PlanRequest request{.task = columns_.task(step.obs),
                      .is_first = step.is_first,
                      .prev_mean = carry.parts[0],
                      .key = key,
                      .first_row = step.first,
                      .explore = mode == ActMode::sample};
  Autocast guard(context_.precision, context_.device);
  const at::Tensor seen = columns_.seen(step.obs, 1);
  if (shape_.image()) {
    // the encoder was trained on shifted images: acting shifts them too
    auto uniforms = at::empty({step.rows(), 2}, params_.data().options());
    noise_uniform_(uniforms, plan_fill(key, step.first, step.rows(), numbers_.shift));
    request.latent = model_->encode_image(seen, uniforms);
  } else {
    const auto embedding = model_->embedding(request.task);
    request.latent =
        planner_ ? planner_->encode(*model_, seen, embedding) : model_->encode(seen, embedding);
  }
  request.latent = request.latent.to(at::kFloat);
  return request;
}

std::string Tdmpc2Policy::temperature_obstacle() const {
  if (!planner_) return "";
  return "its actions are planned, and how far plans spread is said by tdmpc2.temperature, "
         "tdmpc2.min_std and tdmpc2.max_std; with tdmpc2.mpc=false the policy alone acts, which "
         "takes one";
}

at::Tensor Tdmpc2Policy::prior_action(const PlanRequest& request, ActMode mode) const {
  Autocast guard(context_.precision, context_.device);
  const auto head = model_->policy(request.latent, model_->embedding(request.task));
  // 0 in dimensions that the task does not have
  const auto mask = request.task.defined()
                        ? at::index_select(plan_options_.action_mask, 0, request.task)
                        : at::Tensor();
  at::Tensor noise = drawn(request, false);
  if (request.key.temperature != 1) noise = noise * request.key.temperature;
  const auto draw = draw_policy(head.to(at::kFloat), noise, mask);
  return mode == ActMode::mean ? draw.mean : draw.action;
}

void Tdmpc2Policy::act(TimeStep& step, Carry& carry, ActMode mode, const ActKey& key) {
  c10::InferenceMode guard;
  const bool seeding = mode == ActMode::sample && key.purpose == Purpose::act && seed_steps_ > 0;
  // on a device the count may be known there alone
  const bool known = context_.device.is_cpu() || key.base == nullptr;
  at::Tensor action;
  // seed steps are random; where the count is on the device, both are made and one is taken
  if (seeding && known && key.now() * run_rows_ < seed_steps_) {
    action = drawn({.task = columns_.task(step.obs),
                    .is_first = step.is_first,
                    .key = key,
                    .first_row = step.first},
                   true);
  } else {
    const PlanRequest wanted = request(step, carry, mode, key);
    at::Tensor mean;
    if (planner_) {
      const Plan plan = planner_->plan(wanted);
      mean = plan.mean;
      action = plan.action;
    } else {
      action = prior_action(wanted, mode);
    }
    if (seeding && !known) {
      // the device's own count of the steps says whether the plan is taken or a random action
      const auto steps = at::from_blob(const_cast<int64_t*>(key.base), {},
                                       params_.data().options().dtype(at::kLong)) +
                         key.step;
      const auto random = steps * run_rows_ < seed_steps_;
      action = at::where(random, drawn(wanted, true), action);
      if (planner_) mean = at::where(random, carry.parts[0], mean);
    }
    // the mean of a plan that was taken is where the row's next plan begins
    if (planner_) carry.parts[0].copy_(mean);
  }
  // from [-1, 1] to the environment's bounds
  step.action.copy_(columns_.to_environment(action));
}

std::optional<StepOutputs> Tdmpc2Policy::evaluate(const StepInputs& inputs) {
  c10::InferenceMode guard;
  Autocast cast(context_.precision, context_.device);
  const at::Tensor task = columns_.task(inputs.obs), e = model_->embedding(task);
  const at::Tensor seen = columns_.seen(inputs.obs, 1);
  const at::Tensor latent =
      shape_.image() ? model_->encode_pixels(seen.permute({0, 3, 1, 2}).to(at::kFloat) / 255 - 0.5)
                     : model_->encode(seen, e);
  const at::Tensor head = model_->policy(latent.to(at::kFloat), e);
  const auto mask = task.defined() ? at::index_select(plan_options_.action_mask, 0, task) : task;
  const PolicyGaussian prior = policy_gaussian(head.to(at::kFloat), mask);
  return StepOutputs{.action = columns_.to_environment(at::tanh(prior.mean)),
                     .figures = {{"mean", prior.mean}, {"log_std", prior.log_std}}};
}

std::optional<Explanation> Tdmpc2Policy::explain(const ActedStep& acted,
                                                 std::optional<Asked> asked) {
  at::NoGradGuard no_grad;
  const TimeStep row = cut_rows(acted.step, 0, 1);
  const at::Tensor task = columns_.task(row.obs), e = model_->embedding(task);
  // an image in [0, 1], unmoved, so that zeros are black; or the vectors
  at::Tensor seen = columns_.seen(row.obs, 1);
  if (shape_.image()) seen = seen.permute({0, 3, 1, 2}).to(at::kFloat) / 255;
  const auto encoded = [&](const at::Tensor& x) {
    if (shape_.image()) return model_->encode_pixels(x - 0.5);
    return model_->encode(x, e.defined() ? e.expand({x.size(0), e.size(1)}) : e);
  };
  const at::Tensor latent = encoded(seen);
  const at::Tensor action = columns_.to_model(row.action);
  const StackedMlp q = model_->stacked_q();
  // of rows of latents [rows, D], all of this row's task
  const auto of_rows = [](const at::Tensor& one, const at::Tensor& rows) {
    return one.defined() ? one.expand({rows.size(0), one.size(1)}) : one;
  };
  const auto value = [&](const at::Tensor& z) {
    return two_hot_value_reference(stacked_forward(q, joined(z, of_rows(action, z), of_rows(e, z))),
                                   kTwoHot)
        .mean(0);
  };
  const auto prior = [&](const at::Tensor& z) {
    return at::tanh(model_->policy(z, of_rows(e, z)).narrow(1, 0, shape_.actions));
  };
  Explanation found;
  const at::Tensor mean = prior(latent);
  found.mean = columns_.to_environment(masked(mean, task))[0];
  found.value = value(latent)[0].item<double>();
  found.layers.push_back({"latent", latent});
  if (!asked) return found;
  found.inputs.push_back({.name = shape_.image() ? "image" : "vector"});
  const AskedOfAction of_action =
      asked_of_action(context_.spec.action, row.action[0], masked(mean, task)[0]);
  found.question = *asked == Asked::value ? "the value" : of_action.words;
  attribute(found, {seen}, [&](const std::vector<at::Tensor>& x) {
    const at::Tensor z = encoded(x[0]);
    return *asked == Asked::value ? value(z) : prior(z).index_select(1, of_action.places).sum(1);
  });
  return found;
}

void Tdmpc2Policy::visit_state(StateVisitor& visitor) {
  visitor.section("model", [&](StateVisitor& v) { visit_module(*model_, v); });
}

void Tdmpc2Policy::publish() {
  at::NoGradGuard no_grad;
  if (planner_) planner_->publish(*model_, params_.data());
}

void Tdmpc2Policy::publish(const at::Tensor& params) {
  at::NoGradGuard no_grad;
  params_.data().copy_(params);
  publish();
}

}  // namespace maglev::tdmpc2
