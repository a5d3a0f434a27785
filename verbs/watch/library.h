#pragma once
// Which runs there are below the folders that were named, and how each stands. A listing is taken
// again after a while, and of it only what changed is read: a folder of a thousand runs is listed
// in milliseconds. Threads: functions may be called from any.

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "engine/run/run_dir.h"

namespace maglev::verbs::watch {

class RunLibrary {
 public:
  /// Throws Error where a folder is not there or has no run in it or below it.
  explicit RunLibrary(std::vector<std::string> roots);

  /// All runs, newest start first. `name` tells them apart.
  std::vector<RunRow> runs();
  /// The folder of the run of that name. Throws Error where there is none.
  std::string path_of(const std::string& name);

 private:
  struct Known {
    RunRow row;
    int64_t written = -1;  ///< when run.json was, in nanoseconds
  };

  void refresh();
  void look_below(const std::string& folder, const std::string& name, int depth,
                  std::map<std::string, Known>& found);
  Known look_at(const std::string& path, const std::string& name);

  const std::vector<std::string> roots_;
  std::mutex mutex_;
  std::map<std::string, Known> known_;  ///< by name
  double looked_s_ = -1e9;
};

}  // namespace maglev::verbs::watch
