#include "verbs/watch/library.h"

#include <algorithm>

#include <sys/stat.h>

#include "base/core/clock.h"
#include "base/core/error.h"
#include "base/core/file.h"
#include "base/core/words.h"
#include "engine/run/run_dir.h"

namespace maglev::verbs::watch {
namespace {

constexpr double kLookEvery_s = 2;
/// Folders of folders of runs: a sweep's arms, an arm's seeds.
constexpr int kDeepest = 4;
constexpr size_t kMostRuns = 20000;

int64_t written_ns(const std::string& path) {
  struct stat info;
  if (::stat(path.c_str(), &info) != 0) return 0;
  return int64_t(info.st_mtim.tv_sec) * 1'000'000'000 + info.st_mtim.tv_nsec;
}

std::vector<std::string> trimmed_roots(std::vector<std::string> roots) {
  for (std::string& root : roots) root = without_slashes(root);
  return roots;
}

}  // namespace

RunLibrary::RunLibrary(std::vector<std::string> roots) : roots_(trimmed_roots(std::move(roots))) {
  for (const std::string& root : roots_) {
    if (!is_folder(root))
      throw Error("[watch] " + root + " is no folder; name a run, or a folder of runs" +
                  did_you_mean(near_runs(root)));
    std::map<std::string, Known> found;
    look_below(root, root, 0, found);
    if (found.empty())
      throw Error("[watch] " + root +
                  " holds no run, nor do folders below it; `maglev train ppo goodhart` makes one "
                  "in runs");
  }
}

std::vector<RunRow> RunLibrary::runs() {
  const std::lock_guard lock(mutex_);
  refresh();
  std::vector<RunRow> rows;
  for (const auto& [name, known] : known_) rows.push_back(known.row);
  std::stable_sort(rows.begin(), rows.end(), [](const RunRow& a, const RunRow& b) {
    return a.status.started > b.status.started;
  });
  return rows;
}

std::string RunLibrary::path_of(const std::string& name) {
  const std::lock_guard lock(mutex_);
  if (!known_.contains(name)) refresh();
  const auto found = known_.find(name);
  if (found == known_.end()) throw Error("[watch] there is no run " + name + " here");
  return found->second.row.path;
}

void RunLibrary::refresh() {
  if (steady_s() - looked_s_ < kLookEvery_s) return;
  std::map<std::string, Known> found;
  for (const std::string& root : roots_) {
    // one folder's runs need not repeat its name
    const bool alone = roots_.size() == 1 && !is_run(root);
    look_below(root, alone ? "" : root, 0, found);
  }
  known_ = std::move(found);
  looked_s_ = steady_s();
}

void RunLibrary::look_below(const std::string& folder, const std::string& name, int depth,
                            std::map<std::string, Known>& found) {
  if (found.size() >= kMostRuns) return;
  if (known_.contains(name) || is_run(folder)) {
    found[name] = look_at(folder, name);
    return;
  }
  if (depth == kDeepest) return;
  for (const std::string& child : list_dir(folder)) {
    const std::string path = folder + "/" + child;
    if (child.starts_with('.') || !is_folder(path)) continue;
    look_below(path, name.empty() ? child : name + "/" + child, depth + 1, found);
  }
}

RunLibrary::Known RunLibrary::look_at(const std::string& path, const std::string& name) {
  const int64_t written = written_ns(path + "/run.json");
  const auto before = known_.find(name);
  // one that runs may have been killed without a word
  if (before != known_.end() && before->second.written == written &&
      before->second.row.status.state != "running")
    return before->second;
  return {.row = run_row(path, name), .written = written};
}

}  // namespace maglev::verbs::watch
