#pragma once
// What a stretch of a thread's time, or a device's operation, is spent on: from the kinds and names
// of the spans around it.

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "base/timeline/timeline.h"

namespace maglev {

/// Why a device or a thread stands still.
enum class Cause : uint8_t { host, copy, sync, launch, communication, threads, data, allocation };
constexpr auto names_of(Cause) {
  return std::array{"host-bound",      "copy", "sync",      "launch", "communication",
                    "threads waiting", "data", "allocation"};
}
constexpr size_t kCauses = names_of(Cause()).size();

/// What a name or a kind says, as bits: several hold at once.
namespace meaning {
constexpr uint32_t data = 1 << 0;  ///< the next batch is made or waited for
constexpr uint32_t communication = 1 << 1;
constexpr uint32_t read_back = 1 << 2;  ///< a value comes to the host: item(), nonzero()
constexpr uint32_t env_step = 1 << 3;
constexpr uint32_t logging = 1 << 4;  ///< metrics are written
constexpr uint32_t saving = 1 << 5;   ///< checkpoints
constexpr uint32_t evaluating = 1 << 6;
constexpr uint32_t optimiser = 1 << 7;
constexpr uint32_t sync = 1 << 8;
constexpr uint32_t launch = 1 << 9;
constexpr uint32_t host_copy = 1 << 10;
constexpr uint32_t allocate = 1 << 11;
constexpr uint32_t pool = 1 << 12;  ///< waits for a pool's threads
constexpr uint32_t lock = 1 << 13;
constexpr uint32_t io = 1 << 14;
constexpr uint32_t device_copy = 1 << 15;
constexpr uint32_t pageable = 1 << 16;
constexpr uint32_t device = 1 << 17;  ///< runs on a device
constexpr uint32_t traced = 1 << 18;  ///< some span is there
constexpr uint32_t operation = 1 << 19;
constexpr uint32_t tiny = 1 << 20;  ///< an operation of less than 10 us
constexpr uint32_t hook =
    1 << 21;  ///< what a program around the engine does when it is told something
constexpr uint32_t compiling = 1 << 22;   ///< torch.compile traces, lowers or builds code
constexpr uint32_t converting = 1 << 23;  ///< a tensor of another type or device is made
constexpr uint32_t host_work =
    1 << 24;  ///< in an operation of 50 us or more that gives a device nothing to do (SpanGraph)
/// An environment's step on the host, but for those of an evaluation beside training.
inline bool steps_environment(uint32_t bits) {
  return (bits & env_step) && !(bits & (device | evaluating));
}
}  // namespace meaning

/// Bits of names and spans. Names are looked at once each.
class Meanings {
 public:
  /// Bits of a span alone.
  uint32_t of(const Timeline& timeline, const Span& span);
  /// Bits of a stretch: of all spans around it.
  uint32_t of(const Timeline& timeline, std::span<const Span> spans,
              std::span<const uint32_t> stack);

 private:
  std::vector<uint32_t> names_;
};

/// Why the host gives a device nothing to do in a stretch of these bits; of the innermost first.
Cause cause_of(const Timeline& timeline, Meanings& meanings, std::span<const Span> spans,
               std::span<const uint32_t> stack);

}  // namespace maglev
