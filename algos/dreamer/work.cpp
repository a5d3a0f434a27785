#include "algos/dreamer/work.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <initializer_list>
#include <memory>

#include "algos/dreamer/dreamer.h"
#include "algos/dreamer/fused/learner.h"
#include "algos/dreamer/model_shape.h"
#include "algos/dreamer/networks.h"
#include "algos/dreamer/policy.h"
#include "algos/dreamer/tried.h"

namespace maglev::dreamer {
namespace {

// share of the multiply-add peak that products reach: an update's in shards, images' convolutions
// in them, all by autograd, and those of the few rows that act; fitted (docs/planning.md)
constexpr double kShardReach = 0.55, kImageReach = 1, kLibraryReach = 0.3, kActReach = 0.3;
// operations of acting, and what a processor's update hands to threads
constexpr double kActLaunches = 60, kHandOffs = 12;
// of an update on a device (docs/dreamer.md): a replayed step, there and back, and a dreamt one
constexpr int64_t kReplayedLaunches = 24, kDreamtLaunches = 23;
// steps of sequences that an update is tried out with, as many as these operations allow: a second
// or two; and at least so many
constexpr double kMostTried = 1e11;
constexpr int64_t kMostSteps = 16, kLeastSteps = 2;
// elements of a window of a convolution
constexpr double kWindowPlaces = 25;
// norms and activations of images are done where the convolution left them: as dear as one in so
// many
constexpr double kInPassing = 8;

double macs_of_layers(std::initializer_list<int64_t> widths) {
  double macs = 0;
  for (auto it = widths.begin(); it + 1 != widths.end(); ++it) macs += double(*it * *(it + 1));
  return macs;
}

// multiply-adds of one image on its way in; the way out has as many
double macs_of_convolutions(const ModelShape& s) {
  double macs = 0;
  int64_t channels = s.channels;
  for (int64_t i = 0; i < s.stages() && s.channels > 0; ++i) {
    macs += double(s.places_at(i)) * kWindowPlaces * double(channels * s.stage_channels(i));
    channels = s.stage_channels(i);
  }
  return macs;
}

/// Of one row each: multiply-adds, and values that pass a norm, an activation or a class's
/// logarithm.
struct PartCosts {
  double encoder, decoder, core, posterior, prior, policy, value, reward, going_on;
};

PartCosts macs_of(const ModelShape& s) {
  const int64_t F = s.feature(), U = s.units, width = s.deter / s.blocks;
  PartCosts row{};
  if (s.vector > 0) row.encoder += macs_of_layers({s.vector, U, U, U});
  row.encoder += macs_of_convolutions(s);
  if (s.decodes) {
    if (s.vector > 0) row.decoder += macs_of_layers({F, U, U, U, s.vector});
    if (s.channels > 0)
      row.decoder += macs_of_convolutions(s) + double(s.deter * s.image_token() / s.blocks) +
                     macs_of_layers({s.flat_stoch(), 2 * U, s.image_token()});
  } else {
    row.decoder = macs_of_layers({F, s.token()});
  }
  row.core = double(s.hidden * (F + s.actions)) + double(s.deter * (width + 3 * s.hidden)) +
             double(3 * s.deter * width);
  row.posterior = macs_of_layers({s.deter + s.token(), s.hidden, s.flat_stoch()});
  row.prior = macs_of_layers({s.deter, s.hidden, s.hidden, s.flat_stoch()});
  row.policy = macs_of_layers({F, U, U, U, s.policy_head()});
  row.value = macs_of_layers({F, U, U, U, kBins});
  row.reward = macs_of_layers({F, U, kBins});
  row.going_on = macs_of_layers({F, U, 1});
  return row;
}

PartCosts values_of(const ModelShape& s) {
  double image = 0;
  for (int64_t i = 0; i < s.stages() && s.channels > 0; ++i)
    image += double(s.places_at(i) * s.stage_channels(i)) / kInPassing;
  // a norm and SiLU are two of each unit
  const double U = double(s.units), mlp = 2 * double(kLayers) * U, vector = s.vector > 0 ? mlp : 0;
  PartCosts row{};
  row.encoder = vector + image;
  row.decoder = s.decodes ? vector + image : double(s.token());
  row.core = 6 * double(s.hidden) + 6 * double(s.deter);
  row.posterior = 2 * double(s.hidden) + 4 * double(s.flat_stoch());
  row.prior = 4 * double(s.hidden) + 4 * double(s.flat_stoch());
  row.policy = mlp + 4 * double(s.policy_head());
  row.value = mlp + 2 * double(kBins);
  row.reward = 2 * U + 2 * double(kBins);
  row.going_on = 2 * U + 1;
  return row;
}

// of an update: forward, and twice as much on the way back
double update_sum(const Options& o, const PartCosts& r) {
  const double N = double(o.batch * o.length), H = double(o.imagination);
  return 3 * N * (r.encoder + r.decoder + r.core + r.posterior + r.prior) +
         N * H * (r.core + r.prior) + N * (H + 1) * (r.policy + r.reward + r.going_on + r.value) +
         N * H * r.value + 2 * N * (r.reward + r.going_on + r.value) +
         2 * N * H * (r.policy + r.value);
}

}  // namespace

int64_t update_launches(const Options& o, const ModelShape& s) {
  // heads, losses and gradients; what a vector takes on its way in and out; images, and a
  // convolution of theirs. Without a decoder: the way in, and the agreement
  struct Parts {
    int64_t all, vector, image, convolution;
  };
  const Parts parts = s.decodes ? Parts{251, 169, 53, 48} : Parts{313, 76, 3, 24};
  int64_t launches = kReplayedLaunches * o.length + kDreamtLaunches * o.imagination + parts.all;
  if (s.vector > 0) launches += parts.vector;
  if (s.channels > 0) launches += parts.image + parts.convolution * s.stages();
  return launches;
}

std::vector<StageWork> planned_work(const Options& options, const AlgoContext& context) {
  const Options o = options.share_of(context.processes);
  const ModelShape shape = model_shape(o, context.spec);
  const DataPlan data = data_plan(options, context);
  const bool device = context.device.is_cuda();
  const bool fused = use_fused(o);
  const double rows = double(context.rows), steps = double(data.collect_steps);
  const double updates = steps * rows * double(context.processes) * data.replay->updates_per_step;
  const double size = double(parameter_count(shape));
  const PartCosts macs = macs_of(shape), elements = values_of(shape);
  // where kernels take images, on a processor, their convolutions reach more than the rest
  const double images =
      fused && shape.fused_images && !device
          ? 3 * double(o.batch * o.length) * macs_of_convolutions(shape) * (shape.decodes ? 2 : 1)
          : 0;
  // heads that learn from dreams ask for no gradient of what they see
  const double dreamt = double(o.batch * o.length * o.imagination);
  const double products = update_sum(o, macs) - 2 * dreamt * double(shape.feature() * shape.units);
  const double reach =
      fused ? products / ((products - images) / kShardReach + images / kImageReach) : kLibraryReach;
  const auto acting = [](const PartCosts& r) {
    return r.encoder + r.core + r.posterior + r.policy;
  };
  const double blocks = std::ceil(rows / double(data.block_rows));
  // parameters, gradients by shards, moments, slow and acting copies
  const double shards = fused ? double(shard_count(o, context.device)) : 1;
  const double touched = 4 * (10 + 2 * shards);
  std::function<double()> trial;
  const double of_step = 2 * products / double(o.length);
  const int64_t tried = std::min({o.length, kMostSteps, int64_t(kMostTried / of_step)});
  if (fused && !device && tried >= kLeastSteps)
    trial = [update = std::make_shared<TriedUpdate>(o, tried, context), of_step, tried] {
      update->run();
      return of_step * double(tried);
    };
  return {{.name = "act",
           .flops = 2 * acting(macs) * rows * steps,
           .reach = kActReach,
           .elements = acting(elements) * rows * steps,
           .launches = steps * kActLaunches * (device ? 1 : blocks),
           .threads = blocks},
          {.name = "update",
           .flops = 2 * products * updates,
           .reach = reach,
           .elements = update_sum(o, elements) * updates,
           .trial = trial,
           .launches = updates * (device || !fused ? double(update_launches(o, shape)) : kHandOffs),
           .threads = fused ? shards : std::numeric_limits<double>::infinity()},
          {.name = "optimiser",
           .elements = 4 * size * updates,
           .bytes = touched * size * updates,
           .launches = updates * 4}};
}

}  // namespace maglev::dreamer
