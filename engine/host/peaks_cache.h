#pragma once
// What was measured of this machine, kept for the next program that asks: a file in
// $XDG_CACHE_HOME/maglev/, else ~/.cache/maglev/.

#include <optional>

#include "engine/host/machine.h"
#include "engine/host/peaks.h"

namespace maglev {

/// None where nothing was kept of this processor, version of torch, device and number of threads,
/// or what was cannot be read.
std::optional<Peaks> kept_peaks(const Placement& placement);
/// Keeps them, where there is a cache_folder() that can be written.
void keep_peaks(const Placement& placement, const Peaks& peaks);

}  // namespace maglev
