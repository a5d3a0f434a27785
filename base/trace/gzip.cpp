#include <array>
#include <stdexcept>
#include <zlib.h>

#include "base/trace/file.h"

namespace maglev::trace {
namespace {

constexpr int kGzipWindow = 15 + 16;  // 16: a gzip header and end around the data
constexpr int kLevel = 1;             // a trace shrinks to a tenth at the first level already
constexpr int kMemoryLevel = 8;

}  // namespace

struct Gzip::Stream {
  z_stream z{};
};

Gzip::Gzip(Bytes out) : out_(std::move(out)), stream_(std::make_unique<Stream>()) {
  if (deflateInit2(&stream_->z, kLevel, Z_DEFLATED, kGzipWindow, kMemoryLevel,
                   Z_DEFAULT_STRATEGY) != Z_OK)
    throw std::runtime_error("[trace] zlib has no memory to compress with");
}

Gzip::~Gzip() { deflateEnd(&stream_->z); }

void Gzip::write(std::string_view bytes) { deflate(bytes, /*last=*/false); }
void Gzip::finish() { deflate({}, /*last=*/true); }

void Gzip::deflate(std::string_view bytes, bool last) {
  z_stream& z = stream_->z;
  std::array<char, 1 << 16> room;
  z.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  z.avail_in = uInt(bytes.size());
  // until it neither takes nor gives any more
  do {
    z.next_out = reinterpret_cast<Bytef*>(room.data());
    z.avail_out = uInt(room.size());
    ::deflate(&z, last ? Z_FINISH : Z_NO_FLUSH);
    if (const size_t made = room.size() - z.avail_out; made > 0)
      out_(std::string_view(room.data(), made));
  } while (z.avail_out == 0);
}

}  // namespace maglev::trace
