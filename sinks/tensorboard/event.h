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

}  // namespace maglev::sinks::tensorboard
