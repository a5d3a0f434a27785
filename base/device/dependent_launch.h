#pragma once
// Programmatic dependent launch, as a switch. With device code alone.

#include <atomic>

namespace maglev {

/// Whether a kernel is brought onto the device while the one before it in its stream still runs
/// (CUDA C++ Programming Guide, "Programmatic Dependent Launch and Synchronization"), where it
/// then waits: wait_for_earlier(). Of the process (DependentLaunch). For devices
/// of capability 9.0 and later alone; the setting train.dependent_launch.
std::atomic<bool>& dependent_launch();
constexpr int kDependentLaunchCapability = 90;  ///< 10 * major + minor
/// Whether the code that the current device runs was built for such launches: what was built for
/// older ones waits for nothing.
bool has_dependent_code();

}  // namespace maglev
