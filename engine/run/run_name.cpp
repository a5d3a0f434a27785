#include "engine/run/run_name.h"

#include <cstdio>
#include <filesystem>
#include <vector>

#include "base/core/error.h"
#include "base/core/file.h"
#include "engine/run/checkpoint_store.h"
#include "engine/run/run_dir.h"

namespace maglev {
namespace {

std::string absolute(const std::string& path) {
  return std::filesystem::absolute(path).lexically_normal().string();
}

}  // namespace

std::optional<RunName> run_named(const std::string& name) { return folder_named(name, is_run); }

std::optional<RunName> folder_named(const std::string& name, bool (*is)(const std::string&)) {
  if (is(name)) return RunName{.folder = without_slashes(name)};
  const size_t at = name.rfind('@');
  if (at == std::string::npos || !is(name.substr(0, at))) return std::nullopt;
  return RunName{.folder = without_slashes(name.substr(0, at)), .checkpoint = name.substr(at + 1)};
}

std::string checkpoint_of(const std::string& folder, const std::string& which) {
  CheckpointStore store(folder, 0);
  const auto tell = [](const std::string& note) { std::fprintf(stderr, "%s\n", note.c_str()); };
  if (which == "best") {
    const std::string best = store.best();
    if (best.empty())
      throw Error("[" + folder +
                  "] has no best checkpoint yet: an evaluation makes one, or 100 finished episodes "
                  "and as many as environments; "
                  "take the latest, or train longer");
    return best;
  }
  if (which == "latest") {
    const std::string newest = store.newest_valid(tell);
    if (newest.empty()) throw no_valid_checkpoint(folder);
    return newest;
  }
  // one of the run's own by its name, or a path
  const std::string own = folder + "/checkpoints/" + which;
  for (const std::string& path : {own, which})
    if (path_exists(path + "/manifest.json")) return path;
  std::vector<std::string> known{"latest", "best"};
  for (const CheckpointRow& row : store.list())
    known.push_back(row.path.substr(row.path.rfind('/') + 1));
  throw Error("[" + folder + "] " + unknown_name("checkpoint", which, known));
}

std::string lasting_name(const RunName& run) {
  const std::string folder = absolute(run.folder);
  const std::string checkpoint = absolute(checkpoint_of(run.folder, run.checkpoint));
  const std::string own = (std::filesystem::path(folder) / "checkpoints" / "").string();
  return folder + "@" + (checkpoint.starts_with(own) ? checkpoint.substr(own.size()) : checkpoint);
}

}  // namespace maglev
