#pragma once
// An analysed trace for people and for programs.

#include <string>

#include "base/core/terminal.h"
#include "base/timeline/analysis.h"
#include "base/timeline/changes.h"

namespace maglev::verbs::trace {

/// The most of what the machine can do that a kernel reached, in arithmetic or in memory; -1: not
/// known.
double roofline(const NamedTime& kernel, const TraceOrigin& origin);

/// Tables of at most `top` rows each.
std::string report_text(const std::string& path, const Analysis& analysis, size_t top,
                        const Terminal& terminal);
/// In place of those the rows of each table whose names have `only` in them, with the sum of what
/// is counted. Throws Error with near names where there are none.
std::string only_text(const std::string& path, const Analysis& analysis, const std::string& only,
                      size_t top, const Terminal& terminal);
std::string changes_text(const std::string& before, const Changes& changes, size_t top,
                         const Terminal& terminal);
/// One object; times are seconds. `changes` is null where there is no older trace.
std::string report_json(const std::string& path, const Analysis& analysis, const Changes* changes);

/// A line of JSON with its end, so that a file of them is the history of a run's speed: {"date",
/// "file", "what", "note", "doubts", "iterations", "seconds_per_iteration", "stages", "copies",
/// "devices", "launches_per_iteration"}. Times and bytes are of one iteration, or of all where
/// there is none; stages' are what lies in no stage inside them; devices' are shares of the time.
std::string log_line(const std::string& path, const std::string& note, const Analysis& analysis);

}  // namespace maglev::verbs::trace
