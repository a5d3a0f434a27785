#include "engine/run/run_settings.h"

#include <yaml-cpp/yaml.h>

#include "base/core/error.h"

namespace maglev {
namespace {

void add_settings(const YAML::Node& node, const std::string& name, NamedSettings& settings) {
  if (node.IsMap()) {
    for (const auto& child : node) {
      const std::string key = child.first.as<std::string>();
      add_settings(child.second, name.empty() ? key : name + "." + key, settings);
    }
  } else if (!name.empty()) {
    YAML::Emitter text;
    text << YAML::Flow << node;
    settings.emplace_back(name, node.IsScalar() ? node.Scalar() : text.c_str());
  }
}

}  // namespace

NamedSettings named_settings(const std::string& yaml) {
  NamedSettings settings;
  try {
    add_settings(YAML::Load(yaml), "", settings);
  } catch (const YAML::Exception& e) {
    throw Error("[run] config.yaml cannot be read: " + std::string(e.what()));
  }
  return settings;
}

}  // namespace maglev
