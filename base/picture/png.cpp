// Animated PNG: a PNG whose further frames lie in chunks that other readers skip (W3C, "Portable
// Network Graphics", third edition).

#include <zlib.h>

#include "base/core/error.h"
#include "base/core/file.h"
#include "base/picture/animation.h"

namespace maglev {
namespace {

std::string big_endian(uint32_t value, int bytes) {
  std::string text;
  for (int i = bytes - 1; i >= 0; --i) text += char(value >> (8 * i) & 0xFF);
  return text;
}

std::string chunk(const std::string& type, const std::string& data) {
  const std::string body = type + data;
  const uLong sum =
      crc32(0, reinterpret_cast<const Bytef*>(body.data()), static_cast<uInt>(body.size()));
  return big_endian(uint32_t(data.size()), 4) + body + big_endian(uint32_t(sum), 4);
}

/// Rows as differences from the row above (filter 2), deflated.
std::string packed(const Canvas& frame, const Patch& patch) {
  std::string rows;
  for (int y = 0; y < patch.height; ++y) {
    rows += char(2);
    for (int x = 0; x < patch.width; ++x) {
      const Rgb p = frame.at(patch.x + x, patch.y + y);
      const Rgb up = y ? frame.at(patch.x + x, patch.y + y - 1) : Rgb{};
      rows += char(p.r - up.r), rows += char(p.g - up.g), rows += char(p.b - up.b);
    }
  }
  uLongf size = compressBound(static_cast<uLong>(rows.size()));
  std::string out(size, '\0');
  if (compress2(reinterpret_cast<Bytef*>(out.data()), &size,
                reinterpret_cast<const Bytef*>(rows.data()), static_cast<uLong>(rows.size()),
                6) != Z_OK)
    throw Error("[png] zlib could not compress a frame of " + std::to_string(rows.size()) +
                " bytes; out of memory");
  out.resize(size);
  return out;
}

/// A file of these chunks, of 8 bits each of red, green and blue.
std::string png_of(int width, int height, const std::string& chunks) {
  const std::string header = big_endian(uint32_t(width), 4) + big_endian(uint32_t(height), 4) +
                             std::string("\x08\x02\x00\x00\x00", 5);
  return "\x89PNG\r\n\x1a\n" + chunk("IHDR", header) + chunks + chunk("IEND", "");
}

class Png : public Animation {
 public:
  explicit Png(const std::string& path) : Animation(path) {}

 private:
  void encode(const Canvas& frame, const Patch& patch, FrameTime shown) override {
    const bool first = chunks_.empty();
    chunks_ +=
        chunk("fcTL", big_endian(sequence_++, 4) + big_endian(uint32_t(patch.width), 4) +
                          big_endian(uint32_t(patch.height), 4) + big_endian(uint32_t(patch.x), 4) +
                          big_endian(uint32_t(patch.y), 4) + big_endian(uint32_t(shown.count), 2) +
                          big_endian(uint32_t(shown.a_second), 2) +
                          std::string(2, '\0'));  // keep what is there, write over it
    const std::string data = packed(frame, patch);
    chunks_ += first ? chunk("IDAT", data) : chunk("fdAT", big_endian(sequence_++, 4) + data);
  }
  void write(int width, int height, int frames) override {
    write_atomic(path(), png_of(width, height,
                                chunk("acTL", big_endian(uint32_t(frames), 4) + big_endian(0, 4)) +
                                    chunks_));
  }

  std::string chunks_;
  uint32_t sequence_ = 0;
};

}  // namespace

std::unique_ptr<Animation> make_png(const std::string& path) { return std::make_unique<Png>(path); }

std::string still_png(const Canvas& picture) {
  const Patch whole{0, 0, picture.width(), picture.height()};
  return png_of(picture.width(), picture.height(), chunk("IDAT", packed(picture, whole)));
}

}  // namespace maglev
