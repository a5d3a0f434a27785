#pragma once
// An environment's settings by themselves, where nothing trains: play, players that are judged.

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "base/config/options.h"
#include "base/env/entry.h"

namespace maglev {

class EnvParams {
 public:
  /// The defaults, then `settings`, env.name=value. Throws Error, which begins with `where`, on
  /// settings there are none of and on wrong ones; and on those that contradict each other.
  EnvParams(const EnvEntry& entry, const std::vector<std::string>& settings,
            std::string_view where = "command line");

  EnvParams(const EnvParams&) = delete;
  EnvParams& operator=(const EnvParams&) = delete;

  const void* get() const { return params_.data(); }
  void* get() { return params_.data(); }
  /// What they are: env.* options.
  const OptionTable& table() const { return table_; }

 private:
  std::vector<std::max_align_t> params_;
  OptionTable table_;
};

/// env.name=value of all settings of an environment in a run's table.
std::vector<std::string> env_settings(const OptionTable& table);

/// How a policy is judged otherwise than it learns.
struct Judging {
  std::vector<std::string> settings;  ///< env.name=value, besides those it learns with
  std::string note;                   ///< a line for people; empty where there are none
};
/// In an environment that is as `params` say (EnvEntry::judged_with), of which `given`, env.name=value
/// of who judges, stay.
Judging judging_of(const EnvEntry& entry, const void* params,
                   const std::vector<std::string>& given);

/// env.name=value of the settings that are text, as `params` has them. Those name what an
/// environment reads from files, which may have moved since a run was trained.
std::vector<std::string> file_settings(const EnvEntry& entry, const void* params);

}  // namespace maglev
