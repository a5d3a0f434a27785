#include "engine/host/build_text.h"

#include <filesystem>
#include <vector>

#include <torch/version.h>

#include "base/core/words.h"

namespace maglev {
namespace {

std::string with_commit(const std::string& name, const std::string& commit) {
  return name + (commit.empty() ? "" : " (" + commit + ")");
}

}  // namespace

std::string build_text(std::span<const PluginFolder> plugins) {
  std::string text = with_commit(std::string("maglev ") + kEngineVersion, kEngineCommit) +
                     ", torch " + TORCH_VERSION;
  // by their names alone: other machines have them elsewhere
  for (const auto& [path, commit] : plugins)
    text += ", plug-ins of " + with_commit(std::filesystem::path(path).filename(), commit);
  return text;
}

std::string plugins_named(std::span<const PluginFolder> plugins) {
  std::string named;
  for (const PluginFolder& folder : plugins)
    named += (named.empty() ? "" : ":") + std::string(folder.path);
  return named;
}

std::string plugins_text(std::span<const PluginFolder> plugins) {
  std::vector<std::string> folders;
  for (const auto& [path, commit] : plugins) folders.push_back(with_commit(path, commit));
  return joined(folders);
}

}  // namespace maglev
