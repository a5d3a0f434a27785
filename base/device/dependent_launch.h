#pragma once
// Programmatic dependent launch, as a switch. With device code alone.

namespace maglev {

/// Whether a kernel is brought onto the device while the one before it in its stream still runs
/// (CUDA C++ Programming Guide, "Programmatic Dependent Launch and Synchronization"), where it
/// then waits: wait_for_earlier(). Of the process, and set before it launches anything. For devices
/// of capability 9.0 and later alone; the setting train.dependent_launch.
bool& dependent_launch();

}  // namespace maglev
