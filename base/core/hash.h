#pragma once
// Content hashes: XXH3, 128 bits, as 32 lower-case hexadecimal digits. They find accidents (torn
// writes, flipped bits, a run that is not the same run), not forgery.

#define XXH_INLINE_ALL
#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include <xxhash.h>

namespace maglev {

class Hash {
 public:
  Hash() { XXH3_128bits_reset(&state_); }

  Hash& add(const void* data, size_t bytes) {
    if (bytes > 0) XXH3_128bits_update(&state_, data, bytes);
    return *this;
  }
  Hash& add(std::span<const std::byte> bytes) { return add(bytes.data(), bytes.size()); }
  /// The text and its end, so that ("ab", "c") and ("a", "bc") differ.
  Hash& add_text(std::string_view text) {
    uint64_t size = text.size();
    return add(&size, sizeof size).add(text.data(), text.size());
  }

  /// Of everything added so far; more may be added after.
  std::string hex() const {
    XXH128_canonical_t canonical;
    XXH128_canonicalFromHash(&canonical, XXH3_128bits_digest(&state_));
    std::string text;
    for (unsigned char byte : canonical.digest) {
      text += "0123456789abcdef"[byte >> 4];
      text += "0123456789abcdef"[byte & 15];
    }
    return text;
  }

 private:
  XXH3_state_t state_;
};

inline std::string hash_of(std::span<const std::byte> bytes) { return Hash().add(bytes).hex(); }
inline std::string hash_of(std::string_view text) {
  return Hash().add(text.data(), text.size()).hex();
}

}  // namespace maglev
