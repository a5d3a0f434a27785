#pragma once
// A data set opened for searching, once a process: who asks again, for sizes, for assets or for
// names, gets the same one, whatever has become of its files since.

#include <string>

#include "base/datalog/dataset.h"
#include "base/datalog/knowledge.h"
#include "base/datalog/vectors.h"

namespace maglev::datalog {

struct Graph {
  explicit Graph(Dataset opened);

  Dataset dataset;
  OwnedKnowledge knowledge;  ///< facts and rules
  OwnedKnowledge truths;     ///< every triple that is known: facts and the queries of all splits
  std::string names;         ///< hash of the predicates' and constants' names, in order
};

/// The program whose facts are what is known to be true: facts and the queries of train and valid,
/// and of test unless it is not to be seen.
Program truths_of(const Dataset& data, bool with_test = true);

/// Throws Error as open_dataset does. The graph stays for as long as the process. Threads may ask
/// at once.
const Graph& open_graph(const std::string& name_or_folder);

/// Likewise the vectors of a file, for an opened graph's program.
const Vectors& open_vectors(const std::string& file, const Program& program);

}  // namespace maglev::datalog
