#pragma once
// The Parzen estimators behind several samplers.

#include <span>

#include "base/search/draws.h"
#include "base/search/sampler.h"

namespace maglev::search {

/// A value of each dimension that `chosen` names, by trials in the order of `order` (best first,
/// all that ended) and those still running; of the other dimensions the value stays what it is in
/// `values`. Jointly over `chosen`.
void draw_by_parzen(const Question& question, std::span<const SearchTrial* const> order,
                    std::span<const size_t> chosen, Draws& draws, Values& values);

}  // namespace maglev::search
