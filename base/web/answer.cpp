#include "base/web/answer.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace maglev {

void add_number(std::string& json, double value, int digits) {
  char number[32];
  if (!std::isfinite(value)) {
    json += "null";
  } else {
    json.append(number, std::to_chars(number, number + sizeof number, value,
                                      std::chars_format::general, digits)
                            .ptr);
  }
}

std::string data_address(std::string_view type, std::string_view bytes) {
  constexpr char kDigits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text = "data:" + std::string(type) + ";base64,";
  text.reserve(text.size() + (bytes.size() + 2) / 3 * 4);
  // three bytes are four digits; what is left over is filled up
  for (size_t i = 0; i < bytes.size(); i += 3) {
    const size_t count = std::min<size_t>(3, bytes.size() - i);
    uint32_t word = 0;
    for (size_t k = 0; k < 3; ++k) word = word << 8 | (k < count ? uint8_t(bytes[i + k]) : 0);
    for (size_t k = 0; k < 4; ++k) text += k <= count ? kDigits[word >> (18 - 6 * k) & 63] : '=';
  }
  return text;
}

}  // namespace maglev
