#include "verbs/trace/report.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>

#include "base/config/choice.h"
#include "base/core/error.h"
#include "base/core/printed.h"
#include "base/core/words.h"
#include "verbs/table.h"

namespace maglev::verbs::trace {
namespace {

std::string time_text(double ns) {
  if (ns >= 1e9) return printed("%.3f s", ns / 1e9);
  if (ns >= 1e6) return printed("%.3f ms", ns / 1e6);
  return printed("%.1f us", ns / 1e3);
}
std::string share_text(double part, double whole) {
  return whole > 0 ? printed("%.1f %%", 100 * part / whole) : "-";
}
std::string percent(double share) { return printed("%.1f %%", 100 * share); }

// a kernel's name without what its templates and arguments say, for tables of a terminal's width
std::string short_name(std::string name) {
  if (name.starts_with("void ")) name = name.substr(5);
  constexpr size_t kMost = 60;
  if (name.size() <= kMost) return name;
  size_t cut = kMost - 3;
  while (cut > 0 && (static_cast<unsigned char>(name[cut]) & 0xc0) == 0x80) --cut;
  return name.substr(0, cut) + "...";
}

void heading(std::string& text, const std::string& title) { text += "\n" + title + "\n"; }

// what the trace is, and why it may be wrong
std::string head_text(const std::string& path, const Analysis& analysis, const Terminal& terminal) {
  const TraceOrigin& origin = analysis.origin;
  std::string text = path + ": " + time_text(double(analysis.wall));
  if (analysis.iterations) text += ", " + counted(int64_t(analysis.iterations), "iteration");
  text += ", " + counted(int64_t(analysis.spans), "span") + ", " +
          counted(int64_t(analysis.threads.size()), "thread") + ", " +
          counted(int64_t(analysis.devices.size()), "device") + "\n";
  if (origin.ours)
    text += origin.algorithm + " on " + origin.environment + " (" + origin.run + "), " +
            origin.mode + ", recording took " + printed("%.3f s", origin.overhead_s) + "\n";
  for (const std::string& doubt : analysis.doubts)
    text += Line().add("unreliable", Ink::red).add(": " + doubt).text(terminal.colour) + "\n";
  return text;
}

int64_t self_sum(const std::vector<NamedTime>& rows) {
  int64_t sum = 0;
  for (const NamedTime& row : rows) sum += row.self;
  return sum;
}

// a table of what has names: on devices, on processors, calls of the runtime
struct NamedSection {
  const char *title, *heading;  // "On devices", "kernel"
  const char *counted, *thing;  // "launches", "kernel": how often it was, of how many
  const std::vector<NamedTime>& rows;
  int64_t whole;  // ns that shares are of
};

std::array<NamedSection, 3> named_sections(const Analysis& a) {
  return {
      NamedSection{"On devices", "kernel", "launches", "kernel", a.kernels, self_sum(a.kernels)},
      NamedSection{"On processors", "operation", "calls", "operation", a.operations,
                   self_sum(a.operations)},
      NamedSection{"Calls of the device's runtime", "call", "calls", "function", a.calls, a.wall}};
}

// "3000 launches of 75 kernels, 50.0 an iteration"
std::string count_text(const NamedSection& section, const std::vector<NamedTime>& rows,
                       uint64_t iterations) {
  uint64_t calls = 0;
  for (const NamedTime& row : rows) calls += row.calls;
  std::string text = std::to_string(calls) + " " + section.counted + " of " +
                     counted(int64_t(rows.size()), section.thing);
  if (iterations) text += printed(", %.1f an iteration", double(calls) / double(iterations));
  return text;
}

std::string named_table(const std::vector<NamedTime>& rows, const std::string& what, double whole,
                        size_t top, const TraceOrigin& origin, const Terminal& terminal) {
  const bool with_roofline = std::any_of(
      rows.begin(), rows.end(), [&](const NamedTime& row) { return roofline(row, origin) >= 0; });
  std::vector<std::string> headings{what, ">calls", ">self", ">share", ">mean", ">longest"};
  if (with_roofline) headings.push_back(">of roofline");
  Table table(headings);
  size_t shown = 0;
  for (const NamedTime& row : rows) {
    if (shown++ == top) break;
    std::vector<std::string> cells{short_name(row.name),        std::to_string(row.calls),
                                   time_text(double(row.self)), share_text(double(row.self), whole),
                                   time_text(row.mean()),       time_text(double(row.longest))};
    if (with_roofline) {
      const double share = roofline(row, origin);
      cells.push_back(share < 0 ? "-" : percent(share));
    }
    table.add(cells);
  }
  std::string text = table.text(terminal);
  if (rows.size() > top) text += "and " + std::to_string(rows.size() - top) + " more\n";
  return text;
}

double count_of(const NamedTime& stage, std::string_view counter) {
  const auto place =
      std::find(maglev::trace::kCounters.begin(), maglev::trace::kCounters.end(), counter);
  return stage.counts[size_t(place - maglev::trace::kCounters.begin())];
}
std::string ratio(const NamedTime& stage, const char* part, const char* whole, double times) {
  const double of = count_of(stage, whole);
  return of > 0 ? printed("%.2f", times * count_of(stage, part) / of) : "-";
}

std::string processes_text(const Analysis& analysis, const Terminal& terminal) {
  Table table({"process", "pid", ">threads", ">spans", ">begins at", ">wall", ">iterations",
               ">per iteration", ">busy", ">waits"});
  for (const ProcessTime& process : analysis.processes)
    table.add(
        {short_name(process.name), process.pid, std::to_string(process.threads),
         std::to_string(process.spans),
         time_text(double(process.begin - analysis.processes[0].begin)),
         time_text(double(process.wall)), std::to_string(process.iterations),
         process.iterations ? time_text(double(process.wall) / double(process.iterations)) : "-",
         share_text(double(process.busy), double(process.wall)),
         share_text(double(process.waits), double(process.wall))});
  return table.text(terminal);
}

std::string stages_text(const Analysis& analysis, const Terminal& terminal) {
  const auto wall = double(analysis.wall);
  const double iterations = double(std::max<uint64_t>(1, analysis.iterations));
  // of what was counted, what says something of whole stages
  struct Column {
    const char* heading;
    std::string (*cell)(const NamedTime&);
  };
  const std::array<Column, 6> known{
      Column{">IPC", [](const NamedTime& s) { return ratio(s, "instructions", "cycles", 1); }},
      Column{">cache misses/k",
             [](const NamedTime& s) { return ratio(s, "cache_misses", "instructions", 1e3); }},
      Column{">branch misses/k",
             [](const NamedTime& s) { return ratio(s, "branch_misses", "instructions", 1e3); }},
      Column{">on a processor",
             [](const NamedTime& s) {
               const double ns = count_of(s, "task_clock_ns");
               return ns > 0 ? share_text(ns, double(s.total)) : std::string("-");
             }},
      Column{">faults",
             [](const NamedTime& s) { return printed("%.0f", count_of(s, "page_faults")); }},
      Column{">switches",
             [](const NamedTime& s) { return printed("%.0f", count_of(s, "context_switches")); }}};
  std::vector<Column> columns;
  for (const Column& column : known)
    if (std::any_of(analysis.stages.begin(), analysis.stages.end(), [&](const NamedTime& stage) {
          const std::string cell = column.cell(stage);
          return cell != "-" && cell != "0";
        }))
      columns.push_back(column);

  std::vector<std::string> headings{"stage", ">calls", ">total",
                                    ">self", ">share", ">per iteration"};
  for (const Column& column : columns) headings.push_back(column.heading);
  Table table(headings);
  const auto add = [&](const std::string& name, const std::string& calls, const std::string& total,
                       int64_t self, const NamedTime* stage = nullptr) {
    std::vector<std::string> cells{
        name,
        calls,
        total,
        time_text(double(self)),
        share_text(double(self), wall),
        analysis.iterations ? time_text(double(self) / iterations) : "-"};
    for (const Column& column : columns) cells.push_back(stage ? column.cell(*stage) : "");
    table.add(cells);
  };
  for (const NamedTime& stage : analysis.stages)
    add(short_name(stage.name), std::to_string(stage.calls), time_text(double(stage.total)),
        stage.self, &stage);
  if (analysis.outside) add("(outside of stages)", "", "", analysis.outside);
  if (analysis.untraced) add("(untraced)", "", "", analysis.untraced);
  return table.text(terminal);
}

std::string devices_text(const Analysis& analysis, const Terminal& terminal) {
  std::string text;
  for (const UsedTime& device : analysis.devices) {
    Table table({device.name, ">time", ">share"});
    const auto add = [&](const std::string& name, int64_t time) {
      if (time)
        table.add({name, time_text(double(time)), share_text(double(time), double(device.wall))});
    };
    add("computes", device.busy);
    add("communicates", device.communication);
    add("copies", device.copy);
    for (size_t cause = 0; cause < kCauses; ++cause)
      add(std::string("idle: ") + name_of(Cause(cause)), device.idle[cause]);
    heading(text, "Device");
    text += table.text(terminal);
  }
  return text;
}

// what a thread waits for most
std::string waits_for(const UsedTime& thread) {
  const auto most = std::max_element(thread.idle.begin(), thread.idle.end());
  return *most > 0 ? name_of(Cause(most - thread.idle.begin())) : "-";
}

std::string threads_text(const Analysis& analysis, size_t top, const Terminal& terminal) {
  Table table({"thread", ">busy", ">waits", ">for", ">untraced"});
  size_t shown = 0;
  for (const UsedTime& thread : analysis.threads) {
    if (shown++ == top) break;
    table.add({thread.name + (thread.name == analysis.main_thread ? " (main)" : ""),
               share_text(double(thread.busy), double(thread.wall)),
               share_text(double(thread.idle_total()), double(thread.wall)), waits_for(thread),
               share_text(double(thread.untraced), double(thread.wall))});
  }
  return table.text(terminal);
}

std::string copy_name(const CopiedBytes& copied) {
  return std::string(name_of(copied.way)) + (copied.pageable ? ", pageable" : "");
}

std::string copies_text(const Analysis& analysis, const Terminal& terminal) {
  Table table({"copies", ">calls", ">time", ">MB", ">GB/s"});
  for (const CopiedBytes& copied : analysis.copies)
    table.add({copy_name(copied), std::to_string(copied.calls), time_text(double(copied.total)),
               printed("%.3f", copied.bytes / 1e6),
               copied.total > 0 ? printed("%.2f", copied.bytes / double(copied.total)) : "-"});
  return table.text(terminal);
}

std::string allocations_text(const Analysis& analysis, size_t top, const Terminal& terminal) {
  Table table({"allocated under", "memory", ">calls", ">MB", ">largest MB"});
  size_t shown = 0;
  for (const AllocatedBytes& allocated : analysis.allocations) {
    if (shown++ == top) break;
    table.add({short_name(allocated.name), allocated.device ? "device" : "host",
               std::to_string(allocated.calls), printed("%.3f", allocated.bytes / 1e6),
               printed("%.3f", allocated.largest / 1e6)});
  }
  std::string text = table.text(terminal);
  if (analysis.allocations.size() > top)
    text += "and " + std::to_string(analysis.allocations.size() - top) + " more\n";
  return text;
}

std::string gaps_text(const Analysis& analysis, const Terminal& terminal) {
  Table table({"where", ">at", ">length", "cause", "after", "before"});
  for (const Gap& gap : analysis.gaps)
    table.add({gap.where, time_text(double(gap.begin - analysis.begin)),
               time_text(double(gap.length)), name_of(gap.cause), short_name(gap.before),
               short_name(gap.after)});
  return table.text(terminal);
}

// leaves of each table the rows one of whose names `matches` picks out
template <class Matches>
void keep_rows(Analysis& a, const Matches& matches) {
  const auto keep = [&](auto& rows, const auto& names) {
    std::erase_if(rows, [&](const auto& row) { return !names(row); });
  };
  const auto by_name = [&](const auto& row) { return matches(row.name); };
  keep(a.stages, by_name), keep(a.kernels, by_name), keep(a.operations, by_name);
  keep(a.calls, by_name), keep(a.allocations, by_name), keep(a.path, by_name);
  keep(a.threads, [&](const UsedTime& t) { return matches(t.name) || matches(waits_for(t)); });
  keep(a.copies, [&](const CopiedBytes& copied) { return matches(copy_name(copied)); });
  keep(a.gaps, [&](const Gap& gap) {
    return matches(gap.where) || matches(name_of(gap.cause)) || matches(gap.before) ||
           matches(gap.after);
  });
}

// names of an analysis that are near `only`: those that have it in other letters, or else those
// with a word near it
std::vector<std::string> near_only(const Analysis& analysis, const std::string& only) {
  constexpr size_t kMost = 3;
  std::vector<std::string> near, words;
  const auto add = [](std::vector<std::string>& list, const std::string& name) {
    if (!name.empty() && std::find(list.begin(), list.end(), name) == list.end())
      list.push_back(name);
  };
  Analysis all = analysis;
  keep_rows(all, [&](const std::string& name) {
    if (lower_case(name).find(lower_case(only)) != name.npos) add(near, name);
    std::string word;
    for (const char c : name + " ")
      if (std::isalnum(static_cast<unsigned char>(c)) || c == '_') word += c;
      else add(words, word), word.clear();
    return true;
  });
  if (near.empty()) near = near_names(only, words);
  if (near.size() > kMost) near.resize(kMost);
  return near;
}

std::string path_text(const Analysis& analysis, size_t top, const Terminal& terminal) {
  Table table({"on the critical path", ">pieces", ">time", ">share"});
  size_t shown = 0;
  for (const PathPart& part : analysis.path) {
    if (shown++ == top) break;
    table.add({(part.device ? "device: " : "") + short_name(part.name), std::to_string(part.pieces),
               time_text(double(part.length)),
               share_text(double(part.length), double(analysis.path_length))});
  }
  std::string text = table.text(terminal);
  if (analysis.path.size() > top)
    text += "and " + std::to_string(analysis.path.size() - top) + " more\n";
  return text;
}

}  // namespace

double roofline(const NamedTime& kernel, const TraceOrigin& origin) {
  const double seconds = double(kernel.self) / 1e9;
  if (seconds <= 0) return -1;
  double share = -1;
  if (kernel.flops > 0 && origin.peak_gflops > 0)
    share = kernel.flops / seconds / 1e9 / origin.peak_gflops;
  if (kernel.bytes > 0 && origin.peak_gbytes_s > 0)
    share = std::max(share, kernel.bytes / seconds / 1e9 / origin.peak_gbytes_s);
  return share;
}

std::string report_text(const std::string& path, const Analysis& analysis, size_t top,
                        const Terminal& terminal) {
  std::string text = head_text(path, analysis, terminal);

  heading(text, "Findings");
  if (analysis.findings.empty())
    text += analysis.reliable() ? "none: nothing stands out that could be taken away\n"
                                : "none, as far as this trace can be relied on\n";
  size_t number = 0;
  for (const Finding& finding : analysis.findings) {
    text += std::to_string(++number) + ". " +
            Line().add(finding.name, Ink::bold).text(terminal.colour) + ": up to " +
            percent(finding.gain) + " of the time\n   " + finding.evidence + "\n";
    if (!finding.patch.empty())
      text += "   set " + finding.patch + ", which should take away " +
              percent(finding.patch_gain) + "\n";
    text += "   " + finding.advice + "\n";
  }

  heading(text, "Stages of the main thread (" + analysis.main_thread + ")");
  text += stages_text(analysis, terminal);
  if (!analysis.processes.empty())
    heading(text, "Processes"), text += processes_text(analysis, terminal);
  text += devices_text(analysis, terminal);
  if (!analysis.threads.empty())
    heading(text, "Threads"), text += threads_text(analysis, top, terminal);
  for (const NamedSection& section : named_sections(analysis)) {
    if (section.rows.empty()) continue;
    heading(text, section.title);
    text += count_text(section, section.rows, analysis.iterations) + "\n" +
            named_table(section.rows, section.heading, double(section.whole), top, analysis.origin,
                        terminal);
  }
  if (!analysis.copies.empty()) heading(text, "Copies"), text += copies_text(analysis, terminal);
  if (!analysis.allocations.empty())
    heading(text, "Allocations"), text += allocations_text(analysis, top, terminal);
  if (!analysis.gaps.empty()) heading(text, "Longest gaps"), text += gaps_text(analysis, terminal);
  if (!analysis.path.empty())
    heading(text, std::string("Critical path of ") +
                      (analysis.iterations ? "one iteration" : "what was replayed") + ", " +
                      time_text(double(analysis.path_length))),
        text += path_text(analysis, top, terminal);
  return text;
}

std::string only_text(const std::string& path, const Analysis& analysis, const std::string& only,
                      size_t top, const Terminal& terminal) {
  Analysis found = analysis;
  keep_rows(found, [&](const std::string& name) { return name.find(only) != name.npos; });
  found.outside = found.untraced = 0;
  std::string text;
  const auto part = [&](const std::string& title) {
    heading(text, title + ", names with \"" + only + "\"");
  };
  const auto sum_text = [&](const NamedSection& section) {
    const auto sum = double(self_sum(section.rows));
    return count_text(section, section.rows, analysis.iterations) + ": " + time_text(sum) + ", " +
           share_text(sum, double(section.whole)) + "\n";
  };
  if (!found.stages.empty()) {
    part("Stages of the main thread (" + analysis.main_thread + ")");
    text += sum_text({"", "", "calls", "stage", found.stages, analysis.wall}) +
            stages_text(found, terminal);
  }
  if (!found.threads.empty()) part("Threads"), text += threads_text(found, top, terminal);
  const auto sections = named_sections(found), whole = named_sections(analysis);
  for (size_t i = 0; i < sections.size(); ++i) {
    NamedSection section = sections[i];
    if (section.rows.empty()) continue;
    section.whole = whole[i].whole;
    part(section.title);
    text += sum_text(section) + named_table(section.rows, section.heading, double(section.whole),
                                            top, analysis.origin, terminal);
  }
  if (!found.copies.empty()) part("Copies"), text += copies_text(found, terminal);
  if (!found.allocations.empty())
    part("Allocations"), text += allocations_text(found, top, terminal);
  if (!found.gaps.empty()) part("Longest gaps"), text += gaps_text(found, terminal);
  if (!found.path.empty()) part("Critical path"), text += path_text(found, top, terminal);
  if (text.empty())
    throw Error("[trace analyze] no name in the tables of " + path + " has \"" + only + "\" in it" +
                did_you_mean(near_only(analysis, only)));
  return head_text(path, analysis, terminal) + text;
}

std::string changes_text(const std::string& before, const Changes& changes, size_t top,
                         const Terminal& terminal) {
  const auto relative = [](const Change& change) {
    return std::isfinite(change.relative()) ? printed("%+.1f %%", 100 * change.relative())
                                            : std::string("new");
  };
  std::string text = "Against " + before + (changes.per_iteration ? ", per iteration: " : ": ") +
                     time_text(changes.wall.before) + " to " + time_text(changes.wall.now) + " (" +
                     relative(changes.wall) + ")\n";
  if (changes.rows.empty()) return text + "no part differs by 0.5 % of the time\n";
  Table table({"", "name", ">before", ">now", ">difference", ">relative"});
  size_t shown = 0;
  for (const Change& change : changes.rows) {
    if (shown++ == top) break;
    table.add({change.kind, short_name(change.name), time_text(change.before),
               time_text(change.now),
               (change.difference() < 0 ? "-" : "+") + time_text(std::abs(change.difference())),
               relative(change)});
  }
  return text + table.text(terminal);
}

}  // namespace maglev::verbs::trace
