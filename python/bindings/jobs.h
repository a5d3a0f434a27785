#pragma once
// What takes a while and is the same as on the command line: training and evaluation, with a caller
// who hears of it.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/play/evaluate.h"
#include "engine/train/training_run.h"
#include "python/bindings/actor.h"

namespace maglev::python {

struct TrainRequest {
  std::string algorithm, environment;
  std::vector<std::string> settings = {};  ///< name=value, +hardware=NAME
  std::optional<std::string> config = {};  ///< a file of settings
  bool bare = false;                       ///< without those that are proven
  std::string out = {};                    ///< empty: runs/<date>-...
  bool overwrite = false;
  std::vector<std::string> sinks = {};  ///< empty: those on by default
  Hooks hooks = {};
};

/// `maglev train`. One process; a signal saves and ends it. Throws Error.
RunOutcome train(const TrainRequest& request);
/// `maglev train --resume`.
RunOutcome resume(const std::string& folder, const std::vector<std::string>& settings,
                  const std::vector<std::string>& sinks, const Hooks& hooks);

/// What a network takes and gives of a row.
struct NetworkShape {
  std::vector<int64_t> image;  ///< [C, H, W]; C = 0: none
  int64_t vector, privileged;  ///< 0: none
  int64_t outputs;             ///< logits, or means
  int64_t memory;              ///< ppo.network.memory where somebody gave it, else 0
  bool discrete;
};
/// Of the environment as a run would have it. Throws Error.
NetworkShape network_shape(const TrainRequest& request);
/// Throws Error where the run's network cannot be made.
void check_network(const TrainRequest& request);
/// The folder of a run's checkpoint (checkpoint_of) of which every byte is right. Throws Error.
std::string verified_checkpoint(const std::string& folder, const std::string& which);

struct EvaluateRequest {
  std::string player = {};       ///< a name (make_player); a run means its environment too
  std::string environment = {};  ///< empty: the run's, with its settings
  std::vector<std::string> settings = {};  ///< as of sorted_settings
  ActMode mode = ActMode::mean;
  float temperature = 1;     ///< of what a run's policy draws
  std::string against = {};  ///< in games of two; empty: the player plays all agents
  ActMode against_mode = ActMode::sample;
  float against_temperature = 1;
  std::vector<std::string> against_settings = {};  ///< name=value of how that one acts
  EvalOptions options = {};
};

/// `maglev eval`; `function` plays where there is one, in place of a player by name. Throws Error.
EvalResult evaluate(const EvaluateRequest& request, const FunctionPlayer::Act& function = {});

struct Setting {
  std::string name, value, help;
};
/// Every setting of a run, as `maglev train` would have it.
std::vector<Setting> settings_of(const std::string& algorithm, const std::string& environment,
                                 bool bare);

}  // namespace maglev::python
