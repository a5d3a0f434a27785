#pragma once
// How much each setting matters by itself.

#include <span>
#include <vector>

#include "base/search/sampler.h"

namespace maglev::search {

/// Of each dimension the share of the scores' variance that lies between trials of unlike values of
/// it: the correlation ratio (omega squared, Hays 1963) over bins of alike many trials, of a choice
/// over its values. It is the first-order term of functional ANOVA (Hutter et al., 2014) without a
/// forest, and free of the bias that many bins of few trials have. In [0, 1]; what settings do
/// together is not in it. Zeros for fewer than 8 finished trials.
std::vector<double> importance(const SearchSpace& space, std::span<const SearchTrial> trials);

}  // namespace maglev::search
