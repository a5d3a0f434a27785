#pragma once
// The words of `maglev trace`, each in a file of its own.

#include <string>
#include <vector>

namespace maglev::verbs::trace {

/// `words` are those behind "analyze".
int analyze(const std::vector<std::string>& words);
/// `words` are those behind "merge".
int merge(const std::vector<std::string>& words);

}  // namespace maglev::verbs::trace
