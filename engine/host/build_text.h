#pragma once
// What program this is.

#include <span>
#include <string>

#include "base/core/version.h"

namespace maglev {

/// Version, commit and torch of this build: "maglev 1.0 (3f2a9c1), torch 2.13.0", and whose
/// plug-ins it has besides: ", plug-ins of my_project (77d0a4e)".
std::string build_text(std::span<const PluginFolder> plugins = plugin_folders());

/// Folders of plug-ins as MAGLEV_PLUGINS names them: "/home/me/my_project:/b".
std::string plugins_named(std::span<const PluginFolder> plugins = plugin_folders());
/// The same for people: "/home/me/my_project (77d0a4e), /b".
std::string plugins_text(std::span<const PluginFolder> plugins = plugin_folders());

}  // namespace maglev
