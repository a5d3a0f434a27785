#pragma once
// Spans as ranges of NVTX, which NVIDIA's profilers show beside what the device did. They are the
// host's: where a captured graph is replayed they say who replayed it, not what runs in it.

namespace maglev {

/// Looks once for a profiler that asked for ranges (NVTX_INJECTION64_PATH, which Nsight Systems and
/// Nsight Compute set): where there is one, spans that begin from here on are ranges of the domain
/// "maglev", on their threads; true. Else, and in builds that found no header of NVTX, nothing is
/// told to anybody; false.
bool tell_nvtx();

}  // namespace maglev
