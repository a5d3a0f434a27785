#pragma once
// What a trained run should be able to stand: checks of any environment's runs, and of those of one
// environment. A check is a row here; nothing else knows of it.

#include <array>
#include <span>
#include <string>
#include <vector>

#include "engine/play/player.h"
#include "engine/play/run_policy.h"

namespace maglev::verbs::verify {

struct Subject {
  std::string folder;
  RunPolicy& run;
  Game game;  ///< as it was trained

  const EnvSpec& spec() const { return game.spec; }
};

/// skipped: it says nothing of this run.
enum class Outcome { passed, failed, skipped };
constexpr auto names_of(Outcome) { return std::array{"passed", "failed", "skipped"}; }

struct Finding {
  Outcome outcome;
  std::string what;  ///< a line for people: what was seen, and what is wanted
};
inline Finding found(bool holds, std::string what) {
  return {holds ? Outcome::passed : Outcome::failed, std::move(what)};
}

struct Check {
  const char* name;
  Finding (*find)(Subject& subject);
};

/// Of any run; then of the Goodhart grid's.
std::span<const Check> general_checks();
std::span<const Check> goodhart_checks();

/// Checks that are for runs on `env`.
std::vector<Check> checks_of(const std::string& env);

}  // namespace maglev::verbs::verify
