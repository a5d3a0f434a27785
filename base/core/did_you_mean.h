#pragma once
// Near names (near_names) as the end of a sentence about a name that is none.

#include <string>
#include <vector>

namespace maglev {

/// "; did you mean greedy, random?"; empty where nothing is near.
inline std::string did_you_mean(const std::vector<std::string>& near) {
  std::string list;
  for (const std::string& name : near) list += (list.empty() ? "" : ", ") + name;
  return list.empty() ? "" : "; did you mean " + list + "?";
}

}  // namespace maglev
