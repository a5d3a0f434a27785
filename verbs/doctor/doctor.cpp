// maglev doctor: what machine this is, what a run will use of it and why, and what will slow it
// down.

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <unistd.h>

#include "base/config/options.h"
#include "base/core/error.h"
#include "base/simd/targets.h"
#include "base/trace/counters.h"
#include "engine/host/machine.h"
#include "engine/host/peaks.h"
#include "engine/host/peaks_cache.h"
#include "verbs/arguments.h"
#include "verbs/doctor/environment.h"
#include "verbs/doctor/report.h"
#include "verbs/table.h"
#include "verbs/verb.h"

namespace maglev::verbs::doctor {

VerbEntry entry();

namespace {

constexpr int64_t kMeasuredBytes = int64_t(192) << 20;

// what is told of a run: settings, as train has them
struct Asked {
  std::string device = "auto";
  int64_t threads = 0;
  std::optional<Precision> precision;
  bool deterministic = false;

  explicit Asked(const std::vector<std::string>& settings) {
    OptionTable table;
    table.add("device", device, "auto, cpu, cuda or cuda:<index>");
    table.add("threads", threads, "threads; 0: as many as the process may use",
              {.min = 0, .max = 1024});
    table.add("train.precision", precision, "of networks' forward passes");
    table.add("train.deterministic", deterministic, "the same bits each time on a GPU");
    table.override_with(settings);
  }
};

// why other commands would be refused: whoever is refused asks because of it, and the machine is
// told all the same
struct Refusals {
  std::string simd, device;
  bool any() const { return !simd.empty() || !device.empty(); }
};

void limit_simd_or_say(Refusals& refusals) {
  try {
    limit_simd();
  } catch (const Error& e) {
    refusals.simd = e.what();
    ::unsetenv("MAGLEV_SIMD");
  }
}

Placement place_or_say(const Asked& asked, Refusals& refusals) {
  try {
    return place(asked.device, asked.threads, asked.precision);
  } catch (const Error& e) {
    if (!asked.device.starts_with("cuda")) throw;
    refusals.device = e.what();
    Placement cpu = place("cpu", asked.threads);
    // the reason without the part it is of
    cpu.device_why = refusals.device.substr(refusals.device.find(' ') + 1);
    return cpu;
  }
}

void add_refusals(Report& report, const Refusals& refusals) {
  std::vector<std::string> lines;
  if (!refusals.simd.empty())
    lines.push_back("every other command is refused: " + refusals.simd +
                    "; what is told here is without it");
  if (!refusals.device.empty())
    lines.push_back("a run with these settings is refused: " + refusals.device +
                    "; what is told of a run is of one with device=cpu");
  report.warnings.insert(report.warnings.begin(), lines.begin(), lines.end());
}

int run(const std::vector<std::string>& words) {
  const Arguments arguments(
      entry(), words,
      {.flags = {{"--json", "", "the same as JSON"}, {"--quick", "", "measure nothing"}},
       .settings = true});
  if (arguments.help()) return arguments.print_help();
  const Asked asked(arguments.settings());
  Refusals refusals;
  limit_simd_or_say(refusals);
  // as the user has it, before the engine adds its own
  const Environment user = this_environment();
  claim_threads();
  const System system = probe_system(std::filesystem::current_path().string());
  const Placement placement = place_or_say(asked, refusals);
  Report report = make_report(system, probe_build(), placement);
  add_refusals(report, refusals);
  const auto torch = torch_settings(placement, asked.deterministic);
  add_settings(report, torch,
               judge_environment(user, this_environment(), probe_surroundings(placement), system));
  report.sections.push_back(traces_section(trace::perf_counters().lacks));
  if (!arguments.has("--quick")) {
    const int64_t left =
        std::min(system.memory.left(), address_space_left().value_or(system.memory.left()));
    const int64_t bytes = std::min(kMeasuredBytes, left / 4);
    const Peaks peaks = measure_peaks(placement.threads, bytes, placement.device);
    // plan asks for them
    keep_peaks(placement, peaks);
    report.sections.push_back(measured_section(peaks, placement.threads, placement.device));
  }
  print(arguments.has("--json") ? report_json(report)
                                : report_text(report, probe_terminal(STDOUT_FILENO)));
  return refusals.any() ? 1 : 0;
}

}  // namespace

VerbEntry entry() {
  return {.name = "doctor",
          .summary = "this machine, what a run will use of it, and why",
          .usage =
              "doctor [--json] [--quick] [device=<device>] [threads=<count>] [train.precision=<p>] "
              "[train.deterministic=<bool>]",
          .run = run,
          .limits_simd = true};
}

}  // namespace maglev::verbs::doctor
