#include "engine/host/peaks_cache.h"

#include <string>
#include <utility>

#include <torch/version.h>

#include <nlohmann/json.hpp>

#include "base/core/error.h"
#include "base/core/file.h"
#include "engine/host/system.h"

namespace maglev {
namespace {

using Json = nlohmann::json;

constexpr size_t kMostBytes = 1 << 16;

// members that are one number, by name
constexpr std::pair<const char*, double Peaks::*> kMembers[] = {
    {"multiply_add_gflops", &Peaks::multiply_add_gflops},
    {"tanh_gigavalues_s", &Peaks::tanh_gigavalues_s},
    {"gigabytes_s", &Peaks::gigabytes_s},
    {"shared_gigabytes_s", &Peaks::shared_gigabytes_s},
    {"shared_large_gigabytes_s", &Peaks::shared_large_gigabytes_s},
    {"hand_off_us", &Peaks::hand_off_us},
    {"device_gigabytes_s", &Peaks::device_gigabytes_s},
    {"to_device_gigabytes_s", &Peaks::to_device_gigabytes_s},
    {"to_host_gigabytes_s", &Peaks::to_host_gigabytes_s},
    {"launch_us", &Peaks::launch_us},
    {"seconds", &Peaks::seconds}};

Json key_of(const Placement& placement) {
  const System system = probe_system(".");
  std::string gpus;
  for (const Gpu& gpu : system.gpus) gpus += gpu.name + ";";
  return {{"processor", system.processor.model},
          {"threads", placement.threads},
          {"affinity", system.processor.affinity},
          {"quota", system.processor.quota},
          {"device", placement.device.str()},
          {"gpus", gpus},
          {"torch", TORCH_VERSION}};
}

// empty: there is no folder
std::string file_of(const Placement& placement) {
  const std::string folder = cache_folder();
  if (folder.empty()) return "";
  std::string device = placement.device.str();
  for (char& c : device)
    if (c == ':') c = '-';
  return folder + "/peaks/" + device + "-" + std::to_string(placement.threads) + ".json";
}

}  // namespace

std::optional<Peaks> kept_peaks(const Placement& placement) {
  const std::string file = file_of(placement);
  if (file.empty() || !path_exists(file)) return std::nullopt;
  try {
    const Json json = Json::parse(read_file(file, kMostBytes));
    if (json.at("key") != key_of(placement)) return std::nullopt;
    Peaks peaks;
    for (const auto& [name, member] : kMembers) peaks.*member = json.at(name);
    for (const auto& [type, gflops] : json.at("products").items())
      peaks.products.push_back({type, gflops});
    return peaks;
  } catch (const std::exception&) {
    // one that is damaged is measured anew
    return std::nullopt;
  }
}

void keep_peaks(const Placement& placement, const Peaks& peaks) {
  const std::string file = file_of(placement);
  if (file.empty()) return;
  Json json{{"key", key_of(placement)}, {"products", Json::object()}};
  for (const auto& [name, member] : kMembers) json[name] = peaks.*member;
  for (const ProductPeak& product : peaks.products) json["products"][product.type] = product.gflops;
  try {
    make_dirs(parent_of(file));
    write_atomic(file, json.dump(2) + "\n");
  } catch (const Error&) {
    // where nothing can be written they are measured each time
  }
}

}  // namespace maglev
