#include "engine/trace/options.h"

#include <charconv>
#include <cstdlib>
#include <string_view>

#include "base/core/error.h"

namespace maglev {
namespace {

constexpr int64_t kLastIteration = int64_t(1) << 53;

bool parse_iteration(std::string_view text, int64_t& iteration) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), iteration);
  return error == std::errc() && end == text.data() + text.size() && iteration >= 0 &&
         iteration <= kLastIteration;
}

}  // namespace

void TraceOptions::describe(OptionTable& table) {
  table.add("window", window,
            "iterations whose time is recorded, counted from 1, e.g. 50-55 or 50, by commas; 0 is "
            "the warm-up; empty: none");
  table.add("every", every, "a window begins each so many iterations; 0: none",
            {.min = 0, .max = 1e15, .unit = "iterations"});
  table.add("length", length, "of a window that trace.every or SIGUSR2 asked for",
            {.min = 1, .max = 1e6, .unit = "iterations"});
  table.add("anomaly", anomaly,
            "an iteration is written that takes so many times the running median, and the one in "
            "which learning diverges; all are recorded for that; 0: none is",
            {.min = 0, .max = 1e6});
  table.add("mode", mode, "lite: the engine's spans; full: torch's profiler besides");
  table.add(
      "counters", counters,
      "stages count cycles, instructions, misses of caches and branches, time on a processor, "
      "page faults and switches, as far as the system lets them; auto: in mode full");
  table.add("shapes", shapes, "torch's operations say their inputs' shapes and types; mode full");
  table.add("memory", memory,
            "what torch's operations take of memory and give back is recorded; mode full");
  table.add("folder", folder, "where traces go; empty: traces/ in the run's folder");
  table.add("size_limit", size_limit,
            "what a window's spans may take in memory; those beyond are counted and dropped",
            {.min = 1, .max = 65536, .unit = "MiB"});
}

TraceOptions with_environment(TraceOptions options) {
  if (const char* window = std::getenv("MAGLEV_TRACE")) {
    options.window = window;
    parse_windows(options.window, "MAGLEV_TRACE");
  }
  if (const char* mode = std::getenv("MAGLEV_TRACE_MODE")) {
    const std::string_view text = mode;
    if (text != "lite" && text != "full")
      throw Error("[trace] MAGLEV_TRACE_MODE must be lite or full, got '" + std::string(text) +
                  "'");
    options.mode = text == "full" ? TraceMode::full : TraceMode::lite;
  }
  if (const char* folder = std::getenv("MAGLEV_TRACE_FOLDER")) options.folder = folder;
  if ((options.shapes || options.memory) && options.mode != TraceMode::full)
    throw Error(std::string("[trace] trace.") + (options.shapes ? "shapes" : "memory") +
                " is told by torch's profiler; set trace.mode=full, or leave it out");
  return options;
}

std::vector<IterationRange> parse_windows(const std::string& text, const std::string& origin) {
  const auto wrong = [&](std::string_view part) {
    return Error("[trace] " + origin +
                 " must be iterations such as 50-55 or 50, by commas, each window behind the one "
                 "before, got '" +
                 std::string(part) + "'");
  };
  std::vector<IterationRange> windows;
  std::string_view rest = text;
  while (!text.empty()) {
    const size_t comma = rest.find(',');
    const std::string_view part = rest.substr(0, comma);
    const size_t dash = part.find('-');
    IterationRange window;
    if (!parse_iteration(part.substr(0, dash), window.first)) throw wrong(part);
    window.second = window.first;
    if (dash != part.npos && !parse_iteration(part.substr(dash + 1), window.second))
      throw wrong(part);
    if (window.second < window.first || (!windows.empty() && window.first <= windows.back().second))
      throw wrong(part);
    windows.push_back(window);
    if (comma == rest.npos) break;
    rest.remove_prefix(comma + 1);
  }
  return windows;
}

}  // namespace maglev
