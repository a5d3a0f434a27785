#pragma once
// An emulated CUDA device, for tests: kernels compiled by the host's compiler run here block by
// block, threads as fibers, in one order, and what they must not do is caught. Memory is checked
// where the device code was compiled with -fsanitize=thread, whose calls are answered here
// (memory.cpp).
//
// Threads: one launch at a time; a launch runs wholly on the thread that makes it.

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>

#include "base/core/error.h"

namespace maglev::emulation {

/// Thrown by a launch or a copy that did something a device does not take: which kernel, block and
/// thread, and what.
struct Fault : Error {
  using Error::Error;
};

/// Whether loads and stores of kernels are checked in this build.
bool checks_memory();

/// Lets kernels touch `bytes` bytes at `begin`, filled with what counts as never written. `name` is
/// what messages call it. 64 bytes before and behind it must be nobody's.
void add_memory(void* begin, size_t bytes, const std::string& name);
/// `kept`: to be added again there. Who then touches it has to come behind what was done there
/// before, as where a stream's memory is given to its next tensor while another stream reads.
void remove_memory(void* begin, bool kept = false);

/// Launches since they were last cleared, by kernel and source: "gather (replay.cu)".
const std::map<std::string, int64_t>& launches();
/// Those of them that asked to begin before the launch ahead of them was over.
int64_t dependent_launches();
void clear_launches();

}  // namespace maglev::emulation
