#include "verbs/settings.h"

#include <cstdlib>
#include <filesystem>

namespace maglev {

std::string home_folder() {
  const char* home = std::getenv("MAGLEV_HOME");
  return home ? home : ".";
}

std::string load_settings(Experiment& experiment, const Arguments& arguments,
                          const std::vector<std::string>& words) {
  const std::string home = home_folder();
  std::string proven;
  if (!arguments.has("--bare")) proven = experiment.load_proven(home);
  if (auto file = arguments.value("--config")) experiment.table().load(*file);
  for (const auto& word : words) experiment.table().override_with(word);
  return proven.empty() ? "" : std::filesystem::relative(proven, home).string();
}

}  // namespace maglev
