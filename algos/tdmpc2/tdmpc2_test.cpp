#include "algos/tdmpc2/tdmpc2.h"

#include <ATen/ATen.h>

#include <gtest/gtest.h>

#include "algos/tdmpc2/world_model.h"
#include "base/core/error.h"
#include "engine/data/rollout.h"
#include "engine/host/machine.h"
#include "engine/run/checkpoint.h"
#include "tests/close.h"
#include "tests/errors.h"
#include "tests/folder.h"

namespace maglev {
namespace {

using tdmpc2::Options;
using tdmpc2::Tdmpc2;

Options small() {
  Options o;
  o.enc_dim = 24, o.mlp_dim = 32, o.latent_dim = 16, o.num_q = 3, o.task_dim = 6;
  o.batch = 12, o.samples = 24, o.elites = 6, o.policy_trajectories = 4, o.iterations = 3;
  o.seed_steps = 10;
  return o;
}

EnvSpec vectors() {
  return {.observations = {{.name = "vector", .shape = {5}}},
          .action = {.low = {-2, -1}, .high = {2, 3}},
          .max_steps = 100};
}
EnvSpec two_tasks() {
  EnvSpec spec = vectors();
  spec.observations.push_back({.name = "task", .dtype = DType::i32, .shape = {1}});
  spec.tasks = {{.name = "wide", .obs_dims = 5, .action_dims = 2, .max_steps = 100},
                {.name = "narrow", .obs_dims = 3, .action_dims = 1, .max_steps = 400}};
  return spec;
}
EnvSpec images() {
  EnvSpec spec = vectors();
  spec.observations = {{.name = "image", .dtype = DType::u8, .shape = {64, 64, 3}}};
  return spec;
}

/// TD-MPC2 on made-up rows and sequences.
class Learner {
 public:
  Learner(const EnvSpec& spec, const Options& options, int64_t rows = 3, int threads = 1)
      : spec_((claim_threads(), spec)),
        options_(options),
        pool_(threads),
        metrics_(at::kCPU),
        algo(options,
             {.spec = spec, .rows = rows, .total_steps = 10'000, .seed = 3, .pool = &pool_}),
        store(spec, {.T = 1, .rows = rows, .block_rows = rows}, {}, at::kCPU),
        carry(algo.policy().initial_carry(rows)) {}

  void fill(const std::vector<at::Tensor>& obs) const {
    for (size_t i = 0; i < obs.size(); ++i) {
      if (spec_.observations[i].name == "task")
        obs[i].copy_(at::arange(obs[i].size(-2)).view({-1, 1}) % 2);
      else if (obs[i].scalar_type() == at::kByte) obs[i].random_(0, 256);
      else obs[i].normal_();
    }
  }
  at::Tensor act(ActMode mode, const ActKey& key, uint64_t seed = 5) {
    at::manual_seed(seed);
    TimeStep& step = store.step(0);
    fill(step.obs);
    algo.policy().act(step, carry, mode, key);
    return step.action.clone();
  }
  Batch batch(uint64_t seed) const {
    at::manual_seed(seed);
    const int64_t H = options_.horizon, B = options_.batch;
    Batch b;
    for (const auto& c : spec_.observations) {
      std::vector<int64_t> sizes{H + 1, B};
      sizes.insert(sizes.end(), c.shape.begin(), c.shape.end());
      b.obs.push_back(at::zeros(sizes, c.dtype == DType::u8    ? at::kByte
                                       : c.dtype == DType::i32 ? at::kInt
                                                               : at::kFloat));
    }
    fill(b.obs);
    b.is_first = at::zeros({H + 1, B}, at::kByte);
    b.action = at::rand({H, B, spec_.action.dims()}) * 2 - 1;
    b.reward = at::randn({H, B}) * 2;
    b.terminated = (at::rand({H, B}) < 0.1).to(at::kByte);
    b.truncated = at::zeros({H, B}, at::kByte);
    return b;
  }
  void update(uint64_t seed) {
    algo.update(batch(seed), metrics_);
    algo.publish();
  }
  at::Tensor weights() { return algo.state().params.data().clone(); }
  std::string hash() {
    return state_hash([&](StateVisitor& v) { algo.visit_state(v); });
  }

 private:
  EnvSpec spec_;
  Options options_;
  ThreadPool pool_;
  Metrics metrics_;

 public:
  Tdmpc2 algo;
  Rollout store;
  Carry carry;
};

constexpr ActKey kLater{.seed = 3, .purpose = Purpose::act, .step = 1000};

TEST(Tdmpc2, acts_at_random_within_the_bounds_until_the_seed_steps_are_made) {
  Learner learner(vectors(), small());
  const ActKey key{.seed = 3, .purpose = Purpose::act, .step = 1};
  const auto first = learner.act(ActMode::sample, key, 1),
             other = learner.act(ActMode::sample, key, 2);
  EXPECT_TRUE(close(first, other, 0)) << "what is seen does not count";
  EXPECT_LE(first.select(1, 0).abs().max().item<float>(), 2);
  EXPECT_LE(first.select(1, 1).max().item<float>(), 3);
  EXPECT_GE(first.select(1, 1).min().item<float>(), -1);
  const auto later = learner.act(ActMode::sample, kLater, 1);
  EXPECT_FALSE(at::equal(later, learner.act(ActMode::sample, kLater, 2)));
  // evaluation never acts at random
  const ActKey judged{.seed = 3, .purpose = Purpose::eval, .step = 1};
  EXPECT_FALSE(
      at::equal(learner.act(ActMode::sample, judged, 1), learner.act(ActMode::sample, judged, 2)));
}

TEST(Tdmpc2, plans_take_no_temperature_and_the_policy_alone_does) {
  Learner plans(vectors(), small());
  EXPECT_TRUE(contains(plans.algo.policy().temperature_obstacle(), "tdmpc2.mpc=false"));
  Options alone = small();
  alone.mpc = false;
  Learner acts(vectors(), alone);
  EXPECT_EQ(acts.algo.policy().temperature_obstacle(), "");
  const auto drawn = [&](float temperature) {
    ActKey key = kLater;
    key.purpose = Purpose::eval, key.temperature = temperature;
    return acts.act(ActMode::sample, key);
  };
  const auto mean = acts.act(ActMode::mean, kLater);
  EXPECT_TRUE(close(drawn(1e-9f), mean, 1e-6));
  const auto far = [&](float temperature) {
    return (drawn(temperature) - mean).abs().sum().item<double>();
  };
  EXPECT_GT(far(1), far(0.5f));
  EXPECT_GT(far(0.5f), 0);
}

TEST(Tdmpc2, seeds_until_every_environment_has_an_episode_to_learn_from) {
  Options options;
  const EnvSpec limited{.max_steps = 500}, endless{};
  EXPECT_EQ(seed_steps(options, limited, 1), 2500) << "five episodes";
  EXPECT_EQ(seed_steps(options, limited, 64), 32'000) << "one of each";
  EXPECT_EQ(seed_steps(options, {.max_steps = 20}, 4), 1000);
  EXPECT_EQ(seed_steps(options, endless, 64), 1000);
  EXPECT_EQ(seed_steps(options, {.max_steps = 10, .tasks = {{.max_steps = 900}}}, 1), 4500);
  options.seed_steps = 7;
  EXPECT_EQ(seed_steps(options, limited, 64), 7);
}

TEST(Tdmpc2, a_plan_begins_where_the_one_before_ended_unless_an_episode_begins) {
  Learner learner(vectors(), small());
  learner.update(1);
  auto act = [&](bool first, double before) {
    learner.store.step(0).is_first.fill_(first);
    learner.carry.parts[0].fill_(before);
    return learner.act(ActMode::mean, kLater);
  };
  EXPECT_FALSE(at::equal(act(false, 0.9), act(false, -0.9)));
  EXPECT_TRUE(at::equal(act(true, 0.9), act(true, -0.9)));
  EXPECT_GT(learner.carry.parts[0].abs().max().item<float>(), 0);
}

TEST(Tdmpc2, a_rows_action_does_not_depend_on_the_rows_beside_it) {
  for (const auto& spec : {vectors(), two_tasks()}) {
    Learner learner(spec, small(), 5);
    learner.update(1);
    const auto together = learner.act(ActMode::sample, kLater);
    TimeStep all = learner.store.step(0);
    learner.carry = learner.algo.policy().initial_carry(5);
    for (int64_t n = 0; n < 5; ++n) {
      TimeStep one;
      one.first = n;
      for (const auto& o : all.obs) one.obs.push_back(o.narrow(0, n, 1));
      one.is_first = all.is_first.narrow(0, n, 1);
      one.action = at::zeros({1, 2});
      Carry carry = learner.carry.rows(n, 1);
      learner.algo.policy().act(one, carry, ActMode::sample, kLater);
      EXPECT_TRUE(close(one.action[0], together[n], 1e-5)) << n;
    }
  }
}

TEST(Tdmpc2, images_are_moved_as_far_as_the_setting_says) {
  auto gen = at::make_generator<at::CPUGeneratorImpl>(uint64_t(3));
  const auto bytes = at::randint(0, 256, {4, 64, 64, 3}, gen, at::TensorOptions(at::kByte));
  const auto middle = at::full({4, 2}, 0.5), corner = at::zeros({4, 2});
  for (int64_t pixels : {0, 3}) {
    Options o = small();
    o.image_shift = pixels;
    const tdmpc2::WorldModel model(tdmpc2::model_shape(o, images()), /*kaiming=*/false,
                                   Initializer(1));
    EXPECT_EQ(at::equal(model.encode_image(bytes, middle), model.encode_image(bytes, corner)),
              pixels == 0);
  }
}

TEST(Tdmpc2, learns_a_batch_by_heart) {
  for (const auto& spec : {vectors(), two_tasks(), images()}) {
    Options o = small();
    o.lr = 1e-3;
    Learner learner(spec, o);
    learner.update(1);
    const float before = learner.algo.figures()[tdmpc2::kTotal].item<float>();
    for (int i = 0; i < 150; ++i) learner.update(1);
    const float after = learner.algo.figures()[tdmpc2::kTotal].item<float>();
    EXPECT_LT(after, 0.8f * before) << spec.observations[0].name;
    EXPECT_TRUE(at::isfinite(learner.algo.figures()).all().item<bool>());
  }
}

TEST(Tdmpc2, what_act_uses_changes_when_it_is_published) {
  Learner learner(vectors(), small());
  const auto before = learner.act(ActMode::mean, kLater);
  Metrics metrics(at::kCPU);
  for (uint64_t i = 0; i < 3; ++i) learner.algo.update(learner.batch(i), metrics);
  learner.carry = learner.algo.policy().initial_carry(3);
  EXPECT_TRUE(at::equal(before, learner.act(ActMode::mean, kLater)));
  learner.algo.publish();
  learner.carry = learner.algo.policy().initial_carry(3);
  EXPECT_FALSE(at::equal(before, learner.act(ActMode::mean, kLater)));
}

TEST(Tdmpc2, continues_from_a_saved_state_to_the_bit) {
  Learner whole(vectors(), small()), first(vectors(), small()), second(vectors(), small());
  for (uint64_t i = 0; i < 4; ++i) whole.update(i);
  for (uint64_t i = 0; i < 2; ++i) first.update(i);
  const std::string folder = test_folder() + "/checkpoints";
  const CheckpointIdentity identity{.algo = "tdmpc2", .env = "vectors"};
  const auto path = save_checkpoint(folder, identity, [&](auto& v) { first.algo.visit_state(v); });
  load_checkpoint(path, identity, [&](auto& v) { second.algo.visit_state(v); });
  for (uint64_t i = 2; i < 4; ++i) second.update(i);
  EXPECT_EQ(second.hash(), whole.hash());
  EXPECT_TRUE(at::equal(second.act(ActMode::sample, kLater), whole.act(ActMode::sample, kLater)));
}

TEST(Tdmpc2, pruning_changes_no_update) {
  for (const auto& spec : {vectors(), two_tasks()}) {
    Options plain = small();
    plain.prune = false;
    Learner pruned(spec, small()), whole(spec, plain);
    for (uint64_t i = 0; i < 3; ++i) pruned.update(i), whole.update(i);
    EXPECT_TRUE(close(pruned.weights(), whole.weights(), 1e-5));
  }
}

TEST(Tdmpc2, contradicting_settings_are_refused) {
  Options o = small();
  o.elites = 25;
  EXPECT_THROW(Learner(vectors(), o), Error);
  o = small(), o.policy_trajectories = 24;
  EXPECT_THROW(Learner(vectors(), o), Error);
  o = small(), o.min_std = 3;
  EXPECT_THROW(Learner(vectors(), o), Error);
}

TEST(Tdmpc2, targets_begin_at_networks_that_were_loaded_alone) {
  Learner learner(vectors(), small());
  tdmpc2::LearnerState& state = learner.algo.state();
  state.params.data().add_(1);
  learner.algo.follow_networks();
  const auto& layout = state.model->layout();
  EXPECT_TRUE(at::equal(state.target_q,
                        state.params.data().narrow(0, layout.q_begin(), state.target_q.numel())));
}

}  // namespace
}  // namespace maglev
