// maglev runs: what was trained here.

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <unistd.h>

#include "base/core/error.h"
#include "base/core/terminal.h"
#include "engine/run/run_dir.h"
#include "verbs/arguments.h"
#include "verbs/table.h"
#include "verbs/train/seeds.h"
#include "verbs/verb.h"

namespace maglev::verbs::runs {

VerbEntry entry();

namespace {

std::string age_text(double seconds) {
  const std::pair<double, const char*> units[] = {{86400, "d"}, {3600, "h"}, {60, "min"}};
  for (auto [size, unit] : units)
    if (seconds >= size) return std::to_string(int64_t(seconds / size)) + " " + unit;
  return std::to_string(int64_t(seconds)) + " s";
}

int run(const std::vector<std::string>& words) {
  const Arguments arguments(entry(), words, {.least = 0, .most = 1, .names = "[folder]"});
  if (arguments.help()) return arguments.print_help();
  const std::string root = arguments.positional().empty() ? "runs" : arguments.positional()[0];
  if (!arguments.positional().empty() && !std::filesystem::is_directory(root))
    throw Error("[runs] " + root + " is no folder");
  auto rows = list_runs(root);
  for (auto& group : train::list_seeds(root)) rows.push_back(std::move(group));
  std::stable_sort(rows.begin(), rows.end(), [](const RunRow& a, const RunRow& b) {
    return a.status.started > b.status.started;
  });
  if (rows.empty()) {
    std::printf("no runs in %s; `maglev train ppo goodhart` makes one\n", root.c_str());
    return 0;
  }
  Table table({"run", "algo", "env", "state", ">steps", ">return", "updated"});
  for (const auto& row : rows) {
    char mean[32] = "-";
    if (std::isfinite(row.status.return_mean))
      std::snprintf(mean, sizeof mean, "%.2f", row.status.return_mean);
    table.add({row.name, row.status.algo, row.status.env_title, row.status.state,
               std::to_string(row.status.steps), mean, age_text(row.age_s) + " ago"});
  }
  print(table.text(probe_terminal(STDOUT_FILENO)));
  return 0;
}

}  // namespace

VerbEntry entry() {
  return {.name = "runs",
          .summary = "list what was trained here",
          .usage = "runs [folder]",
          .run = run};
}

}  // namespace maglev::verbs::runs
