#pragma once
// What the list that CMake writes of each program's algorithms is made of: it knows no tensors, so
// that it compiles at once.

#include <span>

namespace maglev {

struct AlgoEntry;
using MakeAlgoEntry = AlgoEntry (*)();

/// entry() of every algorithm that was built in, by name: the rows of algo_table().
std::span<const MakeAlgoEntry> algo_entries();

}  // namespace maglev
