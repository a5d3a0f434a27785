#include "base/core/safetensors.h"

#include <cstring>
#include <filesystem>
#include <functional>
#include <unistd.h>

#include <gtest/gtest.h>

#include "base/core/error.h"
#include "base/core/philox.h"

namespace maglev {
namespace {

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

std::string file_with(const std::string& header, size_t data_bytes) {
  uint64_t length = header.size();
  std::string file(8, '\0');
  std::memcpy(file.data(), &length, 8);
  return file + header + std::string(data_bytes, 'd');
}

// the error of parsing; empty when it is accepted
std::string refusal(const std::string& file) {
  try {
    parse_safetensors(bytes_of(file), file.size(), "t");
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

std::string written(const std::vector<SafeTensorInfo>& tensors,
                    const std::map<std::string, std::string>& metadata,
                    const std::function<std::span<const std::byte>(size_t)>& bytes) {
  std::string path =
      (std::filesystem::temp_directory_path() / ("maglev-st-" + std::to_string(::getpid())))
          .string();
  std::filesystem::remove(path);
  FileWriter out(path);
  write_safetensors(out, tensors, metadata, bytes);
  out.finish();
  std::string file = read_file(path, 1 << 24);
  std::filesystem::remove(path);
  return file;
}

std::string sample() {
  static const std::string data(64, 'a');
  std::vector<SafeTensorInfo> tensors{{"b.flag", SafeDType::boolean, {3}},
                                      {"a.weight", SafeDType::f32, {2, 3}},
                                      {"count", SafeDType::i64, {}},
                                      {"empty", SafeDType::f64, {4, 0}}};
  size_t sizes[] = {3, 24, 8, 0};
  return written(tensors, {{"note", "käse"}},
                 [&](size_t i) { return bytes_of(data).first(sizes[i]); });
}

TEST(Safetensors, what_is_written_is_read_back) {
  std::string file = sample();
  SafeTensors read = parse_safetensors(bytes_of(file), file.size(), "t");
  EXPECT_EQ(read.metadata.at("note"), "käse");
  ASSERT_EQ(read.tensors.size(), 4u);
  const SafeTensor* weight = read.find("a.weight");
  ASSERT_TRUE(weight);
  EXPECT_EQ(weight->shape_text(), "F32 [2, 3]");
  EXPECT_EQ(file.substr(weight->begin, weight->bytes), std::string(24, 'a'));
  EXPECT_TRUE(read.find("count")->shape.empty());
  EXPECT_EQ(read.find("empty")->bytes, 0u);
  EXPECT_EQ(read.find("none"), nullptr);
}

TEST(Safetensors, a_tensor_may_be_given_piece_by_piece) {
  static const std::string data = "0123456789abcdef";
  const std::vector<SafeTensorInfo> tensors{{"a", SafeDType::u8, {16}}, {"b", SafeDType::u8, {4}}};
  const auto in_pieces = [&](size_t most) {
    std::vector<size_t> begin(2);
    return written(tensors, {}, [&, begin, most](size_t i) mutable {
      const size_t size = i == 0 ? 16 : 4, first = begin[i];
      begin[i] = std::min(size, first + most);
      return bytes_of(data).subspan(first, begin[i] - first);
    });
  };
  EXPECT_EQ(in_pieces(5), in_pieces(16));
  // more than there is place, or nothing where something is missing
  EXPECT_THROW(written(tensors, {}, [&](size_t) { return bytes_of(data).first(5); }), Error);
  EXPECT_THROW(written(tensors, {}, [&](size_t) { return bytes_of(data).first(0); }), Error);
}

TEST(Safetensors, every_tensor_lies_at_a_multiple_of_its_element_size) {
  std::string file = sample();
  for (const SafeTensor& t : parse_safetensors(bytes_of(file), file.size(), "t").tensors)
    EXPECT_EQ(t.begin % uint64_t(safe_dtype_bytes(t.dtype)), 0u) << t.name;
}

TEST(Safetensors, a_file_without_tensors_is_valid) {
  EXPECT_EQ(refusal(file_with("{}", 0)), "");
  EXPECT_EQ(refusal(file_with("{}      ", 0)), "");
}

TEST(Safetensors, the_writer_refuses_what_it_could_not_read) {
  auto refused = [](std::vector<SafeTensorInfo> tensors, size_t bytes) {
    static const std::string data(64, 'a');
    try {
      written(tensors, {}, [&](size_t) { return bytes_of(data).first(bytes); });
    } catch (const Error&) {
      return true;
    }
    return false;
  };
  EXPECT_FALSE(refused({{"x", SafeDType::u8, {4}}}, 4));
  EXPECT_TRUE(refused({{"x", SafeDType::u8, {4}}}, 5));
  EXPECT_TRUE(refused({{"x", SafeDType::u8, {4}}, {"x", SafeDType::u8, {4}}}, 4));
  EXPECT_TRUE(refused({{"", SafeDType::u8, {4}}}, 4));
  EXPECT_TRUE(refused({{"__metadata__", SafeDType::u8, {4}}}, 4));
  EXPECT_TRUE(refused({{"a\nb", SafeDType::u8, {4}}}, 4));
  EXPECT_TRUE(refused({{"\xff", SafeDType::u8, {4}}}, 4));
  EXPECT_TRUE(refused({{"x", SafeDType::u8, {-1}}}, 0));
  EXPECT_TRUE(refused({{"x", SafeDType::f64, {INT64_MAX, 4}}}, 4));
}

struct Lie {
  const char* what;
  const char* header;
  size_t data_bytes;
  const char* expected;
};

// each differs from an accepted file in one point
const Lie kLies[] = {
    {"no object", R"([])", 0, "not a JSON object"},
    {"a byte order mark", "\xef\xbb\xbf{}", 0, "not a JSON object"},
    {"leading space", " {}", 0, "not a JSON object"},
    {"cut JSON", R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]})", 4, "not JSON"},
    {"text behind the object", R"({} {})", 0, "not JSON"},
    {"a trailing comma", R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},})", 4,
     "not JSON"},
    {"a comment", R"({/*x*/})", 0, "not JSON"},
    {"NaN", R"({"a":{"dtype":"U8","shape":[NaN],"data_offsets":[0,4]}})", 4, "not JSON"},
    {"a name that is not UTF-8",
     "{\"\xff\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]}}", 4, "UTF-8"},
    {"half of a surrogate pair", R"({"\ud800":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}})", 4,
     "UTF-8"},
    {"a zero in a name", R"({"a\u0000b":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}})", 4,
     "control"},
    {"an empty name", R"({"":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}})", 4, "empty"},
    {"a name twice",
     R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}})",
     4, "repeats tensor"},
    {"a key twice", R"({"a":{"dtype":"U8","dtype":"I8","shape":[4],"data_offsets":[0,4]}})", 4,
     "repeats dtype"},
    {"metadata twice", R"({"__metadata__":{},"__metadata__":{}})", 0, "repeats __metadata__"},
    {"a metadata key twice", R"({"__metadata__":{"a":"1","a":"2"}})", 0, "repeats metadata"},
    {"metadata that is no text", R"({"__metadata__":{"a":1}})", 0, "number"},
    {"metadata that is no object", R"({"__metadata__":"a"})", 0, "text"},
    {"metadata that is nested", R"({"__metadata__":{"a":{"b":"c"}}})", 0, "object where none"},
    {"a tensor that is a number", R"({"a":4})", 4, "number"},
    {"a tensor that is null", R"({"a":null})", 4, "null"},
    {"a tensor that is a list", R"({"a":[]})", 4, "array"},
    {"no dtype", R"({"a":{"shape":[4],"data_offsets":[0,4]}})", 4, "needs dtype"},
    {"no shape", R"({"a":{"dtype":"U8","data_offsets":[0,4]}})", 4, "needs dtype"},
    {"no offsets", R"({"a":{"dtype":"U8","shape":[4]}})", 4, "needs dtype"},
    {"an unknown key", R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4],"code":"x"}})", 4,
     "unknown key"},
    {"an unknown dtype", R"({"a":{"dtype":"U9","shape":[4],"data_offsets":[0,4]}})", 4,
     "unknown dtype"},
    {"a dtype in lower case", R"({"a":{"dtype":"u8","shape":[4],"data_offsets":[0,4]}})", 4,
     "unknown dtype"},
    {"a dtype that is a number", R"({"a":{"dtype":8,"shape":[4],"data_offsets":[0,4]}})", 4,
     "number"},
    {"a negative dimension", R"({"a":{"dtype":"U8","shape":[-4],"data_offsets":[0,4]}})", 4,
     "negative"},
    {"a fractional dimension", R"({"a":{"dtype":"U8","shape":[4.0],"data_offsets":[0,4]}})", 4,
     "whole"},
    {"a dimension over 64 bits",
     R"({"a":{"dtype":"U8","shape":[18446744073709551616],"data_offsets":[0,4]}})", 4, "whole"},
    {"a shape within a shape", R"({"a":{"dtype":"U8","shape":[[4]],"data_offsets":[0,4]}})", 4,
     "array"},
    {"a shape whose product overflows to 4",
     R"({"a":{"dtype":"U8","shape":[4294967296,4294967296,4],"data_offsets":[0,4]}})", 4,
     "does not fit"},
    {"a shape that is smaller", R"({"a":{"dtype":"U8","shape":[3],"data_offsets":[0,4]}})", 4,
     "does not fit"},
    {"a dtype that is wider", R"({"a":{"dtype":"F32","shape":[4],"data_offsets":[0,4]}})", 4,
     "does not fit"},
    {"one offset", R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[4]}})", 4, "two data_offsets"},
    {"three offsets", R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4,4]}})", 4,
     "two data_offsets"},
    {"offsets in reverse", R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[4,0]}})", 4,
     "outside"},
    {"an end behind the file", R"({"a":{"dtype":"U8","shape":[5],"data_offsets":[0,5]}})", 4,
     "outside"},
    {"an end at the edge of 64 bits",
     R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,18446744073709551615]}})", 4, "outside"},
    {"a gap at the start", R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[1,5]}})", 5, "gap"},
    {"a gap between",
     R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"b":{"dtype":"U8","shape":[2],"data_offsets":[3,5]}})",
     5, "gap"},
    {"tensors that overlap",
     R"({"a":{"dtype":"U8","shape":[3],"data_offsets":[0,3]},"b":{"dtype":"U8","shape":[2],"data_offsets":[2,4]}})",
     4, "overlaps"},
    {"two names for the same bytes",
     R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},"b":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}})",
     4, "overlaps"},
    {"bytes behind the last tensor", R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}})", 5,
     "follow"},
    {"bytes without tensors", R"({})", 1, "follow"},
};

TEST(Safetensors, every_lie_in_the_header_is_refused) {
  ASSERT_EQ(refusal(file_with(R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}})", 4)), "");
  for (const Lie& lie : kLies) {
    std::string error = refusal(file_with(lie.header, lie.data_bytes));
    EXPECT_NE(error.find(lie.expected), std::string::npos) << lie.what << ": '" << error << "'";
    EXPECT_EQ(error.find('\n'), std::string::npos) << lie.what;
  }
}

TEST(Safetensors, a_zero_byte_does_not_end_the_header) {
  EXPECT_NE(refusal(file_with(std::string("{}\0junk", 7), 0)), "");
}

TEST(Safetensors, header_lengths_are_checked_before_anything_is_read) {
  for (uint64_t length :
       {uint64_t(5), uint64_t(1) << 40, ~uint64_t(0), ~uint64_t(0) - 7, uint64_t(1) << 63}) {
    std::string file = file_with("{}", 0);
    std::memcpy(file.data(), &length, 8);
    EXPECT_NE(refusal(file).find("header is said to have"), std::string::npos) << length;
  }
  for (size_t size = 0; size < 8; ++size) EXPECT_NE(refusal(std::string(size, '\0')), "") << size;
  std::string huge = file_with("{" + std::string(kMaxSafetensorsHeader, ' ') + "}", 0);
  EXPECT_NE(refusal(huge).find("header is said to have"), std::string::npos);
}

TEST(Safetensors, deep_nesting_is_refused_at_once) {
  EXPECT_NE(refusal(file_with("{\"a\":" + std::string(1 << 20, '['), 0)), "");
  EXPECT_NE(refusal(file_with("{\"a\":{\"shape\":" + std::string(1 << 20, '['), 0)), "");
}

TEST(Safetensors, every_truncation_is_refused) {
  std::string file = sample();
  for (size_t size = 0; size < file.size(); ++size)
    EXPECT_NE(refusal(file.substr(0, size)), "") << size;
}

TEST(Safetensors, mutated_files_are_refused_or_read_within_their_bytes) {
  const std::string file = sample();
  Rng rng(11, 1, 0);
  int refused = 0;
  for (int round = 0; round < 2000; ++round) {
    std::string changed = file;
    int edits = 1 + int(rng.below(3));
    for (int e = 0; e < edits; ++e)
      changed[rng.below(uint32_t(changed.size()))] ^= char(1 << rng.below(8));
    if (rng.below(4) == 0) changed.resize(rng.below(uint32_t(changed.size())));
    try {
      for (const SafeTensor& t :
           parse_safetensors(bytes_of(changed), changed.size(), "t").tensors) {
        ASSERT_LE(t.bytes, changed.size());
        ASSERT_LE(t.begin, changed.size() - t.bytes);
      }
    } catch (const Error&) {
      ++refused;
    }
  }
  EXPECT_GT(refused, 1000);
}

}  // namespace
}  // namespace maglev
