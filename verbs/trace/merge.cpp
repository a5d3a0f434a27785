// maglev trace merge: traces of several processes as one, on one clock.

#include "base/timeline/merge.h"

#include <cstdio>
#include <filesystem>
#include <set>
#include <unistd.h>

#include "base/config/choice.h"
#include "base/core/error.h"
#include "base/core/file.h"
#include "base/core/printed.h"
#include "base/trace/file.h"
#include "verbs/arguments.h"
#include "verbs/table.h"
#include "verbs/trace/words.h"

namespace maglev::verbs::trace {

int merge(const std::vector<std::string>& words) {
  const VerbEntry verb{
      .name = "trace merge",
      .summary =
          "traces of several processes as one, with aligned clocks; for trace analyze, "
          "Perfetto and chrome://tracing",
      .usage = "trace merge <file> <file> ... -o OUT [--marks NAME] [--overwrite]",
      .run = merge};
  const Arguments arguments(
      verb, words,
      {.flags = {{"-o", "OUT", "the merged trace; compressed where it ends in .gz"},
                 {"--marks", "NAME",
                  "spans of this name end together in all files (a barrier, or iterations that "
                  "wait for each other): clocks are aligned by them"},
                 {"--overwrite", "", "OUT may be there"}},
       .least = 2,
       .most = 4096,
       .names = "<file> <file> ..."});
  if (arguments.help()) return arguments.print_help();
  const auto out = arguments.output("-o");
  if (!out) throw Error("[trace merge] -o OUT was expected: where the merged trace goes");
  const auto& paths = arguments.positional();

  std::set<std::filesystem::path> seen;
  for (const std::string& path : paths)
    if (!seen.insert(std::filesystem::weakly_canonical(path)).second)
      throw Error("[trace merge] " + path + " is given twice");

  // a file is there as a whole or not at all
  const std::string unfinished = temporary_beside(*out);
  FileWriter file(unfinished);
  const auto write = [&](std::string_view bytes) { file.write(bytes); };
  const std::string marks = arguments.value("--marks").value_or("");
  std::vector<MergedTrace> merged;
  try {
    if (out->ends_with(".gz")) {
      maglev::trace::Gzip gzip(write);
      merged = merge_traces(paths, marks, [&](std::string_view bytes) { gzip.write(bytes); });
      gzip.finish();
    } else {
      merged = merge_traces(paths, marks, write);
    }
    file.finish();
  } catch (...) {
    remove_path(unfinished);
    throw;
  }
  rename_path(unfinished, *out);

  Table table({"file", ">events", "clock", ">shift", ">drift", ">marks", ">residual"});
  for (const MergedTrace& one : merged) {
    table.add({one.path + (one.torn ? " (torn)" : ""), std::to_string(one.events),
               name_of(one.clock), printed("%.3f ms", double(one.shift_ns) / 1e6),
               printed("%.2f ppm", one.drift_ppm), std::to_string(one.marks),
               one.marks ? printed("%.1f us", double(one.residual_ns) / 1e3) : "-"});
  }
  print(table.text(probe_terminal(STDOUT_FILENO)));
  for (size_t i = 0; i < merged.size(); ++i)
    if (merged[i].process != i) {
      print(
          "some are windows of one process, which the merged trace shows as one; how long its "
          "iterations take each window says by itself\n");
      break;
    }
  std::printf("%s\n", out->c_str());
  return 0;
}

}  // namespace maglev::verbs::trace
