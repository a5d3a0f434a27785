#pragma once
// A result as lines for a terminal: proofs as trees, or why there is none.

#include <string>

#include "base/core/terminal.h"
#include "verbs/prove/result.h"

namespace maglev::verbs::prove {

/// `trees`: the tree of every answer; otherwise of a ground query's proof alone. Every line ends in
/// a line end; box characters only where the terminal has unicode.
std::string result_text(const Result& result, bool trees, const Terminal& terminal);

}  // namespace maglev::verbs::prove
