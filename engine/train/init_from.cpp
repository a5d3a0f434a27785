#include "engine/train/init_from.h"

#include <algorithm>
#include <map>
#include <vector>

#include "base/core/error.h"
#include "base/core/shell_word.h"
#include "base/core/words.h"
#include "engine/run/checkpoint.h"
#include "engine/run/run_dir.h"
#include "engine/run/run_name.h"
#include "engine/run/run_settings.h"
#include "engine/run/stored_experiment.h"

namespace maglev {
namespace {

struct Unlike {
  std::string name, there, here;
};

std::string told(const Unlike& u) {
  return u.name + " is " + u.there + " there, " + u.here + " here";
}

// settings that may give networks their shapes: not how fast they work or act, nor real numbers
bool shapes_networks(const Field& field) {
  const bool real =
      std::holds_alternative<float*>(field.member) || std::holds_alternative<double*>(field.member);
  return !field.rule.free && !field.rule.acting && !real;
}

// those of the networks, and of the environment where it is the same, that are otherwise where
// `saved` was trained; of an algorithm whose networks have no section of their own all of its
std::vector<Unlike> unlike_settings(const Experiment& experiment, const CheckpointIdentity& saved) {
  const std::string algo = experiment.algo().name, networks = algo + ".network.";
  const auto& fields = experiment.table().fields();
  const bool apart = std::ranges::any_of(
      fields, [&](const Field& field) { return field.name.starts_with(networks); });
  const NamedSettings rows = named_settings(saved.options_yaml);
  const std::map<std::string, std::string> there(rows.begin(), rows.end());
  std::vector<Unlike> unlike;
  for (const Field& field : fields) {
    const bool meant = field.name.starts_with(apart ? networks : algo + ".") ||
                       (field.name.starts_with("env.") && field.name != "env.count" &&
                        saved.env == experiment.env().name);
    if (!meant || !shapes_networks(field)) continue;
    // one that is newer than the run had its default
    const auto row = there.find(field.name);
    const bool known = row != there.end();
    if (known ? row->second != field.plain() : field.initial != field.text())
      unlike.push_back({field.name, known ? row->second : field.initial, field.plain()});
  }
  return unlike;
}

// names the settings in place of the tensors that have other shapes by them
Error with_settings(const UnlikeState& error, const Experiment& experiment,
                    const std::string& checkpoint) {
  const CheckpointIdentity saved = read_manifest(checkpoint).identity;
  std::vector<std::string> differences, words;
  for (const Unlike& u : unlike_settings(experiment, saved)) {
    differences.push_back(told(u));
    words.push_back(shell_word(u.name + "=" + u.there));
  }
  // another environment may show other shapes, which no setting mends
  const std::string env = experiment.env().name;
  const std::string elsewhere =
      saved.env == env ? ""
                       : "; it was trained on " + saved.env + ", this run is on " + env +
                             ", and what they show and take must have the same shapes";
  if (words.empty()) return Error(error.what() + elsewhere);
  return Error("[" + checkpoint + "] does not fit this run, which train.init_from has begin with " +
               "its networks: " + joined(differences, "; ") + elsewhere +
               "; give what it has: " + joined(words, " "));
}

// settings of the networks that are otherwise though all tensors fit, such as an activation, by
// which weights may compute something else than they were trained to
std::string unlike_note(const Experiment& experiment, const std::string& name,
                        const CheckpointIdentity& saved) {
  const std::string networks = std::string(experiment.algo().name) + ".network.";
  std::vector<std::string> differences;
  for (const Unlike& u : unlike_settings(experiment, saved))
    if (u.name.starts_with(networks)) differences.push_back(told(u));
  if (differences.empty()) return "";
  return "the networks of " + name +
         " fit, but were trained otherwise: " + joined(differences, "; ") +
         "; they may compute something else than they learned";
}

}  // namespace

std::string first_networks(const std::string& name) {
  const auto run = run_named(name);
  if (!run) throw Error("[train] train.init_from: " + std::string(no_run(name).what()));
  return checkpoint_of(run->folder, run->checkpoint);
}

std::string init_from(Trainer& trainer, const std::string& checkpoint) {
  Algorithm& algorithm = trainer.algorithm();
  try {
    load_networks(
        checkpoint, identity_of(trainer.experiment()),
        [&](StateVisitor& v) { algorithm.visit_state(v); },
        [&](StateVisitor& v) { algorithm.policy().visit_state(v); });
  } catch (const UnlikeState& error) {
    throw with_settings(error, trainer.experiment(), checkpoint);
  }
  algorithm.follow_networks();
  algorithm.publish();
  return unlike_note(trainer.experiment(), trainer.experiment().run.init_from,
                     read_manifest(checkpoint).identity);
}

}  // namespace maglev
