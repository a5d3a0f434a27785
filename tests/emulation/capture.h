#pragma once
// Streams that are captured: what one is given is kept, to be done again without its host. What no
// capture takes is a fault that says who did it.

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

struct EmulatedStream;

namespace maglev::emulation {

/// Work for a stream; it is done when this returns.
using StreamWork = std::function<void(EmulatedStream* stream)>;

/// From here on what `stream` is given is kept, and this thread may neither wait nor allocate. One
/// capture at a time.
void begin_capture(EmulatedStream* stream);
/// What was kept, in order. Throws Fault where a stream that joined has work that the captured one
/// did not wait for.
std::vector<StreamWork> end_capture();
/// Whether `stream` is captured now, as the one that began it or as one that joined.
bool captured(EmulatedStream* stream);
/// `stream` waited for an event of capture `number`: what it is given is kept from here on. Throws
/// Fault where that capture has ended.
void join_capture(EmulatedStream* stream, uint64_t number);
/// Number of the capture that `stream` is in, 1 and on; 0: none.
uint64_t capture_of(EmulatedStream* stream);

/// Does `work` on `stream`, and keeps it where the stream is captured. Throws Fault where another
/// stream is captured, which so would miss it.
void give(EmulatedStream* stream, const std::string& name, const StreamWork& work);
/// The two halves of it, for work that is done otherwise the first time. `work` is called with the
/// stream that replays where `stream` began the capture, else with `stream`.
void expect_given_here(EmulatedStream* stream, const std::string& name);
void keep(EmulatedStream* stream, StreamWork work);
/// Throws Fault that says `what` and who called.
[[noreturn]] void refuse(const std::string& what);

/// Throws Fault where this thread captures, or `stream` is captured: `call` waits, or is for the
/// whole device.
void expect_no_capture(EmulatedStream* stream, const std::string& call);

}  // namespace maglev::emulation
