// maglev runs: what was trained here.

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <unistd.h>

#include "base/core/error.h"
#include "base/core/file.h"
#include "base/core/printed.h"
#include "base/core/terminal.h"
#include "engine/run/run_dir.h"
#include "engine/run/several_runs.h"
#include "verbs/arguments.h"
#include "verbs/sweep/board.h"
#include "verbs/table.h"
#include "verbs/train/seed_runs.h"
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

// folders of folders of runs: a study's arms, an arm's seeds
constexpr int kDeepestListed = 4;

// rows of what lies in `folder`, called by their paths in it. Several seeds are one row, and so is a
// sweep: who names its folder sees what it is of
void list_below(const std::string& folder, const std::string& prefix, int depth,
                std::vector<RunRow>& rows) {
  for (const std::string& child : list_dir(folder)) {
    const std::string path = folder + "/" + child, name = prefix + child;
    if (is_run(path)) rows.push_back(run_row(path, name));
    else if (is_seeds(path)) rows.push_back(train::seeds_row(path, name));
    else if (is_sweep(path)) rows.push_back(sweep::sweep_row(path, name));
    else if (depth < kDeepestListed && !child.starts_with('.') && is_folder(path))
      list_below(path, name + "/", depth + 1, rows);
  }
}

// seeds that have not begun have no row
void tell_seeds(const std::string& folder) {
  const auto begun = int64_t(train::seed_runs(folder).size());
  const int64_t all = train::seeds_group(folder).count;
  if (begun < all)
    std::printf("%ld of the %ld seeds of %s %s begun\n", long(begun), long(all),
                without_slashes(folder).c_str(), begun == 1 ? "has" : "have");
}

int run(const std::vector<std::string>& words) {
  const Arguments arguments(entry(), words, {.least = 0, .most = 1, .names = "[folder or run]"});
  if (arguments.help()) return arguments.print_help();
  const std::string root = arguments.positional().empty() ? "runs" : arguments.positional()[0];
  if (!arguments.positional().empty() && !is_folder(root))
    throw Error("[runs] " + root + " is no folder");
  std::vector<RunRow> rows;
  if (is_run(root)) rows.push_back(run_row(root, without_slashes(root)));
  else list_below(root, "", 0, rows);
  std::stable_sort(rows.begin(), rows.end(), [](const RunRow& a, const RunRow& b) {
    return a.status.started > b.status.started;
  });
  if (rows.empty()) {
    std::printf("no runs in %s or below it; `maglev train ppo goodhart` makes one\n", root.c_str());
    return 0;
  }
  Table table({"run", "algo", "env", "state", ">steps", ">return", "updated"});
  for (const auto& row : rows) {
    const double mean = row.status.return_mean;
    table.add({row.name, row.status.algo, row.status.env_title, row.status.state,
               std::to_string(row.status.steps), std::isfinite(mean) ? printed("%.2f", mean) : "-",
               row.status.updated > 0 ? age_text(row.age_s) + " ago" : "-"});
  }
  print(table.text(probe_terminal(STDOUT_FILENO)));
  if (is_seeds(root)) tell_seeds(root);
  return 0;
}

}  // namespace

VerbEntry entry() {
  return {.name = "runs",
          .summary = "list what was trained here",
          .usage = "runs [folder or run]",
          .run = run};
}

}  // namespace maglev::verbs::runs
