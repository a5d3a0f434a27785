#include "sinks/tensorboard/event.h"

#include <array>
#include <bit>

namespace maglev::sinks::tensorboard {
namespace {

constexpr std::array<uint32_t, 256> kCrcTable = [] {
  std::array<uint32_t, 256> table{};
  for (uint32_t i = 0; i < 256; ++i) {
    uint32_t c = i;
    for (int bit = 0; bit < 8; ++bit) c = (c >> 1) ^ (c & 1 ? 0x82f63b78u : 0u);
    table[i] = c;
  }
  return table;
}();

template <class T>
void put_fixed(std::string& out, T value) {
  for (size_t i = 0; i < sizeof value; ++i) out += char(uint8_t(value >> (8 * i)));
}

void put_varint(std::string& out, uint64_t value) {
  for (; value >= 0x80; value >>= 7) out += char(uint8_t(value) | 0x80);
  out += char(uint8_t(value));
}

// protobuf's wire types
enum Wire : uint64_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };
void put_key(std::string& out, uint64_t field, Wire wire) { put_varint(out, field << 3 | wire); }

void put_bytes(std::string& out, uint64_t field, std::string_view bytes) {
  put_key(out, field, kBytes);
  put_varint(out, bytes.size());
  out += bytes;
}

// Event: 1 wall_time (double), 2 step (int64), 3 file_version, 5 summary, 7 session_log
std::string event(double wall_time, int64_t step) {
  std::string out;
  put_key(out, 1, kFixed64);
  put_fixed(out, std::bit_cast<uint64_t>(wall_time));
  put_key(out, 2, kVarint);
  put_varint(out, uint64_t(step));
  return out;
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
  put_key(log, 1, kVarint);
  put_varint(log, 1);
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
    put_key(row, 2, kFixed32);
    put_fixed(row, std::bit_cast<uint32_t>(float(value)));
    put_bytes(summary, 1, row);
  }
  std::string out = event(wall_time, step);
  put_bytes(out, 5, summary);
  return out;
}

}  // namespace maglev::sinks::tensorboard
