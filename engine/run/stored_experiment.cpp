#include "engine/run/stored_experiment.h"

#include "base/core/error.h"
#include "base/core/file.h"
#include "base/core/hash.h"
#include "base/core/split.h"
#include "base/core/words.h"
#include "base/env/env_params.h"
#include "engine/data/vec_env.h"
#include "engine/run/checkpoint_store.h"
#include "engine/run/run_dir.h"

namespace maglev {
namespace {

// a checkpoint says everything again; none: an empty identity
CheckpointIdentity newest_identity(const std::string& folder) {
  const auto rows = CheckpointStore(folder, 0).list();
  return rows.empty() ? CheckpointIdentity{} : rows.back().identity;
}

// where Trainer's state has VecEnv's assets
constexpr const char* kAssets = "envs.assets";

std::string value_part(const std::string& setting) { return setting.substr(setting.find('=') + 1); }

// the environment's settings as a run was trained, but for files that have moved since; none where
// what is read is asked for by another name
std::optional<std::vector<std::string>> settings_now(const OptionTable& trained,
                                                     const std::vector<std::string>& given) {
  std::vector<std::string> settings = env_settings(trained);
  for (const std::string& setting : given) {
    const Field* field = trained.find(name_part(setting));
    if (!field || !field->name.starts_with("env.") ||
        !std::holds_alternative<TextMember>(field->member))
      continue;
    if (path_exists(value_part(setting))) settings.push_back(setting);
    else if (!field->plain().empty() && value_part(setting) != field->plain()) return std::nullopt;
  }
  return settings;
}

// files and folders among name=value; where there are none, what is named at all
std::string named_by(const std::vector<std::string>& settings) {
  std::vector<std::string> paths, names;
  for (const std::string& setting : settings) {
    if (path_exists(value_part(setting))) paths.push_back(value_part(setting));
    if (!value_part(setting).empty()) names.push_back(setting);
  }
  return joined(paths.empty() ? names : paths, " or ");
}

}  // namespace

std::unique_ptr<Experiment> experiment_of(const std::string& folder) {
  if (!is_run(folder)) throw no_run(folder);
  CheckpointIdentity identity;
  try {
    const RunStatus status = read_status(folder);
    identity = {.algo = status.algo, .env = status.env};
  } catch (const Error&) {
    identity = newest_identity(folder);
    if (identity.algo.empty()) throw;
  }
  auto experiment = std::make_unique<Experiment>(identity.algo, identity.env);
  const std::string path = folder + "/config.yaml";
  if (path_exists(path)) {
    experiment->table().load_text(read_config(folder), path);
    return experiment;
  }
  identity = newest_identity(folder);
  if (identity.algo.empty())
    throw Error("[" + path +
                "] is missing, and no checkpoint holds the settings either; start the "
                "run again");
  experiment->table().load_text(identity.options_yaml, folder + "/checkpoints");
  return experiment;
}

CheckpointIdentity identity_of(const Experiment& experiment) {
  CheckpointIdentity identity{.algo = experiment.algo().name, .env = experiment.env().name};
  Hash tokens;
  bool any = false;
  for (const ObsColumn& column : experiment.spec().observations) {
    tokens.add_text(column.tokens);
    any |= !column.tokens.empty();
  }
  if (any) identity.tokens = tokens.hex();
  return identity;
}

std::string changed_files(const std::string& folder, const std::vector<std::string>& given) {
  try {
    // one says what all of them do
    const auto rows = CheckpointStore(folder, 0).list();
    if (rows.empty()) return "";
    const auto texts = read_manifest(rows.back().path).state.texts;
    const auto saved = texts.find(kAssets);
    if (saved == texts.end()) return "";
    const auto trained = experiment_of(folder);
    const EnvEntry& env = trained->env();
    const auto settings = settings_now(trained->table(), given);
    if (!settings) return "";
    const EnvParams params(env, *settings);
    if (assets_hash(assets_made(env, params.get())) == saved->second) return "";
    const std::string files = named_by(file_settings(env, params.get()));
    return files.empty()
               ? "what " + std::string(env.name) + " is made from, a library or its files,"
               : files;
  } catch (const Error&) {
    // who reads it in earnest says why it cannot be
    return "";
  }
}

}  // namespace maglev
