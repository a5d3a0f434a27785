#pragma once
// What the scores of a ranking come to, as a table, as JSON and as CSV.

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "verbs/rank/ranking.h"
#include "verbs/table.h"

namespace maglev::verbs::rank {

enum class By { mode, predicate, depth };
constexpr auto names_of(By) { return std::array{"mode", "predicate", "depth"}; }

/// How ranks are counted and questions grouped.
struct Counting {
  Ties ties;
  uint64_t seed;         ///< of ties that are drawn
  std::optional<By> by;  ///< nullopt: all questions together alone
};

/// The figures of each scoring, of all questions and of each group: a row each, and into `report`.
Table figures_table(const Ranking& r, const std::vector<Scoring>& scorings,
                    const datalog::Program& program, const Counting& counting,
                    nlohmann::ordered_json& report);

/// Every candidate of every question, a line each with what its proof and each scoring gave.
std::string csv_of(const Ranking& r, const std::vector<Scoring>& scorings,
                   const datalog::Program& program);

}  // namespace maglev::verbs::rank
