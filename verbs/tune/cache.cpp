#include "verbs/tune/cache.h"

#include <algorithm>
#include <variant>

#include <torch/version.h>

#include <nlohmann/json.hpp>

#include "base/core/error.h"
#include "base/core/file.h"
#include "base/core/hash.h"
#include "base/core/version.h"
#include "engine/host/machine.h"
#include "engine/host/system.h"

namespace maglev::verbs::tune {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kMaxFileBytes = 16 << 20;

bool is_fraction(const Field& field) {
  return std::holds_alternative<float*>(field.member) ||
         std::holds_alternative<double*>(field.member);
}

// whether another value would be other work, or a choice of the user's that a tuning has to keep
bool shapes(const Field& field) {
  if (field.rule.free) return field.origin == Origin::command_line;
  if (field.name == "device" || field.name == "train.precision") return true;
  const std::string section = field.name.substr(0, field.name.find('.'));
  return section != field.name && section != "train" && section != "trace" && !is_fraction(field);
}

Json machine() {
  const System system = probe_system(".");
  Json gpus = Json::array();
  for (const Gpu& gpu : system.gpus) gpus.push_back({gpu.name, gpu.memory_total});
  const int64_t memory = system.memory.limit > 0
                             ? std::min(system.memory.limit, system.memory.total)
                             : system.memory.total;
  return {{"processor", system.processor.model},
          {"processors", place("cpu", 0).threads},
          {"memory", bytes_text(memory)},
          {"gpus", gpus},
          {"torch", TORCH_VERSION},
          {"engine", kEngineVersion}};
}

Json json_of(const Row& row) {
  Json settings = Json::object();
  for (const Setting& one : row.candidate) settings[one.name] = one.value;
  return {{"settings", settings},         {"state", int(row.state)}, {"bytes", row.bytes},
          {"peak_bytes", row.peak_bytes}, {"speed", row.speed},      {"gain", row.gain},
          {"looks", row.looks},           {"finals", row.finals},    {"why", row.why}};
}

Candidate settings_of(const Json& json) {
  Candidate settings;
  for (const auto& [name, value] : json.items()) settings.push_back({name, value});
  return settings;
}

Row row_of(const Json& json) {
  return {.candidate = settings_of(json.at("settings")),
          .state = State(std::clamp<int>(json.at("state"), 0, int(State::left_out))),
          .bytes = json.at("bytes"),
          .peak_bytes = json.at("peak_bytes"),
          .speed = json.at("speed"),
          .gain = json.at("gain"),
          .looks = json.at("looks"),
          .finals = json.at("finals"),
          .why = json.at("why")};
}

}  // namespace

CacheKey cache_key(const Experiment& experiment, std::span<const std::string> learning) {
  Json settings = Json::object();
  for (const Field& field : experiment.table().fields())
    if (shapes(field)) settings[field.name] = field.plain();
  return {Json{{"machine", machine()},
               {"algorithm", experiment.algo().name},
               {"environment", experiment.env().name},
               {"settings", settings},
               {"learning", std::vector<std::string>(learning.begin(), learning.end())}}
              .dump()};
}

std::string cache_file(const CacheKey& key) {
  const std::string folder = cache_folder();
  if (folder.empty())
    throw Error("[tune] there is no folder for what was tuned; set XDG_CACHE_HOME or HOME");
  return folder + "/tune/" + hash_of(key.text) + ".json";
}

std::optional<Tuned> read_cache(const CacheKey& key) {
  const std::string file = cache_file(key);
  if (!path_exists(file)) return std::nullopt;
  try {
    const Json json = Json::parse(read_file(file, kMaxFileBytes));
    if (json.at("key").dump() != key.text) return std::nullopt;
    Tuned tuned{
        .made = json.at("made"), .settings = settings_of(json.at("settings")), .outcome = {}};
    for (const Json& row : json.at("rows")) tuned.outcome.rows.push_back(row_of(row));
    tuned.outcome.chosen = json.at("chosen");
    tuned.outcome.noise = json.at("noise");
    tuned.outcome.seconds = json.at("seconds");
    tuned.outcome.unfinished = json.at("unfinished");
    tuned.budget = json.at("budget");
    if (tuned.outcome.chosen >= tuned.outcome.rows.size()) return std::nullopt;
    return tuned;
  } catch (const Json::exception&) {
    // one that is damaged is made anew
    return std::nullopt;
  }
}

std::string write_cache(const CacheKey& key, const Tuned& tuned) {
  const std::string file = cache_file(key);
  make_dirs(parent_of(file));
  Json rows = Json::array(), settings = Json::object();
  for (const Row& row : tuned.outcome.rows) rows.push_back(json_of(row));
  for (const Setting& one : tuned.settings) settings[one.name] = one.value;
  write_atomic(file, Json{{"key", Json::parse(key.text)},
                          {"made", tuned.made},
                          {"settings", settings},
                          {"chosen", tuned.outcome.chosen},
                          {"noise", tuned.outcome.noise},
                          {"seconds", tuned.outcome.seconds},
                          {"unfinished", tuned.outcome.unfinished},
                          {"budget", tuned.budget},
                          {"rows", rows}}
                             .dump(2) +
                         "\n");
  return file;
}

}  // namespace maglev::verbs::tune
