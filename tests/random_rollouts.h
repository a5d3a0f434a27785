#pragma once
// PPO on rollouts of random observations and rewards, whose episodes end and begin as the store's
// do: what tests of its parts learn from.

#include <string>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "algos/ppo/ppo.h"
#include "base/core/error.h"
#include "engine/data/rollout.h"
#include "engine/host/machine.h"
#include "kernels/policy/distribution_op.h"

namespace maglev {

inline EnvSpec vectors() {
  return {.observations = {{.name = "vector", .shape = {5}}}, .action = {.heads = {3}}};
}
inline EnvSpec masked_heads() {
  return {.observations = {{.name = "vector", .shape = {5}}},
          .action = {.heads = {4, 3}, .masked = true}};
}
inline EnvSpec one_continuous() {
  return {.observations = {{.name = "vector", .shape = {5}}}, .action = {.low = {-1}, .high = {1}}};
}
/// Two continuous actions and numbers that only the critic sees.
inline EnvSpec privileged() {
  return {.observations = {{.name = "vector", .shape = {5}},
                           {.name = "secret", .shape = {3}, .audience = Audience::critic}},
          .action = {.low = {-1, -1}, .high = {1, 1}}};
}
inline EnvSpec pixels() {
  return {.observations = {{.name = "image", .dtype = DType::u8, .shape = {4, 3, 2}}},
          .action = {.heads = {3}}};
}
/// A window of 11x11 cells of 4 bits that the policy and the critic see in palettes of their own.
inline EnvSpec cells() {
  CellCoding coding{.bits = 4, .grid = {11, 11}, .channels = 7};
  for (int code = 0; code < 16; ++code)
    for (int c = 0; c < 7; ++c)
      coding.policy.push_back(code == c), coding.critic.push_back(code == 7 + c);
  return {.observations = {{.name = "window", .dtype = DType::u8, .shape = {61}, .cells = coding}},
          .action = {.heads = {6}}};
}

/// Goals of up to three atoms, each row with a number of successors of its own.
inline EnvSpec goals() {
  const std::vector<int64_t> vocabulary{5, 9, 9};
  return {.observations =
              {{.name = "state", .dtype = DType::i32, .shape = {3, 3}, .vocabulary = vocabulary},
               {.name = "successors",
                .dtype = DType::i32,
                .shape = {7, 3, 3},
                .vocabulary = vocabulary}},
          .action = {.heads = {7}, .masked = true}};
}

/// Fills rows [.., shape] of a column with random numbers; of tokens [.., S, A, 3] with up to S
/// goals of up to A atoms in front, of [.., A, 3] with one goal.
inline void fill_random(at::Tensor rows, const ObsColumn& column) {
  if (rows.is_cuda()) {
    // the numbers of a processor, on each device
    const auto host = at::empty(rows.sizes(), rows.options().device(at::kCPU));
    fill_random(host, column);
    rows.copy_(host);
    return;
  }
  if (column.vocabulary.empty()) {
    rows.scalar_type() == at::kByte ? rows.random_(0, 256) : rows.normal_();
    return;
  }
  for (int64_t k = 0; k < rows.size(-1); ++k)
    rows.select(-1, k).random_(k == 0, column.vocabulary[size_t(k)]);
  // lists end somewhere: of atoms, and of goals
  for (int64_t dim = rows.dim() - 2; dim > rows.dim() - 1 - int64_t(column.shape.size()); --dim) {
    auto sizes = rows.sizes().slice(0, size_t(dim)).vec();
    const auto count = at::randint(dim == rows.dim() - 2, rows.size(dim) + 1, sizes);
    const auto there = at::arange(rows.size(dim)) < count.unsqueeze(-1);
    rows.mul_(there.view([&] {
      auto to = there.sizes().vec();
      to.resize(size_t(rows.dim()), 1);
      return to;
    }()));
  }
}

/// A setting by its name.
inline void set(ppo::Options& options, const char* name, const char* value) {
  OptionTable table;
  options.describe(table);
  table.set(name, value);
}

inline ppo::Options small() {
  ppo::Options o;
  o.rollout = 16;
  o.lr = 1e-2;
  o.network.hidden = {24, 16};
  set(o, "network.cnn.channels", "[4, 6]");
  return o;
}

class RandomRollouts {
 public:
  /// `updates`: of the run that schedules are over.
  RandomRollouts(const EnvSpec& spec, int64_t rows, const ppo::Options& options, int threads = 1,
                 int64_t updates = 1'000'000, Precision precision = Precision::fp32,
                 at::Device device = at::kCPU)
      : spec_((claim_threads(), spec)),
        pool_(threads),
        metrics_(device),
        ppo(options, {.spec = spec,
                      .rows = rows,
                      .total_steps = updates * options.rollout * rows,
                      .seed = 3,
                      .device = device,
                      .pool = &pool_,
                      .precision = precision}),
        store(spec, {.T = options.rollout, .rows = rows, .block_rows = ppo.plan().block_rows},
              ppo.plan().columns, device) {}

  /// Rollout number `i`: the same for the same number; only what act writes depends on the weights.
  const Batch& collect(int64_t i) {
    at::manual_seed(uint64_t(i));
    const Batch& batch = store.batch();
    for (size_t c = 0; c < batch.obs.size(); ++c) fill_random(batch.obs[c], spec_.observations[c]);
    if (auto mask = batch.mask; mask.defined()) {
      mask.copy_(at::rand(mask.sizes()) < 0.5);
      for (int64_t h = 0, begin = 0; h < spec_.action.dims();
           begin += spec_.action.heads[size_t(h++)])
        mask.select(2, begin).fill_(1);
    }
    end_episodes(batch);
    Carry carry = ppo.policy().initial_carry(store.shape().rows);
    for (int64_t t = 0; t < store.shape().T; ++t)
      ppo.policy().act(store.step(t), carry, ActMode::sample,
                       {.seed = 3, .step = i * store.shape().T + t});
    return batch;
  }

  void learn(const Batch& batch) { ppo.update(batch, metrics_); }
  void update(int64_t i) { learn(collect(i)); }
  /// Every figure of the updates since the last call.
  std::vector<std::pair<std::string, double>> figures() { return metrics_.take(); }
  double figure(const std::string& name) {
    for (auto& [key, value] : figures())
      if (key == name) return value;
    throw Error("no figure " + name);
  }
  at::Tensor weights() { return ppo.policy().params().data().clone(); }
  int64_t rows() const { return store.shape().T * store.shape().rows; }
  ppo::Learner& learner() { return ppo.learner(); }
  const EnvSpec& spec() const { return spec_; }

 private:
  void end_episodes(const Batch& batch) {
    auto chance = at::rand(batch.reward.sizes());
    for (auto flags : {batch.terminated, batch.truncated, batch.is_first}) flags.zero_();
    batch.reward.copy_(at::randn(batch.reward.sizes()));
    for (int64_t n = 0; n < store.shape().rows; ++n)
      for (int64_t t = 0; t < store.shape().T; ++t) {
        const float c = chance[t][n].item<float>();
        if (c > 0.15f) continue;
        (c < 0.08f ? batch.terminated : batch.truncated)[t][n] = 1;
        if (++t == store.shape().T) break;
        batch.reward[t][n] = 0;
        batch.is_first[t + 1][n] = 1;
      }
  }

  EnvSpec spec_;
  ThreadPool pool_;
  Metrics metrics_;

 public:
  ppo::Ppo ppo;
  Rollout store;
};

/// The rollout `other` collected, with what the policy of `mine` says of its actions.
inline const Batch& relived(RandomRollouts& mine, const Batch& other) {
  at::NoGradGuard no_grad;
  const Batch& batch = mine.store.batch();
  const auto copy = [](at::Tensor to, const at::Tensor& from) {
    if (to.defined()) to.copy_(from);
  };
  for (size_t c = 0; c < batch.obs.size(); ++c) copy(batch.obs[c], other.obs[c]);
  copy(batch.mask, other.mask), copy(batch.is_first, other.is_first);
  copy(batch.action, other.action), copy(batch.reward, other.reward);
  copy(batch.terminated, other.terminated), copy(batch.truncated, other.truncated);
  const auto& policy = mine.ppo.policy();
  Recall recall;
  if (policy.remembers()) recall.state = policy.initial_carry(batch.reward.size(1)).parts[0];
  for (int64_t t = 0; t < batch.reward.size(0); ++t) {
    std::vector<at::Tensor> obs;
    for (const auto& o : batch.obs) obs.push_back(o[t]);
    recall.is_first = batch.is_first[t].unsqueeze(0);
    if (policy.remembers()) copy(batch.extra[ppo::memory_column][t], recall.state);
    const auto out =
        policy.forward(policy.network(), obs, {.policy = true, .value = true}, &recall);
    const auto mask = batch.mask.defined() ? batch.mask[t] : at::Tensor();
    copy(batch.extra[ppo::log_prob_column][t],
         log_prob(mine.spec().action, {out.logits, policy.network().log_std(), mask},
                  batch.action[t])
             .log_prob);
    copy(batch.extra[ppo::value_column][t], policy.network().value_head().denormalize(out.value));
  }
  return batch;
}

}  // namespace maglev
