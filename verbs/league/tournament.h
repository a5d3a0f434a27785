#pragma once
// Players of a game of two, each against each: scripted ones and runs' policies, rated together.

#include <cstdint>
#include <string>
#include <vector>

#include "engine/play/player.h"

namespace maglev {

struct TournamentRequest {
  std::string env;
  GivenSettings settings;
  std::vector<std::string> players;  ///< two at least, by name, each another one
  int64_t games = 100;               ///< of each pair; half of them with each as first agent
  uint64_t seed = 1'000'003;
  bool json = false;
};

/// Plays and prints the standing, a row a pair as it ends where people watch. Returns the exit
/// status. Throws Error on wrong players, or an environment of another number of agents.
int play_tournament(const TournamentRequest& request);

}  // namespace maglev
