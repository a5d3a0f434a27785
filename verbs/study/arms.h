#pragma once
// What a study compares: arms, each a setting of the Goodhart grid that is trained over several
// seeds, or a player that is not trained at all.

#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace maglev::verbs::study {

struct Arm {
  const char* name;                        ///< its folder, and its row in the report
  const char* summary;                     ///< what it sees and is paid, for the report
  std::vector<std::string> settings = {};  ///< over those proven for PPO on this environment
  const char* player = nullptr;            ///< scripted: played, not trained
  double x = 0;                            ///< where it stands in a sweep
};

struct Plan {
  const char* name;
  const char* summary;  ///< one line for the verb's help
  std::vector<Arm> arms;
  /// By name: what is tested, all of it together.
  std::vector<std::pair<const char*, const char*>> compared;
  const char* sweep = nullptr;  ///< the setting that arms differ in, Arm::x; null: they are kinds
};

constexpr const char* kEnvironment = "goodhart";
constexpr const char* kAlgorithm = "ppo";

/// The studies there are.
std::span<const Plan> plans();
/// Throws Error with near names.
const Plan& find_plan(const std::string& name);

/// The arms named, in the plan's order; all where `names` is empty. Throws Error with near names.
std::vector<const Arm*> chosen_arms(const Plan& plan, const std::vector<std::string>& names);

}  // namespace maglev::verbs::study
