#pragma once
// Whether a proof proves. Reads the proof and the program as people wrote it, neither Knowledge nor
// resolve: a mistake there cannot hide here.

#include <string>

#include "base/datalog/program.h"
#include "base/datalog/proof.h"

namespace maglev::datalog {

/// Empty: the tree proves an instance of its query from the program's facts, none of them
/// `excluded`, and its steps are a derivation of that tree. Otherwise what is wrong first.
std::string fault_of(const Program& program, const Proof& proof, const Atom& excluded = {});

inline bool is_proof(const Program& program, const Proof& proof, const Atom& excluded = {}) {
  return fault_of(program, proof, excluded).empty();
}

}  // namespace maglev::datalog
