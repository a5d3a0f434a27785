#pragma once
// Streams that are captured: what one is given is kept, to be done again without its host. What no
// capture takes is a fault that says who did it.

#include <functional>
#include <string>
#include <vector>

struct EmulatedStream;

namespace maglev::emulation {

/// Work for a stream; it is done when this returns.
using StreamWork = std::function<void(EmulatedStream* stream)>;

/// From here on what `stream` is given is kept, and this thread may neither wait nor allocate. One
/// stream at a time.
void begin_capture(EmulatedStream* stream);
/// What was kept, in order.
std::vector<StreamWork> end_capture();
/// Whether `stream` is captured now.
bool captured(EmulatedStream* stream);

/// Does `work` on `stream`, and keeps it where the stream is captured. Throws Fault where another
/// stream is captured, which so would miss it.
void give(EmulatedStream* stream, const std::string& name, const StreamWork& work);
/// The two halves of it, for work that is done otherwise the first time.
void expect_given_here(EmulatedStream* stream, const std::string& name);
void keep(StreamWork work);

/// Throws Fault where this thread captures, or `stream` is captured: `call` waits, or is for the
/// whole device.
void expect_no_capture(EmulatedStream* stream, const std::string& call);

}  // namespace maglev::emulation
