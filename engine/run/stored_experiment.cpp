#include "engine/run/stored_experiment.h"

#include <optional>
#include <set>

#include "base/core/error.h"
#include "base/core/file.h"
#include "base/core/hash.h"
#include "base/core/split.h"
#include "base/core/words.h"
#include "base/env/env_params.h"
#include "engine/data/vec_env.h"
#include "engine/host/build_text.h"
#include "engine/run/checkpoint_store.h"
#include "engine/run/kept_files.h"
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

// those of a run, which may have been trained with plug-ins that this build lacks
std::unique_ptr<Experiment> of_names(const std::string& algo, const std::string& env,
                                     const std::string& plugins) {
  try {
    return std::make_unique<Experiment>(algo, env);
  } catch (const Error& e) {
    if (plugins.empty()) throw;
    const std::string ours = plugins_named();
    throw Error(std::string(e.what()) + "; the run was made with MAGLEV_PLUGINS=" + plugins +
                ", this program " + (ours.empty() ? "without" : "with MAGLEV_PLUGINS=" + ours));
  }
}

// algorithm and environment of a run: as its status says, else as its newest checkpoint does
std::unique_ptr<Experiment> with_defaults(const std::string& folder,
                                          const CheckpointIdentity& newest) {
  RunStatus status;
  try {
    status = read_status(folder);
    return of_names(status.algo, status.env, status.plugins);
  } catch (const Error&) {
    if (newest.algo.empty()) throw;
    return of_names(newest.algo, newest.env, status.plugins);
  }
}

// what the newest checkpoint was trained with, but for settings that this version no longer has;
// null where there is none, or this version refuses a value
std::unique_ptr<Experiment> trained_with(const std::string& folder,
                                         const CheckpointIdentity& newest) {
  if (newest.algo.empty()) return nullptr;
  auto trained = with_defaults(folder, newest);
  OptionTable& table = trained->table();
  try {
    table.load_text(newest.options_yaml, folder + "/checkpoints", Origin::file,
                    [&](const std::string& name) { return !table.find(name); });
  } catch (const Error&) {
    return nullptr;
  }
  return trained;
}

// gives `experiment` what `trained` was given otherwise and `given` does not name; returns the
// names. What is at its default in both is no loss: it may be newer than the file
std::vector<std::string> fill_up(Experiment& experiment, const Experiment& trained,
                                 const std::set<std::string>& given, const std::string& path) {
  std::vector<std::string> names;
  for (const Field& field : trained.table().fields()) {
    if (field.origin < Origin::file || given.contains(field.name) ||
        field.text() == experiment.table().find(field.name)->text())
      continue;
    experiment.table().set(field.name, field.plain(), path, Origin::file);
    names.push_back(field.name);
  }
  return names;
}

// the first of many names
std::string first_of(std::vector<std::string> names) {
  constexpr size_t kMost = 5;
  const size_t more = names.size() > kMost ? names.size() - kMost : 0;
  names.resize(names.size() - more);
  return joined(names) + (more > 0 ? " and " + std::to_string(more) + " more" : "");
}

// as config.yaml at `path` has it, and the newest checkpoint what that lacks. Throws Error where it
// cannot be read
StoredExperiment as_in_file(const std::string& folder, const CheckpointIdentity& newest,
                            const std::string& path) {
  StoredExperiment stored{.experiment = with_defaults(folder, newest),
                          .trained = trained_with(folder, newest)};
  OptionTable& table = stored.experiment->table();
  std::set<std::string> given;
  table.load_text(read_config(folder), path, Origin::file, [&](const std::string& name) {
    given.insert(name);
    return false;
  });
  if (!stored.trained) {
    stored.trained = with_defaults(folder, newest);
    stored.trained->table().load_text(table.yaml(), path);
    return stored;
  }
  const auto lacked = fill_up(*stored.experiment, *stored.trained, given, path);
  if (!lacked.empty())
    stored.note = path + " lacks " + first_of(lacked) + ": taken from the newest checkpoint";
  return stored;
}

// as config.yaml says, or the newest checkpoint
StoredExperiment read_experiment(const std::string& folder) {
  const CheckpointIdentity newest = newest_identity(folder);
  const std::string path = folder + "/config.yaml";
  std::optional<Error> damage;
  try {
    if (path_exists(path)) return as_in_file(folder, newest, path);
  } catch (const Error& e) {
    damage = e;
  }
  if (newest.algo.empty()) {
    if (damage) throw *damage;
    throw Error("[" + path +
                "] is missing, and no checkpoint holds the settings either; start the "
                "run again");
  }
  StoredExperiment stored;
  for (auto* experiment : {&stored.experiment, &stored.trained}) {
    *experiment = with_defaults(folder, newest);
    try {
      (*experiment)->table().load_text(newest.options_yaml, folder + "/checkpoints");
    } catch (const Error&) {
      // both are of another version, and the file is what people can mend
      if (damage) throw *damage;
      throw;
    }
  }
  stored.note = path +
                (damage ? " is damaged (" + std::string(damage->what()) + ")" : " is missing") +
                ": the settings are those of the newest checkpoint";
  return stored;
}

}  // namespace

StoredExperiment stored_experiment(const std::string& folder) {
  if (!is_run(folder)) throw no_run(folder);
  StoredExperiment stored = read_experiment(folder);
  for (auto* experiment : {&stored.experiment, &stored.trained})
    take_kept_files(**experiment, folder);
  return stored;
}

std::unique_ptr<Experiment> experiment_of(const std::string& folder) {
  return stored_experiment(folder).experiment;
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

std::string changed_files(const Experiment& trained, const StateSummary& saved,
                          const std::vector<std::string>& given) {
  const auto hash = saved.texts.find(kAssets);
  if (hash == saved.texts.end()) return "";
  try {
    const EnvEntry& env = trained.env();
    const auto settings = settings_now(trained.table(), given);
    if (!settings) return "";
    const EnvParams params(env, *settings);
    if (assets_hash(assets_made(env, params.get())) == hash->second) return "";
    const std::string files = named_by(file_settings(env, params.get()));
    return files.empty()
               ? "what " + std::string(env.name) + " is made from, a library or its files,"
               : files;
  } catch (const Error&) {
    // who reads it in earnest says why it cannot be
    return "";
  }
}

std::string changed_files(const Experiment& trained, const std::string& folder,
                          const std::vector<std::string>& given) {
  try {
    // one says what all of them do
    const auto rows = CheckpointStore(folder, 0).list();
    return rows.empty() ? "" : changed_files(trained, read_manifest(rows.back().path).state, given);
  } catch (const Error&) {
    return "";
  }
}

}  // namespace maglev
