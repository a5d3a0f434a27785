#include "python/bindings/jobs.h"

#include <algorithm>
#include <atomic>

#include "base/core/error.h"
#include "base/core/home.h"
#include "base/env/env_params.h"
#include "engine/nn/obs_encoder.h"
#include "engine/play/player.h"
#include "engine/run/manifest.h"
#include "engine/run/run_dir.h"
#include "engine/run/run_name.h"
#include "engine/run/stored_experiment.h"
#include "python/bindings/claim.h"
#include "verbs/settings.h"
#include "verbs/train/again.h"

namespace maglev::python {
namespace {

// the same run from a shell
std::vector<std::string> command_of(const TrainRequest& request) {
  std::vector<std::string> command{command_name(), "train", request.algorithm, request.environment};
  command.insert(command.end(), request.settings.begin(), request.settings.end());
  if (request.config) command.insert(command.end(), {"--config", *request.config});
  if (request.bare) command.emplace_back("--bare");
  return command;
}

// settings of all kinds into `experiment`; lines for people
std::vector<std::string> settled(Experiment& experiment, const TrainRequest& request) {
  auto notes =
      load_settings(experiment, {.bare = request.bare, .config = request.config}, request.settings)
          .notes;
  for (const std::string& note : experiment.settle()) notes.push_back(note);
  return notes;
}

// signals ask one run of a process to save and end
std::atomic<bool> training{false};
constexpr const char* kTrainsAlready =
    "[train] this process trains a run already, and signals mean one; begin it afterwards, or in a "
    "process of its own";

// what is said of a player who is no run, and so knows no environment of its own
Error no_environment(const std::string& player) {
  for (const EnvEntry& env : env_table())
    if (const auto names = scripted_players(env); std::ranges::find(names, player) != names.end())
      return Error("[evaluate] '" + player +
                   "' is a player of environments; say in which, e.g. evaluate(\"" + player +
                   "\", \"" + env.name + "\")");
  return no_run(player);
}

}  // namespace

RunOutcome train(const TrainRequest& request) {
  const OneAtATime alone(training, kTrainsAlready);
  const Claim claim;
  const IdleEnd ends_idle;
  Experiment experiment(request.algorithm, request.environment);
  RunRequest run{.out = request.out,
                 .overwrite = request.overwrite,
                 .sinks = request.sinks,
                 .command = command_of(request),
                 .hooks = request.hooks};
  run.notes = settled(experiment, request);
  run.given = verbs::train::given_settings(experiment.table());
  return train_new(experiment, run);
}

RunOutcome resume(const std::string& folder, const std::vector<std::string>& settings,
                  const std::vector<std::string>& sinks, const Hooks& hooks) {
  const OneAtATime alone(training, kTrainsAlready);
  const Claim claim;
  const IdleEnd ends_idle;
  RunRequest run{
      .sinks = sinks, .command = {command_name(), "train", "--resume", folder}, .hooks = hooks};
  run.command.insert(run.command.end(), settings.begin(), settings.end());
  return train_resume(folder, settings, run);
}

EvalResult evaluate(const EvaluateRequest& request, const FunctionPlayer::Act& function) {
  const EvalOptions& asked = request.options;
  if (asked.episodes < 0 || asked.steps < 0 || asked.envs < 0)
    throw Error("[evaluate] episodes, steps and envs must not be negative");
  const Claim claim;
  const IdleEnd ends_idle;
  std::string environment = request.environment;
  std::vector<std::string> settings;
  if (environment.empty()) {
    const auto run = run_named(request.player);
    if (!run) throw no_environment(request.player);
    const auto trained = experiment_of(run->folder);
    environment = trained->env().name;
    settings = env_settings(trained->table());
  }
  settings.insert(settings.end(), request.settings.begin(), request.settings.end());
  GivenSettings given = sorted_settings("evaluate", settings, {request.player});
  given.temperature = request.temperature;
  const EnvEntry& entry = find_env(environment);
  for (std::string& setting :
       judging_of(entry, EnvParams(entry, given.env).get(), request.settings).settings)
    given.env.push_back(std::move(setting));
  const OpenGame open(entry, given, kMostEvalEnvs);
  const Game& game = open.game();
  std::unique_ptr<Player> player, rival;
  if (function && request.temperature != 1)
    throw Error("[evaluate] a function draws by itself: leave out the temperature");
  if (function) player = std::make_unique<FunctionPlayer>(function, game.spec);
  else player = make_player(request.player, game, request.mode);
  EvalOptions options = request.options;
  if (!request.against.empty()) {
    Game theirs = as_trained(game);
    theirs.acting = sorted_settings("evaluate", request.against_settings, {request.against}).acting;
    theirs.temperature = request.against_temperature;
    rival = make_player(request.against, theirs, request.against_mode);
    options.against = rival.get();
  }
  return maglev::evaluate(*player, game, options);
}

NetworkShape network_shape(const TrainRequest& request) {
  Experiment experiment(request.algorithm, request.environment);
  settled(experiment, request);
  const EnvSpec spec = experiment.spec();
  const ObsEncoder encoder(spec, /*normalize=*/false);
  const Field* memory = experiment.table().find("ppo.network.memory");
  const bool given = memory->origin == Origin::file || memory->origin == Origin::command_line;
  return {.image = {encoder.channels(), encoder.height(), encoder.width()},
          .vector = encoder.vector_size(),
          .privileged = encoder.privileged_size(),
          .outputs = spec.action.discrete() ? spec.action.categories() : spec.action.dims(),
          .memory = given ? std::stoll(memory->plain()) : 0,
          .discrete = spec.action.discrete()};
}

void check_network(const TrainRequest& request) {
  const Claim claim;
  const IdleEnd ends_idle;
  Experiment experiment(request.algorithm, request.environment);
  settled(experiment, request);
  ThreadPool pool(1);
  experiment.algo().make_policy(experiment.algo_options(),
                                context_of(experiment, place("cpu", 1), pool));
}

std::string verified_checkpoint(const std::string& folder, const std::string& which) {
  const std::string dir = checkpoint_of(folder, which);
  // the latest is one that is whole
  return which == "latest" ? dir : verify_checkpoint(dir).dir;
}

std::vector<Setting> settings_of(const std::string& algorithm, const std::string& environment,
                                 bool bare) {
  Experiment experiment(algorithm, environment);
  load_settings(experiment, SettingsFiles{.bare = bare}, {});
  std::vector<Setting> settings;
  for (const Field& field : experiment.table().fields())
    // a profile is given as +hardware=NAME
    if (field.name != "hardware") settings.push_back({field.name, field.plain(), field.help});
  return settings;
}

}  // namespace maglev::python
