#pragma once
// The bytes of a TensorBoard event file: TFRecord framing around protobuf messages, written by hand
// (linking libprotobuf beside torch breaks).

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace maglev::sinks::tensorboard {

/// CRC-32C (Castagnoli).
uint32_t crc32c(std::string_view bytes);

/// A record: length, its checksum, the bytes, their checksum.
std::string record(std::string_view bytes);

/// The event every file begins with. `wall_time` in seconds since 1970, here and below.
std::string version_event(double wall_time);

/// Says that the run started again: readers drop what they have at `step` and later.
std::string session_start_event(double wall_time, int64_t step);

/// One summary of scalars (float in the file).
std::string scalars_event(double wall_time, int64_t step,
                          const std::vector<std::pair<std::string, double>>& scalars);

// And back.

/// The records of a file, up to the first that is torn or whose checksums say it was changed.
std::vector<std::string_view> whole_records(std::string_view file);

/// What of an event is ours.
struct Event {
  int64_t step = 0;
  bool session_start = false;
  std::vector<std::pair<std::string, double>> scalars = {};
};
/// Fields that are none of these are passed over; what is not protobuf ends the event.
Event parse_event(std::string_view record);

}  // namespace maglev::sinks::tensorboard
