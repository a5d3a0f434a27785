#pragma once
// A setting that is text and lies in its struct byte by byte, for an environment's Params, which
// are copied to a device as they are.

#include <algorithm>
#include <cstddef>
#include <string_view>

namespace maglev {

/// At most Capacity - 1 bytes, zeros behind them. Longer text is refused by the option table, and
/// by the compiler where it is a literal.
template <size_t Capacity>
struct Text {
  char bytes[Capacity] = {};

  constexpr Text() = default;
  template <size_t N>
  constexpr Text(const char (&literal)[N]) {
    static_assert(N <= Capacity);
    std::copy(literal, literal + N, bytes);
  }
  constexpr std::string_view view() const { return bytes; }
};

/// A Text of an options struct, its size forgotten.
struct TextMember {
  char* bytes;
  size_t capacity;
};

template <size_t Capacity>
TextMember text_member(Text<Capacity>& text) {
  return {text.bytes, Capacity};
}

}  // namespace maglev
