#pragma once
// Protobuf's wire format, written and read by hand (linking libprotobuf beside torch breaks). A
// message is fields one behind another, each a key of number and type, then its value.

#include <bit>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace maglev::protobuf {

enum Wire : uint64_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

/// Little-endian.
template <class T>
void put_fixed(std::string& out, T value) {
  for (size_t i = 0; i < sizeof value; ++i) out += char(uint8_t(value >> (8 * i)));
}

inline void put_varint(std::string& out, uint64_t value) {
  for (; value >= 0x80; value >>= 7) out += char(uint8_t(value) | 0x80);
  out += char(uint8_t(value));
}

inline void put_key(std::string& out, uint64_t field, Wire wire) {
  put_varint(out, field << 3 | wire);
}

inline void put_number(std::string& out, uint64_t field, uint64_t value) {
  put_key(out, field, kVarint);
  put_varint(out, value);
}

inline void put_float(std::string& out, uint64_t field, float value) {
  put_key(out, field, kFixed32);
  put_fixed(out, std::bit_cast<uint32_t>(value));
}

inline void put_double(std::string& out, uint64_t field, double value) {
  put_key(out, field, kFixed64);
  put_fixed(out, std::bit_cast<uint64_t>(value));
}

/// Text, bytes, or a message that was put together before.
inline void put_bytes(std::string& out, uint64_t field, std::string_view bytes) {
  put_key(out, field, kBytes);
  put_varint(out, bytes.size());
  out += bytes;
}

/// A field of a message: a number, or bytes.
struct Field {
  uint64_t number = 0, value = 0;
  std::string_view bytes = {};
};

// these take from the front of `in`, and say false where it ends before

inline bool take_fixed(std::string_view& in, size_t bytes, uint64_t& value) {
  if (in.size() < bytes) return false;
  value = 0;
  for (size_t i = 0; i < bytes; ++i) value |= uint64_t(uint8_t(in[i])) << (8 * i);
  in.remove_prefix(bytes);
  return true;
}

inline bool take_varint(std::string_view& in, uint64_t& value) {
  value = 0;
  for (int shift = 0; shift < 64 && !in.empty(); shift += 7) {
    const uint8_t byte = uint8_t(in[0]);
    in.remove_prefix(1);
    value |= uint64_t(byte & 0x7f) << shift;
    if (byte < 0x80) return true;
  }
  return false;
}

inline bool take_field(std::string_view& in, Field& field) {
  uint64_t key = 0;
  if (!take_varint(in, key)) return false;
  field = {.number = key >> 3};
  switch (key & 7) {
    case kVarint:
      return take_varint(in, field.value);
    case kFixed64:
      return take_fixed(in, 8, field.value);
    case kFixed32:
      return take_fixed(in, 4, field.value);
    case kBytes:
      if (!take_varint(in, field.value) || field.value > in.size()) return false;
      field.bytes = in.substr(0, field.value);
      in.remove_prefix(field.value);
      return true;
    default:
      return false;
  }
}

}  // namespace maglev::protobuf
