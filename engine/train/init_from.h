#pragma once
// A run that begins with the networks of another.

#include <string>

#include "engine/train/trainer.h"

namespace maglev {

/// The checkpoint that train.init_from=`name` means, <folder> or <folder>@<checkpoint>. Throws
/// Error.
std::string first_networks(const std::string& name);
/// The weights of `checkpoint`, which train.init_from means, instead of initial ones; what learning
/// keeps besides begins anew. Returns a note, empty mostly: where everything fits and yet settings
/// of the networks differ (an activation), by which they may compute something else. Throws Error.
std::string init_from(Trainer& trainer, const std::string& checkpoint);

}  // namespace maglev
