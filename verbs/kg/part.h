#pragma once
// A command of `maglev kg`.

#include "verbs/arguments.h"
#include "verbs/verb.h"

namespace maglev::verbs::kg {

struct Part {
  VerbEntry verb;  ///< for its errors and help; run is not called
  Grammar grammar;
  int (*run)(const Arguments& arguments);
};

/// `kg embed`: vectors of a graph's constants and predicates (engine/embeddings/complex.h).
Part embed_part();

}  // namespace maglev::verbs::kg
