#pragma once
// What the trainer knows of an algorithm. PPO, TD-MPC2 and Dreamer differ in their DataPlan, in
// their policy's act and inside update; the loop, the store, checkpoints, evaluation and metrics
// are the same for all.

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <ATen/core/Tensor.h>

#include "base/config/options.h"
#include "base/core/thread_pool.h"
#include "base/env/spec.h"
#include "engine/algo/imagination.h"
#include "engine/algo/metrics.h"
#include "engine/algo/policy.h"
#include "engine/data/step_window.h"
#include "engine/device/precision.h"
#include "engine/group/group.h"

namespace maglev {

/// Which sequences of the replay a batch takes.
enum class SliceSampling {
  trajectory,  ///< an episode uniformly, then a start in it: short episodes count more per step
  start,       ///< every start alike
};
constexpr auto names_of(SliceSampling) { return std::array{"trajectory", "start"}; }

/// What an off-policy algorithm wants from the replay. Steps are of all environments together.
struct ReplayPlan {
  int64_t capacity = 1'000'000;  ///< most rows kept, of all environments and processes together
  int64_t batch = 256;           ///< B sequences, of all processes together
  int64_t length = 1;            ///< L transitions of one episode each: Batch is [L or L+1, B]
  SliceSampling sampling = SliceSampling::trajectory;
  bool running = false;  ///< also of episodes that are not finished yet
  /// Sequences cross the ends of episodes, running ones too: any L + 1 rows of an environment that
  /// follow each other, every start alike.
  bool crossing = false;
  /// Each start as often as its priority says, to this power, in [0, 4]: Batch has `chance` then, and
  /// update writes `priority`. With `running` or `crossing`; `sampling` is by start then.
  std::optional<double> priorities = {};
  int64_t first_steps = 0;      ///< steps before the first update
  int64_t first_updates = 0;    ///< made at once then
  double updates_per_step = 1;  ///< after that
  int64_t update_every = 1;     ///< steps between them; what is due is made together
};

/// What an algorithm wants from the store.
struct DataPlan {
  int64_t collect_steps = 0;             ///< T, time steps between updates
  std::vector<ExtraColumn> columns;      ///< what act adds to a row
  int64_t block_rows = 256;              ///< the policy's
  int64_t least_rows = kLeastBlockRows;  ///< from which it pays that another thread acts for them
  /// Where an update leaves threads without work: what gives them some, "ppo.shard_rows=32". Advice
  /// for people alone.
  std::string for_more_threads = {};
  /// Set: update gets sequences sampled from a replay; else the rollout that was just collected.
  std::optional<ReplayPlan> replay;
  /// act reads only what publish() left, so that it may run beside update.
  bool overlap = false;
  /// act and update keep every counter on the device, read nothing back and do nothing on the host
  /// that a replay would have to repeat: CUDA may capture them.
  bool capturable = false;
  /// It learns with AlgoContext::group too, and all processes stay alike: what it decides by, and
  /// statistics it keeps, are of all processes' rows (gathered, RunningNorm::absorb), gradients go
  /// through reduce_all, settings that count rows through AlgoContext::processes, what is sampled
  /// for a row through ActKey::row_from, and state of rows through StateVisitor::rows.
  bool shares = false;
  /// What AlgoContext::precision may be besides fp32 and tf32, which every algorithm computes in.
  std::vector<Precision> precisions = {};

  bool offers(Precision precision) const {
    return precision == Precision::fp32 || precision == Precision::tf32 ||
           std::find(precisions.begin(), precisions.end(), precision) != precisions.end();
  }
  /// Rows a thread acts for and steps at once, of `rows` of environments with so many `agents`.
  int64_t block_of(int64_t rows, int64_t agents) const {
    return maglev::block_rows(block_rows, rows, agents, least_rows);
  }
  /// Whether updates can be made beside the steps of the next iteration: what they learn from is
  /// there before, and acting reads nothing that they write. Steps must be collected at all.
  bool may_overlap() const { return overlap && replay.has_value(); }
  /// The first column that acting alone writes, which no dataset has; null: there is none.
  const ExtraColumn* column_of_acting() const {
    const auto found = std::ranges::find(columns, false, &ExtraColumn::rewritten);
    return found == columns.end() ? nullptr : &*found;
  }
  /// Whether a dataset can stand for the replay.
  bool may_learn_from_dataset() const { return replay && !column_of_acting(); }
};

/// Throws Error where `algorithm`'s plan collects nothing, and, listing those it has, where it does
/// not offer `precision`.
void check_plan(const DataPlan& plan, Precision precision, const char* algorithm);

/// What an algorithm is made for.
struct AlgoContext {
  EnvSpec spec;
  int64_t rows = 0;         ///< environments * agents, of this process
  int64_t total_steps = 0;  ///< of the whole run, all rows: what schedules run over
  uint64_t seed = 0;
  at::Device device = at::kCPU;
  /// For update; act, which may run beside it, leaves it alone but for its number of threads.
  ThreadPool* pool = nullptr;
  /// What networks' forward passes compute in; parameters, advantages and reductions are fp32.
  Precision precision = Precision::fp32;
  /// How many processes share the run, and who they are: null where there is one, and where nothing
  /// is learned. Settings that count rows mean all of theirs.
  int64_t processes = 1;
  Group* group = nullptr;
  /// For AlgoEntry::work, where what is observed are words, and of them depends how long a row
  /// takes: columns [T, rows, shape] of some steps' rows. Empty: none were seen.
  std::vector<at::Tensor> seen = {};
};

class Algorithm {
 public:
  virtual ~Algorithm() = default;

  virtual const DataPlan& plan() const = 0;
  /// What acts, its extra columns as the plan asked for them. Lives as long as this.
  virtual Policy& policy() = 0;

  /// Learns from one batch as the plan asked for it. Returns no value to the host: figures go to
  /// `metrics`.
  virtual void update(const Batch& batch, Metrics& metrics) = 0;
  /// What update has learned, or a visit has loaded, becomes what the policy uses. Called after the
  /// updates of an iteration, never beside act or update.
  virtual void publish() { policy().publish(); }

  /// Everything that must survive a restart: parameters, optimiser, normalisers, counters.
  virtual void visit_state(StateVisitor& visitor) = 0;
  /// What updates had to do otherwise than they were to, one line for people; empty: nothing.
  virtual std::string note() const { return ""; }
  /// What its policy names was loaded alone, out of another run: what follows networks, such as
  /// targets, begins at them.
  virtual void follow_networks() {}
};

/// Two notes as one line; each may be empty.
std::string joined_notes(const std::string& first, const std::string& second);

/// A part of the memory a run will hold.
struct MemoryPart {
  std::string name;
  int64_t bytes = 0;
  int64_t state = 0;  ///< of them what a checkpoint holds: weights and what optimisers remember
};

/// What a stage of an iteration computes, all its rows and updates together.
struct StageWork {
  std::string name;
  double flops = 0;     ///< of products and convolutions, two a multiply-add
  double reach = 1;     ///< share of the multiply-add peak such products reach, by measurement
  double elements = 0;  ///< values through an activation, a norm or another function, each way one
  /// Does a piece of this work on the calling thread, as a run does it, elements included, and
  /// returns its flops: where the layers are a library's, of which nobody knows beforehand what
  /// share of the peak they reach. Makes the networks; for a processor. Empty: `reach` says.
  std::function<double()> trial;
  double bytes = 0;  ///< to and from memory behind the caches
  /// Bytes that one thread reads in all of this work where others have just written them, and how
  /// many of them were written together: small blocks still lie in the writer's first cache, larger
  /// ones in its second or in neither.
  double shared = 0, shared_block = 0;
  double launches = 0;  ///< pieces of work handed out: blocks for threads, kernels for a device
  double threads = std::numeric_limits<double>::infinity();  ///< that can share it at most
};

/// Options of an algorithm, owned with their type forgotten.
using OptionsBox = std::unique_ptr<void, void (*)(void*)>;

/// A run of a second or two, whose first updates come within six iterations: tests over the table
/// of algorithms hold every one to what the table promises by its own.
struct SmallRun {
  const char* env = nullptr;               ///< one of envs/
  std::vector<std::string> settings = {};  ///< name=value
};

/// How an algorithm's policies are exported, where that is not all of what acts.
struct ExportRule {
  /// Settings name=value with which the policy acts as it is exported.
  std::vector<std::string> settings = {};
  const char* note = "";  ///< a line for people: what is left out
  /// LayerNorms of what it trains make much of little, of rounding too: in a few rows a model may be
  /// farther from the policy than rounding itself.
  bool amplifies = false;
};

/// Algorithms of other libraries, as their users write them in small letters, that an algorithm of
/// ours does the work of.
struct ServesFor {
  std::vector<std::string_view> theirs;
  const char* purpose;  ///< what ours does of it, said behind its name: "learns from its steps"
};

struct AlgoEntry {
  const char* name;
  const char* summary;
  OptionsBox (*make_options)();                         ///< with defaults
  void (*describe)(OptionTable& table, void* options);  ///< adds <name>.* settings
  /// Throws Error on settings that contradict each other or the environment.
  std::unique_ptr<Algorithm> (*make)(const void* options, const AlgoContext& context);
  /// What acts alone, whatever number of rows: settings that only learning reads are not checked.
  std::unique_ptr<Policy> (*make_policy)(const void* options, const AlgoContext& context);
  /// The plan such an algorithm will have, without making it.
  DataPlan (*plan)(const void* options, const AlgoContext& context) = nullptr;
  /// What it will hold at its peak, without making it; null: not known.
  std::vector<MemoryPart> (*memory)(const void* options, const AlgoContext& context) = nullptr;
  /// Likewise its policy alone; null: as much as all of it.
  std::vector<MemoryPart> (*policy_memory)(const void* options,
                                           const AlgoContext& context) = nullptr;
  /// What an iteration computes once it learns, without computing it: time steps as its plan
  /// collects them, and the updates that are due for them, a share of one where they are rarer;
  /// null: not known.
  std::vector<StageWork> (*work)(const void* options, const AlgoContext& context) = nullptr;
  /// Throws SettingError on settings that contradict each other where it learns from `rows` rows a
  /// time step, as make does; null: none can.
  void (*check)(const void* options, const EnvSpec& spec, int64_t rows) = nullptr;
  /// Why one of its settings, named without the algorithm, changes nothing where the others are as
  /// they are, in a few words; "": it may matter. Null: all may.
  std::string (*idle)(const void* options, const AlgoContext& context,
                      std::string_view setting) = nullptr;
  /// What it has learned of the environment, to be looked at; null: nothing that can be shown.
  std::unique_ptr<Imagination> (*make_imagination)(const void* options,
                                                   const AlgoContext& context) = nullptr;
  ExportRule exported = {};
  /// Whose users are told to take it instead.
  std::vector<ServesFor> serves_for = {};
  SmallRun small = {};
  /// It reads tensors where the host does: trainers refuse another device.
  bool cpu_only = false;
};

/// Every algorithm that was built in, by name.
std::span<const AlgoEntry> algo_table();
/// Throws Error with near names.
const AlgoEntry& find_algo(std::string_view name);

/// An OptionsBox of T.
template <class T>
OptionsBox box_options() {
  return OptionsBox(new T(), [](void* p) { delete static_cast<T*>(p); });
}

}  // namespace maglev
