#pragma once
// What doctor says: one list of facts, shown as text or as JSON.

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "base/core/terminal.h"
#include "engine/host/machine.h"
#include "engine/host/system.h"
#include "verbs/doctor/measure.h"

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
};
Build probe_build();

/// Everything but the measured section.
Report make_report(const System& system, const Build& build, const Placement& placement);
Section measured_section(const Measured& measured, int threads);

std::string report_text(const Report& report, const Terminal& terminal);
/// {"<section>": {"<key>": value, ...}, ..., "warnings": [...]}, indented.
std::string report_json(const Report& report);

}  // namespace maglev::verbs::doctor
