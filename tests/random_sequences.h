#pragma once
// A small Dreamer's learner on sequences of random numbers, for tests that compare two of them.

#include <string>

#include <ATen/ATen.h>

#include "algos/dreamer/learner.h"
#include "engine/host/machine.h"
#include "tests/close.h"

namespace maglev::dreamer {

/// Sizes of a small Dreamer.
struct Setting {
  int64_t B = 6, T = 5, H = 3, side = 16, planes = 3, blocks = 4;
  bool images = false, categories = false, redundancy = false;
  int threads = 1;
  int64_t deter = 24, hidden = 10, units = 12;
  Precision precision = Precision::fp32;
  int64_t shard = 0, micro_batch = 0;
  bool waits = false;   ///< some rows count for nothing
  bool vectors = true;  ///< seen, beside images or alone
  at::Device device = at::kCPU;
  Group* group = nullptr;  ///< B is then what one of it has
};

inline LearnerOptions learner_options(const Setting& setting, ThreadPool& pool) {
  Options o;
  o.deter = setting.deter, o.hidden = setting.hidden, o.units = setting.units;
  o.classes = 4, o.stoch = 5, o.blocks = setting.blocks, o.depth = 4;
  o.batch = setting.B, o.length = setting.T, o.imagination = setting.H;
  o.shard = setting.shard, o.micro_batch = setting.micro_batch;
  if (setting.redundancy) o.objective = Objective::redundancy;
  o.lr = 1e-3, o.warmup = 0, o.free_nats = 0.3;
  EnvSpec spec{.action = {.low = {-1, -1}, .high = {1, 1}}};
  if (setting.vectors) spec.observations.push_back({.name = "vector", .shape = {5}});
  if (setting.images)
    spec.observations.push_back({.name = "image",
                                 .dtype = DType::u8,
                                 .shape = {setting.side, setting.side, setting.planes}});
  if (setting.categories) spec.action = {.heads = {3, 2}};
  return {.options = o,
          .shape = model_shape(o, spec),
          .seed = 7,
          .precision = setting.precision,
          .pool = &pool,
          .group = setting.group};
}

/// Episodes end here and there, and begin at the next step but one. The same on each device.
/// `waits`: a third of the rows counts for nothing.
inline Sequences sequences(const LearnerOptions& o, uint64_t seed, at::Device device = at::kCPU,
                           bool waits = false) {
  at::manual_seed(seed);
  const int64_t T = o.options.length, B = o.options.batch;
  const auto ended = (at::rand({T, B}) < 0.2).to(at::kFloat);
  Sequences s{.is_first = at::zeros({T, B}),
              .action = 2 * at::rand({T, B, o.shape.actions}) - 1,
              .reward = 3 * at::randn({T, B}),
              .terminated = ended * (at::rand({T, B}) < 0.5),
              .ended = ended,
              .deter = at::randn({B, o.shape.deter}).tanh(),
              .stoch = at::randint(0, o.shape.classes, {B, o.shape.stoch}, at::kByte)};
  s.is_first.narrow(0, 1, T - 1).copy_(ended.narrow(0, 0, T - 1));
  s.is_first[0][0] = 1;
  if (o.shape.vector > 0) s.seen.vector = at::randn({T, B, o.shape.vector});
  if (o.shape.channels > 0)
    s.seen.image =
        at::randint(0, 256, {T, B, o.shape.height, o.shape.width, o.shape.channels}, at::kByte);
  if (waits) {
    s.weight = (at::rand({T, B}) < 0.67).to(at::kFloat);
    s.weight.mul_(double(T * B) / s.weight.sum());
  }
  for (auto* t : {&s.is_first, &s.action, &s.reward, &s.terminated, &s.ended, &s.deter, &s.stoch,
                  &s.weight, &s.seen.vector, &s.seen.image})
    if (t->defined()) *t = t->to(device);
  return s;
}

/// A learner and what it changes, from the same weights each time; none is 0, as some are at first.
template <class Learner>
struct Made {
  explicit Made(const Setting& setting)
      : pool((claim_threads(), setting.threads)),
        options(learner_options(setting, pool)),
        state(options.options, options.shape, 7, setting.device),
        learner(options, state),
        figures(at::zeros({int64_t(kFigures)}, setting.device)) {
    at::manual_seed(11);
    at::Tensor data = state.params.data();
    data.add_(at::randn(data.sizes()).to(setting.device), 0.05);
    // rewards and values of the size they have once they are learned: far bins are unlikely
    for (const char* head : {"reward", "value"}) {
      auto bias = state.networks->named_parameters()[std::string(head) + ".out.bias"].detach();
      bias.sub_(at::linspace(-30, 30, kBins).abs().to(setting.device));
    }
    state.begin_slow_value();
    at::Tensor slow = state.slow_params.data();
    slow.add_(at::randn(slow.sizes()).to(setting.device), 0.02);
    state.updates.fill_(5);
    // large second moments make a step nearly linear in the gradient
    state.optimizer.second_moment().fill_(1e-2);
  }

  ThreadPool pool;
  LearnerOptions options;
  LearnerState state;
  Learner learner;
  at::Tensor figures;
};

/// Lengths of the sums on the longest way from a weight to its gradient: every step's recurrent
/// model, a dream and a head behind the last one, there and back, then the sum over all rows.
inline Tolerance gradient_rounding(const LearnerOptions& o, const Networks& networks) {
  const int64_t rows = o.options.length * o.options.batch * o.options.imagination;
  const int64_t steps = o.options.length + o.options.imagination;
  return Tolerance::of_sums(2 * steps * sums_of(*networks.rssm) + sums_of(networks) + rows);
}

}  // namespace maglev::dreamer
