#pragma once
// What the rankings of several seeds of one experiment come to together.

#include <vector>

#include <nlohmann/json.hpp>

#include "verbs/table.h"

namespace maglev::verbs::rank {

/// `reports` are rank's, one a seed, at least one. Of each scoring that proofs have a part in, and
/// of each of its figures: how many seeds have it, the mean of those, their deviation (null for one)
/// and its 95 % interval by Student's t. What rules or an embedding score by themselves is the same
/// of every seed, and left out.
nlohmann::ordered_json over_seeds(const std::vector<nlohmann::ordered_json>& reports);

/// A row each for people.
Table over_seeds_table(const nlohmann::ordered_json& results);

}  // namespace maglev::verbs::rank
