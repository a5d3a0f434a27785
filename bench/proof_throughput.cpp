// Milliseconds of PPO's update with the network `proof` on goals of the graph `family`, whose rows
// have another number of successors each: packed, beside the same network with every slot embedded,
// by the same layers and by ATen's. And the rate of f32 matrix products in the same run.
//
//   proof_throughput [--repeats 3] [--threads N] [--rollout 128] [--epochs 5] [--shard 0]
//                    [SETTING=VALUE ..] [packed] [padded] [plain]
//
// The network and sizes are those of a published run: 128 environments, minibatches of 1024, 130
// slots for goals of 6 atoms, embeddings of 250, 8 blocks of 256. Goals are those that random play
// meets; rows that only reset are learned from as any. Settings are those of ppo.network.proof, in
// place of these. A line of JSON a way. Times are the least over the repeats, in turn: wall clock,
// and processor time of all threads. Cost is linear in rollout and epochs; every slot embedded
// takes many times as long, so measure it with few.

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Parallel.h>

#include "algos/ppo/ppo.h"
#include "base/core/clock.h"
#include "base/core/error.h"
#include "base/env/host_envs.h"
#include "bench/program.h"
#include "engine/data/rollout.h"
#include "engine/host/machine.h"
#include "kernels/ragged/ragged_op.h"
#include "kernels/relu_layers/relu_layers_op.h"

namespace maglev {
namespace {

constexpr int64_t kRows = 128, kSlots = 130;
// random play behind which episodes begin at all times
constexpr int64_t kPlayedBefore = 50;

struct Setup {
  int repeats = 3, threads = 0;
  int64_t rollout = 128, epochs = 5, shard = 0;
  std::vector<std::string> ways;
  std::vector<std::pair<std::string, std::string>> settings;
};

std::unique_ptr<HostEnvs> make_envs() {
  using Settings = std::vector<std::pair<std::string, std::string>>;
  return std::make_unique<HostEnvs>(find_env("kg"), kRows, 1,
                                    Settings{{"successors", std::to_string(kSlots)}});
}

// what the environments show and random play of those that are offered
void fill(const Batch& batch, HostEnvs& envs) {
  const auto copy = [](const at::Tensor& to, const void* from) {
    std::memcpy(to.data_ptr(), from, to.nbytes());
  };
  Rng rng(1, stream_id(Purpose::act, 0), 0);
  const auto play = [&] { envs.random_actions(rng), envs.step(); };
  envs.reset();
  for (int64_t t = 0; t < kPlayedBefore; ++t) play();
  for (int64_t t = 0; t < batch.mask.size(0); ++t) {
    for (size_t c = 0; c < batch.obs.size(); ++c)
      copy(batch.obs[c][t], envs.obs<std::byte>(int(c), 0));
    copy(batch.mask[t], envs.mask.data()), copy(batch.is_first[t], envs.is_first.data());
    if (t == batch.reward.size(0)) break;
    play();
    copy(batch.action[t], envs.actions_i32.data()), copy(batch.reward[t], envs.reward.data());
    copy(batch.terminated[t], envs.terminated.data()),
        copy(batch.truncated[t], envs.truncated.data());
  }
  const auto log_prob = batch.extra[ppo::log_prob_column];
  log_prob.copy_(-batch.mask.narrow(0, 0, log_prob.size(0)).to(at::kFloat).sum(2).log());
  batch.extra[ppo::value_column].zero_();
}

/// One way to learn, and the rollout it learns from.
class Contender {
 public:
  Contender(const Setup& setup, const std::string& way, int threads)
      : name(way), pool_(threads, [] { at::set_num_threads(1); }), metrics_(at::kCPU) {
    ppo::Options options;
    options.rollout = setup.rollout, options.epochs = setup.epochs, options.minibatch = 1024;
    options.shard_rows = setup.shard;
    OptionTable table;
    options.describe(table);
    for (auto [key, value] : {std::pair{"kind", "proof"},
                              {"proof.embedding", "250"},
                              {"proof.width", "256"},
                              {"proof.blocks", "8"},
                              {"proof.packed", way == "packed" ? "true" : "false"},
                              {"proof.fused_layers", way == "plain" ? "false" : "true"}})
      table.set("network." + std::string(key), value);
    for (const auto& [key, value] : setup.settings) table.set("network.proof." + key, value);
    const auto envs = make_envs();
    const EnvSpec& spec = envs->spec();
    ppo_ = std::make_unique<ppo::Ppo>(
        options,
        AlgoContext{
            .spec = spec, .rows = kRows, .total_steps = 1'000'000'000, .seed = 1, .pool = &pool_});
    const DataPlan plan = ppo_->plan();
    store_ = std::make_unique<Rollout>(
        spec, RolloutShape{.T = setup.rollout, .rows = kRows, .block_rows = plan.block_rows},
        plan.columns, at::kCPU);
    fill(store_->batch(), *envs);
  }

  void learn() {
    const double wall = steady_s(), cpu = process_cpu_s();
    ppo_->update(store_->batch(), metrics_);
    wall_ = std::min(wall_, steady_s() - wall);
    cpu_ = std::min(cpu_, process_cpu_s() - cpu);
  }

  double successors() const {
    return store_->batch()
        .mask.narrow(0, 0, store_->shape().T)
        .to(at::kFloat)
        .sum(2)
        .mean()
        .item<double>();
  }

  /// Goals of a minibatch as random order makes it that differ, states among them, a row.
  double different() const {
    const Batch& batch = store_->batch();
    const int64_t rows = std::min<int64_t>(1024, store_->shape().T * kRows);
    const auto drawn = at::randperm(store_->shape().T * kRows,
                                    at::make_generator<at::CPUGeneratorImpl>(uint64_t(1)))
                           .narrow(0, 0, rows);
    const auto goals = [&](size_t column) {
      return batch.obs[column].narrow(0, 0, store_->shape().T).flatten(0, 1).index_select(0, drawn);
    };
    return double(pack_goals(goals(0), goals(1)).all) / double(rows);
  }

  const std::string name;
  double wall_ = 1e9, cpu_ = 1e9;

 private:
  ThreadPool pool_;
  Metrics metrics_;
  std::unique_ptr<ppo::Ppo> ppo_;
  std::unique_ptr<Rollout> store_;
};

// operations a second of one thread, in products as a layer has them
double product_rate() {
  const auto x = at::rand({832, 256}), weight = at::rand({256, 256});
  double best = 1e9;
  for (int r = 0; r < 30; ++r) {
    const double start = thread_cpu_s();
    product(x, weight);
    best = std::min(best, thread_cpu_s() - start);
  }
  return 2. * 832 * 256 * 256 / best;
}

void run(const std::vector<std::string>& words) {
  Setup setup;
  for (size_t i = 0; i < words.size(); ++i) {
    const auto next = [&] {
      if (i + 1 == words.size()) throw Error("[proof_throughput] " + words[i] + " needs a number");
      return std::stod(words[++i]);
    };
    const std::string& word = words[i];
    if (word == "--repeats") setup.repeats = int(next());
    else if (word == "--threads") setup.threads = int(next());
    else if (word == "--rollout") setup.rollout = int64_t(next());
    else if (word == "--epochs") setup.epochs = int64_t(next());
    else if (word == "--shard") setup.shard = int64_t(next());
    else if (const size_t sign = word.find('='); sign != std::string::npos)
      setup.settings.emplace_back(word.substr(0, sign), word.substr(sign + 1));
    else if (word == "packed" || word == "padded" || word == "plain") setup.ways.push_back(word);
    else throw Error("[proof_throughput] " + word + " is none of packed, padded, plain");
  }
  if (setup.ways.empty()) setup.ways = {"packed"};
  claim_threads();
  const int threads = setup.threads > 0 ? setup.threads : usable_cpus();
  std::vector<std::unique_ptr<Contender>> contenders;
  for (const auto& way : setup.ways)
    contenders.push_back(std::make_unique<Contender>(setup, way, threads));
  for (int r = 0; r < setup.repeats; ++r)
    for (auto& c : contenders) c->learn();
  for (const auto& c : contenders) {
    std::printf(
        "{\"way\": \"%s\", \"threads\": %d, \"rollout\": %lld, \"epochs\": %lld, \"successors\": "
        "%.2f, \"different_goals\": %.2f, \"ms\": %.1f, \"cpu_ms\": %.1f",
        c->name.c_str(), threads, (long long)(setup.rollout), (long long)(setup.epochs),
        c->successors(), c->different(), c->wall_ * 1e3, c->cpu_ * 1e3);
    // of the sizes above there and back: the embedded goals of each row, its state among them; the
    // critic's body
    if (setup.settings.empty()) {
      const double layers = 250 * 256 + 8. * 256 * 256, head = 256 * 256 + 256. * 250;
      const double goals = 1 + (c->name == "packed" ? c->successors() : double(kSlots));
      const double rows = double(setup.rollout * kRows * setup.epochs);
      const double flop = 6 * rows * (goals * (layers + head) + layers + 256 * 256);
      std::printf(", \"gflop\": %.1f, \"product_gflops\": %.1f, \"share_of_bound_cpu\": %.3f",
                  flop * 1e-9, product_rate() * 1e-9, flop / product_rate() / c->cpu_);
    }
    std::puts("}");
    std::fflush(stdout);
  }
}

}  // namespace
}  // namespace maglev

int main(int argc, char** argv) { return maglev::program(argc, argv, maglev::run); }
