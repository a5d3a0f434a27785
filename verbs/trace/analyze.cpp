// maglev trace analyze: one trace, or one against an older one.

#include <unistd.h>

#include "verbs/arguments.h"
#include "verbs/table.h"
#include "verbs/trace/report.h"
#include "verbs/trace/words.h"

namespace maglev::verbs::trace {

int analyze(const std::vector<std::string>& words) {
  const VerbEntry verb{
      .name = "trace analyze",
      .summary =
          "stages, idle time by cause, kernels, copies, gaps, the critical path, and "
          "what the run would gain without each bottleneck",
      .usage = "trace analyze <file> [--against OLD] [--top N] [--json]",
      .run = analyze};
  const Arguments arguments(
      verb, words,
      {.flags = {{"--against", "OLD", "an older trace: what became slower or faster"},
                 {"--top", "N", "rows of each table (default 12)"},
                 {"--json", "", "print JSON instead of tables"}},
       .least = 1,
       .most = 1,
       .names = "<file>"});
  if (arguments.help()) return arguments.print_help();
  const std::string& path = arguments.positional()[0];
  const auto top = size_t(arguments.integer("--top", 1, 1000).value_or(12));
  const auto against = arguments.value("--against");
  const Analysis analysis = analyse_trace(path);
  Changes changes;
  if (against) changes = changes_between(analyse_trace(*against), analysis);
  if (arguments.has("--json")) {
    print(report_json(path, analysis, against ? &changes : nullptr));
    return 0;
  }
  const Terminal terminal = probe_terminal(STDOUT_FILENO);
  print(report_text(path, analysis, top, terminal));
  if (against) print("\n" + changes_text(*against, changes, top, terminal));
  return 0;
}

}  // namespace maglev::verbs::trace
