#pragma once
// verify RUN --against OTHER: where two runs that should be the same part ways.

#include <string>
#include <vector>

namespace maglev::verbs::verify {

struct Comparison {
  const char* name;
  bool same;
  bool learned;      ///< what the runs came to, and not what they were made from
  std::string what;  ///< a line for people: what was compared, and the first that differs
};

/// Settings and versions, then the rows of metrics by step and the checkpoints that both have: of
/// files alone, to the bit. Figures of the machine (seconds, memory) are not compared. Throws Error
/// where a folder is no run, or where the two have no step in common.
std::vector<Comparison> compare_runs(const std::string& run, const std::string& other);

}  // namespace maglev::verbs::verify
