#include "engine/train/first_update.h"

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <optional>

#include "base/core/printed.h"
#include "base/core/thread_pool.h"
#include "engine/train/store.h"

namespace maglev {
namespace {

/// What a run collects and learns by; without a replay of its own steps none.
struct LearningPlan {
  DataPlan data;
  int64_t rows;  ///< of all processes

  const ReplayPlan& replay() const { return *data.replay; }
  int64_t steps_per_iteration() const { return data.collect_steps * rows; }
  /// Steps that a run of `steps` makes: whole iterations.
  int64_t made(int64_t steps) const {
    const int64_t each = steps_per_iteration();
    return (steps + each - 1) / each * each;
  }
};

std::optional<LearningPlan> learning_plan(const Experiment& experiment,
                                          const Placement& placement) {
  const auto plan = experiment.algo().plan;
  if (!plan || !experiment.run.dataset.empty()) return std::nullopt;
  ThreadPool pool(1);
  LearningPlan learning{plan(experiment.algo_options(), context_of(experiment, placement, pool)),
                        experiment.learning_rows()};
  if (!learning.data.replay) return std::nullopt;
  return learning;
}

// steps after which an update is due, whether or not there is a sequence; -1: never
int64_t first_due(const ReplayPlan& plan) {
  if (plan.first_updates > 0) return plan.first_steps;
  // one in more steps than any run makes is none
  if (!(plan.updates_per_step > 1e-15)) return -1;
  const auto whole = int64_t(std::ceil(1 / plan.updates_per_step));
  int64_t steps = plan.first_steps + whole / plan.update_every * plan.update_every;
  // what is due is counted every so many steps, and rounded down
  while (updates_due(plan, steps) == 0) steps += plan.update_every;
  return steps;
}

// the first of an algorithm's settings with one of these names, as it is given; empty: it has none
std::string setting_of(const Experiment& experiment, std::initializer_list<const char*> names) {
  for (const char* name : names)
    if (const Field* field =
            experiment.table().find(std::string(experiment.algo().name) + "." + name))
      return field->name + "=" + field->plain();
  return "";
}

// "env.count=16, or "; empty where fewer environments alone do not help
std::string fewer_environments(const LearningPlan& plan, const RunOptions& run, int64_t processes) {
  LearningPlan fewer = plan;
  for (int64_t count = run.env_count; count % 2 == 0 && count / 2 % processes == 0;) {
    count /= 2, fewer.rows /= 2;
    const int64_t first =
        first_update(fewer.replay(), fewer.data.collect_steps, fewer.rows, run.overlap);
    if (first >= 0 && first <= fewer.made(run.steps))
      return "env.count=" + std::to_string(count) + ", or ";
  }
  return "";
}

}  // namespace

int64_t first_update(const ReplayPlan& plan, int64_t collect_steps, int64_t rows, bool overlap) {
  const int64_t due = first_due(plan);
  if (due < 0) return -1;
  const int64_t each = collect_steps * rows;
  const int64_t iterations = (std::max({due, plan.length * rows, each}) + each - 1) / each;
  return (iterations + overlap) * each;
}

std::string why_no_update(const Experiment& experiment, const Placement& placement) {
  const auto plan = learning_plan(experiment, placement);
  if (!plan) return "";
  const ReplayPlan& replay = plan->replay();
  const int64_t due = first_due(replay), made = plan->made(experiment.run.steps);
  if (due < 0) {
    const std::string rate = setting_of(experiment, {"train_ratio", "updates_per_step"});
    return (rate.empty() ? "the algorithm" : rate) + " asks for none";
  }
  const int64_t first =
      first_update(replay, plan->data.collect_steps, plan->rows, experiment.run.overlap);
  if (first <= made) return "";
  const std::string enough = "train.steps of " + by_thousands(first) + " at least";
  // each environment has to make a sequence
  if (replay.length * plan->rows > std::max(due, made))
    return "of " + by_thousands(made) +
           " steps env.count=" + std::to_string(experiment.run.env_count) + " makes " +
           by_thousands(made / plan->rows) + " each, and a sequence takes " +
           by_thousands(replay.length) + ": " +
           fewer_environments(*plan, experiment.run, placement.processes) + enough;
  if (replay.first_steps > made)
    return "the first one comes after " + by_thousands(replay.first_steps) + " steps: " + enough;
  const std::string every = setting_of(experiment, {"update_every"});
  return "the first one is due after " + by_thousands(due) + " steps" +
         (every.empty() ? "" : " (" + every + ")") + ": " + enough;
}

std::string short_replay_note(const Experiment& experiment, const Placement& placement) {
  const auto plan = learning_plan(experiment, placement);
  if (!plan) return "";
  const ReplayPlan& replay = plan->replay();
  const int64_t longest = experiment.spec().longest_episode(), T = plan->data.collect_steps;
  if (longest == 0 || replay.crossing || replay.running) return "";
  const int64_t rows = plan->rows / placement.processes;
  const ReplayShape shape =
      replay_shape(experiment.run, replay, {.T = T, .rows = rows, .block_rows = rows});
  // a finished episode is held until the next one ends, and has a sequence even then
  const int64_t enough = longest + Replay::least_capacity(shape) / rows;
  const int64_t kept = shape.capacity / rows;
  if (kept >= enough || plan->made(experiment.run.steps) / plan->rows <= kept) return "";
  const Field* given = experiment.table().find("train.replay_capacity");
  const std::string own = std::string(experiment.algo().name) + ".capacity";
  const bool overridden = given->origin >= Origin::file || !experiment.table().find(own);
  const std::string setting = overridden ? given->name : own;
  return "the replay keeps " + by_thousands(kept) +
         " steps of each environment, and an episode of up to " + by_thousands(longest) +
         " with a sequence takes " + by_thousands(enough) +
         ": updates wait until the next one ends; " + setting + "=" +
         std::to_string(enough * plan->rows) + " keeps enough";
}

}  // namespace maglev
