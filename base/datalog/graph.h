#pragma once
// A data set opened for searching, once a process: who asks again, for sizes, for assets or for
// names, gets the same one, until a file of its folder is changed.

#include <string>

#include "base/datalog/dataset.h"
#include "base/datalog/knowledge.h"

namespace maglev::datalog {

struct Graph {
  explicit Graph(Dataset opened);

  Dataset dataset;
  OwnedKnowledge knowledge;  ///< facts and rules
  OwnedKnowledge truths;     ///< every triple that is known: facts and the queries of all splits
};

/// Throws Error as open_dataset does. The graph stays for as long as the process. Threads may ask at
/// once.
const Graph& open_graph(const std::string& name_or_folder);

}  // namespace maglev::datalog
