// maglev league: whom a run has played against, and how strong everybody is; players each against
// each.

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <exception>
#include <stdexcept>
#include <string>
#include <unistd.h>
#include <vector>

#include <nlohmann/json.hpp>

#include "base/core/error.h"
#include "base/core/file.h"
#include "base/core/terminal.h"
#include "base/env/entry.h"
#include "engine/run/run_dir.h"
#include "verbs/arguments.h"
#include "verbs/league/tournament.h"
#include "verbs/table.h"
#include "verbs/verb.h"

namespace maglev::verbs::league {

VerbEntry entry();

namespace {

constexpr size_t kMostBytes = 1 << 24;  // of a league.json
constexpr size_t kMostPlayers = 64;     // 2,016 pairs

struct Member {
  std::string name;
  double elo;
  int64_t games, wins, draws, losses;
};

struct Standing {
  int64_t step;
  double learner_elo;
  std::vector<Member> members;  ///< best first
};

/// Throws Error when the file is not what a run writes.
Standing read_standing(const std::string& path) {
  // text of a run has three levels; a deep one would exhaust the stack of whoever walks it
  constexpr int kMostLevels = 8;
  const std::string text = read_file(path, kMostBytes);
  try {
    const auto shallow = [](int depth, nlohmann::json::parse_event_t, nlohmann::json&) {
      if (depth > kMostLevels) throw std::runtime_error("it is nested too deeply");
      return true;
    };
    const nlohmann::json league = nlohmann::json::parse(text, shallow);
    Standing standing{.step = league.at("step").get<int64_t>(),
                      .learner_elo = league.at("learner_elo").get<double>(),
                      .members = {}};
    for (const nlohmann::json& row : league.at("players")) {
      const auto count = [&](const char* name) { return row.at(name).get<int64_t>(); };
      standing.members.push_back({.name = row.at("name").get<std::string>(),
                                  .elo = row.at("elo").get<double>(),
                                  .games = count("games"),
                                  .wins = count("wins"),
                                  .draws = count("draws"),
                                  .losses = count("losses")});
    }
    std::ranges::stable_sort(standing.members, std::ranges::greater(), &Member::elo);
    return standing;
  } catch (const std::exception&) {
    // the JSON library's words name no file and none of what should be there
    throw Error("[" + path +
                "] is damaged: expected a league's step, learner_elo and players with their "
                "ratings and games; the run writes it anew when it saves, so resume it");
  }
}

// whom a run met while it trained
int show_run(const std::string& run, bool json) {
  const std::string path = run + "/league.json";
  const bool there = path_exists(path);
  if (!there && !is_run(run)) throw no_run(run);
  if (!there)
    throw Error("[league] " + path +
                " is not there: the run was trained without "
                "train.opponents=<players>, or has not saved yet");
  const Standing standing = read_standing(path);
  if (json) {
    print(read_file(path, kMostBytes));
    return 0;
  }
  Table table({"player", ">Elo", ">games", ">beaten", ">drawn", ">lost to"});
  const auto rounded = [](double elo) { return std::to_string(std::lround(elo)); };
  table.add({"the learner", rounded(standing.learner_elo), "", "", "", ""});
  for (const Member& m : standing.members)
    table.add({m.name, rounded(m.elo), std::to_string(m.games), std::to_string(m.wins),
               std::to_string(m.draws), std::to_string(m.losses)});
  std::printf("%s at step %ld\n", run.c_str(), long(standing.step));
  print(table.text(probe_terminal(STDOUT_FILENO)));
  return 0;
}

int run(const std::vector<std::string>& words) {
  const Arguments arguments(
      entry(), words,
      {.flags = {{"--games", "N",
                  "of each pair, half of them with each as first agent (default 100)"},
                 {"--seed", "S", "of the tournament's environments and draws (default 1000003)"},
                 {"--json", "", "print JSON instead of a table"}},
       .least = 1,
       .most = kMostPlayers + 1,
       .names = "<run> | <environment> <player> <player> ...",
       .settings = true});
  if (arguments.help()) return arguments.print_help();
  const auto& names = arguments.positional();
  const GivenSettings settings = sorted_settings("league", arguments.settings(), {});
  if (names.size() == 1) {
    for (const EnvEntry& env : env_table())
      if (names[0] == env.name && !is_run(names[0]))
        throw Error("[league] " + names[0] +
                    " is an environment; name two players at least for a tournament");
    for (const char* flag : {"--games", "--seed"})
      if (arguments.has(flag))
        throw Error("[league] " + std::string(flag) +
                    " is for a tournament: maglev league <environment> <player> <player> ...");
    if (!arguments.settings().empty())
      throw Error("[league] settings are for a tournament; leave out " + arguments.settings()[0]);
    return show_run(names[0], arguments.has("--json"));
  }
  if (names.size() == 2)
    throw Error("[league] a tournament wants an environment and two players at least, got " +
                names[0] + " and " + names[1]);
  TournamentRequest request{.env = names[0],
                            .settings = settings,
                            .players = {names.begin() + 1, names.end()},
                            .json = arguments.has("--json")};
  request.games = arguments.integer("--games", 1, 1'000'000).value_or(request.games);
  request.seed =
      uint64_t(arguments.integer("--seed", 0, int64_t(1) << 53).value_or(int64_t(request.seed)));
  return play_tournament(request);
}

}  // namespace

VerbEntry entry() {
  return {
      .name = "league",
      .summary = "a self-play run's opponents and their ratings; a tournament of players",
      .usage =
          "league <run> | <environment> <player> <player> ... [env.setting=value ...] [threads=N]\n"
          "  a player is a scripted one, random, the folder of a run or "
          "<folder>@<checkpoint>",
      .run = run};
}

}  // namespace maglev::verbs::league
