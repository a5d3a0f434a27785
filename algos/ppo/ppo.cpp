#include "algos/ppo/ppo.h"

#include <cmath>
#include <cstdio>

#include "algos/ppo/fused_learner.h"
#include "algos/ppo/reference_learner.h"
#include "algos/ppo/sizes.h"

namespace maglev::ppo {
namespace {

std::unique_ptr<Learner> make_learner(const Options& options, const AlgoContext& context,
                                      PpoPolicy& policy, LearnerState& state) {
  if (options.fused) return std::make_unique<FusedLearner>(options, context, policy, state);
  return std::make_unique<ReferenceLearner>(options, context, policy, state);
}

/// What people should know of bounds that a Gaussian about 0 hardly falls within.
std::string note_of_bounds(const ActionSpec& action, double log_std) {
  const double deviation = std::exp(log_std);
  for (size_t d = 0; d < action.low.size(); ++d) {
    const double low = action.low[d], high = action.high[d], half = (high - low) / 2;
    if (!std::isfinite(half) || high <= low) continue;
    // beside all of them, in a sliver of what is drawn, or so far apart that it stays in the middle
    constexpr double kSliver = 0.05, kWide = 20;
    if (low < deviation && high > -deviation && half > kSliver * deviation &&
        half < kWide * deviation)
      continue;
    const bool wide = half >= kWide * deviation && low < 0 && high > 0;
    char text[256];
    std::snprintf(text, sizeof text,
                  "ppo draws actions about 0 with deviation %.3g at first and clips them to the "
                  "environment's bounds, of which [%g, %g] of dimension %zu fit that badly: %s",
                  deviation, low, high, d,
                  wide ? "a larger ppo.network.log_std, or actions scaled to [-1, 1]"
                       : "scale its actions to [-1, 1]");
    return text;
  }
  return "";
}

}  // namespace

Ppo::Ppo(const Options& options, const AlgoContext& context)
    : plan_(planned_data(options, context)),
      policy_(options, context),
      state_(options, context, policy_),
      learner_(make_learner(options, context, policy_, state_)) {
  options.check(context.rows * context.processes);
  if (options.leash > 0) leash_ = std::make_unique<Leash>(options, context);
  note_ = joined_notes(note_of_bounds(context.spec.action, options.network.log_std),
                       policy_.network().note());
}

void Ppo::update(const Batch& batch, Metrics& metrics) {
  learner_->update(leash_ ? leash_->applied(batch, metrics) : batch, metrics);
}

void Ppo::visit_state(StateVisitor& visitor) {
  policy_.visit_state(visitor);
  state_.visit(visitor);
  if (leash_) visitor.section("leash", [&](StateVisitor& v) { leash_->visit_state(v); });
}

void Ppo::follow_networks() {
  if (leash_) leash_->hold(policy_);
}

}  // namespace maglev::ppo

namespace maglev::algos::ppo {

AlgoEntry entry() {
  using maglev::ppo::Options;
  return {
      .name = "ppo",
      .summary = "proximal policy optimisation, on-policy actor-critic",
      .make_options = box_options<Options>,
      .describe = [](OptionTable& t, void* o) { static_cast<Options*>(o)->describe(t); },
      .make = [](const void* o, const AlgoContext& context) -> std::unique_ptr<Algorithm> {
        return std::make_unique<maglev::ppo::Ppo>(*static_cast<const Options*>(o), context);
      },
      .make_policy = [](const void* o, const AlgoContext& context) -> std::unique_ptr<Policy> {
        return std::make_unique<maglev::ppo::PpoPolicy>(*static_cast<const Options*>(o), context);
      },
      .plan =
          [](const void* o, const AlgoContext& context) {
            return maglev::ppo::planned_data(*static_cast<const Options*>(o), context);
          },
      .memory =
          [](const void* o, const AlgoContext& context) {
            return maglev::ppo::planned_memory(*static_cast<const Options*>(o), context);
          },
      .policy_memory =
          [](const void* o, const AlgoContext& context) {
            return maglev::ppo::planned_policy_memory(*static_cast<const Options*>(o), context);
          },
      .work =
          [](const void* o, const AlgoContext& context) {
            return maglev::ppo::planned_work(*static_cast<const Options*>(o), context);
          },
      .check = [](const void* o, const EnvSpec&,
                  int64_t rows) { static_cast<const Options*>(o)->check(rows); },
      .idle = [](const void* o, const AlgoContext& context,
                 std::string_view setting) -> std::string {
        const auto& options = *static_cast<const Options*>(o);
        if (setting == "shard_rows" && maglev::ppo::learns_on_panels(options, context))
          return "fully connected networks learn on panels of 64 rows";
        return options.idle(setting, context.spec);
      },
      .serves_for = {{{"a2c", "a3c", "trpo", "reinforce", "impala", "appo"},
                      "learns from its own steps, any actions"}},
      .small = {.env = "cartpole",
                .settings = {"env.count=24", "ppo.rollout=16", "ppo.minibatch=96", "ppo.epochs=2",
                             "ppo.network.hidden=[16]", "ppo.lr_end=0.1"}}};
}

}  // namespace maglev::algos::ppo
