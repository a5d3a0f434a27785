#pragma once
// What users do that makes their runs slow: settings, an environment's chore, functions given as
// hooks. All of it is work or waiting that is really done.

#include <span>
#include <string>
#include <vector>

#include "engine/train/hooks.h"

namespace maglev {

struct Mistake {
  const char* name;
  const char* finding;  ///< what `maglev trace analyze` has to name first
  const char* verdict;  ///< how run.json's bound_by has to begin; empty: it cannot know
  const char* environment;
  std::vector<std::string> run;       ///< settings of a run that is well
  std::vector<std::string> settings;  ///< and the mistake's
  Hooks (*hooks)() = nullptr;         ///< the mistake's; null: none
};

std::span<const Mistake> mistakes();

}  // namespace maglev
