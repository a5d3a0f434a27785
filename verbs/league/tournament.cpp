#include "verbs/league/tournament.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <memory>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "base/core/error.h"
#include "base/core/printed.h"
#include "base/core/terminal.h"
#include "base/statistics/ratings.h"
#include "engine/play/evaluate.h"
#include "engine/play/player.h"
#include "verbs/table.h"

namespace maglev {
namespace {

/// How the games of two ended, for the first.
struct Score {
  size_t first, second;
  int64_t wins = 0, draws = 0, losses = 0;

  int64_t games() const { return wins + draws + losses; }
  double points() const { return double(wins) + double(draws) / 2; }
};

// each begins half of the games as first agent
Score meet(const std::vector<std::unique_ptr<Player>>& players, size_t first, size_t second,
           const Game& game, const TournamentRequest& request) {
  Score score{.first = first, .second = second};
  const auto play = [&](Player& one, Player& other, int64_t games) {
    return evaluate(one, game, {.episodes = games, .seed = request.seed, .against = &other});
  };
  const int64_t half = (request.games + 1) / 2;
  const EvalResult there = play(*players[first], *players[second], half);
  score.wins = there.wins, score.draws = there.draws, score.losses = there.losses;
  if (half == request.games) return score;
  const EvalResult back = play(*players[second], *players[first], request.games - half);
  score.wins += back.losses, score.draws += back.draws, score.losses += back.wins;
  return score;
}

/// A player's place in the standing.
struct Place {
  std::string name;
  Rating rating;
  int64_t wins = 0, draws = 0, losses = 0;
};

// the best first
std::vector<Place> standing_of(const std::vector<std::string>& names,
                               const std::vector<Score>& scores) {
  std::vector<Meeting> meetings;
  for (const Score& s : scores)
    meetings.push_back({s.first, s.second, s.games(), s.points(), s.draws});
  const auto rated = ratings(names.size(), meetings);
  std::vector<Place> places;
  for (size_t i = 0; i < names.size(); ++i)
    places.push_back({.name = names[i], .rating = rated[i]});
  for (const Score& s : scores) {
    Place &one = places[s.first], &other = places[s.second];
    one.wins += s.wins, one.draws += s.draws, one.losses += s.losses;
    other.wins += s.losses, other.draws += s.draws, other.losses += s.wins;
  }
  std::ranges::stable_sort(places, std::ranges::greater(),
                           [](const Place& p) { return p.rating.elo; });
  return places;
}

std::string rounded(double x) { return std::to_string(std::lround(x)); }

nlohmann::json to_json(const TournamentRequest& request, const std::vector<Place>& standing,
                       const std::vector<Score>& scores) {
  nlohmann::json report = {{"environment", request.env},
                           {"games_a_pair", request.games},
                           {"seed", request.seed},
                           {"players", nlohmann::json::array()},
                           {"pairs", nlohmann::json::array()}};
  for (const Place& p : standing)
    report["players"].push_back({{"name", p.name},
                                 {"elo", p.rating.elo},
                                 {"elo_error", p.rating.error},
                                 {"wins", p.wins},
                                 {"draws", p.draws},
                                 {"losses", p.losses}});
  for (const Score& s : scores)
    report["pairs"].push_back({{"first", request.players[s.first]},
                               {"second", request.players[s.second]},
                               {"wins", s.wins},
                               {"draws", s.draws},
                               {"losses", s.losses}});
  return report;
}

void check(const TournamentRequest& request, const Game& game) {
  const int agents = game.spec.agents;
  if (agents != 2)
    throw Error("[league] " + std::string(game.env.name) + " has " + counted(agents, "agent") +
                " an environment, and a tournament is of games of two; `maglev eval` judges "
                "one player");
  for (size_t i = 0; i < request.players.size(); ++i)
    if (std::count(request.players.begin(), request.players.end(), request.players[i]) > 1)
      throw Error("[league] " + request.players[i] +
                  " is named twice; everybody meets everybody else once");
}

}  // namespace

int play_tournament(const TournamentRequest& request) {
  claim_threads();
  const OpenGame open(find_env(request.env), request.settings, kMostEvalEnvs);
  const Game& game = open.game();
  check(request, game);
  std::vector<std::unique_ptr<Player>> players;
  for (const std::string& name : request.players)
    players.push_back(make_player(name, game, ActMode::sample));

  // everybody against everybody
  std::vector<Score> scores;
  for (size_t a = 0; a < players.size(); ++a)
    for (size_t b = a + 1; b < players.size(); ++b) {
      const Score score = meet(players, a, b, game, request);
      scores.push_back(score);
      if (request.json) continue;
      std::printf("%s against %s: %ld won, %ld drawn, %ld lost\n", request.players[a].c_str(),
                  request.players[b].c_str(), long(score.wins), long(score.draws),
                  long(score.losses));
      std::fflush(stdout);
    }

  const std::vector<Place> standing = standing_of(request.players, scores);
  if (request.json) {
    print(to_json(request, standing, scores).dump(2) + "\n");
    return 0;
  }
  Table table({"player", ">Elo", ">+/-", ">won", ">drawn", ">lost"});
  for (const Place& p : standing)
    table.add({p.name, rounded(p.rating.elo), rounded(1.96 * p.rating.error),
               std::to_string(p.wins), std::to_string(p.draws), std::to_string(p.losses)});
  std::printf("\n");
  print(table.text(probe_terminal(STDOUT_FILENO)));
  return 0;
}

}  // namespace maglev
