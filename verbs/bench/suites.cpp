#include "verbs/bench/suites.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "base/config/choice.h"
#include "base/core/error.h"
#include "base/env/throughput.h"
#include "engine/algo/experiment.h"
#include "engine/data/rollout.h"
#include "engine/data/vec_env.h"
#include "engine/device/kernel.h"
#include "engine/host/machine.h"
#include "engine/train/trainer.h"
#include "verbs/bench/replay_speed.h"
#include "verbs/kernels/bench.h"
#include "verbs/settings.h"

namespace maglev::verbs::bench {
namespace {

constexpr double kReplayEach_s = 0.005, kEnvEach_s = 0.02;
constexpr int64_t kSide = 512, kElements = int64_t(1) << 20, kEnvs = 64;
constexpr int64_t kWarmUpdates = 2;
constexpr const char* kTrained = "pendulum";

// one sample of each work of a suite: names and seconds
using Samples = std::vector<std::pair<std::string, double>>;
using Round = std::function<Samples()>;

// works that are functions alone
Round timed_round(at::Device device,
                  std::vector<std::pair<std::string, std::function<void()>>> works) {
  return [device, works = std::move(works)] {
    at::NoGradGuard no_grad;
    Samples samples;
    for (const auto& [name, work] : works)
      samples.emplace_back(name, kernels::median_seconds(work, device));
    return samples;
  };
}

Round ops_round(at::Device device) {
  const at::TensorOptions options(device);
  const auto x = at::rand({kSide, kSide}, options), y = at::rand({kSide, kSide}, options);
  const auto rows = at::randint(kSide, {kSide}, options.dtype(at::kLong));
  const auto images = at::rand({16, 3, 64, 64}, options),
             filters = at::rand({32, 3, 4, 4}, options);
  return timed_round(device, {{"add", [=] { at::add(x, y); }},
                              {"tanh", [=] { at::tanh(x); }},
                              {"softmax", [=] { at::softmax(x, 1); }},
                              {"sum", [=] { at::sum(x, 0); }},
                              {"index_select", [=] { at::index_select(x, 0, rows); }},
                              {"cumsum", [=] { at::cumsum(x, 0); }},
                              {"matmul", [=] { at::mm(x, y); }},
                              {"conv2d", [=] { at::conv2d(images, filters, {}, 2, 1); }}});
}

Round precision_round(at::Device device) {
  std::vector<std::pair<std::string, std::function<void()>>> works;
  for (const auto& [name, type] :
       {std::pair{"fp64", at::kDouble}, std::pair{"fp32", at::kFloat},
        std::pair{"bf16", at::kBFloat16}, std::pair{"fp16", at::kHalf}}) {
    const auto x = at::ones({kSide, kSide}, at::TensorOptions(device).dtype(type));
    works.emplace_back(name, [x] { at::mm(x, x); });
  }
  return timed_round(device, std::move(works));
}

Round memory_round(at::Device device) {
  const auto x = at::ones({kElements}, at::TensorOptions(device)), y = at::ones_like(x);
  std::vector<std::pair<std::string, std::function<void()>>> works = {
      {"copy", [=] { y.copy_(x); }},
      {"fill", [=] { y.fill_(1); }},
      {"allocate", [=] { at::empty({kElements}, x.options()); }}};
  if (device.is_cuda()) {
    const auto pinned = at::ones({kElements}, at::TensorOptions().pinned_memory(true));
    works.emplace_back("to_device", [=] { y.copy_(pinned, /*non_blocking=*/true); });
    works.emplace_back("to_host", [=] { pinned.copy_(y, /*non_blocking=*/true); });
  }
  return timed_round(device, std::move(works));
}

Round env_round() {
  auto pool = std::make_shared<ThreadPool>(1);
  std::vector<std::pair<std::string, std::shared_ptr<EnvThroughput>>> envs;
  for (const EnvEntry& env : env_table())
    // a library's environments are its own speed
    if (!env.library)
      envs.emplace_back(env.name,
                        std::make_shared<EnvThroughput>(
                            env, std::vector<std::pair<std::string, std::string>>{}, kEnvs, *pool));
  return [pool, envs] {
    Samples samples;
    for (const auto& [name, env] : envs)
      samples.emplace_back(name, 1 / env->steps_per_second(kEnvEach_s));
    return samples;
  };
}

Round replay_round() {
  return [] {
    Samples samples;
    for (const ReplayFigure& f : measure_replay(kReplayEach_s))
      // the others are there to be compared with
      if (f.way.starts_with("maglev"))
        samples.emplace_back(f.work + "_" + f.columns + "_" + std::to_string(f.rows) + "_" +
                                 (f.way == "maglev" ? "all" : f.way.substr(std::strlen("maglev "))),
                             1 / f.per_cpu_second);
    return samples;
  };
}

Round kernels_round(at::Device device) {
  auto cases = std::make_shared<std::vector<std::pair<std::string, KernelCase>>>();
  for (const KernelEntry& kernel : kernel_table())
    for (KernelCase& one : kernel.cases(device))
      cases->emplace_back(std::string(kernel.name) + ":" + one.name, std::move(one));
  return [cases, device] {
    at::NoGradGuard no_grad;
    Samples samples;
    for (const auto& [name, one] : *cases)
      samples.emplace_back(name, kernels::median_seconds(
                                     [&] {
                                       if (one.repeat_fused) one.repeat_fused();
                                       else one.fused(one.inputs);
                                     },
                                     device));
    return samples;
  };
}

// an algorithm with its proven settings, on one thread
struct Proven {
  explicit Proven(const AlgoEntry& algo, std::vector<std::string> settings = {})
      : experiment(algo.name, kTrained) {
    settings.push_back("train.steps=1000000000000");  // more than any measurement
    load_settings(experiment, SettingsFiles{}, settings);
    experiment.settle();
    trainer.emplace(experiment, place("cpu", 1, Precision::fp32));
  }
  Experiment experiment;
  std::optional<Trainer> trainer;
};

// what chooses actions in first steps of `rows` environments
class Acting {
 public:
  Acting(const AlgoEntry& algo, int64_t rows)
      : run_(algo, {"env.count=" + std::to_string(rows)}),
        policy_(run_.trainer->algorithm().policy()),
        envs_(run_.experiment.env(), run_.experiment.env_params(), rows, /*seed=*/1, at::kCPU,
              run_.trainer->pool()),
        store_(envs_.spec(),
               {.T = 1,
                .rows = rows,
                .block_rows = run_.trainer->algorithm().plan().block_of(rows, envs_.agents())},
               {}, at::kCPU),
        carry_(policy_.initial_carry(rows)) {
    envs_.reset(store_.first_io());
    policy_.publish();
  }
  void act() {
    key_.step += 1;
    for (TimeStep& block : store_.step(0).blocks) {
      Carry part = carry_.rows(block.first, block.rows());
      policy_.act(block, part, ActMode::sample, key_);
    }
  }

 private:
  Proven run_;
  Policy& policy_;
  VecEnv envs_;
  Rollout store_;
  Carry carry_;
  ActKey key_{.seed = 1, .purpose = Purpose::eval};
};

Round planner_round() {
  std::vector<std::pair<std::string, std::shared_ptr<Acting>>> all;
  for (const AlgoEntry& algo : algo_table())
    for (const int64_t rows : {1, 8})
      all.emplace_back(std::string(algo.name) + "_" + kTrained + "_" + std::to_string(rows),
                       std::make_shared<Acting>(algo, rows));
  return [all] {
    at::NoGradGuard no_grad;
    Samples samples;
    for (const auto& [name, acting] : all)
      samples.emplace_back(name, kernels::median_seconds([&] { acting->act(); }, at::kCPU));
    return samples;
  };
}

Round e2e_round() {
  std::vector<std::pair<std::string, std::shared_ptr<Proven>>> runs;
  for (const AlgoEntry& algo : algo_table()) {
    const auto run = std::make_shared<Proven>(algo);
    while (run->trainer->updates() < kWarmUpdates) run->trainer->iterate();
    runs.emplace_back(std::string(algo.name) + "_" + kTrained, run);
  }
  return [runs] {
    Samples samples;
    for (const auto& [name, run] : runs)
      samples.emplace_back(name,
                           kernels::median_seconds([&] { run->trainer->iterate(); }, at::kCPU));
    return samples;
  };
}

Round round_of(Suite suite, at::Device device) {
  switch (suite) {
    case Suite::ops:
      return ops_round(device);
    case Suite::precision:
      return precision_round(device);
    case Suite::memory:
      return memory_round(device);
    case Suite::kernels:
      return kernels_round(device);
    case Suite::env:
      return env_round();
    case Suite::replay:
      return replay_round();
    case Suite::planner:
      return planner_round();
    case Suite::e2e:
      return e2e_round();
  }
  throw Error("[bench] no such suite");
}

}  // namespace

bool host_only(Suite suite) {
  return suite == Suite::env || suite == Suite::replay || suite == Suite::planner ||
         suite == Suite::e2e;
}

std::vector<Suite> suites_of(const std::string& names) {
  constexpr auto known = names_of(Suite{});
  std::vector<Suite> suites;
  if (names == "all") {
    for (size_t i = 0; i < known.size(); ++i) suites.push_back(Suite(i));
    return suites;
  }
  for (size_t begin = 0; begin <= names.size();) {
    const size_t end = std::min(names.find(',', begin), names.size());
    const std::string name = names.substr(begin, end - begin);
    const auto found = std::find(known.begin(), known.end(), name);
    if (found == known.end()) {
      std::string all;
      for (const char* one : known) all += std::string(one) + ", ";
      throw Error("[bench] --suite takes names by commas of " + all + "or all, got '" + name + "'");
    }
    suites.push_back(Suite(found - known.begin()));
    begin = end + 1;
  }
  return suites;
}

std::vector<Timing> measure_suites(const std::vector<Suite>& suites, at::Device device,
                                   int rounds) {
  claim_threads();
  std::vector<std::pair<Suite, Round>> all;
  for (Suite suite : suites) {
    if (!device.is_cuda() || !host_only(suite)) all.emplace_back(suite, round_of(suite, device));
  }
  // a round of all before the next of any
  std::vector<Timing> timings;
  for (int r = 0; r < rounds; ++r) {
    size_t place = 0;
    for (const auto& [suite, round] : all)
      for (auto& [name, seconds] : round()) {
        if (r == 0)
          timings.push_back({name_of(suite), device.is_cuda() ? "cuda:" + name : name, {}});
        timings[place++].seconds.push_back(seconds);
      }
  }
  return timings;
}

}  // namespace maglev::verbs::bench
