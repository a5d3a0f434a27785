#pragma once
// Settings outside the run's own that change how fast it is or what it computes: what holds, who
// said so, and what was set and does nothing.

#include <map>
#include <string>
#include <vector>

#include "engine/host/machine.h"
#include "engine/host/system.h"

namespace maglev::verbs::doctor {

using Environment = std::map<std::string, std::string>;

/// The variables of this process now.
Environment this_environment();

/// What decides which of them are read: libraries that are here, and where the run goes.
struct Surroundings {
  bool on_cuda = false;  ///< the run uses a device of torch's CUDA, or of ROCm
  bool rocm = false;     ///< that torch was built for ROCm
  bool intel_openmp = false, openblas = false, jemalloc = false, tcmalloc = false;
  bool apple = false;
};
Surroundings probe_surroundings(const Placement& placement);

enum class Origin { user, config, automatic, library, system };
constexpr auto names_of(Origin) {
  return std::array{"user's environment", "config", "auto", "library default", "system"};
}

struct EffectiveSetting {
  std::string name, value;
  Origin origin;
};
struct IgnoredVariable {
  std::string name, value, why;  ///< `why` ends with what to do
};

struct EnvironmentReport {
  std::vector<EffectiveSetting> effective;
  std::vector<IgnoredVariable> ignored;
  std::vector<std::string> warnings;  ///< what is read and does harm, with what to do
};

/// `user` are variables as the process was started with, `now` what the engine made of them before
/// its first tensor. Pure: what is read back from torch is in torch_settings.
EnvironmentReport judge_environment(const Environment& user, const Environment& now,
                                    const Surroundings& around, const System& system);

/// What does what a settings file would have the variable do, in a few words: a setting, the engine
/// by itself, or the user's shell.
std::string instead_of(const std::string& variable);

/// What torch says of itself once the run's precision is applied: threads an operation, TF32,
/// cuDNN's search (MIOpen's on ROCm), determinism, denormals.
std::vector<EffectiveSetting> torch_settings(const Placement& placement, bool deterministic);

}  // namespace maglev::verbs::doctor
