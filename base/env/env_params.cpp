#include "base/env/env_params.h"

namespace maglev {

EnvParams::EnvParams(const EnvEntry& entry, const std::vector<std::string>& settings)
    : params_((entry.params_bytes + sizeof(std::max_align_t) - 1) / sizeof(std::max_align_t)) {
  entry.make_params(params_.data());
  table_.section("env", [&](OptionTable& t) { entry.describe(t, params_.data()); });
  for (const std::string& setting : settings) table_.override_with(setting);
  entry.check(params_.data());
}

}  // namespace maglev
