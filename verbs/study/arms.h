#pragma once
// What a study compares: arms, each a setting of the Goodhart grid that is trained over several
// seeds, or someone who plays and is not trained: a script, or what is made of trained arms.

#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace maglev::verbs::study {

/// A quantiliser of runs of two arms (engine/play/quantiliser.h).
struct Quantile {
  const char *of, *base;
  double share;
};

struct Arm {
  const char* name;                        ///< its folder, and its row in the report
  const char* summary;                     ///< what it sees and is paid, for the report
  std::vector<std::string> settings = {};  ///< over those proven for PPO on this environment
  const char* player = nullptr;            ///< scripted
  double x = 0;                            ///< where it stands in a sweep
  const char* from = nullptr;              ///< each seed begins with this arm's networks
  std::optional<Quantile> quantile = {};
  /// Of this arm's checkpoints, what it began with among them, the one that an audit likes best.
  const char* audited = nullptr;

  bool trained() const { return !player && !quantile && !audited; }
  /// Names of the arms it is made of; they stand before it.
  std::vector<const char*> needs() const;
};

struct Plan {
  const char* name;
  const char* summary;  ///< one line for the verb's help
  std::vector<Arm> arms;
  /// By name: what is tested, all of it together.
  std::vector<std::pair<const char*, const char*>> compared;
  const char* sweep = nullptr;  ///< what Arm::x of the trained arms is; null: they are kinds
  bool log_sweep = false;       ///< x in powers
  bool by_steps = false;        ///< x is how many steps an arm was trained
  /// Of the world that all are judged in, where some were trained in another.
  std::vector<std::string> judged_in = {};
};

constexpr const char* kEnvironment = "goodhart";
constexpr const char* kAlgorithm = "ppo";

/// The studies there are.
std::span<const Plan> plans();
/// Throws Error with near names.
const Plan& find_plan(const std::string& name);

const Arm& find_arm(const Plan& plan, const std::string& name);
/// The arms named and those they are made of, in the plan's order; all where `names` is empty.
/// Throws Error with near names.
std::vector<const Arm*> chosen_arms(const Plan& plan, const std::vector<std::string>& names);

}  // namespace maglev::verbs::study
