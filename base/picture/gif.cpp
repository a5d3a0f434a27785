// GIF 89a (CompuServe, 1990): frames of up to 256 colours each, packed with LZW. A frame with more
// colours is reduced to three bits of red and green and two of blue.

#include <algorithm>
#include <array>
#include <map>

#include "base/core/file.h"
#include "base/picture/animation.h"

namespace maglev {
namespace {

std::string little_endian(int value) { return {char(value & 0xFF), char(value >> 8 & 0xFF)}; }

/// Bits from the lowest up, in blocks of at most 255 bytes.
class BitBlocks {
 public:
  void put(uint32_t code, int bits) {
    pending_ |= code << count_;
    for (count_ += bits; count_ >= 8; count_ -= 8, pending_ >>= 8) bytes_ += char(pending_ & 0xFF);
  }
  std::string finish() {
    if (count_ > 0) bytes_ += char(pending_ & 0xFF);
    std::string blocks;
    for (size_t at = 0; at < bytes_.size(); at += 255) {
      const std::string part = bytes_.substr(at, 255);
      blocks += char(part.size()) + part;
    }
    return blocks + std::string(1, '\0');
  }

 private:
  std::string bytes_;
  uint32_t pending_ = 0;
  int count_ = 0;
};

/// Welch's code over bytes: known strings have numbers, and each new one is a known one and a byte.
std::string lzw(const std::string& bytes) {
  constexpr uint32_t clear = 256, end = 257, most = 4096;
  std::vector<std::array<uint16_t, 256>> longer(most);
  BitBlocks out;
  uint32_t next = end + 1;
  int bits = 9;
  out.put(clear, bits);
  uint32_t known = uint8_t(bytes[0]);
  for (size_t i = 1; i < bytes.size(); ++i) {
    const uint8_t byte = uint8_t(bytes[i]);
    if (const uint32_t code = longer[known][byte]) {
      known = code;
      continue;
    }
    out.put(known, bits);
    if (next < most) {
      longer[known][byte] = uint16_t(next);
      if (next == 1u << bits) ++bits;
      ++next;
    } else {
      out.put(clear, bits);
      std::fill(longer.begin(), longer.end(), std::array<uint16_t, 256>{});
      next = end + 1;
      bits = 9;
    }
    known = byte;
  }
  out.put(known, bits);
  out.put(end, bits);
  return out.finish();
}

/// The colours of a frame as indices into a palette of 256.
struct Indexed {
  std::array<Rgb, 256> palette{};
  std::string indices;
};

uint8_t coarse(Rgb c) { return uint8_t((c.r & 0xE0) | (c.g & 0xE0) >> 3 | c.b >> 6); }

Indexed indexed(const Canvas& frame, const Patch& patch) {
  Indexed out;
  std::map<uint32_t, uint8_t> known;
  bool exact = true;
  for (int y = 0; y < patch.height && exact; ++y)
    for (int x = 0; x < patch.width && exact; ++x) {
      const Rgb c = frame.at(patch.x + x, patch.y + y);
      const uint32_t key = uint32_t(c.r) << 16 | uint32_t(c.g) << 8 | c.b;
      auto at = known.find(key);
      if (at == known.end()) {
        exact = known.size() < 256;
        if (!exact) break;
        out.palette[known.size()] = c;
        at = known.emplace(key, uint8_t(known.size())).first;
      }
      out.indices += char(at->second);
    }
  if (exact) return out;
  out.indices.clear();
  for (int k = 0; k < 256; ++k)
    out.palette[size_t(k)] = {uint8_t((k >> 5) * 255 / 7), uint8_t((k >> 2 & 7) * 255 / 7),
                              uint8_t((k & 3) * 255 / 3)};
  for (int y = 0; y < patch.height; ++y)
    for (int x = 0; x < patch.width; ++x)
      out.indices += char(coarse(frame.at(patch.x + x, patch.y + y)));
  return out;
}

class Gif : public Animation {
 public:
  explicit Gif(const std::string& path) : Animation(path) {}

 private:
  void encode(const Canvas& frame, const Patch& patch, FrameTime shown) override {
    // whole hundredths of a second; what rounding leaves over goes to the next frame
    constexpr double kRounding = 1e-6;
    owed_ += 100. * shown.count / shown.a_second;
    const int hundredths = int(owed_ + kRounding);
    owed_ -= hundredths;
    const Indexed picture = indexed(frame, patch);
    frames_ += std::string("\x21\xF9\x04\x04", 4) + little_endian(hundredths) + '\0' + '\0';
    frames_ += ',' + little_endian(patch.x) + little_endian(patch.y) + little_endian(patch.width) +
               little_endian(patch.height) + '\x87';
    for (const Rgb& c : picture.palette) frames_ += {char(c.r), char(c.g), char(c.b)};
    frames_ += '\x08' + lzw(picture.indices);
  }
  void write(int width, int height, int) override {
    write_atomic(path(), "GIF89a" + little_endian(width) + little_endian(height) +
                             std::string("\x70\0\0", 3) +
                             // repeats without end
                             std::string("\x21\xFF\x0BNETSCAPE2.0\x03\x01\0\0\0", 19) + frames_ +
                             ';');
  }

  std::string frames_;
  double owed_ = 0;  ///< hundredths of a second
};

}  // namespace

std::unique_ptr<Animation> make_gif(const std::string& path) { return std::make_unique<Gif>(path); }

}  // namespace maglev
