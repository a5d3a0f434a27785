#pragma once
// Files of ground atoms: facts and queries. As Prolog text, `p(a,b).`, with or without the dot,
// with comments behind '%'; or as TSV, `a<TAB>p<TAB>b`, where names are what stands between the
// tabs. The first line that has an atom says which. A whole number at the end of a line, as a
// fourth column of TSV, is the query's depth: how many steps its shortest proof has, -1 where it
// has none.

#include <cstdint>
#include <string>
#include <vector>

#include "base/datalog/program.h"
#include "base/datalog/text.h"

namespace maglev::datalog {

struct Triples {
  std::vector<Atom> atoms;  ///< each once, in the order in which it came first
  /// Of each, -1: not said; empty where no line says one. A line that repeats an atom may say it.
  std::vector<int32_t> depths;
  int64_t repeated = 0;  ///< lines whose atom was there before
};

/// Names of the program take new ones. Throws Error at the first bad line.
Triples parse_triples(const Text& text, Program& program);
Triples read_triples(const std::string& path, Program& program);

/// As Prolog text, which SWI-Prolog reads too; depths as a number behind the dot where there are
/// any.
std::string triples_text(const Program& program, const std::vector<Atom>& atoms,
                         const std::vector<int32_t>& depths = {});

}  // namespace maglev::datalog
