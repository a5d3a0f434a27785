#pragma once
// What a policy did in its environment, beside what it saw: what an exported model is compared
// with.

#include <cstdint>
#include <string>

#include "engine/algo/experiment.h"
#include "engine/algo/policy.h"
#include "engine/export/policy_model.h"
#include "engine/host/machine.h"

namespace maglev {

struct SampleOptions {
  int64_t steps = 320;  ///< T
  int64_t envs = 32;    ///< each from the beginning of an episode
  uint64_t seed = 1'000'003;
};

/// `policy` plays `experiment`'s environment in mode mean, on its fast path.
///   input/<name>   [T, rows, ...]  each input of the model that is no carry
///   carry/<name>   [rows, ...]     the carry it begins with
///   output/<name>  [T, rows, ...]  the action that was taken, and what else the model gives
NamedTensors policy_samples(Policy& policy, const Experiment& experiment,
                            const Placement& placement, ThreadPool& pool,
                            const SampleOptions& options = {});

/// As a safetensors file, in place of one that is there.
void write_samples(const std::string& path, const NamedTensors& samples);

}  // namespace maglev
