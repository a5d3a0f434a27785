#pragma once
// A query as people write it: uncle(ann, bob), uncle(ann, X).

#include <string>
#include <string_view>
#include <vector>

#include "base/datalog/program.h"

namespace maglev::verbs::prove {

struct Query {
  datalog::Atom atom;                  ///< variables are the program's constants + 1 and + 2
  std::vector<std::string> variables;  ///< their names
};

/// Names that begin with a capital letter or '_' are variables, unless the program has a constant
/// of that name; each '_' is another. Throws Error with the column: what is no atom, predicates and
/// constants that the program does not know with near ones.
Query parse_query(std::string_view text, const datalog::Program& program);

/// "X = bob, Y = ann".
std::string substitution_text(const datalog::Program& program, const Query& query,
                              const datalog::Atom& answer);

}  // namespace maglev::verbs::prove
