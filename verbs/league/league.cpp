// maglev league: whom a run has played against, and how strong everybody is.

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <exception>
#include <functional>
#include <stdexcept>
#include <string>
#include <unistd.h>
#include <vector>

#include <nlohmann/json.hpp>

#include "base/core/error.h"
#include "base/core/file.h"
#include "base/core/terminal.h"
#include "verbs/arguments.h"
#include "verbs/table.h"
#include "verbs/verb.h"

namespace maglev::verbs::league {

VerbEntry entry();

namespace {

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
  const std::string text = read_file(path, 1 << 24);
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
  } catch (const std::exception& e) {
    throw Error("[" + path + "] is damaged: " + e.what() +
                "; the run writes it anew when it saves, so resume it");
  }
}

int run(const std::vector<std::string>& words) {
  const Arguments arguments(entry(), words, {.least = 1, .most = 1, .names = "<run>"});
  if (arguments.help()) return arguments.print_help();
  const std::string path = arguments.positional()[0] + "/league.json";
  if (!path_exists(path))
    throw Error("[league] " + path +
                " is not there: the run was trained without "
                "train.opponents=<players>, or has not saved yet");
  const Standing standing = read_standing(path);
  Table table({"player", ">Elo", ">games", ">beaten", ">drawn", ">lost to"});
  const auto rounded = [](double elo) { return std::to_string(std::lround(elo)); };
  table.add({"the learner", rounded(standing.learner_elo), "", "", "", ""});
  for (const Member& m : standing.members)
    table.add({m.name, rounded(m.elo), std::to_string(m.games), std::to_string(m.wins),
               std::to_string(m.draws), std::to_string(m.losses)});
  std::printf("%s at step %ld\n", arguments.positional()[0].c_str(), long(standing.step));
  print(table.text(probe_terminal(STDOUT_FILENO)));
  return 0;
}

}  // namespace

VerbEntry entry() {
  return {.name = "league",
          .summary = "show a self-play run's opponents and their Elo ratings",
          .usage = "league <run>",
          .run = run};
}

}  // namespace maglev::verbs::league
