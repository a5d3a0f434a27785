#include "verbs/bench/outputs.h"

#include <algorithm>
#include <cstdio>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "base/config/choice.h"
#include "base/core/error.h"
#include "base/core/printed.h"
#include "base/core/terminal.h"
#include "engine/host/system.h"
#include "verbs/notes.h"
#include "verbs/table.h"

namespace maglev::verbs::bench {
namespace {

constexpr double kThreshold = 0.05;
constexpr size_t kMostBytes = size_t(64) << 20;  // of a baseline

}  // namespace

Outputs::Outputs(const Arguments& arguments, int rounds)
    : json(arguments.output("--json")),
      html(arguments.output("--html")),
      threshold(arguments.number("--threshold", 0, 10).value_or(kThreshold)) {
  if (json && html && *json == *html)
    throw Error("[bench] --json and --html name the same file, " + *json + "; name two");
  if (const auto file = arguments.file("--log")) {
    if (file == json || file == html)
      throw Error("[bench] --log names the file of another flag, " + *file + "; name two");
    log.emplace(*file);
  }
  const auto path = arguments.value("--baseline");
  if (!path) return;
  const auto too_few = [](const std::string& what, size_t samples) {
    return Error("[bench] " + what + " " + std::to_string(samples) + " rounds, and fewer than " +
                 std::to_string(kLeastJudged) + " judge nothing; measure with --rounds " +
                 std::to_string(kLeastJudged) + " or more");
  };
  if (rounds < kLeastJudged) throw too_few("beside --baseline there are", size_t(rounds));
  std::string machine;
  baseline = read_file(*path, kMostBytes);
  before = timings_of_json(baseline, *path, &machine);
  for (const Timing& one : before)
    if (std::ssize(one.seconds) < kLeastJudged)
      throw too_few(*path + " has " + one.suite + "/" + one.name + " in", one.seconds.size());
  if (const std::string model = probe_system(".").processor.model;
      !machine.empty() && !machine.starts_with(model))
    std::fprintf(stderr, "maglev: %s was measured on another machine (%s): it says little here\n",
                 path->c_str(), machine.c_str());
}

std::string machine_of(const std::string& how) {
  return probe_system(".").processor.model + ", " + how;
}

void tell_unrest(const Bystanders& bystanders) {
  if (const std::string note = bystanders.note(); !note.empty()) print_notes({note});
}

int tell_timings(const Arguments& arguments, const Outputs& outputs,
                 const std::vector<Timing>& timings, const std::string& how,
                 const nlohmann::json& beside) {
  const auto comparisons = compared(timings, outputs.before, outputs.threshold);
  MAGLEV_ASSERT(!timings.empty(), "something was measured");
  const std::string interval = interval_name(summary_of(timings[0]));
  Table table({"suite", "work", ">median", ">" + interval, ">of before", "verdict"});
  int slower = 0;
  for (const Timing& one : timings) {
    const TimingSummary summary = summary_of(one);
    const auto found = std::find_if(
        comparisons.begin(), comparisons.end(),
        [&](const Comparison& c) { return c.suite == one.suite && c.name == one.name; });
    const bool known = found != comparisons.end();
    if (known && found->verdict == Verdict::slower) ++slower;
    table.add({one.suite, one.name, seconds_text(summary.median),
               seconds_text(summary.interval.low) + " to " + seconds_text(summary.interval.high),
               known ? printed("%.2f", found->ratio) : "-", known ? name_of(found->verdict) : "-"});
  }
  print(table.text(probe_terminal(STDOUT_FILENO)));
  const std::string machine = machine_of(how);
  if (outputs.json) {
    auto file = nlohmann::json::parse(timings_json(timings, machine));
    file.update(beside);
    write_atomic(*outputs.json, file.dump(2) + "\n");
  }
  if (outputs.html) write_atomic(*outputs.html, timings_page(timings, comparisons, machine));
  if (arguments.has("--baseline") && comparisons.empty())
    throw Error("[bench] nothing that was measured is in " + *arguments.value("--baseline") +
                "; measure the works that it has");
  for (const Comparison& one : comparisons)
    if (one.verdict == Verdict::slower)
      print("slower: " + one.suite + "/" + one.name + " takes " + printed("%.2f", one.ratio) +
            " of its time before\n");
  return slower > 0 ? kRegressed : 0;
}

}  // namespace maglev::verbs::bench
