#include "base/timeline/origin.h"

#include <algorithm>
#include <cstdlib>
#include <set>

#include <nlohmann/json.hpp>

#include "base/timeline/events.h"

namespace maglev {
namespace {

using Json = nlohmann::json;

// what a count may be at most: a file says anything
constexpr double kMostCount = 1e18;

std::string text(const Json& from, const char* key) {
  if (!from.contains(key) || !from[key].is_string()) return "";
  return without_controls(from[key].get<std::string>());
}

double real(const Json& from, const char* key) {
  return from.contains(key) && from[key].is_number() ? std::max(0.0, from[key].get<double>()) : 0.0;
}

int64_t count(const Json& from, const char* key) {
  return int64_t(std::min(kMostCount, real(from, key)));
}

std::vector<trace::ThreadUse> uses_in(const Json& said, const char* whose) {
  std::vector<trace::ThreadUse> uses;
  if (!said.contains(whose) || !said[whose].is_array()) return uses;
  for (const Json& use : said[whose])
    if (use.is_object())
      uses.push_back({.tid = count(use, "tid"),
                      .on_processor = count(use, "on_processor_ns"),
                      .queued = count(use, "queued_ns"),
                      .in_kernel = count(use, "in_kernel_ns"),
                      .faults = count(use, "faults"),
                      .gave_up = count(use, "gave_up"),
                      .taken_away = count(use, "taken_away")});
  return uses;
}

}  // namespace

double TraceOrigin::number(const std::string& setting, double missing) const {
  const auto place = settings.find(setting);
  if (place == settings.end()) return missing;
  char* end = nullptr;
  const double value = std::strtod(place->second.c_str(), &end);
  return end == place->second.c_str() || *end ? missing : value;
}

TraceOrigin origin_of(const std::string& json) {
  TraceOrigin origin;
  const auto said = Json::parse(json, nullptr, /*throws=*/false);
  if (!said.is_object()) return origin;
  // a merged file says so of others' traces too
  origin.ours = !said.contains("merged") || said.contains("version");
  origin.run = text(said, "run"), origin.algorithm = text(said, "algorithm");
  origin.environment = text(said, "environment"), origin.mode = text(said, "mode");
  origin.threads = std::min<int64_t>(1'000'000'000, count(said, "threads"));
  origin.dropped = count(said, "dropped");
  origin.overhead_s = real(said, "overhead_s");
  origin.counting_cost_ns = real(said, "counting_cost_ns");
  if (said.contains("peaks") && said["peaks"].is_object()) {
    origin.peak_gflops = real(said["peaks"], "gflops");
    origin.peak_gbytes_s = real(said["peaks"], "gbytes_s");
  }
  origin.processors = count(said, "processors");
  origin.iteration_steps = count(said, "iteration_steps");
  origin.block_environments = count(said, "block_environments");
  if (said.contains("settings") && said["settings"].is_object())
    for (const auto& [name, value] : said["settings"].items())
      if (value.is_string()) origin.settings[name] = value.get<std::string>();
  if (said.contains("merged") && said["merged"].is_array()) {
    std::set<int64_t> processes;
    for (const Json& one : said["merged"]) {
      if (!one.is_object()) continue;
      if (one.contains("torn") && one["torn"] == true) origin.torn.push_back(text(one, "file"));
      if (one.contains("process"))
        origin.in_windows |= !processes.insert(count(one, "process")).second;
    }
  }
  origin.use = uses_in(said, "use"), origin.programs = uses_in(said, "programs");
  return origin;
}

}  // namespace maglev
