#pragma once
// What the judgements of several seeds of one experiment come to together.

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace maglev::verbs::eval {

/// `reports` are eval's, one a seed, at least one. Of each way in which they were judged (actions,
/// in games of two against whom), in the first one's order: how many seeds have a mean return, the
/// mean of those, their deviation (null for one) and its 95 % interval by Student's t.
nlohmann::json over_seeds(const std::vector<nlohmann::json>& reports);

/// A line each of over_seeds() for people.
std::string over_seeds_text(const nlohmann::json& results);

}  // namespace maglev::verbs::eval
