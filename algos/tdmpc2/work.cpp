#include "algos/tdmpc2/work.h"

#include <algorithm>
#include <cmath>

#include "algos/tdmpc2/learner.h"
#include "algos/tdmpc2/model_shape.h"
#include "algos/tdmpc2/policy.h"
#include "algos/tdmpc2/tdmpc2.h"
#include "base/simd/panel.h"

namespace maglev::tdmpc2 {
namespace {

// share of the multiply-add peak that products of plans and updates reach, fitted
// (docs/planning.md); updates by autograd multiply with a library's products
constexpr double kPlanReach = 0.85, kPanelReach = 0.7, kLibraryReach = 0.35;
// launches of an update for draws, losses and figures, besides layers (tests/emulation/tdmpc2_test)
constexpr double kLossLaunches = 75;
// of a plan before its rounds and behind them; of a round for samples, the pair of value networks,
// totals and elites
constexpr double kPlanLaunches = 5, kRoundLaunches = 4;
// value networks of a pair
constexpr double kDrawn = 2;
// blocks a plan's round and an update hand to threads
constexpr double kRoundHandOffs = 2, kUpdateHandOffs = 8;
// strides of the encoder's convolutions are 2, the last's 1; images of kImageSide
constexpr double kStride = 2;

/// Of one row: operations, and values that pass a norm or an activation.
struct PassCost {
  double flops = 0, elements = 0, launches = 0;
  PassCost operator*(double times) const {
    return {flops * times, elements * times, launches * times};
  }
  PassCost operator+(const PassCost& o) const {
    return {flops + o.flops, elements + o.elements, launches + o.launches};
  }
};

PassCost pass_of(const MlpPlaces& net) {
  PassCost pass;
  double side = double(kImageSide);
  for (size_t i = 0; i < net.size(); ++i) {
    const LayerPlace& layer = net[i];
    double places = 1;
    if (layer.kernel > 0) {
      const double stride = i + 1 < net.size() ? kStride : 1;
      side = std::floor((side - double(layer.kernel)) / stride) + 1;
      places = side * side;
    }
    // a norm and what follows it are two; a product and what follows it two launches
    pass = pass + PassCost{2 * places * double(layer.in) * double(layer.out),
                           (layer.normed ? 2 : 1) * places * double(layer.out), 2};
  }
  return pass;
}

PassCost plan_pass(const Options& o, const ModelShape& s, const ModelLayout& l) {
  const double H = double(o.horizon), S = double(o.samples), P = double(o.policy_trajectories);
  const double I = double(plan_iterations(o, s.actions));
  PassCost step = pass_of(l.dynamics) + pass_of(l.reward);
  if (s.episodic) step = step + pass_of(l.termination);
  const PassCost policy = pass_of(l.policy), end = policy + pass_of(l.q.front()) * kDrawn;
  // the first step's latent is the same for all samples: its product is taken once
  const PassCost shared{2 * double(s.latent) *
                        double(s.hidden.dynamics.front() + s.hidden.reward.front())};
  PassCost sum = pass_of(l.encoder) + (policy + step) * (P * H) + step * (I * (S - P) * H) +
                 end * (I * S) + shared * (-I * (S - P));
  sum.launches =
      pass_of(l.encoder).launches +
      (o.prune ? plan_launches(o, s)
               : (policy.launches + step.launches) * H + I * (step.launches * H + end.launches));
  return sum;
}

// launches of the hidden layers of networks that read the same: one product of all first layers,
// then ends and products, which those of the same widths share
double hidden_launches(const std::vector<std::vector<int64_t>>& networks) {
  double launches = 1;
  for (size_t i = 0; i < networks.size(); ++i)
    if (i == 0 || networks[i] != networks[i - 1]) launches += 2 * double(networks[i].size()) - 1;
  return launches;
}

// launches of the device's learner: a layer's two each way, and two for what its parameters get
double device_launches(const Options& o, const ModelShape& s, const ModelLayout& l) {
  const auto way = [](const MlpPlaces& net) { return pass_of(net).launches; };
  const double heads = way(l.reward) + way(l.q.front()) + (s.episodic ? way(l.termination) : 0);
  // only the dynamics go step by step; targets are found on the way there alone
  const double model = way(l.dynamics) * (2 * double(o.horizon) + 1) + 3 * (way(l.encoder) + heads);
  const double targets = way(l.policy) + way(l.q.front());
  const double prior = 3 * way(l.policy) + 2 * way(l.q.front());
  return model + targets + prior + kLossLaunches;
}

PassCost update_pass(const Options& o, const ModelShape& s, const ModelLayout& l) {
  const double H = double(o.horizon), B = double(o.batch);
  const PassCost policy = pass_of(l.policy), q = pass_of(l.q.front());
  PassCost heads = pass_of(l.dynamics) + pass_of(l.reward) + q * double(s.num_q);
  if (s.episodic) heads = heads + pass_of(l.termination);
  const PassCost targets = (pass_of(l.encoder) + policy + q * kDrawn) * (H * B);
  const PassCost model = (pass_of(l.encoder) + heads * H) * (3 * B);
  const PassCost prior = (policy * 3 + q * (2 * kDrawn)) * ((H + 1) * B);
  PassCost sum = targets + model + prior;
  sum.launches = 3 * ((heads.launches + policy.launches) * H + pass_of(l.encoder).launches);
  return sum;
}

// bytes that weights' gradients read once all panels are through: what entered each layer that
// learns, and the gradient of what left it
double kept_bytes(const Options& o, const ModelShape& s, const ModelLayout& l) {
  const double H = double(o.horizon), B = double(o.batch);
  PassCost heads = pass_of(l.dynamics) + pass_of(l.reward) + pass_of(l.q.front()) * double(s.num_q);
  if (s.episodic) heads = heads + pass_of(l.termination);
  const PassCost kept = pass_of(l.encoder) + heads * H + pass_of(l.policy) * (H + 1);
  return 4 * kept.elements * B;
}

}  // namespace

double plan_launches(const Options& o, const ModelShape& s) {
  const HiddenWidths& hidden = s.hidden;
  const double H = double(o.horizon), I = double(plan_iterations(o, s.actions));
  // nobody judges the latent that a plan begins at
  double first = hidden_launches({hidden.dynamics, hidden.reward}), later = first;
  const double policy = hidden_launches({hidden.policy}) + 2;
  double behind = policy;
  if (s.episodic) {
    later = hidden_launches({hidden.dynamics, hidden.reward, hidden.termination}) + 1;
    behind = hidden_launches({hidden.policy, hidden.termination}) + 3;
  }
  // the next latents and their end, the reward and what adds it up
  const double steps = first + (H - 1) * later + 4 * H;
  const double values = 2 * double(hidden.q.size()) + 1;
  return kPlanLaunches + I * (steps + behind + values + kRoundLaunches) +
         (o.policy_trajectories > 0 ? steps + H * policy : 0);
}

std::vector<StageWork> planned_work(const Options& options, const AlgoContext& context) {
  const Options o = options.share_of(context.processes);
  const ModelShape shape = model_shape(o, context.spec);
  const ModelLayout layout = model_layout(shape);
  const DataPlan data = data_plan(options, context);
  const bool device = context.device.is_cuda();
  const double rows = double(context.rows), steps = double(data.collect_steps);
  const double updates = steps * rows * double(context.processes) * o.updates_per_step,
               size = double(layout.size());
  std::vector<StageWork> work;
  const PassCost acting =
      o.mpc ? plan_pass(o, shape, layout) : pass_of(layout.encoder) + pass_of(layout.policy);
  const double rounds = o.mpc ? double(plan_iterations(o, shape.actions)) : 1;
  work.push_back(
      {.name = o.mpc ? "planner" : "act",
       .flops = acting.flops * rows * steps,
       .reach = kPlanReach,
       .elements = acting.elements * rows * steps,
       .launches = steps * (device ? acting.launches : kRoundHandOffs * (rounds + 1)),
       .threads = o.mpc ? rows * std::ceil(double(o.samples) / double(kPanelRows)) : rows});
  const LearnerKind learner =
      learner_kind({.options = o, .shape = shape, .precision = context.precision}, context.device);
  const bool panels = learner == LearnerKind::panels;
  PassCost update = update_pass(o, shape, layout);
  if (learner == LearnerKind::device) update.launches = device_launches(o, shape, layout);
  const double kept = panels ? kept_bytes(o, shape, layout) : 0;
  const double threads = context.pool ? double(context.pool->threads()) : 1;
  work.push_back({.name = "update",
                  .flops = update.flops * updates,
                  .reach = panels ? kPanelReach : kLibraryReach,
                  .elements = update.elements * updates,
                  // weights that others have stepped, gradients that others made, and of each
                  // thread's weights what others' panels kept
                  .shared = (2 * 4 * size + kept * (threads - 1) / (threads * threads)) * updates,
                  .shared_block = 4 * size,
                  .launches = updates * (device || !panels ? update.launches : kUpdateHandOffs),
                  .threads = panels ? std::ceil(double(o.batch) / double(kPanelRows))
                                    : std::numeric_limits<double>::infinity()});
  // parameters, gradients, moments, targets and what is published
  constexpr double kTouched = 4 * 10;
  work.push_back({.name = "optimiser",
                  .elements = 3 * size * updates,
                  .bytes = kTouched * size * updates,
                  .launches = updates * 4});
  return work;
}

}  // namespace maglev::tdmpc2
