#pragma once
// What a tuning found, for people, programs and as a profile.

#include <string>

#include "base/core/terminal.h"
#include "verbs/tune/cache.h"

namespace maglev::verbs::tune {

/// "threads=1 train.collect=lockstep"; "as they are" where nothing differs.
std::string settings_text(const Candidate& candidate);

/// Every candidate that was planned out, measured or failed, the fastest first, and why it was
/// taken or not.
std::string table_text(const Outcome& outcome, const Terminal& terminal);

/// One line: what was chosen and what it is worth.
std::string verdict_text(const Outcome& outcome);

/// The same for programs.
std::string tuned_json(const Tuned& tuned);

/// A profile of what was chosen: comments with where it was found and what it is worth, then the
/// settings. `title` is its first line, without "#".
std::string profile_yaml(const Tuned& tuned, const std::string& title);

}  // namespace maglev::verbs::tune
