#pragma once
// Performance profiles of groups beside each other: in JSON, and drawn on a page.

#include <span>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "verbs/compare/verdict.h"
#include "verbs/study/page.h"

namespace maglev::verbs::compare {

/// Groups of fewer seeds have no profile: somewhere its band would go from 0 to 1 and tell nothing.
inline constexpr size_t kProfileSeeds = 5;

/// The steps of a group's profile, "score", "share" and "interval" each; null of too few seeds.
nlohmann::ordered_json profile_json(std::span<const double> scores, double confidence);

/// Which groups have too few seeds, a line; empty where none has.
std::string without_profile(const std::vector<Side>& groups);

/// The profiles of `groups` in one figure over `score`, what their values are, where some have
/// enough seeds, and without_profile() of the others.
std::vector<study::PagePart> profile_parts(const std::vector<Side>& groups,
                                           const std::string& score, double confidence);

}  // namespace maglev::verbs::compare
