#pragma once
// The stages of a timeline: what made the engine fast, one switch after another, in one table.

#include <cstdint>
#include <string>
#include <vector>

#include "base/config/options.h"
#include "engine/algo/experiment.h"

namespace maglev::verbs::bench {

/// A setting and its values before and from a stage on.
struct Switch {
  std::string name, before, after;
};

struct Stage {
  std::string name;
  std::string what;  ///< one line for people
  std::vector<Switch> switches;
  bool needs_cuda = false;
};

/// All stages of `algo`, slowest first, for a run of `envs` environments and `rollout` steps an
/// update: every stage takes as many steps an update. The first has no switches: everything is as
/// before. A switch that an algorithm does not have is lacking().
std::vector<Stage> stages(const std::string& algo, int64_t envs, int64_t rollout);

/// What somebody set, on the command line or in a file, is what a stage switches on: threads=2 is
/// two threads from that stage on, not all.
std::vector<Stage> as_given(std::vector<Stage> stages, const OptionTable& table);

/// Why this algorithm or machine lacks the stage, or it changes nothing for the experiment on
/// `placement`, in a few words; "" when it matters.
std::string lacking(const Stage& stage, const Experiment& experiment, const Placement& placement);

/// name=value of every switch known to `table` when the stages before and with `last` are on; those
/// marked in `skipped` stay off.
std::vector<std::string> settings_at(const std::vector<Stage>& all, size_t last,
                                     const std::vector<bool>& skipped, const OptionTable& table);

}  // namespace maglev::verbs::bench
