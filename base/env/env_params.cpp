#include "base/env/env_params.h"

#include <algorithm>

#include "base/core/split.h"

namespace maglev {

EnvParams::EnvParams(const EnvEntry& entry, const std::vector<std::string>& settings,
                     std::string_view where)
    : params_((entry.params_bytes + sizeof(std::max_align_t) - 1) / sizeof(std::max_align_t)) {
  entry.make_params(params_.data());
  table_.section("env", [&](OptionTable& t) { entry.describe(t, params_.data()); });
  table_.override_with(settings, where);
  entry.check(params_.data());
}

std::vector<std::string> env_settings(const OptionTable& table) {
  std::vector<std::string> settings;
  // how many there are is the run's own
  for (const Field& field : table.fields())
    if (field.name.starts_with("env.") && field.name != "env.count")
      settings.push_back(field.name + "=" + field.plain());
  return settings;
}

Judging judging_of(const EnvEntry& entry, const void* params,
                   const std::vector<std::string>& given) {
  OptionTable table;
  // only read by: a table is bound to what it could write to
  entry.describe(table, const_cast<void*>(params));
  Judging judging;
  for (const std::string& setting : entry.judged_with(params)) {
    const std::string name = name_part(setting);
    if (std::ranges::any_of(given, [&](const auto& g) { return name_part(g) == "env." + name; }))
      continue;
    judging.settings.push_back("env." + setting);
    judging.note += (judging.note.empty() ? "judged with env." : ", env.") + setting +
                    " (as in training: env." + name + "=" + table.find(name)->plain() + ")";
  }
  return judging;
}

std::vector<std::string> file_settings(const EnvEntry& entry, const void* params) {
  OptionTable table;
  // only read by: a table is bound to what it could write to
  entry.describe(table, const_cast<void*>(params));
  std::vector<std::string> settings;
  for (const Field& field : table.fields())
    if (std::holds_alternative<TextMember>(field.member))
      settings.push_back("env." + field.name + "=" + field.plain());
  return settings;
}

}  // namespace maglev
