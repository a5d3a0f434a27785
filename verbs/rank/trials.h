#pragma once
// Proofs tried by a run's policy, many queries at once: rows of states that each take the next
// query when theirs has ended, so that every act is of full rows until none is left. A query's
// result does not depend on threads: queries are dealt out in parts of fixed size, and a part's
// rows move together. The same query twice is tried once. A beam keeps several goals of a query,
// each in a row of its own.

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "base/core/thread_pool.h"
#include "engine/algo/experiment.h"
#include "engine/algo/policy.h"
#include "envs/kg/kg.h"

namespace maglev::verbs::rank {

struct Trial {
  bool tried = false;  ///< else the rest says nothing
  bool proved = false;
  float log_prob = 0;         ///< of all actions taken; 0 where the policy does not tell
  double log_confidence = 0;  ///< of a proof, as log_confidence() has it
  int32_t steps = 0;
};

/// How much a proof is worth: the logarithm of the likelihood of its actions times the confidences
/// of its rules.
inline double worth(const Trial& trial) { return double(trial.log_prob) + trial.log_confidence; }

struct TrialCounts {
  int64_t tried = 0;    ///< different queries that were
  int64_t steps = 0;    ///< of all of them
  int64_t dropped = 0;  ///< successors that found no room
  int64_t too_long = 0;
};

/// How queries are tried.
struct Trying {
  ActMode mode = ActMode::mean;  ///< the policy's likeliest action, or drawn ones
  uint64_t seed = 0;             ///< of what is drawn
  /// Above 1, in mode mean: of all actions of a query's goals these many are taken, the likeliest
  /// from the query on, and always the one that a width of 1 takes. A trial is the proof of most
  /// worth, or where there is none that of a width of 1.
  int64_t width = 1;
  /// Hears, one call at a time on any thread, of how many different queries are done. Where it says
  /// no, no more are begun: the rest stays untried.
  std::function<bool(int64_t done, int64_t of)> told = {};
};

class Prover {
 public:
  /// `experiment` is one of environment kg, whose settings say how deep proofs go. Throws Error for
  /// another. `policy` is on `device`; threads step the environment. All outlive it.
  Prover(const Experiment& experiment, Policy& policy, ThreadPool& pool,
         at::Device device = at::kCPU);

  const Kg::Params& params() const { return *params_; }
  const Kg::Assets& assets() const { return *assets_; }

  /// Throws Error where a width above 1 wants probabilities that the policy does not tell.
  std::vector<Trial> prove(std::span<const datalog::Atom> queries, const Trying& how);
  /// Of the last call.
  const TrialCounts& counts() const { return counts_; }

 private:
  class Rows;
  class Part;
  class Beam;

  struct Free {
    void operator()(Kg::Assets* assets) const;
  };
  const Experiment& experiment_;
  Policy& policy_;
  ThreadPool& pool_;
  at::Device device_;
  std::mutex acting_;  ///< on a device, whose policy has room for one call
  const Kg::Params* params_;
  const datalog::Program* program_ = nullptr;
  std::unique_ptr<Kg::Assets, Free> assets_;
  std::vector<ExtraColumn> columns_;
  int log_prob_ = -1;  ///< which of the columns
  TrialCounts counts_;
};

}  // namespace maglev::verbs::rank
