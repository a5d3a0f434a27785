#pragma once
// What doctor says: one list of facts, shown as text or as JSON.

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "base/core/terminal.h"
#include "engine/host/machine.h"
#include "engine/host/peaks.h"
#include "engine/host/system.h"
#include "verbs/doctor/environment.h"

namespace maglev::verbs::doctor {

struct Fact {
  std::string key;  ///< of the JSON object
  nlohmann::json value;
  std::string text;        ///< the value for people
  std::string label = {};  ///< the key for people; empty: the key with '_' as space
};

struct Section {
  std::string name;
  std::vector<Fact> facts;
};

struct Report {
  std::vector<Section> sections;
  std::vector<std::string> warnings;
};

/// How the program was built and what its torch can do.
struct Build {
  std::string version, type, compiler, device_code;
  bool optimised = false;
  std::string torch, torch_cuda,
      torch_kernels;     ///< torch_cuda: "" when torch has none; torch_kernels: e.g. "AVX2"
  int cuda_devices = 0;  ///< that torch sees
  std::string plugins;   ///< plugins_text()
};
Build probe_build();

/// The machine, the build, and what a run uses of them.
Report make_report(const System& system, const Build& build, const Placement& placement);
/// Adds the settings that hold with who said so, what is ignored with why, and what does harm.
void add_settings(Report& report, const std::vector<EffectiveSetting>& torch,
                  const EnvironmentReport& environment);
/// What spans of traces can count here; `lacks`: what not, and why (base/trace/counters.h).
Section traces_section(const std::string& lacks);
Section measured_section(const Peaks& peaks, int threads, at::Device device);

std::string report_text(const Report& report, const Terminal& terminal);
/// {"<section>": {"<key>": value, ...}, ..., "warnings": [...]}, indented.
std::string report_json(const Report& report);

}  // namespace maglev::verbs::doctor
