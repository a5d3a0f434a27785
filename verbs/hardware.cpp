#include "verbs/hardware.h"

#include <algorithm>

#include "base/core/error.h"
#include "base/core/file.h"
#include "base/core/home.h"
#include "base/core/printed.h"
#include "base/core/words.h"
#include "verbs/doctor/environment.h"
#include "verbs/tune/cache.h"

namespace maglev {
namespace {

constexpr std::string_view kEnding = ".yaml";

bool is_path(const std::string& name) {
  return name.find('/') != std::string::npos || name.ends_with(kEnding);
}

std::string file_of(const std::string& name, const std::string& home) {
  if (is_path(name)) return name;
  const std::string folder = home + "/configs/hardware";
  const std::string file = folder + "/" + name + std::string(kEnding);
  if (path_exists(file)) return file;
  std::vector<std::string> known = {"auto"};
  for (const std::string& each : list_dir(folder))
    if (each.ends_with(kEnding)) known.push_back(each.substr(0, each.size() - kEnding.size()));
  throw Error("[hardware] " + unknown_name("profile", name, known) +
              "; or name a file, e.g. +hardware=./mine.yaml");
}

// what tune found, or how to let it
std::string take_tuned(Experiment& experiment) {
  const verbs::tune::CacheKey key = verbs::tune::cache_key(experiment);
  const auto tuned = verbs::tune::read_cache(key);
  const std::string pair =
      std::string(experiment.algo().name) + " " + std::string(experiment.env().name);
  if (!tuned)
    return "+hardware=auto: nothing was tuned on this machine for " + pair +
           " with these settings, which stay as they are; " + command_name() + " tune " + pair +
           " with the same settings finds faster ones";
  std::string text;
  for (const auto& [name, value] : tuned->settings) {
    const Field* field = experiment.table().find(name);
    if (!field || field->origin >= Origin::file) continue;
    experiment.table().set(name, value, "tuned", Origin::profile);
    text += " " + name + "=" + value;
  }
  return "+hardware=auto, tuned here on " + tuned->made + ":" +
         (text.empty() ? " the settings as they are" : text) +
         (tuned->outcome.unfinished
              ? printed("; it had no time for all, in %.0f s: %s tune %s --budget %.0fs",
                        tuned->budget, command_name().c_str(), pair.c_str(), 2 * tuned->budget)
              : "");
}

}  // namespace

bool refuse_variable(const std::string& setting) {
  constexpr std::string_view section = "env_vars.";
  if (!setting.starts_with(section)) return false;
  const std::string variable = setting.substr(section.size());
  throw Error("[settings] " + setting +
              " is no setting: libraries read variables before a file is; instead of " + variable +
              ": " + verbs::doctor::instead_of(variable));
}

std::vector<std::string> load_profile(Experiment& experiment, const std::string& name,
                                      const std::string& home) {
  experiment.run.hardware = name;
  if (name == "auto") return {take_tuned(experiment)};
  std::vector<std::string> missing;
  experiment.table().load(file_of(name, home), Origin::profile, [&](const std::string& setting) {
    refuse_variable(setting);
    if (const Field* field = experiment.table().find(setting)) return field->origin >= Origin::file;
    const std::string section = setting.substr(0, setting.find('.'));
    const bool of_another = std::ranges::any_of(
        algo_table(), [&](const AlgoEntry& algo) { return section == algo.name; });
    const bool left_out = of_another && section != experiment.algo().name;
    if (left_out) missing.push_back(setting);
    return left_out;
  });
  if (missing.empty()) return {};
  return {"+hardware=" + name + ": left out, for " + experiment.algo().name +
          " has none: " + joined(missing)};
}

}  // namespace maglev
