#pragma once
// The resolved settings of one run: which algorithm on which environment, with every option of
// both. Everything that trains, evaluates or measures starts from one of these.

#include <array>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/config/options.h"
#include "base/env/entry.h"
#include "engine/algo/algorithm.h"
#include "engine/device/precision.h"
#include "engine/host/machine.h"
#include "engine/trace/options.h"

namespace maglev {

/// All environments step together, or each block of them runs the whole rollout by itself.
enum class Collect { lockstep, blocks };
constexpr auto names_of(Collect) { return std::array{"lockstep", "blocks"}; }

/// Where a replay or a rollout's observations lie on a GPU: on the device, or in pinned memory of
/// the host.
enum class StoreMemory { device, pinned };
constexpr auto names_of(StoreMemory) { return std::array{"device", "pinned"}; }

/// How opponents are drawn: each alike, or those that are not beaten yet more often.
enum class Matchmaking { even, hard };
constexpr auto names_of(Matchmaking) { return std::array{"even", "hard"}; }

/// What gradients are on their way between processes.
enum class GradientSums { fp32, bf16 };
constexpr auto names_of(GradientSums) { return std::array{"fp32", "bf16"}; }

/// What a run does when a figure or a gradient is not finite.
enum class OnDivergence { warn, stop };
constexpr auto names_of(OnDivergence) { return std::array{"warn", "stop"}; }

struct RunOptions {
  uint64_t seed = 1;
  std::string device = "auto";  ///< auto, cpu, cuda or cuda:<index>
  int64_t threads = 0;
  int64_t processes = 1;
  int64_t machines = 1;
  std::string hardware;  ///< auto, a name or a file, as it was given; empty: none
  int64_t env_count = 64;
  int64_t steps = 1'000'000;
  int64_t log_every = 0;
  double monitor_every = 10;  ///< seconds
  double stall = 60;          ///< seconds; 0: never
  double stall_end = 0;       ///< likewise
  double price = 0;           ///< of an hour of the machine; 0: unknown
  int64_t save_every = 0;
  int64_t keep = 3;
  double retry_save = 600;  ///< seconds
  std::optional<Collect> collect;
  OnOff graph;
  std::optional<Precision> precision;
  GradientSums gradients = GradientSums::fp32;
  bool deterministic = false;
  bool dependent_launch = false;
  bool synchronise = false;
  int64_t warmup = 0;
  bool overlap = false;
  OnOff prefetch;
  std::string dataset;
  std::optional<StoreMemory> replay_memory;
  StoreMemory rollout_memory = StoreMemory::device;
  std::string replay_folder;
  bool save_replay = true;
  int64_t replay_capacity = 0;
  std::string memory_limit = "auto";  ///< auto, none, or a size
  bool shrink_replay = false;
  std::string opponents;  ///< names with commas; empty: every agent learns
  int64_t past = 4;
  int64_t past_every = 0;
  Matchmaking matchmaking = Matchmaking::even;
  int64_t eval_every = 0;
  int64_t eval_episodes = 20;
  std::string eval_env;  ///< name=value with commas: env.* of evaluations; empty: as training's
  double until_return = std::numeric_limits<double>::infinity();
  OnDivergence on_divergence = OnDivergence::warn;
  std::string init_from;
};

/// The file of settings for an environment that has none of its own.
constexpr const char* kAnyEnvironment = "any";

class Experiment {
 public:
  /// Defaults of the structs. Throws Error with near names when either is unknown.
  Experiment(const std::string& algo, const std::string& env);
  Experiment(const Experiment&) = delete;
  Experiment& operator=(const Experiment&) = delete;

  /// Loads configs/<algo>/<env>.yaml, the proven settings, of the first of `folders` that has it,
  /// or where none has configs/<algo>/any.yaml so. Returns the path of what was loaded or "".
  std::string load_proven(const std::vector<std::string>& folders);
  /// Settings that nobody gave, built-in or proven, give way where they cannot hold beside those
  /// that were given: they become the nearest value that can; a discount of the environment's becomes
  /// the algorithm's. Returns a line for people for each, and for such a discount that is another.
  /// Throws SettingError where what was given contradicts itself.
  /// `of_run`: settings of a file are a run's own, which is to act beside what was given; those
  /// that say how it acts give way too.
  std::vector<std::string> settle(bool of_run = false);

  /// EnvEntry::settle of its environment.
  std::string settle_env() { return env_->settle(env_params_.data()); }

  const AlgoEntry& algo() const { return *algo_; }
  const EnvEntry& env() const { return *env_; }
  const void* env_params() const { return env_params_.data(); }
  const void* algo_options() const { return algo_options_.get(); }
  /// Throws Error where what the environment says of itself does not fit together.
  EnvSpec spec() const;
  /// Rows of a time step that the algorithm learns from: those of opponents are not among them.
  int64_t learning_rows() const { return run.env_count * learners(); }
  /// Agents of each environment that learn: all, or the first where the others are opponents.
  int64_t learners() const { return run.opponents.empty() ? spec().agents : 1; }
  OptionTable& table() { return table_; }
  const OptionTable& table() const { return table_; }

  RunOptions run;
  TraceOptions trace;

 private:
  /// settle() of the environment's discounts.
  void settle_discounts(std::vector<std::string>& notes);

  const AlgoEntry* algo_;
  const EnvEntry* env_;
  std::vector<std::max_align_t> env_params_;
  OptionsBox algo_options_;
  OptionTable table_;
};

/// What the experiment's algorithm, or its policy alone, is made for there. `pool` is not owned.
AlgoContext context_of(const Experiment& experiment, const Placement& placement, ThreadPool& pool);

}  // namespace maglev
