#include "verbs/bench/signature.h"

#include "engine/algo/experiment.h"
#include "engine/host/machine.h"
#include "engine/run/checkpoint.h"
#include "engine/train/trainer.h"
#include "verbs/settings.h"

namespace maglev::verbs::bench {
namespace {

// its actions suit every algorithm: continuous, in bounds
constexpr const char* kEnvironment = "pendulum";

}  // namespace

std::vector<Signature> signatures(int64_t updates) {
  std::vector<Signature> all;
  for (const AlgoEntry& algo : algo_table()) {
    Experiment experiment(algo.name, kEnvironment);
    load_settings(experiment, SettingsFiles{}, {});
    Trainer trainer(experiment, place("cpu", 1, Precision::fp32));
    while (trainer.updates() < updates && !trainer.done()) trainer.iterate();
    all.push_back({algo.name, state_hash([&](StateVisitor& v) { trainer.visit_state(v); })});
  }
  return all;
}

}  // namespace maglev::verbs::bench
