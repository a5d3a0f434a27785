#pragma once
// A run from its folder's point of view: begun with its settings, or continued from a checkpoint.

#include <functional>
#include <string>
#include <vector>

#include "engine/algo/experiment.h"
#include "engine/train/hooks.h"

namespace maglev {

/// Where a run goes and how people hear of it.
struct RunRequest {
  std::string out;                   ///< folder; empty: runs/<date>-<algo>-<env>-<n>
  bool overwrite = false;            ///< `out` may hold a run, which is moved aside
  std::vector<std::string> sinks;    ///< names; empty: those on by default
  std::vector<std::string> command;  ///< argv, for reproduce.md
  std::vector<std::string> notes;    ///< said when a new run begins, e.g. by Experiment::settle
  std::string given = {};            ///< for given.txt (engine/run/given.h), a line each
  Hooks hooks = {};                  ///< for programs that embed this
  /// A command that calls train_process with the word behind it: how the setting processes starts
  /// the further ones; empty: they are refused.
  std::vector<std::string> process = {};
  /// [HOST:]PORT where the setting machines has this one wait for the others; empty: they are
  /// refused.
  std::string listen = {};
};

/// The process's exit status where train.stall_end ended it.
constexpr int kStalled = 4;

/// What a run says, among other things, where a save failed and it waits for room.
inline constexpr const char* kTriedAgain = "it is tried again for ";

enum class RunOutcome {
  finished,  ///< train.steps were done, or train.until_return was reached
  stopped,   ///< a signal or a hook asked for it: saved and left
  diverged,  ///< train.on_divergence=stop: saved and left
};

/// Datasets and opponents by names that mean them from every folder and also later on. A line of
/// each that is no longer there and whose place another takes to `replaced`; null: an Error. What
/// the environment's settings name, likewise: returns a line for people or "".
std::string settle_names(Experiment& experiment, std::vector<std::string>* replaced = nullptr);

/// Trains a new run to its end; what train.precision=auto became is written into `experiment`.
/// Throws Error; what was saved before stays.
RunOutcome train_new(Experiment& experiment, const RunRequest& request);

/// A further process of a run, `place` in it being the last word of RunRequest::process as it was
/// started: returns when the run has ended, and whether this one's part of it ended well; else
/// the first one says why. Throws Error where `place` is none.
bool train_process(const std::string& place);

/// What a machine needs to take part in a run that another one began.
struct JoinRequest {
  std::string address;                          ///< HOST:PORT, where that one listens
  std::vector<std::string> process;             ///< as RunRequest::process
  double patience_s = 600;                      ///< for which it may not listen yet
  std::function<void(const std::string&)> say;  ///< gets lines for people
  std::function<void()> begun;                  ///< called once: it has a part from here on
};
/// This machine's part of a run: returns when the run has ended, and whether it ended well here;
/// else it says why. Throws Error where there is none.
bool train_machine(const JoinRequest& request);

/// Continues the run in `folder` from its newest valid checkpoint, bit for bit as if it had never
/// stopped. `overrides` are name=value; the settings before them are kept beside config.yaml.
RunOutcome train_resume(const std::string& folder, const std::vector<std::string>& overrides,
                        const RunRequest& request);

}  // namespace maglev
