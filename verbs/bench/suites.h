#pragma once
// Works of the engine in suites, measured in turn: what `maglev bench` compares from day to day.

#include <array>
#include <string>
#include <vector>

#include <c10/core/Device.h>

#include "verbs/bench/timings.h"

namespace maglev::verbs::bench {

enum class Suite { ops, precision, memory, env, replay, kernels, planner, e2e };
constexpr auto names_of(Suite) {
  return std::array{"ops", "precision", "memory", "env", "replay", "kernels", "planner", "e2e"};
}

/// "ops,env" as suites; "all" is every one. Throws Error on another name.
std::vector<Suite> suites_of(const std::string& names);

/// Whether its works run on the processor, whatever device there is.
bool host_only(Suite suite);

/// Times every work of the suites once a round, all works in turn, so that what disturbs a moment
/// meets each alike. On the CPU one thread in its processor's time, but env, which steps by the
/// clock; on CUDA until the device is done. env, replay, planner and e2e run for the CPU alone.
///   ops        operations of tensors      precision  products of matrices in each type
///   memory     copying and filling        env        a step of each environment, 64 of them
///   replay     writing and drawing        kernels    each fused kernel's cases
///   planner    choosing actions for 1 and 8 environments by each algorithm, which TD-MPC2 plans
///   e2e        an iteration of each algorithm with its proven settings on pendulum
/// At least two rounds.
std::vector<Timing> measure_suites(const std::vector<Suite>& suites, at::Device device, int rounds);

}  // namespace maglev::verbs::bench
