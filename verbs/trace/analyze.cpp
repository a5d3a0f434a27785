// maglev trace analyze: one trace, or one against an older one.

#include <algorithm>
#include <filesystem>
#include <unistd.h>

#include "base/core/error.h"
#include "base/core/file.h"
#include "verbs/arguments.h"
#include "verbs/table.h"
#include "verbs/trace/report.h"
#include "verbs/trace/words.h"

namespace maglev::verbs::trace {

namespace {

constexpr size_t kListed = 10;

// a file; of a run's folder, or one of traces, the only trace in it
std::string trace_of(const std::string& path) {
  if (!is_folder(path)) return path;
  std::vector<std::string> found;
  for (const std::string& folder : {path, path + "/traces"})
    for (const std::string& name : list_dir(folder))
      if (name.ends_with(".json.gz")) found.push_back(folder + "/" + name);
  if (found.empty())
    throw Error("[" + path +
                "] is a folder without a trace (*.json.gz, in it or in traces/); "
                "trace.window=50-55 makes a run write one");
  if (found.size() == 1) return found[0];
  std::string list;
  for (size_t i = 0; i < std::min(found.size(), kListed); ++i) list += (i ? ", " : "") + found[i];
  throw Error("[" + path + "] holds " + std::to_string(found.size()) +
              " traces; give one of them: " + list + (found.size() > kListed ? ", ..." : ""));
}

}  // namespace

int analyze(const std::vector<std::string>& words) {
  const VerbEntry verb{
      .name = "trace analyze",
      .summary =
          "stages, idle time by cause, kernels, copies, gaps, the critical path, and "
          "what the run would gain without each bottleneck",
      .usage =
          "trace analyze <file> [--against OLD] [--top N] [--only TEXT] [--json] [--log FILE "
          "[--note TEXT]]",
      .run = analyze};
  const Arguments arguments(
      verb, words,
      {.flags = {{"--against", "OLD", "an older trace: what became slower or faster"},
                 {"--top", "N", "rows of each table (default 12)"},
                 {"--only", "TEXT",
                  "of each table the rows with TEXT in their names alone, and the sum of stages, "
                  "kernels, operations and calls; fails where there are none"},
                 {"--json", "", "print JSON instead of tables"},
                 {"--log", "FILE",
                  "adds a line of JSON: time, stages and copies of an iteration, what devices are "
                  "idle for, launches; so that FILE is a history"},
                 {"--note", "TEXT", "what was tried, for --log"}},
       .least = 1,
       .most = 1,
       .names = "<file>"});
  if (arguments.help()) return arguments.print_help();
  if (arguments.has("--note") && !arguments.has("--log"))
    throw Error("[trace analyze] --note is written by --log FILE; give that too");
  const auto only = arguments.value("--only");
  for (const char* flag : {"--json", "--against"})
    if (only && arguments.has(flag))
      throw Error("[trace analyze] --only is of the tables alone; leave out " + std::string(flag));
  const auto log = arguments.file("--log");
  const std::string path = trace_of(arguments.positional()[0]);
  std::error_code missing;
  if (log && std::filesystem::equivalent(*log, path, missing))
    throw Error("[trace analyze] --log names the trace, " + *log + "; name another file");
  const auto top = size_t(arguments.integer("--top", 1, 1000).value_or(12));
  const auto against = arguments.value("--against");
  const Analysis analysis = analyse_trace(path);
  Changes changes;
  if (against) changes = changes_between(analyse_trace(trace_of(*against)), analysis);
  if (log) {
    AppendFile history(*log);
    history.append(log_line(path, arguments.value("--note").value_or(""), analysis));
    history.flush();
  }
  if (arguments.has("--json")) {
    print(report_json(path, analysis, against ? &changes : nullptr));
    return 0;
  }
  const Terminal terminal = probe_terminal(STDOUT_FILENO);
  print(only ? only_text(path, analysis, *only, top, terminal)
             : report_text(path, analysis, top, terminal));
  if (against) print("\n" + changes_text(*against, changes, top, terminal));
  return 0;
}

}  // namespace maglev::verbs::trace
