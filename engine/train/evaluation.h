#pragma once
// Judges checkpoints beside training: the policy of one is loaded, on a thread, environments and
// seeds of its own. Training waits for nothing on a processor, and no bit of it changes; on a
// GPU the end of an evaluation waits for the device and gives memory back.
// Threads: every call on the loop's thread.

#include <atomic>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/core/background.h"
#include "base/env/env_params.h"
#include "base/metrics/sink.h"
#include "engine/device/step_graph.h"
#include "engine/play/evaluate.h"

namespace maglev {

/// Where a run's checkpoints are judged: its environment's settings, those of train.eval_env in
/// their place, and what it is judged with where neither says (judging_of). Throws Error on names
/// there are none of, on wrong values, and on settings that change what is seen or done.
std::unique_ptr<EnvParams> evaluation_env(const Experiment& experiment);
/// A line for people where the environment is judged otherwise than a run learns in it
/// (EnvEntry::judged_with); else empty. Throws Error as evaluation_env.
std::string evaluation_note(const Experiment& experiment);
/// train.eval_env with what it names as from everywhere (EnvEntry::settle). Throws Error.
std::string lasting_eval_env(const Experiment& experiment);

/// What became of an evaluation.
struct Verdict {
  std::string checkpoint;  ///< folder of what was judged
  /// An event of its step: "eval/return_mean", "eval/food_per_1k" and "eval/food_per_episode" of
  /// what the environment counts, and the like.
  MetricRow row;
  /// In games of two over all scripted players; NaN: no episode ended.
  double return_mean = std::numeric_limits<double>::quiet_NaN();
  std::string failure;  ///< why there is none; empty: there is one
  std::string note;     ///< what to know of it; empty: nothing
};

class Evaluation {
 public:
  /// For policies of `experiment`, which outlives this, in its evaluation_env(). In games of two
  /// they meet each scripted player there is.
  Evaluation(const Experiment& experiment, const Placement& placement);
  /// Stops one that runs; it has no verdict then.
  ~Evaluation();
  Evaluation(const Evaluation&) = delete;
  Evaluation& operator=(const Evaluation&) = delete;

  /// Begins to judge the policy of a checkpoint's folder, which stays there meanwhile. None runs.
  void begin(const std::string& checkpoint);
  /// Whether one was begun and not taken yet, and whether its verdict is there.
  bool running() const { return begun_; }
  bool ended() const { return ended_.load(std::memory_order_acquire); }
  /// The verdict, once, when it is there.
  std::optional<Verdict> take();

 private:
  /// On the evaluation's thread.
  void judge();

  const Experiment* experiment_;
  std::unique_ptr<EnvParams> env_;
  Placement placement_;
  ThreadPool pool_;
  GraphPool stream_;
  std::unique_ptr<Policy> policy_;
  std::vector<std::unique_ptr<Player>> rivals_;
  std::atomic<bool> stop_{false}, ended_{false};
  bool begun_ = false;
  Verdict verdict_;  ///< the thread's while it runs
  /// One for all, as a tracer keeps a buffer for each; ends first.
  Background thread_{"evaluation"};
};

}  // namespace maglev
