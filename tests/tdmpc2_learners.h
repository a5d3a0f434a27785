#pragma once
// Small TD-MPC2 learners on sequences of random numbers, for tests that compare two of them.

#include <utility>
#include <vector>

#include <ATen/ATen.h>

#include <gtest/gtest.h>

#include "algos/tdmpc2/learner.h"
#include "algos/tdmpc2/numbers.h"
#include "algos/tdmpc2/plan.h"
#include "engine/host/machine.h"
#include "tests/close.h"
#include "tests/limited_memory.h"
#include "tests/unlike_widths.h"

namespace maglev::tdmpc2 {

/// Sizes of a small TD-MPC2.
struct Setting {
  int64_t B = 70, H = 3;
  bool episodic = true;
  double dropout = 0.1;
  int threads = 1;
  int64_t alignment = 1;
  Precision precision = Precision::fp32;
  bool images = false, tasks = false;  ///< at most one of them; neither is of panels
  at::Device device = at::kCPU;
  int64_t micro_batch = 0;
  Group* group = nullptr;  ///< B is then what one of it has
  HiddenWidths hidden = {};
  EntropyOf entropy_of = EntropyOf::gaussian;
};

inline LearnerOptions learner_options(const Setting& setting, ThreadPool& pool) {
  Options o;
  o.micro_batch = setting.micro_batch;
  o.enc_dim = 24, o.mlp_dim = 40, o.latent_dim = 16, o.num_q = 3, o.hidden = setting.hidden;
  o.batch = setting.B, o.horizon = setting.H, o.dropout = setting.dropout;
  o.episodic = setting.episodic;
  // so much that a gradient which lacks its part shows
  o.entropy_of = setting.entropy_of,
  o.entropy_coef = o.entropy_of == EntropyOf::action ? 0.1 : o.entropy_coef;
  EnvSpec spec{.observations = {{.name = "vector", .shape = {5}}},
               .action = {.low = {-1, -1, -1}, .high = {1, 1, 1}},
               .max_steps = 100};
  if (setting.images)
    spec.observations = {
        {.name = "image", .dtype = DType::u8, .shape = {kImageSide, kImageSide, 3}}};
  if (setting.tasks) {
    spec.observations.push_back({.name = "task", .shape = {1}});
    spec.tasks = {{.name = "wide", .obs_dims = 5, .action_dims = 3, .max_steps = 100},
                  {.name = "narrow", .obs_dims = 4, .action_dims = 2, .max_steps = 50}};
  }
  ModelShape shape = model_shape(o, spec);
  shape.alignment = setting.alignment;
  return {.options = o,
          .shape = shape,
          .seed = 7,
          .discount = discounts(o, spec),
          .action_mask = plan_options(o, shape, spec, setting.device).action_mask,
          .precision = setting.precision,
          .pool = &pool,
          .group = setting.group};
}

/// Of random numbers, the same on each device.
inline Sequences sequences(const LearnerOptions& o, uint64_t seed, at::Device device = at::kCPU) {
  at::manual_seed(seed);
  const int64_t H = o.options.horizon, B = o.options.batch;
  Sequences s{.obs = at::randn({H + 1, B, o.shape.obs}),
              .action = at::rand({H, B, o.shape.actions}) * 2 - 1,
              .reward = at::randn({H, B}) * 3,
              .terminated = (at::rand({H, B}) < 0.2).to(at::kFloat)};
  if (o.shape.image())
    s.obs = at::randint(0, 256, {H + 1, B, kImageSide, kImageSide, o.shape.channels}, at::kByte);
  if (o.shape.tasks > 0) s.task = at::randint(0, o.shape.tasks, {B}, at::kLong);
  for (auto* t : {&s.obs, &s.action, &s.reward, &s.terminated, &s.task})
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
    for (at::Tensor weights : {state.params.data(), state.target_q})
      weights.add_(at::randn(weights.sizes()).to(setting.device), 0.2);
    state.updates.fill_(5);
    // large second moments make a step of Adam nearly linear in the gradient
    for (auto* adam : {&state.model_adam, &state.policy_adam}) adam->second_moment().fill_(1e-3);
  }

  ThreadPool pool;
  LearnerOptions options;
  LearnerState state;
  Learner learner;
  at::Tensor figures;
};

/// Tensor by tensor: a layer's weights, its biases, its gains and shifts.
inline void expect_gradients_close(const at::Tensor& ours, const at::Tensor& reference,
                                   const ModelLayout& layout, const Tolerance& tolerance) {
  std::vector<MlpPlaces> nets{layout.encoder, layout.dynamics, layout.reward, layout.termination};
  nets.insert(nets.end(), layout.q.begin(), layout.q.end());
  nets.push_back(layout.policy);
  for (size_t n = 0; n < nets.size(); ++n)
    for (const auto& place : nets[n])
      for (auto [begin, end] : {std::pair{place.weight(), place.bias()},
                                {place.bias(), place.gain()},
                                {place.gain(), place.end()}}) {
        if (begin >= end) continue;
        const auto a = ours.narrow(0, begin, end - begin);
        const auto b = reference.narrow(0, begin, end - begin);
        EXPECT_TRUE(b.abs().max().item<double>() > 0 || begin >= layout.policy_begin());
        EXPECT_TRUE(close(a, b, tolerance))
            << "network " << n << ", layer " << place.in << " -> " << place.out << " at " << begin;
      }
}

/// The longest way from a weight to its gradient: through the encoder, the dynamics of every step
/// and a head, each layer's inputs and two moments of its outputs; all of it back again; and the
/// sum over all rows of all steps.
inline Tolerance gradient_rounding(const LearnerOptions& o) {
  const ModelLayout layout = model_layout(o.shape);
  const auto through = [](const MlpPlaces& net) {
    int64_t sums = 0;
    for (const auto& place : net) sums += place.in + (place.normed ? 2 * place.out : 0);
    return sums;
  };
  const int64_t H = o.options.horizon;
  const int64_t there =
      through(layout.encoder) + H * through(layout.dynamics) + through(layout.q.front());
  return Tolerance::of_sums(2 * there + H * o.options.batch);
}

/// Two updates of a learner leave what two of autograd's do.
template <class Reference, class Learner>
void expect_updates_of_autograd(const Setting& setting) {
  Made<Reference> reference(setting);
  Made<Learner> made(setting);
  const at::Tensor before = made.state.params.data().clone();
  for (uint64_t seed : {3, 4}) {
    reference.learner.update(sequences(reference.options, seed), reference.figures);
    made.learner.update(sequences(made.options, seed), made.figures);
  }
  EXPECT_GT((made.state.params.data() - before).abs().max().template item<float>(), 1e-5f);
  EXPECT_TRUE(close(made.state.params.data(), reference.state.params.data(), 1e-6));
  EXPECT_TRUE(close(made.state.target_q, reference.state.target_q, 1e-6));
  EXPECT_TRUE(close(made.figures, reference.figures, 5e-5)) << "values pass through an exponential";
  EXPECT_TRUE(close(made.state.updates, reference.state.updates, 0));
}

/// A batch that does not fit is learned from in halves, and then no more.
template <class Learner>
void expect_halves_where_memory_is_short() {
  const auto update = [](int64_t bytes) -> Limited {
    Made<Learner> made({.B = 512});
    const Sequences batch = sequences(made.options, 3);
    const LimitedMemory memory(bytes);
    made.learner.update(batch, made.figures);
    return {made.state.params.data().clone(), memory.taken(), made.learner.note()};
  };
  expect_parts_where_memory_is_short(update, 1e-6, "learned from 256 sequences at a time");
}

}  // namespace maglev::tdmpc2
