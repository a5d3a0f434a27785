#include "engine/run/given.h"

#include <sstream>

#include "base/core/words.h"

namespace maglev {
namespace {

constexpr const char *kAgain = "# started again ", *kResumed = "# resumed ", *kWith = ", with:\n";

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

}  // namespace

std::vector<std::string> given_by_command(const std::string& account) {
  std::vector<std::string> settings;
  bool by_command = true;
  for (const std::string& line : lines_of(account)) {
    if (line.starts_with('#')) {
      by_command = line.starts_with(kAgain);
      if (by_command) settings.clear();
    } else if (by_command) {
      settings.push_back(line);
    }
  }
  return settings;
}

std::string with_command(const std::string& account, const std::string& when,
                         const std::string& settings) {
  if (lines_of(settings) == given_by_command(account)) return account;
  return account + kAgain + when + kWith + settings;
}

std::string with_resume(const std::string& account, const std::string& when,
                        const std::vector<std::string>& settings) {
  return settings.empty() ? account
                          : account + kResumed + when + kWith + joined(settings, "\n") + "\n";
}

}  // namespace maglev
