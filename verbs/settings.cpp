#include "verbs/settings.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <string_view>
#include <utility>

#include "base/config/options.h"
#include "base/core/error.h"
#include "base/core/file.h"
#include "base/core/home.h"
#include "base/core/split.h"
#include "base/core/version.h"
#include "verbs/hardware.h"
#include "verbs/notes.h"

namespace maglev {
namespace {

constexpr std::string_view kProfile = "+hardware=";

// whose configs/ may have proven settings: those of plug-ins before the checkout's
std::vector<std::string> configured_folders(const std::string& home) {
  std::vector<std::string> folders;
  for (const PluginFolder& plugins : plugin_folders()) folders.emplace_back(plugins.path);
  folders.push_back(home);
  return folders;
}

}  // namespace

AlgoOnEnv algo_on_env(const std::vector<std::string>& words, size_t first) {
  AlgoOnEnv pair{words[first], words[first + 1]};
  const auto has = [](const auto& table, const std::string& name) {
    return std::ranges::any_of(table, [&](const auto& row) { return name == row.name; });
  };
  if (!has(algo_table(), pair.algo) && has(algo_table(), pair.env) && has(env_table(), pair.algo)) {
    std::swap(pair.algo, pair.env);
    print_notes({"taken as " + pair.algo + " " + pair.env + ": the algorithm comes first"});
  }
  return pair;
}

bool names_device(const std::vector<std::string>& settings) {
  return std::ranges::any_of(settings, [](const auto& s) { return name_part(s) == "device"; });
}

LoadedSettings load_settings(Experiment& experiment, const Arguments& arguments,
                             const std::vector<std::string>& words) {
  return load_settings(
      experiment, {.bare = arguments.has("--bare"), .config = arguments.value("--config")}, words);
}

LoadedSettings load_settings(Experiment& experiment, const SettingsFiles& files,
                             const std::vector<std::string>& words) {
  const std::string home = home_folder();
  if (!files.bare && std::getenv("MAGLEV_HOME") && !path_exists(home + "/configs"))
    throw Error("[MAGLEV_HOME] " + home +
                " holds no configs/, with the settings that runs begin "
                "with; set it to Maglev's folder, or give --bare");
  LoadedSettings loaded;
  const std::string proven = files.bare ? "" : experiment.load_proven(configured_folders(home));
  if (!proven.empty()) loaded.proven = std::filesystem::relative(proven, home).string();
  if (loaded.proven.starts_with("..")) loaded.proven = proven;
  if (std::filesystem::path(proven).stem() == kAnyEnvironment)
    loaded.notes.push_back(std::string("no settings are proven for ") + experiment.algo().name +
                           " on " + experiment.env().name + ": it begins with those of " +
                           loaded.proven +
                           ", of a small processor's budget (--bare: with the built-in ones)");
  if (files.config) experiment.table().load(*files.config, Origin::file, refuse_variable);
  std::string profile;
  std::vector<std::string> settings;
  for (const auto& word : words) {
    if (word.starts_with(kProfile)) profile = word.substr(kProfile.size());
    else if (word.starts_with("hardware="))
      throw Error("[command line] a profile is given as +" + word + ", with a plus");
    else settings.push_back(word);
  }
  experiment.table().override_with(settings);
  if (!profile.empty())
    for (std::string& note : load_profile(experiment, profile, home))
      loaded.notes.push_back(std::move(note));
  return loaded;
}

}  // namespace maglev
