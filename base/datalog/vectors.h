#pragma once
// Vectors of complex numbers for the constants and predicates of a graph, as a file keeps them:
// what an embedding has learned (engine/embeddings/complex.h), for whoever scores triples by it.

#include <cstdint>
#include <string>
#include <vector>

#include "base/datalog/program.h"

namespace maglev::datalog {

struct Vectors {
  int64_t dim = 0;               ///< D complex numbers a row: D real parts, then D imaginary ones
  std::vector<float> constants;  ///< [C, 2 D], row id - 1
  /// [P, 2 D]; [2 P, 2 D] where predicates read from their second argument have rows of their own.
  std::vector<float> predicates;
};

/// Replaces the file as a whole (safetensors, with the program's names).
void write_vectors(const std::string& path, const Program& program, const Vectors& vectors);
/// Rows in the order of the program's names, whatever the file's. Throws Error where it holds no
/// vectors, or none for a name.
Vectors read_vectors(const std::string& path, const Program& program);

}  // namespace maglev::datalog
