#pragma once
// sinks.txt: where the metrics of a run, or of several seeds, go as somebody chose it last, a name a
// line. A resume that names no sinks keeps them.

#include <string>
#include <vector>

namespace maglev {

constexpr const char* kSinksFile = "sinks.txt";

/// What the file holds of `names`.
std::string sinks_text(const std::vector<std::string>& names);
/// The names in `folder` that this build has; none where nobody chose any.
std::vector<std::string> chosen_sinks(const std::string& folder);

}  // namespace maglev
