#include "algos/tdmpc2/tdmpc2.h"

#include <algorithm>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <c10/core/InferenceMode.h>

#include "algos/tdmpc2/memory.h"
#include "algos/tdmpc2/work.h"

namespace maglev::tdmpc2 {

DataPlan data_plan(const Options& o, const AlgoContext& context) {
  const int64_t rows = context.rows * context.processes;
  const int64_t seed = seed_steps(o, context.spec, rows);
  ReplayPlan replay{.capacity = o.capacity,
                    .batch = o.batch,
                    .length = o.horizon,
                    .sampling = o.sampling,
                    .first_steps = seed,
                    .first_updates = int64_t(double(seed) * o.updates_per_step),
                    .updates_per_step = o.updates_per_step,
                    .update_every = o.update_every};
  return {.collect_steps = std::max<int64_t>(1, o.update_every / std::max<int64_t>(1, rows)),
          .block_rows = block_rows(o, model_shape(o, context.spec), context),
          .replay = replay,
          .overlap = true,
          .capturable = may_be_captured(o, context.device),
          .shares = true,
          .precisions = {Precision::bf16}};
}

Tdmpc2::Tdmpc2(const Options& options, const AlgoContext& context)
    : plan_(data_plan(options, context)),
      policy_(options, context, Initializer::none()),
      state_(options, policy_.shape(), context.seed, context.device) {
  const LearnerOptions learner{.options = options.share_of(context.processes),
                               .shape = policy_.shape(),
                               .seed = context.seed,
                               .discount = policy_.plan_settings().discount,
                               .action_mask = policy_.plan_settings().action_mask,
                               .precision = context.precision,
                               .pool = context.pool,
                               .group = context.group};
  learner_ = made_learner(learner, state_);
  if (const std::string why = why_reference(learner, context.device); !why.empty())
    note_ = "tdmpc2 learns by autograd, which is slower: " + why;
  figures_ = at::zeros({int64_t(kFigures)}, state_.grad.options());
  one_ = at::ones({}, state_.grad.options());
  publish();
}

Sequences Tdmpc2::sequences(const Batch& batch) const {
  const Columns& columns = policy_.columns();
  Sequences s{.obs = columns.seen(batch.obs, 2),
              .action = columns.to_model(batch.action),
              .reward = batch.reward,
              .terminated = batch.terminated.to(at::kFloat)};
  // a sequence is of one task throughout
  if (const at::Tensor task = columns.task(batch.obs); task.defined())
    s.task = task[0].contiguous();
  return s;
}

void Tdmpc2::update(const Batch& batch, Metrics& metrics) {
  if (first_metric_ < 0) first_metric_ = metrics.declare(figure_names());
  learner_->update(sequences(batch), figures_);
  metrics.add(first_metric_, figures_, one_);
  metrics.passed(0);
}

}  // namespace maglev::tdmpc2

namespace maglev::algos::tdmpc2 {

AlgoEntry entry() {
  using maglev::tdmpc2::Options;
  return {
      .name = "tdmpc2",
      .summary = "a latent world model and planning in it, off-policy, continuous actions",
      .make_options = box_options<Options>,
      .describe = [](OptionTable& t, void* o) { static_cast<Options*>(o)->describe(t); },
      .make = [](const void* o, const AlgoContext& context) -> std::unique_ptr<Algorithm> {
        return std::make_unique<maglev::tdmpc2::Tdmpc2>(*static_cast<const Options*>(o), context);
      },
      .make_policy = [](const void* o, const AlgoContext& context) -> std::unique_ptr<Policy> {
        return std::make_unique<maglev::tdmpc2::Tdmpc2Policy>(*static_cast<const Options*>(o),
                                                              context, Initializer(context.seed));
      },
      .plan =
          [](const void* o, const AlgoContext& context) {
            return maglev::tdmpc2::data_plan(*static_cast<const Options*>(o), context);
          },
      .memory =
          [](const void* o, const AlgoContext& context) {
            return maglev::tdmpc2::planned_memory(*static_cast<const Options*>(o), context);
          },
      .policy_memory =
          [](const void* o, const AlgoContext& context) {
            return maglev::tdmpc2::policy_memory(*static_cast<const Options*>(o), context);
          },
      .work =
          [](const void* o, const AlgoContext& context) {
            return maglev::tdmpc2::planned_work(*static_cast<const Options*>(o), context);
          },
      .check = [](const void* o, const EnvSpec&,
                  int64_t) { static_cast<const Options*>(o)->check(); },
      .idle = [](const void* o, const AlgoContext& context,
                 std::string_view setting) -> std::string {
        const auto& options = *static_cast<const Options*>(o);
        if (setting == "micro_batch" &&
            maglev::tdmpc2::learner_kind(
                {.options = options,
                 .shape = maglev::tdmpc2::model_shape(options, context.spec),
                 .precision = context.precision},
                context.device) == maglev::tdmpc2::LearnerKind::panels)
          return "on panels each thread learns from a panel of sequences at a time";
        return options.idle(setting, context.spec);
      },
      .exported = {.settings = {"tdmpc2.mpc=false", "tdmpc2.image_shift=0"},
                   .note = "the policy prior's mean; planning is not exported, so that such a "
                           "policy is tdmpc2.mpc=false",
                   .amplifies = true},
      .serves_for = {{{"sac"},
                      "learns continuous actions from a replay, and SAC itself is an example to "
                      "copy, examples/algos/sac"},
                     {{"ddpg", "td3", "tqc", "redq", "droq", "crossq", "mpo"},
                      "learns continuous actions from a replay"},
                     {{"muzero", "efficientzero", "alphazero"},
                      "plans continuous actions in a model, and dreamer learns any actions in "
                      "one"}},
      .small = {.env = "pendulum",
                .settings = {"env.count=8", "tdmpc2.enc_dim=32", "tdmpc2.mlp_dim=32",
                             "tdmpc2.latent_dim=16", "tdmpc2.num_q=2", "tdmpc2.samples=24",
                             "tdmpc2.elites=6", "tdmpc2.policy_trajectories=4", "tdmpc2.batch=32",
                             "tdmpc2.update_every=560", "tdmpc2.seed_steps=1680",
                             "tdmpc2.updates_per_step=0.01"}}};
}

}  // namespace maglev::algos::tdmpc2
