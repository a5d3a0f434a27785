#include "engine/train/idle_settings.h"

#include <algorithm>
#include <initializer_list>

#include "engine/device/launch.h"
#include "engine/nn/network_entry.h"
#include "engine/play/league.h"

namespace maglev {
namespace {

bool among(std::string_view name, std::initializer_list<std::string_view> names) {
  return std::ranges::find(names, name) != names.end();
}

std::string network_of(const Experiment& experiment, const EnvSpec& spec) {
  const Field* kind =
      experiment.table().find(std::string(experiment.algo().name) + ".network.kind");
  if (!kind) return "";
  const std::string name = kind->plain();
  return network_for(name == "auto" ? nullptr : &find_network(name), spec).name;
}

}  // namespace

IdleSettings::IdleSettings(const Experiment& experiment, const Placement& placement)
    : experiment_(&experiment),
      context_(context_of(experiment, placement, pool_)),
      algo_(experiment.algo().name),
      network_(network_of(experiment, context_.spec)) {
  const auto plan = experiment.algo().plan;
  if (!plan) return;
  const DataPlan data = plan(experiment.algo_options(), context_);
  replay_ = data.replay.has_value(), priorities_ = replay_ && data.replay->priorities.has_value();
  may_overlap_ = data.may_overlap();
}

std::string IdleSettings::why(std::string_view setting) const {
  if (std::string why = why_of_dataset(setting); !why.empty()) return why;
  if (std::string why = why_of_loop(setting); !why.empty()) return why;
  if (std::string why = why_of_env(setting); !why.empty()) return why;
  if (std::string why = why_of_network(setting); !why.empty()) return why;
  // the algorithm's own
  const std::string prefix = algo_ + ".";
  const auto idle = experiment_->algo().idle;
  if (!idle || !setting.starts_with(prefix)) return "";
  return idle(experiment_->algo_options(), context_, setting.substr(prefix.size()));
}

std::vector<std::string> IdleSettings::notes() const {
  std::vector<std::string> lines;
  for (const Field& field : experiment_->table().fields()) {
    if (field.origin < Origin::file || field.text() == field.initial) continue;
    const std::string reason = why(field.name);
    if (!reason.empty())
      lines.push_back(field.name + "=" + field.plain() + " changes nothing here: " + reason);
  }
  return lines;
}

std::string IdleSettings::why_of_dataset(std::string_view name) const {
  const RunOptions& run = experiment_->run;
  if (run.dataset.empty()) return "";
  const Field* field = experiment_->table().find(name);
  if (field && field->rule.collecting)
    return "train.dataset is held as it is, and nothing is collected";
  if (name == "train.until_return" && run.eval_every == 0)
    return "of train.dataset no episode is played, and without train.eval_every there are no "
           "evaluations";
  return "";
}

std::string IdleSettings::why_of_loop(std::string_view name) const {
  const RunOptions& run = experiment_->run;
  const bool on_gpu = context_.device.is_cuda();
  if (!replay_ &&
      among(name, {"train.prefetch", "train.replay_memory", "train.replay_folder",
                   "train.replay_capacity", "train.shrink_replay", "train.save_replay"}))
    return algo_ + " has no replay";
  if (priorities_ && name == "train.prefetch")
    return "which sequences the next batch has is known after an update, by their priorities";
  if (replay_ && name == "train.rollout_memory")
    return "what " + algo_ + " learns from lies in a replay (train.replay_memory)";
  if (!on_gpu &&
      among(name, {"train.graph", "train.replay_memory", "train.rollout_memory",
                   "train.deterministic", "train.dependent_launch", "train.synchronise"}))
    return "the run is on a processor";
  if (name == "train.dependent_launch" && !has_dependent_launch(context_.device))
    return "the GPU's capability is below 9.0";
  if (on_gpu && name == "train.collect") {
    if (!experiment_->env().host_only) return "the GPU steps all environments at once";
    if (!run.opponents.empty()) return "opponents act between the learner and the step";
  }
  if (!may_overlap_ && name == "train.overlap") return algo_ + " acts on what it learns";
  if (run.processes == 1 && name == "train.gradients") return "there is one process";
  if (run.opponents.empty() && among(name, {"train.past", "train.past_every", "train.matchmaking"}))
    return "there are no train.opponents";
  if (!meets_past(run) && among(name, {"train.past", "train.past_every"}))
    return "past is not among train.opponents";
  if (name == "train.matchmaking" && most_rivals(run) == 1) return "there is one opponent";
  if (run.eval_every == 0 && among(name, {"train.eval_episodes", "train.eval_env"}))
    return "without train.eval_every there are no evaluations";
  return "";
}

std::string IdleSettings::why_of_env(std::string_view name) const {
  constexpr std::string_view section = "env.";
  if (!name.starts_with(section)) return "";
  return experiment_->env().idle(experiment_->env_params(), name.substr(section.size()));
}

std::string IdleSettings::why_of_network(std::string_view name) const {
  const std::string section = algo_ + ".network.";
  if (!name.starts_with(section)) return "";
  for (const NetworkEntry& row : network_table())
    if (name.starts_with(section + row.name + ".") && row.name != network_)
      return "the network is " + network_;
  if (find_network(network_).file &&
      among(name.substr(section.size()),
            {"hidden", "critic_hidden", "activation", "fast_tanh", "shared", "fused_memory"}))
    return "the network's layers are those of its file";
  const OptionTable& table = experiment_->table();
  const std::string activation = table.find(section + "activation")->plain();
  if (name == section + "fast_tanh" && activation != "tanh")
    return "the activation is " + activation;
  if (name != section + "cnn.winograd") return "";
  if (context_.device.is_cuda()) return "it is for a processor";
  if (context_.precision != Precision::fp32) return "it is for fp32";
  if (activation != "relu") return "it needs activation=relu";
  // one that was not given may be switched on by a search
  const Field* fused = table.find(section + "cnn.fused_layers");
  const bool stays_off = fused->origin == Origin::command_line && fused->plain() == "false";
  return stays_off ? "it needs fused_layers" : "";
}

}  // namespace maglev
