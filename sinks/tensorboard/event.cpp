#include "sinks/tensorboard/event.h"

#include <array>
#include <bit>

#include "base/trace/protobuf.h"

namespace maglev::sinks::tensorboard {
namespace {

using protobuf::Field;
using protobuf::put_bytes;
using protobuf::put_double;
using protobuf::put_fixed;
using protobuf::put_float;
using protobuf::put_number;
using protobuf::take_field;
using protobuf::take_fixed;

constexpr std::array<uint32_t, 256> kCrcTable = [] {
  std::array<uint32_t, 256> table{};
  for (uint32_t i = 0; i < 256; ++i) {
    uint32_t c = i;
    for (int bit = 0; bit < 8; ++bit) c = (c >> 1) ^ (c & 1 ? 0x82f63b78u : 0u);
    table[i] = c;
  }
  return table;
}();

// Event: 1 wall_time (double), 2 step (int64), 3 file_version, 5 summary, 7 session_log
std::string event(double wall_time, int64_t step) {
  std::string out;
  put_double(out, 1, wall_time);
  put_number(out, 2, uint64_t(step));
  return out;
}

std::pair<std::string, double> parse_scalar(std::string_view value) {
  std::pair<std::string, double> scalar;
  for (Field field; take_field(value, field);) {
    if (field.number == 1) scalar.first = field.bytes;
    if (field.number == 2) scalar.second = std::bit_cast<float>(uint32_t(field.value));
  }
  return scalar;
}

// TensorFlow's mask: a checksum of data that holds checksums would be weak
uint32_t masked_crc(std::string_view bytes) {
  uint32_t crc = crc32c(bytes);
  return ((crc >> 15) | (crc << 17)) + 0xa282ead8u;
}

}  // namespace

uint32_t crc32c(std::string_view bytes) {
  uint32_t crc = ~0u;
  for (unsigned char byte : bytes) crc = kCrcTable[(crc ^ byte) & 0xff] ^ (crc >> 8);
  return ~crc;
}

std::string record(std::string_view bytes) {
  std::string out;
  put_fixed(out, uint64_t(bytes.size()));
  put_fixed(out, masked_crc(out));
  out += bytes;
  put_fixed(out, masked_crc(bytes));
  return out;
}

std::string version_event(double wall_time) {
  std::string out = event(wall_time, 0);
  put_bytes(out, 3, "brain.Event:2");
  return out;
}

std::string session_start_event(double wall_time, int64_t step) {
  // SessionLog: 1 status, of which 1 is START
  std::string log, out = event(wall_time, step);
  put_number(log, 1, 1);
  put_bytes(out, 7, log);
  return out;
}

std::string scalars_event(double wall_time, int64_t step,
                          const std::vector<std::pair<std::string, double>>& scalars) {
  std::string summary;
  for (const auto& [tag, value] : scalars) {
    // Summary: repeated 1 value; Value: 1 tag, 2 simple_value (float)
    std::string row;
    put_bytes(row, 1, tag);
    put_float(row, 2, float(value));
    put_bytes(summary, 1, row);
  }
  std::string out = event(wall_time, step);
  put_bytes(out, 5, summary);
  return out;
}

std::vector<std::string_view> whole_records(std::string_view file) {
  std::vector<std::string_view> records;
  for (std::string_view in = file;;) {
    const std::string_view head = in.substr(0, 8);
    uint64_t size = 0, size_crc = 0, crc = 0;
    if (!take_fixed(in, 8, size) || !take_fixed(in, 4, size_crc)) break;
    if (size_crc != masked_crc(head) || size > in.size()) break;
    const std::string_view bytes = in.substr(0, size);
    in.remove_prefix(size);
    if (!take_fixed(in, 4, crc) || crc != masked_crc(bytes)) break;
    records.push_back(bytes);
  }
  return records;
}

Event parse_event(std::string_view record) {
  Event event;
  for (Field field; take_field(record, field);) {
    if (field.number == 2) event.step = int64_t(field.value);
    if (field.number == 7) event.session_start = true;
    if (field.number != 5) continue;
    for (Field value; take_field(field.bytes, value);)
      if (value.number == 1) event.scalars.push_back(parse_scalar(value.bytes));
  }
  return event;
}

}  // namespace maglev::sinks::tensorboard
