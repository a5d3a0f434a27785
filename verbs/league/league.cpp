// maglev league: whom a run has played against, and how strong everybody is.

#include <algorithm>
#include <cmath>
#include <cstdio>
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

int run(const std::vector<std::string>& words) {
  const Arguments arguments(entry(), words, {.least = 1, .most = 1, .names = "<run>"});
  if (arguments.help()) return arguments.print_help();
  const std::string path = arguments.positional()[0] + "/league.json";
  if (!path_exists(path))
    throw Error("[league] " + path +
                " is not there: the run was trained without "
                "train.opponents=<players>, or has not saved yet");
  const nlohmann::json league = nlohmann::json::parse(read_file(path, 1 << 24));
  auto players = league.at("players").get<std::vector<nlohmann::json>>();
  std::stable_sort(players.begin(), players.end(), [](const auto& a, const auto& b) {
    return a.at("elo").template get<double>() > b.at("elo").template get<double>();
  });
  Table table({"player", ">Elo", ">games", ">beaten", ">drawn", ">lost to"});
  const auto count = [](const nlohmann::json& row, const char* name) {
    return std::to_string(row.at(name).get<int64_t>());
  };
  const auto rounded = [](double elo) { return std::to_string(std::lround(elo)); };
  table.add({"the learner", rounded(league.at("learner_elo").get<double>()), "", "", "", ""});
  for (const auto& row : players)
    table.add({row.at("name").get<std::string>(), rounded(row.at("elo").get<double>()),
               count(row, "games"), count(row, "wins"), count(row, "draws"), count(row, "losses")});
  std::printf("%s at step %ld\n", arguments.positional()[0].c_str(),
              long(league.at("step").get<int64_t>()));
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
