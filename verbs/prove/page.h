#pragma once
// A result as one page: each proof's tree drawn, and its derivation step by step. Asks nobody for
// anything: no script, no font, no picture from elsewhere; light or dark as the reader has it.

#include <string>

#include "verbs/prove/result.h"

namespace maglev::verbs::prove {

std::string result_page(const Result& result);

}  // namespace maglev::verbs::prove
