#pragma once
// The protocol by which a study judges: continuous survival. Environments run for a fixed number of
// steps without a time limit, with energy live and worlds as in training; who dies begins anew
// elsewhere in the same world, who lives as one stops looking is right-censored. So every world
// counts alike: if a death led into another one, most steps would be lived in worlds that do not
// kill. What is kept does not grow with the lives.

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "engine/play/player.h"

namespace maglev::verbs::study {

struct Protocol {
  int64_t envs = 8192, steps = 16'384;  ///< each environment's
  uint64_t seed = 1'000'003;            ///< of worlds and draws

  bool operator==(const Protocol&) const = default;
};

/// What asks for it on a command line, each with a space before it, where it is not the usual one.
std::string flags_of(const Protocol& protocol);

/// What was counted in some steps.
struct Tally {
  int64_t steps = 0;
  double deaths = 0, food = 0, poison = 0, energy = 0;

  double per_1k(double Tally::*count) const { return 1000 * this->*count / double(steps); }
  /// Food among all that was eaten; NaN where nothing was.
  double efficiency() const { return food / (food + poison); }
};

/// Worlds by how much food and poison they hold: at least the middle of what training draws, or
/// less.
constexpr std::array kStrata = {"little food, little poison", "little food, much poison",
                                "much food, little poison", "much food, much poison"};

/// Of one player. Rates are per 1,000 steps.
struct Foraging {
  Tally all;
  std::array<Tally, kStrata.size()> strata;  ///< none has steps where density is not observed
  int64_t lives = 0;                         ///< also those that were going on
  int64_t fed_lives = 0;                     ///< of those, who ate something
  double life_efficiency = 0;                ///< mean over fed lives; NaN without any
  double restricted_mean = 0;  ///< steps, of a life that counts as Protocol::steps at most
  std::vector<std::pair<int64_t, double>> survival;  ///< share that lives longer, at a few steps
  double true_return = 0;   ///< energy less what death costs, the reward of ground_truth
  double proxy_return = 0;  ///< interestingness of what was eaten, the reward of proxy
};

/// Plays `player` in `game`, whose settings are those survival() gives.
Foraging forage(Player& player, const Game& game, const Protocol& protocol);

/// env.* settings under which survival is judged, over those of training.
std::vector<std::string> survival_settings();

nlohmann::ordered_json to_json(const Protocol& protocol);
nlohmann::ordered_json to_json(const Foraging& foraging);
/// Throws nlohmann's exceptions.
Foraging foraging_of(const nlohmann::ordered_json& json);

}  // namespace maglev::verbs::study
