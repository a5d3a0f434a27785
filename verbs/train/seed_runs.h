#pragma once
// The runs of several seeds, for who judges, plays or compares them.

#include <optional>
#include <string>
#include <vector>

#include "engine/run/run_name.h"

namespace maglev::verbs::train {

/// A folder of several seeds by its name, FOLDER, or FOLDER@CHECKPOINT, which is that checkpoint of
/// each of them; none where neither the name nor what stands before its last @ is one.
std::optional<RunName> seeds_named(const std::string& name);

/// The runs of a folder of several seeds, by their numbers. A seed that has not begun has none, and
/// one that was moved aside is none.
std::vector<std::string> seed_runs(const std::string& folder);

/// Those of them that have saved a policy; of the others a note tells. Throws Error of `verb` where
/// none has.
std::vector<std::string> seeds_to_judge(const std::string& verb, const std::string& folder);

/// The seed that did best of those that saved a policy.
struct BestSeed {
  std::string run;
  std::string figure;  ///< for people, by what: "its last evaluation, 212.50"; empty: none has any
};
/// By the last evaluation where one of them was evaluated, else by the return of training; the first
/// of equal ones. Throws Error where none of them has saved a policy.
BestSeed best_seed(const std::string& folder);

}  // namespace maglev::verbs::train
