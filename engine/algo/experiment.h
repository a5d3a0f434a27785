#pragma once
// The resolved settings of one run: which algorithm on which environment, with every option of
// both. Everything that trains, evaluates or measures starts from one of these.

#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "base/config/options.h"
#include "base/env/entry.h"
#include "engine/algo/algorithm.h"

namespace maglev {

struct RunOptions {
  uint64_t seed = 1;
  std::string device = "auto";
  int64_t threads = 0;
  int64_t env_count = 64;
  int64_t steps = 1'000'000;
  int64_t log_every = 0;
  int64_t save_every = 0;
  int64_t keep = 3;
  std::string collect = "auto";
  std::string graph = "auto";
  std::string precision = "auto";
  int64_t warmup = 0;
  bool overlap = false;
  std::string dataset;
  std::string replay_memory = "auto";
  bool save_replay = true;
  int64_t replay_capacity = 0;
  std::string memory_limit = "auto";
  bool shrink_replay = false;
  std::string opponents;  ///< names with commas; empty: every agent learns
  int64_t past = 4;
  int64_t past_every = 0;
  std::string matchmaking = "even";
  int64_t eval_every = 0;
  int64_t eval_episodes = 20;
  double until_return = std::numeric_limits<double>::infinity();
  std::string on_divergence = "warn";
  std::string init_from;
};

class Experiment {
 public:
  /// Defaults of the structs. Throws Error with near names when either is unknown.
  Experiment(const std::string& algo, const std::string& env);
  Experiment(const Experiment&) = delete;
  Experiment& operator=(const Experiment&) = delete;

  /// Loads configs/<algo>/<env>.yaml under `home`, the proven settings, when there is one. Returns
  /// its path or "".
  std::string load_proven(const std::string& home);

  const AlgoEntry& algo() const { return *algo_; }
  const EnvEntry& env() const { return *env_; }
  const void* env_params() const { return env_params_.data(); }
  const void* algo_options() const { return algo_options_.get(); }
  EnvSpec spec() const { return env_->spec(env_params_.data()); }
  OptionTable& table() { return table_; }
  const OptionTable& table() const { return table_; }

  RunOptions run;

 private:
  const AlgoEntry* algo_;
  const EnvEntry* env_;
  std::vector<std::max_align_t> env_params_;
  OptionsBox algo_options_;
  OptionTable table_;
};

}  // namespace maglev
