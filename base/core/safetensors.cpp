#include "base/core/safetensors.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <numeric>
#include <set>

#include <nlohmann/json.hpp>

#include "base/core/error.h"

namespace maglev {
namespace {

static_assert(std::endian::native == std::endian::little,
              "tensor bytes are written as they lie in memory");

using Json = nlohmann::json;

struct DTypeRow {
  std::string_view name;
  int64_t bytes;
};
// in the order of SafeDType, which is also the order of the tensors in a file
constexpr std::array<DTypeRow, 13> kDTypes{{{"F64", 8},
                                            {"I64", 8},
                                            {"U64", 8},
                                            {"F32", 4},
                                            {"I32", 4},
                                            {"U32", 4},
                                            {"F16", 2},
                                            {"BF16", 2},
                                            {"I16", 2},
                                            {"U16", 2},
                                            {"I8", 1},
                                            {"U8", 1},
                                            {"BOOL", 1}}};
constexpr size_t kMaxNameBytes = 1024;
constexpr size_t kMaxDims = 32;
constexpr const char* kMetadata = "__metadata__";

// false when the product does not fit
bool byte_count(const SafeTensorInfo& info, uint64_t& bytes) {
  bytes = uint64_t(safe_dtype_bytes(info.dtype));
  bool empty = false;
  for (int64_t d : info.shape) {
    if (d < 0) return false;
    if (d == 0) empty = true;
    else if (__builtin_mul_overflow(bytes, uint64_t(d), &bytes)) return false;
  }
  // one dimension of 0 leaves nothing
  if (empty) bytes = 0;
  return true;
}

bool name_allowed(std::string_view name) {
  return !name.empty() && name.size() <= kMaxNameBytes && name != kMetadata &&
         std::none_of(name.begin(), name.end(),
                      [](unsigned char c) { return c < 0x20 || c == 0x7f; });
}

// a name from a file, fit to be printed
std::string shown(std::string_view name) {
  std::string text;
  for (unsigned char c : name.substr(0, 80)) text += c < 0x20 || c >= 0x7f ? '?' : char(c);
  return "'" + text + (name.size() > 80 ? "...'" : "'");
}

// Takes the header's JSON as it is parsed, so that a hostile header costs no more memory than its
// own size and a repeated key is seen.
class HeaderReader : public nlohmann::json_sax<nlohmann::json> {
 public:
  struct Row {
    SafeTensorInfo info;
    uint64_t begin = 0, end = 0;
  };
  std::vector<Row> rows;
  std::map<std::string, std::string> metadata;
  std::string problem;

  bool start_object(size_t) override {
    // depth 1 has names, depth 2 a tensor or the metadata
    if (depth_ == 0) return depth_ = 1, true;
    if (depth_ == 1) {
      depth_ = 2;
      seen_ = 0;
      if (!in_metadata_) rows.back().info.name = name_;
      return true;
    }
    return refuse("has an object where none belongs");
  }
  bool end_object() override {
    // 7: all three fields were there
    if (depth_ == 2 && !in_metadata_ && seen_ != 7)
      return refuse("tensor " + shown(name_) + " needs dtype, shape and data_offsets");
    --depth_;
    field_ = Field::none;
    return true;
  }
  bool key(std::string& text) override {
    if (depth_ == 1) return tensor_key(text);
    if (in_metadata_) {
      if (!metadata.emplace(text, "").second) return refuse("repeats metadata " + shown(text));
      metadata_key_ = text;
      return true;
    }
    field_ = text == "dtype"          ? Field::dtype
             : text == "shape"        ? Field::shape
             : text == "data_offsets" ? Field::offsets
                                      : Field::none;
    if (field_ == Field::none)
      return refuse("tensor " + shown(name_) + " has an unknown key " + shown(text));
    if (seen_ & int(field_)) return refuse("tensor " + shown(name_) + " repeats " + text);
    seen_ |= int(field_);
    return true;
  }
  bool string(std::string& text) override {
    if (depth_ != 2) return refuse("has a text where an object belongs");
    if (in_metadata_) return metadata[metadata_key_] = text, true;
    if (field_ != Field::dtype || in_array_)
      return refuse("tensor " + shown(name_) + " has a text for a number");
    auto row = std::find_if(kDTypes.begin(), kDTypes.end(),
                            [&](const DTypeRow& d) { return d.name == text; });
    if (row == kDTypes.end())
      return refuse("tensor " + shown(name_) + " has the unknown dtype " + shown(text));
    rows.back().info.dtype = SafeDType(row - kDTypes.begin());
    return true;
  }
  bool start_array(size_t) override {
    if (depth_ != 2 || in_metadata_ || in_array_ ||
        (field_ != Field::shape && field_ != Field::offsets))
      return refuse("has an array where none belongs");
    in_array_ = true;
    offsets_ = 0;
    return true;
  }
  bool end_array() override {
    in_array_ = false;
    if (field_ == Field::offsets && offsets_ != 2)
      return refuse("tensor " + shown(name_) + " must have two data_offsets");
    return true;
  }
  bool number_unsigned(uint64_t value) override {
    if (!in_array_) return refuse("has a number where none belongs");
    // a shape has a number for each dimension, data_offsets have two
    if (field_ == Field::shape) {
      auto& shape = rows.back().info.shape;
      if (value > uint64_t(INT64_MAX) || shape.size() == kMaxDims)
        return refuse("tensor " + shown(name_) + " has a shape that is too large");
      shape.push_back(int64_t(value));
      return true;
    }
    if (offsets_ == 2) return refuse("tensor " + shown(name_) + " must have two data_offsets");
    (offsets_++ == 0 ? rows.back().begin : rows.back().end) = value;
    return true;
  }
  bool number_integer(int64_t) override { return refuse("has a negative number"); }
  bool number_float(double, const std::string&) override {
    return refuse("has a number that is no whole number of 64 bits");
  }
  bool null() override { return refuse("has a null"); }
  bool boolean(bool) override { return refuse("has a true or false"); }
  bool binary(nlohmann::json::binary_t&) override { return refuse("has binary data"); }
  bool parse_error(size_t position, const std::string&, const nlohmann::json::exception&) override {
    return refuse("is not JSON in UTF-8 at byte " + std::to_string(position));
  }

 private:
  enum class Field { none = 0, dtype = 1, shape = 2, offsets = 4 };

  bool refuse(std::string why) {
    if (problem.empty()) problem = std::move(why);
    return false;
  }
  bool tensor_key(const std::string& text) {
    // the metadata once, and every tensor once
    in_metadata_ = text == kMetadata;
    if (in_metadata_) {
      if (has_metadata_) return refuse("repeats __metadata__");
      return has_metadata_ = true;
    }
    if (!name_allowed(text))
      return refuse("has a tensor name that is empty, too long or has control characters");
    if (!names_.insert(text).second) return refuse("repeats tensor " + shown(text));
    name_ = text;
    rows.emplace_back();
    return true;
  }

  int depth_ = 0;
  bool in_metadata_ = false, has_metadata_ = false, in_array_ = false;
  int seen_ = 0, offsets_ = 0;
  Field field_ = Field::none;
  std::string name_, metadata_key_;
  std::set<std::string> names_;
};

}  // namespace

std::string_view safe_dtype_name(SafeDType dtype) { return kDTypes[size_t(dtype)].name; }
int64_t safe_dtype_bytes(SafeDType dtype) { return kDTypes[size_t(dtype)].bytes; }

std::string SafeTensorInfo::shape_text() const {
  std::string text(safe_dtype_name(dtype));
  text += " [";
  for (size_t i = 0; i < shape.size(); ++i) text += (i ? ", " : "") + std::to_string(shape[i]);
  return text + "]";
}

const SafeTensor* SafeTensors::find(std::string_view name) const {
  for (const auto& t : tensors)
    if (t.name == name) return &t;
  return nullptr;
}

void write_safetensors(FileWriter& out, const std::vector<SafeTensorInfo>& tensors,
                       const std::map<std::string, std::string>& metadata,
                       const std::function<std::span<const std::byte>(size_t)>& bytes_of) {
  std::vector<size_t> order(tensors.size());
  std::iota(order.begin(), order.end(), size_t(0));
  // wide dtypes first: every tensor then lies at a multiple of its element size
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return std::pair(tensors[a].dtype, std::string_view(tensors[a].name)) <
           std::pair(tensors[b].dtype, std::string_view(tensors[b].name));
  });

  // header: dtype, shape and place of each tensor, in the file's order
  Json header = Json::object();
  if (!metadata.empty()) header[kMetadata] = metadata;
  std::vector<uint64_t> sizes;
  uint64_t offset = 0;
  std::set<std::string_view> names;
  for (size_t i : order) {
    const SafeTensorInfo& t = tensors[i];
    if (!name_allowed(t.name))
      throw Error("[" + out.path() +
                  "] tensor names have 1 to 1024 bytes without control characters, got " +
                  shown(t.name));
    if (!names.insert(t.name).second)
      throw Error("[" + out.path() + "] tensor " + shown(t.name) + " is given twice");
    uint64_t size = 0, end = 0;
    if (!byte_count(t, size) || __builtin_add_overflow(offset, size, &end))
      throw Error("[" + out.path() + "] tensor " + shown(t.name) +
                  " is too large: " + t.shape_text());
    header.emplace(t.name, Json{{"dtype", safe_dtype_name(t.dtype)},
                                {"shape", t.shape},
                                {"data_offsets", {offset, end}}});
    sizes.push_back(size);
    offset = end;
  }
  std::string text;
  try {
    text = header.dump();
  } catch (const nlohmann::json::exception&) {
    throw Error("[" + out.path() + "] tensor names and metadata must be UTF-8");
  }
  // spaces, so that data begin at a multiple of 8
  text.resize((text.size() + 7) / 8 * 8, ' ');
  if (text.size() > kMaxSafetensorsHeader)
    throw Error("[" + out.path() + "] " + std::to_string(tensors.size()) +
                " tensors need a header over 16 MiB");
  uint64_t length = text.size();
  out.write(std::as_bytes(std::span(&length, 1)));
  out.write(text);
  // data, one tensor or a piece of it in memory at a time
  for (size_t k = 0; k < order.size(); ++k) {
    for (uint64_t written = 0; written < sizes[k];) {
      const std::span<const std::byte> bytes = bytes_of(order[k]);
      if (bytes.empty() || bytes.size() > sizes[k] - written)
        throw Error("[" + out.path() + "] tensor " + shown(tensors[order[k]].name) + " must have " +
                    std::to_string(sizes[k]) + " bytes, got " +
                    std::to_string(written + bytes.size()));
      out.write(bytes);
      written += bytes.size();
    }
  }
}

SafeTensors parse_safetensors(const FileReader& file) {
  std::vector<std::byte> head(size_t(std::min<uint64_t>(8, file.bytes())));
  file.read(0, head);
  if (head.size() == 8) {
    uint64_t length = 0;
    std::memcpy(&length, head.data(), 8);
    // a length that cannot be is refused below
    head.resize(size_t(8 + std::min({length, kMaxSafetensorsHeader, file.bytes() - 8})));
    file.read(8, std::span(head).subspan(8));
  }
  return parse_safetensors(head, file.bytes(), file.path());
}

SafeTensors parse_safetensors(std::span<const std::byte> head, uint64_t file_bytes,
                              const std::string& origin) {
  auto refuse = [&](const std::string& why) -> Error {
    return Error("[" + origin + "] is no valid safetensors file: " + why);
  };
  // header: its length, and that it fits
  if (file_bytes < 8)
    throw refuse("it has " + std::to_string(file_bytes) + " bytes, the least is 8");
  uint64_t length = 0;
  std::memcpy(&length, head.data(), 8);
  if (length > kMaxSafetensorsHeader || length > file_bytes - 8)
    throw refuse("the header is said to have " + std::to_string(length) + " bytes, the file has " +
                 std::to_string(file_bytes) + " (is it cut off?)");
  MAGLEV_ASSERT(length <= head.size() - 8, "the whole header is given");
  std::string_view text(reinterpret_cast<const char*>(head.data()) + 8, size_t(length));
  // the parser takes a zero byte for the end and skips a byte order mark
  if (!text.starts_with('{') || text.find('\0') != std::string_view::npos)
    throw refuse("the header is not a JSON object");

  HeaderReader header;
  bool parsed = nlohmann::json::sax_parse(text.begin(), text.end(), &header);
  if (!parsed || !header.problem.empty()) throw refuse("the header " + header.problem);

  // data: each tensor begins where the one before it ends
  auto& rows = header.rows;
  std::sort(rows.begin(), rows.end(), [](const auto& a, const auto& b) {
    return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
  });
  const uint64_t data_begin = 8 + length, data_bytes = file_bytes - data_begin;
  SafeTensors result;
  result.metadata = std::move(header.metadata);
  result.tensors.reserve(rows.size());
  uint64_t at = 0;
  for (auto& row : rows) {
    uint64_t size = 0;
    std::string name = "tensor " + shown(row.info.name);
    if (row.begin > row.end || row.end > data_bytes)
      throw refuse(name + " lies outside of the file's " + std::to_string(data_bytes) +
                   " data bytes");
    if (row.begin != at)
      throw refuse(name + (row.begin < at ? " overlaps another" : " leaves a gap before it"));
    if (!byte_count(row.info, size) || size != row.end - row.begin)
      throw refuse(name + " is " + row.info.shape_text() + ", which does not fit its " +
                   std::to_string(row.end - row.begin) + " bytes");
    SafeTensor tensor;
    static_cast<SafeTensorInfo&>(tensor) = std::move(row.info);
    tensor.begin = data_begin + row.begin;
    tensor.bytes = size;
    result.tensors.push_back(std::move(tensor));
    at = row.end;
  }
  if (at != data_bytes)
    throw refuse(std::to_string(data_bytes - at) + " bytes follow the last tensor");
  return result;
}

}  // namespace maglev
