#include "verbs/eval/kept.h"

#include <utility>

namespace maglev::verbs::eval {
namespace {

constexpr const char* kEarlier = "earlier";
constexpr size_t kMostEarlier = 100;  ///< the newest

bool asked_alike(const nlohmann::json& a, const nlohmann::json& b) {
  for (const char* name : {"checkpoint", "step", "asked", "settings"})
    if (a.value(name, nlohmann::json()) != b.value(name, nlohmann::json())) return false;
  return true;
}

}  // namespace

nlohmann::json with_earlier(nlohmann::json report, const std::string& before) {
  nlohmann::json last = nlohmann::json::parse(before, nullptr, /*allow_exceptions=*/false);
  if (!last.is_object() || !last.contains("results")) return report;
  nlohmann::json older = nlohmann::json::array();
  if (last.contains(kEarlier)) {
    older = std::move(last[kEarlier]);
    last.erase(kEarlier);
  }
  nlohmann::json earlier = nlohmann::json::array();
  const auto take = [&](const nlohmann::json& one) {
    if (one.is_object() && !asked_alike(one, report) && earlier.size() < kMostEarlier)
      earlier.push_back(one);
  };
  take(last);
  for (const nlohmann::json& one : older) take(one);
  if (!earlier.empty()) report[kEarlier] = std::move(earlier);
  return report;
}

}  // namespace maglev::verbs::eval
