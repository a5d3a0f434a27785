#pragma once
// CMake writes algo_makers() for each program. This header keeps torch out of that file, which is
// compiled in 0.1 s and not in 10.

#include <span>

namespace maglev {

struct AlgoEntry;
using MakeAlgoEntry = AlgoEntry (*)();

/// entry() of every algorithm that was built in, by name; algo_table() calls each once.
std::span<const MakeAlgoEntry> algo_makers();

}  // namespace maglev
