#include "engine/run/kept_files.h"

#include <algorithm>
#include <filesystem>
#include <optional>

#include "base/core/error.h"
#include "base/core/file.h"
#include "engine/nn/network_entry.h"

namespace maglev {
namespace {

constexpr size_t kMostKept = size_t(4) << 30;  // bytes of a file
constexpr const char* kKeptName = "network.safetensors";

/// A setting that names a file.
struct Named {
  std::string setting, file;
  Origin origin;
};

// the file of the network that was chosen, where it has one
std::optional<Named> file_of(const Experiment& experiment) {
  const std::string section = std::string(experiment.algo().name) + ".network.";
  const OptionTable& table = experiment.table();
  const Field* kind = table.find(section + "kind");
  for (const NetworkEntry& row : network_table()) {
    if (!row.file || !kind || kind->plain() != row.name) continue;
    const Field* field = table.find(section + row.name + "." + row.file);
    if (!field->plain().empty()) return Named{field->name, field->plain(), field->origin};
  }
  return std::nullopt;
}

std::string kept_in(const std::string& folder) {
  return (std::filesystem::absolute(folder) / kKeptName).lexically_normal().string();
}

}  // namespace

std::string held_by_files(const Experiment& experiment) {
  const auto named = file_of(experiment);
  if (!named) return "";
  const FileReader file(named->file);
  return file.hash(0, file.bytes());
}

void keep_files(RunDir& dir, Experiment& experiment, std::vector<std::string>& command,
                const std::string& held) {
  const auto named = file_of(experiment);
  if (!named) return;
  const std::string kept = kept_in(dir.path());
  if (named->file == kept) return;
  dir.write(kKeptName, read_file(named->file, kMostKept));
  if (const FileReader copy(kept); copy.hash(0, copy.bytes()) != held)
    throw Error("[train] " + named->file + " changed while the run began with it; begin again");
  experiment.table().set(named->setting, kept, "settings", named->origin);
  std::ranges::replace(command, named->setting + "=" + named->file, named->setting + "=" + kept);
}

void take_kept_files(Experiment& experiment, const std::string& folder) {
  const auto named = file_of(experiment);
  const std::string kept = kept_in(folder);
  if (named && path_exists(kept))
    experiment.table().set(named->setting, kept, folder, named->origin);
}

void expect_kept_files(const Experiment& experiment, const Experiment& trained) {
  const auto now = file_of(experiment), then = file_of(trained);
  if (now && then && now->file != then->file)
    throw Error("[train] " + now->setting +
                " is what a new run begins with; one that is resumed keeps its own, leave it out");
}

}  // namespace maglev
