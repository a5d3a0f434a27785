#pragma once
// CMake writes algo_makers() for each program. This header keeps torch out of that file, which is
// compiled at once then and not in 12 s.

#include <span>

namespace maglev {

struct AlgoEntry;
using MakeAlgoEntry = AlgoEntry (*)();

/// entry() of every algorithm that was built in, by name; algo_table() calls each once.
std::span<const MakeAlgoEntry> algo_makers();

}  // namespace maglev
