#pragma once
// Exhaustive answering of many queries: which are provable within a depth, and in how few steps.
// Goals are tabled by budget (Tamaki, Sato 1986: OLD resolution with tabulation; here a table is of
// an atom and the steps that it may take). A rule costs a step, so what a table asks for has less
// to spend: tables form no circle, and each is made once. Depth is counted as proof.h says, so that
// least_steps is the depth at which a complete search finds its first proof.

#include <cstdint>
#include <span>
#include <vector>

#include "base/core/thread_pool.h"
#include "base/datalog/knowledge.h"

namespace maglev::datalog {

/// Steps of a shortest proof of each ground query, at most `depth` (1 and more); -1: there is no
/// proof as short. `exclude_query`: a query is not its own fact, wherever it comes up in its proof.
/// Goals may be of any length. The same for any number of threads.
std::vector<int32_t> least_steps(const Knowledge& k, std::span<const Atom> queries, int32_t depth,
                                 bool exclude_query, ThreadPool& pool);

}  // namespace maglev::datalog
