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
std::string changes_text(const std::string& before, const Changes& changes, size_t top,
                         const Terminal& terminal);
/// One object; times are seconds. `changes` is null where there is no older trace.
std::string report_json(const std::string& path, const Analysis& analysis, const Changes* changes);

}  // namespace maglev::verbs::trace
