#include "engine/run/manifest.h"

#include <bit>
#include <charconv>
#include <cmath>
#include <stdexcept>

#include <nlohmann/json.hpp>

#include "base/core/error.h"

namespace maglev {
namespace {

using Json = nlohmann::json;

constexpr const char* kFormat = "maglev-checkpoint";
constexpr int64_t kFormatVersion = 1;
constexpr size_t kMaxManifestBytes = 32 << 20;
constexpr int kMaxDepth = 6;

// exact both ways: the shortest digits, or the bits of a NaN
std::string real_text(double value) {
  char buffer[64];
  if (std::isnan(value)) {
    auto end =
        std::to_chars(buffer, buffer + sizeof buffer, std::bit_cast<uint64_t>(value), 16).ptr;
    return "nan:" + std::string(buffer, end);
  }
  auto end = std::to_chars(buffer, buffer + sizeof buffer, value).ptr;
  return {buffer, end};
}

double real_value(const std::string& text) {
  const char* last = text.data() + text.size();
  if (text.starts_with("nan:")) {
    uint64_t bits = 0;
    std::from_chars(text.data() + 4, last, bits, 16);
    return std::bit_cast<double>(bits);
  }
  double value = 0;
  std::from_chars(text.data(), last, value);
  return value;
}

std::string dump(const Json& json) {
  return json.dump(1, ' ', false, Json::error_handler_t::replace);
}

bool is_utf8(const std::string& text) {
  try {
    Json(text).dump();
    return true;
  } catch (const Json::exception&) {
    return false;
  }
}

// a text as it is; bytes that are no UTF-8 as a list of numbers
Json text_json(const std::string& text) {
  if (is_utf8(text)) return text;
  return std::vector<int>(reinterpret_cast<const uint8_t*>(text.data()),
                          reinterpret_cast<const uint8_t*>(text.data()) + text.size());
}

std::string text_value(const Json& json) {
  if (json.is_string()) return json.get<std::string>();
  std::string text;
  for (int byte : json.get<std::vector<int>>()) text += char(byte);
  return text;
}

SafeDType dtype_value(const std::string& name) {
  for (int d = 0; d <= int(SafeDType::boolean); ++d)
    if (safe_dtype_name(SafeDType(d)) == name) return SafeDType(d);
  throw std::out_of_range(name);
}

Json without_hash(const Manifest& m) {
  const CheckpointIdentity& who = m.identity;
  Json tensors = Json::object(), reals = Json::object(), texts = Json::object();
  for (const auto& [name, t] : m.state.tensors)
    tensors[name] = {
        {"dtype", safe_dtype_name(t.info.dtype)}, {"shape", t.info.shape}, {"hash", t.hash}};
  for (const auto& [name, value] : m.state.reals) reals[name] = real_text(value);
  for (const auto& [name, value] : m.state.texts) texts[name] = text_json(value);
  Json identity = {{"algo", who.algo},
                   {"env", who.env},
                   {"engine_version", who.engine_version},
                   {"torch_version", who.torch_version},
                   {"options_yaml", who.options_yaml},
                   {"step", who.step},
                   {"updates", who.updates},
                   {"return_mean", real_text(who.return_mean)},
                   {"seconds", real_text(who.seconds)}};
  // only where they say something: manifests of before these values existed keep their text
  if (!who.tokens.empty()) identity["tokens"] = who.tokens;
  if (who.evaluate) identity["evaluate"] = true;
  return {{"format", kFormat},
          {"format_version", kFormatVersion},
          {"sequence", m.sequence},
          {"identity", identity},
          {"integers", m.state.integers},
          {"reals", reals},
          {"texts", texts},
          {"tensors", tensors},
          {"state_file", {{"name", kStateFile}, {"bytes", m.file_bytes}, {"hash", m.file_hash}}},
          {"state_hash", m.state.hash()}};
}

Manifest from_json(const Json& json) {
  Manifest m;
  const Json& who = json.at("identity");
  m.identity = {.algo = who.at("algo"),
                .env = who.at("env"),
                .engine_version = who.at("engine_version"),
                .torch_version = who.at("torch_version"),
                .options_yaml = who.at("options_yaml"),
                .step = who.at("step"),
                .updates = who.at("updates"),
                .return_mean = real_value(who.at("return_mean")),
                .seconds = real_value(who.at("seconds")),
                .tokens = who.value("tokens", ""),
                .evaluate = who.value("evaluate", false)};
  m.sequence = json.at("sequence");
  m.state.integers = json.at("integers").get<std::map<std::string, int64_t>>();
  for (const auto& [name, value] : json.at("reals").items())
    m.state.reals[name] = real_value(value);
  for (const auto& [name, value] : json.at("texts").items())
    m.state.texts[name] = text_value(value);
  for (const auto& [name, t] : json.at("tensors").items()) {
    StateSummary::Tensor& tensor = m.state.tensors[name];
    tensor.info = {.name = name, .dtype = dtype_value(t.at("dtype")), .shape = t.at("shape")};
    tensor.hash = t.at("hash");
  }
  m.file_bytes = json.at("state_file").at("bytes");
  m.file_hash = json.at("state_file").at("hash");
  return m;
}

}  // namespace

std::string StateSummary::hash() const {
  Hash all;
  for (const auto& [name, value] : integers)
    all.add_text("integer").add_text(name).add(&value, sizeof value);
  for (const auto& [name, value] : reals)
    all.add_text("real").add_text(name).add(&value, sizeof value);
  for (const auto& [name, value] : texts) all.add_text("text").add_text(name).add_text(value);
  for (const auto& [name, t] : tensors)
    all.add_text("tensor").add_text(name).add_text(t.info.shape_text()).add_text(t.hash);
  return all.hex();
}

std::string Manifest::text() const {
  Json json = without_hash(*this);
  json["hash"] = hash_of(std::string_view(dump(json)));
  return dump(json) + "\n";
}

Manifest Manifest::parse(const std::string& text, const std::string& origin) {
  auto damaged = [&](const char* why) {
    return Error("[" + origin + "] is damaged: " + why + "; use an earlier checkpoint");
  };
  try {
    Json json = Json::parse(text, [&](int depth, Json::parse_event_t, Json&) {
      if (depth > kMaxDepth) throw damaged("nested too deeply");
      return true;
    });
    if (json.at("format") != kFormat) throw damaged("not a manifest");
    if (int64_t version = json.at("format_version"); version != kFormatVersion)
      throw Error("[" + origin + "] has checkpoint format " + std::to_string(version) +
                  ", this version of maglev reads " + std::to_string(kFormatVersion) +
                  "; load it with the version that wrote it");
    Manifest manifest = from_json(json);
    // covers every value, unknown and repeated keys, and the hash itself
    if (manifest.text() != text) throw damaged("it does not match its hash");
    return manifest;
  } catch (const Json::exception&) {
    throw damaged("not the JSON of a manifest");
  } catch (const std::out_of_range&) {
    throw damaged("unknown dtype");
  }
}

Manifest read_manifest(const std::string& dir) {
  std::string path = dir + "/" + kManifestFile;
  return Manifest::parse(read_file(path, kMaxManifestBytes), path);
}

VerifiedCheckpoint verify_checkpoint(const std::string& dir) {
  VerifiedCheckpoint checkpoint{
      .dir = dir, .manifest = read_manifest(dir), .file = nullptr, .tensors = {}};
  const Manifest& manifest = checkpoint.manifest;
  std::string path = dir + "/" + kStateFile;
  auto damaged = [&](const std::string& why) {
    return Error("[" + path + "] is damaged: " + why + "; use an earlier checkpoint");
  };
  checkpoint.file = std::make_unique<FileReader>(path);
  const FileReader& file = *checkpoint.file;
  if (file.bytes() != manifest.file_bytes)
    throw damaged("it has " + std::to_string(file.bytes()) + " bytes, " +
                  std::to_string(manifest.file_bytes) + " were written");
  bool whole = file.hash(0, file.bytes()) == manifest.file_hash;
  checkpoint.tensors = parse_safetensors(file);
  if (!whole) {
    for (const SafeTensor& t : checkpoint.tensors.tensors) {
      auto row = manifest.state.tensors.find(t.name);
      if (row == manifest.state.tensors.end() || file.hash(t.begin, t.bytes) != row->second.hash)
        throw damaged("tensor '" + t.name + "' does not match its hash");
    }
    throw damaged("the header does not match its hash");
  }
  if (checkpoint.tensors.tensors.size() != manifest.state.tensors.size())
    throw damaged("it does not belong to its manifest");
  for (const SafeTensor& t : checkpoint.tensors.tensors) {
    auto row = manifest.state.tensors.find(t.name);
    if (row == manifest.state.tensors.end() || row->second.info.shape_text() != t.shape_text())
      throw damaged("tensor '" + t.name + "' does not belong to its manifest");
  }
  return checkpoint;
}

}  // namespace maglev
