#pragma once
// A command of the program: `maglev <name> ...`. Each folder of verbs/ is one.

#include <span>
#include <string>
#include <vector>

namespace maglev {

struct VerbEntry {
  const char* name;
  const char* summary;  ///< one line
  const char* usage;    ///< shown by `maglev <name> --help`, after "usage: maglev "
  /// Arguments behind the name. Returns the exit status; throws Error for a user's mistake (exit
  /// status 2).
  int (*run)(const std::vector<std::string>& arguments);
  /// It calls limit_simd() itself, and tells what is wrong with MAGLEV_SIMD, not ending by it.
  bool limits_simd = false;
};

/// Every verb that was built in, by name.
std::span<const VerbEntry> verb_table();

}  // namespace maglev
