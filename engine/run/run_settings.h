#pragma once
// A run's settings as texts, for those who show them beside another run's: nothing is made of them.

#include <string>
#include <utility>
#include <vector>

namespace maglev {

using NamedSettings = std::vector<std::pair<std::string, std::string>>;

/// What a config.yaml of this text says, in its order: {"ppo.lr", "0.0003"}. Throws Error where it
/// is no YAML.
NamedSettings named_settings(const std::string& yaml);

}  // namespace maglev
