// Milliseconds of PPO's update with the network `proof` on goals whose rows have another number of
// successors each: packed, beside the same network with every slot embedded, by the same layers and by
// ATen's. And the rate of f32 matrix products in the same run.
//
//   proof_throughput [--repeats 3] [--threads N] [--rollout 128] [--epochs 5] [--shard 0]
//                    [--successors 12] [SETTING=VALUE ..] [packed] [padded] [plain]
//
// The network and sizes are those of a published run: 128 environments, minibatches of 1024, 130 slots
// for goals of 6 atoms, embeddings of 250, 8 blocks of 256; 1 and geometrically many successors up to
// the mean given, the last of them the end. Settings are those of ppo.network.proof, in place of these.
// A line of JSON a way. Times are the least over the repeats, in turn: wall clock, and processor time of
// all threads. Cost is linear in rollout and epochs; every slot
// embedded takes ten times as long, so measure it with few.

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <ctime>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include "algos/ppo/ppo.h"
#include "base/core/error.h"
#include "engine/data/rollout.h"
#include "engine/host/machine.h"
#include "kernels/relu_layers/relu_layers_op.h"

namespace maglev {
namespace {

constexpr int64_t kRows = 128, kAtoms = 6, kSlots = 130;
// a graph of families: 12 relations and what ends a proof, 2968 people and variables
constexpr int64_t kRelations = 12, kPredicates = kRelations + 4, kConstants = 2968 + 2 * kAtoms + 1;

struct Setup {
  int repeats = 3, threads = 0;
  int64_t rollout = 128, epochs = 5, shard = 0;
  double successors = 12;
  std::vector<std::string> ways;
  std::vector<std::pair<std::string, std::string>> settings;
};

double seconds(clockid_t clock) {
  timespec t{};
  clock_gettime(clock, &t);
  return double(t.tv_sec) + 1e-9 * double(t.tv_nsec);
}

EnvSpec goals_spec() {
  const std::vector<int64_t> vocabulary{kPredicates, kConstants, kConstants};
  return {.observations = {{.name = "state",
                            .dtype = DType::i32,
                            .shape = {kAtoms, 3},
                            .vocabulary = vocabulary},
                           {.name = "successors",
                            .dtype = DType::i32,
                            .shape = {kSlots, kAtoms, 3},
                            .vocabulary = vocabulary}},
          .action = {.heads = {kSlots}, .masked = true}};
}

// goals [.., A, 3] of one to three atoms
void fill_goals(at::Tensor goals) {
  goals.select(-1, 0).random_(1, kRelations + 1);
  for (int64_t k : {1, 2}) goals.select(-1, k).random_(1, kConstants);
  auto sizes = goals.sizes().vec();
  sizes.resize(sizes.size() - 2);
  const auto atoms = at::randint(1, 4, sizes);
  goals.mul_((at::arange(kAtoms) < atoms.unsqueeze(-1)).unsqueeze(-1));
}

void fill(const Batch& batch, double mean) {
  at::manual_seed(1);
  auto state = batch.obs[0], successors = batch.obs[1];
  fill_goals(state), fill_goals(successors);
  // 1 + geometric with this mean, cut at the slots
  const auto uniform = at::rand(batch.mask.sizes().slice(0, 2));
  const auto count = (1 + at::floor(at::log(uniform.clamp_min(1e-7)) / std::log(1 - 1 / mean)))
                         .clamp_max(double(kSlots))
                         .to(at::kLong)
                         .unsqueeze(-1);
  const auto present = at::arange(kSlots) < count, last = at::arange(kSlots) == count - 1;
  successors.mul_((present & ~last).unsqueeze(-1).unsqueeze(-1));
  successors.select(-1, 0).select(-1, 0).masked_fill_(last, kPredicates - 1);
  batch.mask.copy_(present);
  batch.action.zero_();
  const auto log_prob = batch.extra[ppo::log_prob_column];
  log_prob.copy_(-count.squeeze(-1).narrow(0, 0, log_prob.size(0)).to(at::kFloat).log());
  batch.extra[ppo::value_column].zero_();
  batch.reward.copy_(at::randn(batch.reward.sizes()));
  for (auto flags : {batch.terminated, batch.truncated, batch.is_first}) flags.zero_();
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
    const EnvSpec spec = goals_spec();
    ppo_ = std::make_unique<ppo::Ppo>(
        options,
        AlgoContext{
            .spec = spec, .rows = kRows, .total_steps = 1'000'000'000, .seed = 1, .pool = &pool_});
    const DataPlan plan = ppo_->plan();
    store_ = std::make_unique<Rollout>(
        spec, RolloutShape{.T = setup.rollout, .rows = kRows, .block_rows = plan.block_rows},
        plan.columns, at::kCPU);
    fill(store_->batch(), setup.successors);
  }

  void learn() {
    const double wall = seconds(CLOCK_MONOTONIC), cpu = seconds(CLOCK_PROCESS_CPUTIME_ID);
    ppo_->update(store_->batch(), metrics_);
    wall_ = std::min(wall_, seconds(CLOCK_MONOTONIC) - wall);
    cpu_ = std::min(cpu_, seconds(CLOCK_PROCESS_CPUTIME_ID) - cpu);
  }

  double successors() const {
    return store_->batch()
        .mask.narrow(0, 0, store_->shape().T)
        .to(at::kFloat)
        .sum(2)
        .mean()
        .item<double>();
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
    const double start = seconds(CLOCK_THREAD_CPUTIME_ID);
    product(x, weight);
    best = std::min(best, seconds(CLOCK_THREAD_CPUTIME_ID) - start);
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
    else if (word == "--successors") setup.successors = next();
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
        "%.2f, \"ms\": %.1f, \"cpu_ms\": %.1f",
        c->name.c_str(), threads, (long long)(setup.rollout), (long long)(setup.epochs),
        c->successors(), c->wall_ * 1e3, c->cpu_ * 1e3);
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

int main(int argc, char** argv) {
  try {
    maglev::run({argv + 1, argv + argc});
  } catch (const std::exception& error) {
    std::cerr << error.what() << "\n";
    return 2;
  }
}
