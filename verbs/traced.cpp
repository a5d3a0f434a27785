#include "verbs/traced.h"

#include <array>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include <torch/cuda.h>

#include "base/config/options.h"
#include "base/core/error.h"
#include "base/core/file.h"
#include "base/core/thread_pool.h"
#include "base/core/version.h"
#include "engine/host/machine.h"

namespace maglev::verbs {
namespace {

// of all of the work, where a run's windows are short
constexpr int64_t kRoomMiB = 256;
constexpr std::array kOfWindows{"trace.window", "trace.every", "trace.length", "trace.anomaly",
                                "trace.folder"};

TraceOptions trace_options(const std::vector<std::string>& settings, const std::string& where) {
  TraceOptions options{.size_limit = kRoomMiB};
  OptionTable table;
  table.section("trace", [&](OptionTable& t) { options.describe(t); });
  for (const std::string& setting : settings) {
    for (const std::string name : kOfWindows)
      if (setting.starts_with(name + "="))
        throw Error(where + name + " is of iterations of training; --trace FILE records all of it");
    table.override_with(setting);
  }
  return with_environment(options);
}

}  // namespace

Traced::Traced(const Arguments& arguments, const VerbEntry& verb, bool on_device)
    : reason_(verb.name), told_(!arguments.has("--json")) {
  const std::string where = "[" + reason_ + "] ";
  std::vector<std::string> how;
  for (const std::string& setting : arguments.settings())
    (setting.starts_with("trace.") ? how : settings_).push_back(setting);
  const auto file = arguments.output("--trace");
  if (!file) {
    if (!how.empty()) throw Error(where + how[0] + " says how --trace FILE records; give that too");
    if (std::getenv("MAGLEV_TRACE"))
      std::fprintf(stderr,
                   "maglev: MAGLEV_TRACE names iterations of training and does nothing here; "
                   "maglev %s --trace FILE records all of it\n",
                   verb.name);
    return;
  }
  file_ = *file;
  const TraceOptions options = trace_options(how, where);
  // a folder that cannot be written says so before the work, not after it
  FileWriter probe(temporary_beside(file_));
  // before torch's profiler looks for a device
  claim_threads();
  trace_ = std::make_unique<WorkTrace>(options, on_device && torch::cuda::is_available());
}

void Traced::finish(maglev::trace::RecordedRun about) {
  if (!trace_) return;
  about.version = kEngineVersion;
  about.reason = reason_;
  about.processors = usable_cpus();
  for (const std::string& line : trace_->finish(file_, std::move(about)))
    if (told_) std::printf("%s\n", line.c_str());
}

}  // namespace maglev::verbs
