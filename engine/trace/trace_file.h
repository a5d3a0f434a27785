#pragma once
// Recordings as files that are there as a whole or not at all.

#include <string>

#include "base/trace/file.h"

namespace maglev {

/// Chrome's JSON at `path`, compressed where that ends in .gz. `torchs`: the file of torch's
/// profiler whose events become a part of this one, and which is removed whatever comes of it;
/// empty: none. Returns a line for people where it was too large to become one. Throws Error.
std::string write_chrome_file(const std::string& path, const trace::Recording& recording,
                       const trace::RecordedRun& run, const std::string& torchs);
/// Perfetto's own format at `path`. Throws Error.
void write_perfetto_file(const std::string& path, const trace::Recording& recording,
                         const trace::RecordedRun& run);

}  // namespace maglev
