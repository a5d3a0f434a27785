#include "algos/tdmpc2/tdmpc2.h"

#include <algorithm>
#include <cmath>

#include <torch/torch.h>

#include "algos/tdmpc2/memory.h"
#include "algos/tdmpc2/policy_prior.h"
#include "base/core/error.h"
#include "engine/nn/autocast.h"
#include "kernels/noise/noise_op.h"

namespace maglev::tdmpc2 {
namespace {

// rows a thread acts for at once: a plan has hundreds of sequences a row
constexpr int64_t kPlannedRows = 8, kPolicyRows = 256;

std::shared_ptr<WorldModel> acting_model(const ModelShape& shape, at::Device device) {
  auto model = std::make_shared<WorldModel>(shape, false, Initializer::none());
  model->to(device);
  return model;
}

}  // namespace

bool plans_on_panels(const Options& o, const ModelShape& shape, const AlgoContext& context) {
  return o.mpc && o.prune && o.fused != "off" &&
         PanelPlanner::obstacle(shape, context.precision, context.device).empty();
}

DataPlan data_plan(const Options& o, const AlgoContext& context) {
  const int64_t seed = seed_steps(o, context.spec);
  ReplayPlan replay{
      .capacity = context.total_steps > 0 ? std::min(o.capacity, context.total_steps) : o.capacity,
      .batch = o.batch,
      .length = o.horizon,
      .sampling = o.sampling == "start" ? SliceSampling::start : SliceSampling::trajectory,
      .first_steps = seed,
      .first_updates = int64_t(double(seed) * o.updates_per_step),
      .updates_per_step = o.updates_per_step,
      .update_every = o.update_every};
  const bool host = context.device.is_cpu();
  const bool panels = host && plans_on_panels(o, model_shape(o, context.spec), context);
  return {
      .collect_steps = std::max<int64_t>(1, o.update_every / std::max<int64_t>(1, context.rows)),
      // on panels the planner deals its rows out itself
      .block_rows = !host || panels ? context.rows
                    : o.mpc         ? kPlannedRows
                                    : kPolicyRows,
      .replay = replay,
      .overlap = true,
      .capturable = !host && o.prune,
      .autocast = true};
}

Tdmpc2::Tdmpc2(const Options& options, const AlgoContext& context)
    : options_(options),
      context_(context),
      shape_(model_shape(options, context.spec)),
      plan_(data_plan(options, context)),
      plan_options_(plan_options(options, shape_, context.spec, context.device)),
      numbers_(plan_options_.sizes),
      seed_steps_(seed_steps(options, context.spec)),
      state_(options, shape_, context.seed, context.device),
      acting_(acting_model(shape_, context.device)),
      acting_params_(*acting_) {
  if (context.precision == Precision::fp16)
    throw Error("[tdmpc2] train.precision=fp16 is not offered by tdmpc2; use bf16 or auto");
  const auto& columns = context.spec.observations;
  for (size_t i = 0; i < columns.size(); ++i) {
    if (columns[i].name == "task" && shape_.tasks > 0) columns_.task = int64_t(i);
    else if (columns[i].audience == Audience::critic) continue;
    else if (columns[i].dtype == DType::f32) columns_.vectors.push_back(i);
    else columns_.image = int64_t(i);
  }
  if (shape_.tasks > 0 && columns_.task < 0)
    throw Error("[tdmpc2] an environment of several tasks needs a column 'task'");
  const ActionSpec& action = context.spec.action;
  const auto low = at::tensor(action.low), high = at::tensor(action.high);
  if (!at::isfinite(high - low).all().item<bool>())
    throw Error("[tdmpc2] plans within bounds, and an action of this environment has none");
  middle_ = ((high + low) / 2).to(context.device);
  half_ = ((high - low) / 2).to(context.device);

  const LearnerOptions learner{.options = options,
                               .shape = shape_,
                               .seed = context.seed,
                               .discount = plan_options_.discount,
                               .action_mask = plan_options_.action_mask,
                               .precision = context.precision,
                               .pool = context.pool};
  // panels leave out what cannot matter: the plain reference does not
  const bool panels = options.fused != "off" && options.prune;
  auto fused = [&](const std::string& obstacle) {
    if (options.fused == "on" && (!panels || !obstacle.empty()))
      throw Error("[tdmpc2] tdmpc2.fused=on cannot be: " +
                  (panels ? obstacle : "tdmpc2.prune is off") + "; use auto");
    return panels && obstacle.empty();
  };
  if (fused(PanelLearner::obstacle(learner, context.device)))
    panel_learner_ = std::make_unique<PanelLearner>(learner, state_);
  else learner_ = std::make_unique<AutogradLearner>(learner, state_);
  if (options.mpc)
    make_planner(fused(PanelPlanner::obstacle(shape_, context.precision, context.device)));
  figures_ = at::zeros({int64_t(kFigures)}, state_.grad.options());
  one_ = at::ones({}, state_.grad.options());
  publish();
}

void Tdmpc2::make_planner(bool panels) {
  if (panels)
    panel_planner_ = std::make_unique<PanelPlanner>(plan_options_, shape_, context_.precision,
                                                    context_.pool ? context_.pool->threads() : 1);
  else if (options_.prune)
    planner_ =
        std::make_unique<Planner>(plan_options_, shape_, context_.precision, context_.device);
  else
    reference_ = std::make_unique<ReferencePlanner>(plan_options_, *acting_, acting_params_.data());
}

Carry Tdmpc2::initial_carry(int64_t rows) const {
  const PlanSizes& s = plan_options_.sizes;
  return {{at::zeros({rows, s.H, s.A}, middle_.options())}};
}

at::Tensor Tdmpc2::tasks_of(const std::vector<at::Tensor>& obs) const {
  if (columns_.task < 0) return {};
  return obs[size_t(columns_.task)].squeeze(-1).to(at::kLong);
}

at::Tensor Tdmpc2::masked(const at::Tensor& action, const at::Tensor& task) const {
  if (!task.defined()) return action;
  return action * at::index_select(plan_options_.action_mask, 0, task);
}

at::Tensor Tdmpc2::drawn(const PlanRequest& request, bool uniform) const {
  const int64_t N = request.is_first.size(0);
  auto out = at::empty({N, shape_.actions}, middle_.options());
  const NoiseFill fill = plan_fill(request.key, request.first_row, N, numbers_.explore);
  if (uniform) noise_uniform_(out, fill);
  else noise_normal_(out, fill);
  return masked(uniform ? 2 * out - 1 : out, request.task);
}

PlanRequest Tdmpc2::request(const Row& row, const Carry& carry, ActMode mode,
                            const ActKey& key) const {
  PlanRequest request{.task = tasks_of(row.obs),
                      .is_first = row.is_first,
                      .prev_mean = carry.parts[0],
                      .key = key,
                      .first_row = row.first,
                      .explore = mode == ActMode::sample};
  Autocast guard(context_.precision, context_.device);
  if (shape_.image()) {
    auto shift = at::empty({row.rows(), 2}, middle_.options());
    noise_uniform_(shift, plan_fill(key, row.first, row.rows(), numbers_.shift));
    shift = (shift * double(2 * kImageShift + 1)).to(at::kLong).clamp_max(2 * kImageShift);
    request.latent = acting_->encode_image(row.obs[size_t(columns_.image)], shift);
  } else {
    std::vector<at::Tensor> parts;
    for (size_t i : columns_.vectors) parts.push_back(row.obs[i].flatten(1));
    const auto seen = parts.size() == 1 ? parts[0] : at::cat(parts, 1);
    const auto task = acting_->embedding(request.task);
    request.latent =
        panel_planner_ ? panel_planner_->encode(joined(seen, task)) : acting_->encode(seen, task);
  }
  request.latent = request.latent.to(at::kFloat);
  return request;
}

at::Tensor Tdmpc2::policy_action(const PlanRequest& request, ActMode mode) const {
  Autocast guard(context_.precision, context_.device);
  const auto head = acting_->policy(request.latent, acting_->embedding(request.task));
  const auto mask = request.task.defined()
                        ? at::index_select(plan_options_.action_mask, 0, request.task)
                        : at::Tensor();
  const auto draw = draw_policy(head.to(at::kFloat), drawn(request, false), mask);
  return mode == ActMode::mean ? draw.mean : draw.action;
}

void Tdmpc2::act(Row& row, Carry& carry, ActMode mode, const ActKey& key) {
  c10::InferenceMode guard;
  const bool seeding = mode == ActMode::sample && key.purpose == Purpose::act && seed_steps_ > 0;
  // on a device the count may be known there alone
  const bool known = context_.device.is_cpu() || key.base == nullptr;
  at::Tensor action;
  if (seeding && known && key.now() * context_.rows < seed_steps_) {
    action = drawn(
        {.task = tasks_of(row.obs), .is_first = row.is_first, .key = key, .first_row = row.first},
        true);
  } else {
    const PlanRequest wanted = request(row, carry, mode, key);
    if (options_.mpc) {
      const Plan plan = panel_planner_ ? panel_planner_->plan(wanted)
                        : planner_     ? planner_->plan(wanted)
                                       : reference_->plan(wanted);
      carry.parts[0].copy_(plan.mean);
      action = plan.action;
    } else {
      action = policy_action(wanted, mode);
    }
    if (seeding && !known) {
      const auto steps =
          at::from_blob(const_cast<int64_t*>(key.base), {}, middle_.options().dtype(at::kLong)) +
          key.step;
      action = at::where(steps * context_.rows < seed_steps_, drawn(wanted, true), action);
    }
  }
  row.action.copy_(middle_ + half_ * action);
}

Sequences Tdmpc2::sequences(const Batch& batch) const {
  Sequences s{.action = ((batch.action - middle_) / half_).clamp(-1, 1),
              .reward = batch.reward,
              .terminated = batch.terminated.to(at::kFloat)};
  if (columns_.task >= 0) s.task = tasks_of(batch.obs)[0].contiguous();
  if (shape_.image()) {
    s.obs = batch.obs[size_t(columns_.image)];
  } else {
    std::vector<at::Tensor> parts;
    for (size_t i : columns_.vectors) parts.push_back(batch.obs[i].flatten(2));
    s.obs = parts.size() == 1 ? parts[0] : at::cat(parts, 2);
  }
  return s;
}

void Tdmpc2::update(const Batch& batch, Metrics& metrics) {
  if (first_metric_ < 0) first_metric_ = metrics.declare(figure_names());
  if (panel_learner_) panel_learner_->update(sequences(batch), figures_);
  else learner_->update(sequences(batch), figures_);
  metrics.add(first_metric_, figures_, one_);
}

void Tdmpc2::publish() {
  at::NoGradGuard no_grad;
  acting_params_.data().copy_(state_.params.data());
  if (panel_planner_) panel_planner_->publish(acting_params_.data().const_data_ptr<float>());
  if (planner_) planner_->pack(*acting_, acting_params_.data());
}

void Tdmpc2::visit_state(StateVisitor& visitor) {
  state_.visit(visitor);
  publish();
}

}  // namespace maglev::tdmpc2

namespace maglev::algos::tdmpc2 {

AlgoEntry entry() {
  using maglev::tdmpc2::Options;
  return {.name = "tdmpc2",
          .summary = "a latent world model and planning in it, off-policy, continuous actions",
          .make_options = box_options<Options>,
          .describe = [](OptionTable& t, void* o) { static_cast<Options*>(o)->describe(t); },
          .make = [](const void* o, const AlgoContext& context) -> std::unique_ptr<Algorithm> {
            return std::make_unique<maglev::tdmpc2::Tdmpc2>(*static_cast<const Options*>(o),
                                                            context);
          },
          .plan =
              [](const void* o, const AlgoContext& context) {
                return maglev::tdmpc2::data_plan(*static_cast<const Options*>(o), context);
              },
          .memory =
              [](const void* o, const AlgoContext& context) {
                return maglev::tdmpc2::planned_memory(*static_cast<const Options*>(o), context);
              }};
}

}  // namespace maglev::algos::tdmpc2
