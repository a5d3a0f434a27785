#pragma once
// A run that begins with the networks of another.

#include <string>

#include "engine/train/trainer.h"

namespace maglev {

/// The weights of run `name` (<folder> or <folder>@<checkpoint>) instead of initial ones; what
/// learning keeps besides begins anew. Throws Error.
void init_from(Trainer& trainer, const std::string& name);

}  // namespace maglev
