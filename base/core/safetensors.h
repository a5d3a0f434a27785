#pragma once
// The safetensors format: named raw tensors behind a JSON header; data, never code. The reader is
// strict: bytes that any reader might understand in two ways are refused.
//
// A file is: header length (u64, little-endian), header (JSON, padded with spaces to a multiple of
// 8), tensor bytes (little-endian, row-major) back to back in the order of their offsets.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/core/file.h"

namespace maglev {

enum class SafeDType : uint8_t {
  f64,
  i64,
  u64,
  f32,
  i32,
  u32,
  f16,
  bf16,
  i16,
  u16,
  i8,
  u8,
  boolean
};

/// "F32", "BF16", ... as the format spells it.
std::string_view safe_dtype_name(SafeDType dtype);
int64_t safe_dtype_bytes(SafeDType dtype);

struct SafeTensorInfo {
  std::string name;  ///< UTF-8 without control characters, unique, not "__metadata__"
  SafeDType dtype = SafeDType::f32;
  std::vector<int64_t> shape;  ///< {} is a scalar; a 0 makes the tensor empty

  /// "F32 [3, 4]", for messages.
  std::string shape_text() const;
};

struct SafeTensor : SafeTensorInfo {
  uint64_t begin = 0, bytes = 0;  ///< where its bytes lie in the file, and how many
};

/// A parsed file: what lies where in it.
struct SafeTensors {
  std::map<std::string, std::string> metadata;
  std::vector<SafeTensor> tensors;  ///< in the order they lie in the file

  /// Null when there is none.
  const SafeTensor* find(std::string_view name) const;
};

/// The longest header that is written or read.
constexpr uint64_t kMaxSafetensorsHeader = 16 << 20;

/// Writes a whole file. `bytes_of(i)` gives the bytes of tensors[i], or those that come next of
/// them: it is asked until they are as many as the shape has, not at all for an empty one, in the
/// file's order (wide dtypes first, then by name). Its answer need only live until the next call.
/// Does not finish() `out`. Throws Error on a name that repeats or is not allowed, or when a
/// tensor's bytes do not fit its shape.
void write_safetensors(FileWriter& out, const std::vector<SafeTensorInfo>& tensors,
                       const std::map<std::string, std::string>& metadata,
                       const std::function<std::span<const std::byte>(size_t i)>& bytes_of);

/// Parses the begin of a file of `file_bytes` bytes, its whole header at least; `origin` names it
/// in errors. Memory used is bounded by the header's size. Throws Error on anything that the format
/// does not allow: a header that is too long, cut or not JSON, unknown or missing keys, repeated
/// names, unknown dtypes, sizes that overflow, bytes that do not fit dtype and shape, tensors that
/// overlap, gaps between them and bytes behind them.
SafeTensors parse_safetensors(std::span<const std::byte> head, uint64_t file_bytes,
                              const std::string& origin);
/// The same of a file, of which only the header is read.
SafeTensors parse_safetensors(const FileReader& file);

}  // namespace maglev
