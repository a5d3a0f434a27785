#include "engine/train/session_sinks.h"

#include <algorithm>
#include <sstream>

#include "base/core/file.h"
#include "base/metrics/sink.h"

namespace maglev {
namespace {

constexpr size_t kMostSinksBytes = 1 << 16;

}  // namespace

std::string sinks_text(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += name + "\n";
  return text;
}

std::vector<std::string> chosen_sinks(const std::string& folder) {
  const std::string path = folder + "/" + kSinksFile;
  if (!path_exists(path)) return {};
  std::istringstream lines(read_file(path, kMostSinksBytes));
  std::vector<std::string> names;
  for (std::string line; std::getline(lines, line);)
    if (std::ranges::any_of(sink_table(), [&](const SinkEntry& sink) { return line == sink.name; }))
      names.push_back(line);
  return names;
}

}  // namespace maglev
