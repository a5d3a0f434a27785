#include "algos/dreamer/dreamer.h"

#include <algorithm>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "algos/dreamer/dreams.h"
#include "algos/dreamer/fused/learner.h"
#include "algos/dreamer/memory.h"
#include "algos/dreamer/reference/learner.h"
#include "algos/dreamer/row_weights.h"
#include "algos/dreamer/work.h"
#include "kernels/products/products_op.h"

namespace maglev::dreamer {

namespace {

// bf16 where there are such products: the fused learner's
std::vector<Precision> offered_precisions(const Options& o, const AlgoContext& context) {
  if (!products_in_bf16(context.device)) return {};
  return use_fused(o) ? std::vector{Precision::bf16} : std::vector<Precision>{};
}

// what gives threads without a shard one
std::string shared_by_threads(const Options& o, const AlgoContext& context) {
  if (!context.pool) return "";
  return for_more_threads(o.share_of(context.processes), context.pool->threads(), context.device);
}

}  // namespace

DataPlan data_plan(const Options& o, const AlgoContext& context) {
  const int64_t steps = o.batch * o.length, rows = context.rows * context.processes;
  ReplayPlan replay{.capacity = o.capacity,
                    .batch = o.batch,
                    .length = o.length,
                    .crossing = true,
                    .first_steps = o.first_steps > 0 ? o.first_steps : steps,
                    .updates_per_step = o.train_ratio / double(steps),
                    .update_every = o.update_every};
  return {.collect_steps = std::max<int64_t>(1, o.update_every / std::max<int64_t>(1, rows)),
          .columns = state_columns(model_shape(o, context.spec)),
          .block_rows = block_rows(context),
          .for_more_threads = shared_by_threads(o, context),
          .replay = replay,
          .overlap = true,
          .capturable = !context.device.is_cpu(),
          .shares = true,
          .precisions = offered_precisions(o, context)};
}

namespace {

std::unique_ptr<Learner> make_learner(const LearnerOptions& o, LearnerState& state) {
  if (use_fused(o.options)) return std::make_unique<FusedLearner>(o, state);
  return std::make_unique<ReferenceLearner>(o, state);
}

}  // namespace

Dreamer::Dreamer(const Options& options, const AlgoContext& context)
    : plan_(data_plan(options, context)),
      objective_(options.objective),
      ends_apart_(context.spec.ends_apart),
      group_(context.group),
      policy_(options, context, Initializer::none()),
      state_(options, policy_.shape(), context.seed, context.device),
      learner_(make_learner({.options = options.share_of(context.processes),
                             .shape = policy_.shape(),
                             .seed = context.seed,
                             .precision = context.precision,
                             .pool = context.pool,
                             .group = context.group},
                            state_)),
      figures_(at::zeros({int64_t(kFigures)}, state_.grad.options())),
      one_(at::ones({}, state_.grad.options())) {
  publish();
}

Sequences Dreamer::sequences(const Batch& batch) const {
  // row 0 is context: its states are where the sequence begins, and its step led to row 1
  const Observation all = policy_.columns().seen(batch.obs, 2);
  const int64_t T = batch.reward.size(0);
  const auto later = [T](const at::Tensor& x) { return x.defined() ? x.narrow(0, 1, T) : x; };
  const auto ended = batch.terminated.logical_or(batch.truncated);
  return {.seen = {later(all.image), later(all.vector)},
          .is_first = later(batch.is_first).to(at::kFloat),
          .action = policy_.columns().to_model(batch.action),
          .reward = batch.reward,
          .terminated = batch.terminated.to(at::kFloat),
          .ended = ended.to(at::kFloat),
          .deter = batch.extra[kDeterColumn][0],
          .stoch = batch.extra[kStochColumn][0],
          .weight = ends_apart_ ? row_weights(batch.is_first, group_) : at::Tensor()};
}

void Dreamer::update(const Batch& batch, Metrics& metrics) {
  if (first_metric_ < 0) first_metric_ = metrics.declare(figure_names(objective_));
  const StoredLatents latents = learner_->update(sequences(batch), figures_);
  // the replay takes back the states of rows 1 to T - 1; row T may not have been acted on yet
  const int64_t stored = batch.reward.size(0) - 1;
  at::NoGradGuard no_grad;
  // but those that are no numbers: a sequence would begin there again
  const auto sound = latents.deter.narrow(0, 0, stored).isfinite().all(-1, /*keepdim=*/true);
  const auto store = [&](StateColumn column, const at::Tensor& states) {
    at::Tensor kept = batch.extra[column].narrow(0, 1, stored);
    kept.copy_(at::where(sound, states.narrow(0, 0, stored), kept));
  };
  store(kDeterColumn, latents.deter);
  store(kStochColumn, latents.stoch);
  metrics.add(first_metric_, figures_, one_);
  metrics.passed(0);
}

}  // namespace maglev::dreamer

namespace maglev::algos::dreamer {

AlgoEntry entry() {
  using maglev::dreamer::Options;
  return {
      .name = "dreamer",
      .summary = "a recurrent world model and an actor that learns in what it imagines, off-policy",
      .make_options = box_options<Options>,
      .describe = [](OptionTable& t, void* o) { static_cast<Options*>(o)->describe(t); },
      .make = [](const void* o, const AlgoContext& context) -> std::unique_ptr<Algorithm> {
        return std::make_unique<maglev::dreamer::Dreamer>(*static_cast<const Options*>(o), context);
      },
      .make_policy = [](const void* o, const AlgoContext& context) -> std::unique_ptr<Policy> {
        return std::make_unique<maglev::dreamer::DreamerPolicy>(*static_cast<const Options*>(o),
                                                                context, Initializer(context.seed));
      },
      .plan =
          [](const void* o, const AlgoContext& context) {
            return maglev::dreamer::data_plan(*static_cast<const Options*>(o), context);
          },
      .memory =
          [](const void* o, const AlgoContext& context) {
            return maglev::dreamer::planned_memory(*static_cast<const Options*>(o), context);
          },
      .policy_memory =
          [](const void* o, const AlgoContext& context) {
            return maglev::dreamer::policy_memory(*static_cast<const Options*>(o), context);
          },
      .work =
          [](const void* o, const AlgoContext& context) {
            return maglev::dreamer::planned_work(*static_cast<const Options*>(o), context);
          },
      .check = [](const void* o, const EnvSpec&,
                  int64_t) { static_cast<const Options*>(o)->check(); },
      .idle = [](const void* o, const AlgoContext& context,
                 std::string_view setting) -> std::string {
        if ((setting == "fused_images" || setting == "shard") && context.device.is_cuda())
          return "it is for a processor";
        return static_cast<const Options*>(o)->idle(setting, context.spec);
      },
      .make_imagination = [](const void* o,
                             const AlgoContext& context) -> std::unique_ptr<Imagination> {
        return std::make_unique<maglev::dreamer::Dreams>(*static_cast<const Options*>(o), context);
      },
      .exported = {.note = "its state is drawn in every mode: give uniform numbers in (0, 1) as "
                           "noise, and 1 as is_first where an episode begins",
                   .amplifies = true},
      .serves_for = {{{"dqn", "ddqn", "c51", "qrdqn", "iqn", "rainbow"},
                      "learns categories from a replay"}},
      .small = {.env = "pendulum",
                .settings = {"env.count=8", "dreamer.deter=16", "dreamer.hidden=8",
                             "dreamer.classes=4", "dreamer.depth=2", "dreamer.units=8",
                             "dreamer.stoch=4", "dreamer.imagination=3", "dreamer.batch=4",
                             "dreamer.length=6", "dreamer.lr=0.001", "dreamer.warmup=2",
                             "dreamer.update_every=64", "dreamer.train_ratio=0.75"}}};
}

}  // namespace maglev::algos::dreamer
