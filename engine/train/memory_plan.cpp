#include "engine/train/memory_plan.h"

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <limits>

#include <nlohmann/json.hpp>

#include "base/core/error.h"
#include "base/core/mapped_file.h"
#include "base/processes/process_group.h"
#include "engine/device/device.h"
#include "engine/host/system.h"
#include "engine/play/evaluate.h"
#include "engine/play/league.h"
#include "engine/train/dataset.h"
#include "engine/train/idle_settings.h"
#include "engine/train/store.h"

namespace maglev {
namespace {

// workspaces that libraries keep of a device
constexpr int64_t kLibraries = 256 << 20;

// a view of one column of a block's row, and what its TimeStep keeps besides; fitted
constexpr int64_t kViewBytes = 500, kRowBytes = 256;

// settings of an algorithm that say how many rows it learns from at once, or holds until it does
constexpr const char* kRowsAtOnce[] = {".micro_batch", ".shard_rows", ".minibatch", ".batch",
                                       ".rollout"};

int64_t view_bytes(const EnvSpec& spec, const DataPlan& plan, int64_t rows, int64_t block) {
  const int64_t columns =
      int64_t(spec.observations.size() + plan.columns.size()) + 2 + int64_t(spec.action.masked);
  const int64_t blocks = (rows + block - 1) / block;
  return (plan.collect_steps + 1) * (blocks + 1) * (kRowBytes + kViewBytes * columns);
}

// what columns of `rows` rows take in pinned memory: torch's allocator of the host rounds each up
// to a power of two
int64_t pinned_columns(const std::vector<int64_t>& row_bytes, int64_t rows) {
  int64_t sum = 0;
  for (int64_t bytes : row_bytes) sum += int64_t(std::bit_ceil(uint64_t(bytes * rows)));
  return sum;
}

struct Planned {
  MemoryPlan memory;
  int64_t replay = 0, capacity = 0, rows = 0;  ///< bytes; rows of the ring; rows of a time step
  int64_t state = 0;  ///< bytes of what learns and of environments that a checkpoint holds
};

// members of the league that act with networks of their own
int64_t opponents_with_networks(const Experiment& experiment) {
  int64_t count = 0;
  bool past = false;
  for (const std::string& name : opponents_of(experiment.run)) {
    past |= name == "past";
    count += opponent_run(experiment.env(), name) ? 1 : 0;
  }
  if (past) count += experiment.run.past;
  return count;
}

int64_t bytes_of_all(const std::vector<MemoryPart>& parts) {
  int64_t bytes = 0;
  for (const MemoryPart& part : parts) bytes += part.bytes;
  return bytes;
}

void add_part(MemoryPlan& memory, const std::string& name, int64_t bytes) {
  if (bytes > 0) memory.parts.push_back({name, bytes});
}

void add_environments(Planned& result, const Experiment& experiment, const Placement& placement) {
  MemoryPlan& memory = result.memory;
  const EnvEntry& env = experiment.env();
  const int64_t states = experiment.run.env_count / placement.processes *
                         int64_t(env.slot_bytes(experiment.env_params()));
  const auto assets = int64_t(env.asset_bytes(experiment.env_params()));
  memory.environments = states + assets;
  result.state += states;
  add_part(memory, "environments", states);
  if (placement.device.is_cpu()) {
    const int64_t held = experiment.run.env_count / placement.processes *
                         int64_t(env.held_bytes(experiment.env_params()));
    memory.beside += held;
    add_part(memory, "simulators", held);
    memory.programs = int64_t(
        env.program_bytes(experiment.env_params(), experiment.run.env_count / placement.processes));
    memory.beside += memory.programs;
    add_part(memory, "processes of environments", memory.programs);
  }
  if (placement.processes > 1 && placement.device.is_cpu()) {
    const int64_t shared =
        ProcessGroup::bytes(int(placement.processes), int(placement.here())) / placement.here();
    memory.beside += shared;
    add_part(memory, "shared with other processes", shared);
  }
  add_part(memory, "assets of the environment", assets);
}

// what learns, and whoever else acts with networks of its own
void add_networks(Planned& result, const Experiment& experiment, const AlgoContext& context) {
  MemoryPlan& memory = result.memory;
  const RunOptions& run = experiment.run;
  const AlgoEntry& algo = experiment.algo();
  std::vector<MemoryPart> learner;
  if (algo.memory) learner = algo.memory(experiment.algo_options(), context);
  for (const MemoryPart& part : learner) {
    add_part(memory, part.name, part.bytes);
    result.state += part.state;
  }
  const auto policy_bytes = [&](const AlgoContext& acting) {
    return bytes_of_all(algo.policy_memory ? algo.policy_memory(experiment.algo_options(), acting)
                                           : learner);
  };
  // what judges checkpoints beside training is a policy of its own, on one thread
  if (run.eval_every > 0) {
    ThreadPool alone(1);
    AlgoContext judge = context;
    judge.rows = std::min(run.eval_episodes, kMostEvalEnvs) * experiment.learners();
    judge.pool = &alone;
    judge.processes = 1, judge.group = nullptr;
    add_part(memory, "evaluation", policy_bytes(judge));
  }
  // past selves and runs that are met act for rows of all environments, each with networks of its
  // own
  if (const int64_t others = opponents_with_networks(experiment); others > 0)
    add_part(memory, "opponents", others * policy_bytes(context));
}

// the ring, where it lies, and the batches drawn out of it
void add_replay(Planned& result, const Experiment& experiment, const Placement& placement,
                const DataPlan& plan, const RolloutShape& window) {
  const RunOptions& run = experiment.run;
  const EnvSpec spec = experiment.spec();
  const bool offline = !run.dataset.empty();
  const ReplayShape shape = offline ? dataset_shape(run, *plan.replay, dataset_rows(run))
                                    : replay_shape(run, *plan.replay, window);
  MemoryPlan& memory = result.memory;
  result.capacity = shape.capacity;
  result.replay = Replay::bytes(spec, shape, plan.columns);
  const RingMemory ring = ring_memory(run, result.replay, placement);
  if (!ring.folder.empty()) {
    memory.disk = Replay::observed_bytes(spec, shape);
    result.replay -= memory.disk;
  }
  const int64_t row_bytes = Replay::row_bytes(spec, plan.columns);
  if (ring.pinned) {
    // its table stays on the device
    const int64_t rows = Replay::ring_rows(shape);
    memory.pinned = pinned_columns(Replay::column_bytes(spec, plan.columns), rows);
    add_part(memory, "replay's table", result.replay - rows * row_bytes);
  } else {
    memory.collected += Replay::ring_rows(shape) * row_bytes - memory.disk;
    add_part(memory, "replay", result.replay);
  }
  const int64_t batch = (shape.length + 1) * shape.batch * row_bytes;
  // of a dataset another batch always follows
  const double updates = offline ? 2 : updates_of(run, *plan.replay, window);
  add_part(
      memory, "batch",
      prefetches(run, *plan.replay, batch, ring.pinned, updates, placement) ? 2 * batch : batch);
}

// steps that are learned from, or that wait on a device until the replay takes them
void add_rollout(MemoryPlan& memory, const Experiment& experiment, const Placement& placement,
                 const DataPlan& plan, const RolloutShape& window) {
  const EnvSpec spec = experiment.spec();
  const int64_t all = (window.T + 1) * window.rows * Replay::row_bytes(spec, plan.columns);
  const bool away = !plan.replay && rollout_is_pinned(experiment.run, placement.device);
  if (away)
    memory.pinned = pinned_columns(Rollout::observed_columns(spec), (window.T + 1) * window.rows);
  const int64_t there = away ? all - Rollout::observed_bytes(spec, window) : all;
  memory.collected += there;
  add_part(memory, "rollout", there);
}

// the copy of all that warming up changes, beside what it learns with; where a replay has nothing
// to learn from as yet, less is held then than later
void add_warm_up(Planned& result, const Experiment& experiment, const Placement& placement,
                 const DataPlan& plan, const RolloutShape& window) {
  const RunOptions& run = experiment.run;
  const bool captured = placement.device.is_cuda() && plan.capturable && run.graph.value_or(true);
  if (run.warmup == 0 && !captured) return;
  const bool collects = plan.replay && run.dataset.empty();
  const int64_t steps = run.warmup * window.T * window.rows * placement.processes;
  if (collects && updates_due(*plan.replay, steps) == 0) return;
  int64_t bytes = result.state + (plan.replay ? 0 : result.memory.collected);
  // what updates write back, wherever in a dataset they draw
  if (!run.dataset.empty())
    bytes += dataset_rows(run) * (Replay::rewritten_bytes(plan.columns) +
                                  (plan.replay->priorities ? int64_t(sizeof(int32_t)) : 0));
  add_part(result.memory, "state before a warm-up", bytes);
  // on a processor a snapshot's memory is the system's, not the cache's of tensors
  if (placement.device.is_cpu()) result.memory.beside += bytes;
}

Planned planned(const Experiment& experiment, const Placement& placement) {
  ThreadPool pool(placement.threads);
  const AlgoContext context = context_of(experiment, placement, pool);
  Planned result{.rows = context.rows};
  MemoryPlan& memory = result.memory;
  memory.processes = placement.processes;
  add_environments(result, experiment, placement);
  add_networks(result, experiment, context);
  const AlgoEntry& algo = experiment.algo();
  if (algo.plan) {
    const DataPlan plan = algo.plan(experiment.algo_options(), context);
    check_plan(plan, placement.precision, algo.name);
    const RolloutShape window{
        .T = plan.collect_steps, .rows = context.rows, .block_rows = context.rows};
    if (plan.replay) add_replay(result, experiment, placement, plan, window);
    if (placement.device.is_cpu() && experiment.run.dataset.empty()) {
      const int64_t views = view_bytes(experiment.spec(), plan, context.rows,
                                       plan.block_of(context.rows, experiment.learners()));
      memory.beside += views;
      add_part(memory, "views of rows", views);
    }
    if (!plan.replay || placement.device.is_cuda())
      add_rollout(memory, experiment, placement, plan, window);
    add_warm_up(result, experiment, placement, plan, window);
    if (placement.device.is_cuda()) add_part(memory, "libraries", kLibraries);
  }
  std::stable_sort(memory.parts.begin(), memory.parts.end(),
                   [](const MemoryPart& a, const MemoryPart& b) { return a.bytes > b.bytes; });
  return result;
}

// whether an update takes less that learns from one sequence at once: some learners hold no more
// than a part as it is
bool parts_take_less(const Experiment& experiment, const Placement& placement,
                     const std::string& micro_batch) {
  Experiment changed(experiment.algo().name, experiment.env().name);
  for (const Field& field : experiment.table().fields())
    changed.table().set(field.name, field.plain(), "plan", Origin::command_line);
  changed.table().set(micro_batch, "1", "plan", Origin::command_line);
  return planned(changed, placement).memory.total() < planned(experiment, placement).memory.total();
}

// what leaves the run the same, each with a comma behind it
std::string thrift(const Experiment& experiment, const Placement& placement, bool pinned) {
  std::string text;
  for (const Saving& one : savings(experiment, placement, pinned))
    if (!one.how.empty()) text += one.how + " (" + one.setting + "), ";
  return text;
}

void set_limit(MemoryPlan& plan, const RunOptions& run, const Placement& placement) {
  if (plan.pinned > 0 && placement.device_bytes == 0)
    plan.host_left = std::max<int64_t>(1, probe_system(".").memory.left() / placement.here());
  if (run.memory_limit == "none") return;
  if (run.memory_limit != "auto") {
    plan.limit = parse_bytes(run.memory_limit);
    plan.limit_why = "train.memory_limit";
  } else if (placement.device_bytes > 0) {
    plan.limit = placement.device_bytes;
    plan.limit_why = "all of it";
  } else if (placement.device.is_cuda()) {
    plan.limit = free_device_bytes();
    plan.limit_why = "free on " + placement.device.str();
  } else {
    plan.limit = probe_system(".").memory.left();
    plan.limit_why = "left on this machine";
  }
  // a plan is of one process
  if (placement.here() > 1 && placement.device.is_cpu()) {
    plan.limit /= placement.here();
    plan.limit_why += ", for each of " + std::to_string(placement.here()) + " processes";
  }
  if (run.memory_limit != "auto" || !placement.device.is_cpu()) return;
  if (const auto left = address_space_left(); left && *left < plan.limit) {
    plan.limit = *left;
    plan.limit_why = "left to this process, ulimit -v";
  }
}

}  // namespace

int64_t tensor_limit(const MemoryPlan& plan, const Experiment& experiment,
                     const Placement& placement) {
  const std::string& asked = experiment.run.memory_limit;
  if (asked == "auto" || asked == "none" || !placement.device.is_cpu()) return 0;
  return std::max<int64_t>(1, plan.limit - plan.beside);
}

int64_t MemoryPlan::total() const { return bytes_of_all(parts); }

std::string MemoryPlan::text() const {
  std::string text = bytes_text(total()) + " planned";
  if (processes > 1) text += " by each of " + std::to_string(processes) + " processes";
  text += ": ";
  for (size_t i = 0; i < parts.size(); ++i)
    text += (i ? ", " : "") + parts[i].name + " " + bytes_text(parts[i].bytes);
  if (pinned > 0)
    text += "; of what is collected " + bytes_text(pinned) + " in pinned memory of the host";
  if (disk > 0)
    text += "; observations of the replay " + bytes_text(disk) + " on a disk" +
            (processes > 1 ? ", of each" : "");
  return text;
}

std::string MemoryPlan::json() const {
  nlohmann::ordered_json all{
      {"total", total()}, {"limit", limit}, {"pinned", pinned}, {"disk", disk}};
  if (processes > 1) all["processes"] = processes;
  for (const MemoryPart& part : parts) all["parts"][part.name] = part.bytes;
  return all.dump(2) + "\n";
}

int64_t parse_bytes(const std::string& text) {
  char* end = nullptr;
  double bytes = std::strtod(text.c_str(), &end);
  std::string unit(end);
  std::erase(unit, ' ');
  if (unit.ends_with("B")) unit.pop_back();
  if (unit.ends_with("i")) unit.pop_back();
  const size_t power = unit.empty() ? 0 : std::string("KMGT").find(unit) + 1;
  // find says npos, which wraps to 0, for a unit that is none
  if (!(bytes > 0) || unit.size() > 1 || (power == 0 && !unit.empty()))
    throw Error("[memory] a size is a number and KiB, MiB, GiB or TiB, e.g. 4GiB, got '" + text +
                "'");
  for (size_t i = 0; i < power; ++i) bytes *= 1024;
  // who says 8 means another unit
  if (constexpr double kLeast = 1 << 20; bytes < kLeast && unit.empty())
    throw Error("[memory] '" + text + "' is so many bytes: give a unit, " + text + "GiB or " +
                text + "MiB");
  if (!(bytes < double(std::numeric_limits<int64_t>::max())))
    throw Error("[memory] '" + text + "' is more than any machine has; leave the limit out");
  return int64_t(bytes);
}

MemoryPlan plan_memory(const Experiment& experiment, const Placement& placement) {
  MemoryPlan plan = planned(experiment, placement).memory;
  set_limit(plan, experiment.run, placement);
  return plan;
}

std::vector<Saving> savings(const Experiment& experiment, const Placement& placement, bool pinned) {
  const IdleSettings idle(experiment, placement);
  std::vector<Saving> found;
  const auto add = [&](const std::string& name, const std::string& value, const std::string& how) {
    if (idle.why(name).empty()) found.push_back({name + value, how});
  };
  for (const Field& field : experiment.table().fields())
    for (const char* ending : kRowsAtOnce) {
      if (field.name != experiment.algo().name + std::string(ending)) continue;
      if (!field.name.ends_with(".micro_batch")) add(field.name, "", "");
      else if (parts_take_less(experiment, placement, field.name))
        add(field.name, "", "learn from fewer sequences at once");
    }
  if (!pinned) {
    add("train.replay_memory", "=pinned", "keep the replay on the host");
    add("train.rollout_memory", "=pinned", "keep a rollout's observations on the host");
  }
  // a dataset is held whatever the capacity
  if (experiment.run.dataset.empty()) add("train.replay_capacity", "", "");
  add("env.count", "", "");
  return found;
}

MemoryPlan fit_memory(Experiment& experiment, const Placement& placement, std::string* note) {
  Planned plan = planned(experiment, placement);
  set_limit(plan.memory, experiment.run, placement);
  if (plan.memory.disk > 0)
    expect_disk_space(experiment.run.replay_folder, plan.memory.disk * placement.here());
  if (const int64_t left = plan.memory.host_left; left > 0 && plan.memory.pinned > left)
    throw Error(
        "[memory] " + bytes_text(plan.memory.pinned) +
        " were to lie in pinned memory of the host, which has " + bytes_text(left) +
        " left; use a smaller train.replay_capacity, or fewer environments or steps a rollout");
  const int64_t over = plan.memory.total() - plan.memory.limit;
  if (plan.memory.limit == 0 || over <= 0) return plan.memory;
  const std::string limit = bytes_text(plan.memory.limit) + " (" + plan.memory.limit_why + ")";
  const bool can_shrink =
      note && plan.replay > over && plan.memory.pinned == 0 && experiment.run.dataset.empty();
  if (!experiment.run.shrink_replay || !can_shrink)
    throw Error("[memory] " + plan.memory.text() + "; the limit is " + limit + "; " +
                (can_shrink ? "make the replay smaller with --shrink or train.replay_capacity, "
                            : "use fewer environments or a smaller network, ") +
                thrift(experiment, placement, plan.memory.pinned > 0) +
                "or raise it with --memory-limit");
  // by whole time steps, and one more for what rounding took
  const double per_row = double(plan.replay) / double(plan.capacity);
  const int64_t fewer = (int64_t(double(over) / per_row) / plan.rows + 2) * plan.rows;
  // the setting is of all processes
  const int64_t all = experiment.run.processes;
  experiment.run.replay_capacity = (plan.capacity - fewer) * all;
  *note = "the replay holds " + std::to_string(experiment.run.replay_capacity) +
          " rows instead of " + std::to_string(plan.capacity * all) + ": that is what fits " +
          limit;
  return plan_memory(experiment, placement);
}

}  // namespace maglev
