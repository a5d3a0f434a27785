#pragma once
// How people name a policy that a run saved: the run's folder, or FOLDER@CHECKPOINT.

#include <optional>
#include <string>

namespace maglev {

struct RunName {
  std::string folder;
  std::string checkpoint = "latest";  ///< or best, or one by its name or folder
};

/// `name` taken apart; none where neither it nor what stands before its last @ is a run's folder.
std::optional<RunName> run_named(const std::string& name);
/// The same of other folders that hold policies: those for which `is` holds.
std::optional<RunName> folder_named(const std::string& name, bool (*is)(const std::string& folder));

/// Which checkpoint is meant: latest, best, or one by name or folder. Throws Error where there is
/// none.
std::string checkpoint_of(const std::string& folder, const std::string& which);

/// The same policy by a name that means it from every folder, also when the run has trained on.
/// Throws Error as checkpoint_of.
std::string lasting_name(const RunName& run);

}  // namespace maglev
