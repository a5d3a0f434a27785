#pragma once
// Whether a GPU gets few rows at once because nobody chose how many.

#include <string>

#include "engine/algo/experiment.h"
#include "engine/host/machine.h"

namespace maglev {

/// For people, of a run on a GPU that learns from its own steps alone: that its environments are few
/// and their number is a default or a proven one, the number that would fill a GPU and fits its
/// memory, and what finds the fastest. Empty: it was chosen, there are many, or the host steps them.
std::string few_rows_note(const Experiment& experiment, const Placement& placement);

}  // namespace maglev
