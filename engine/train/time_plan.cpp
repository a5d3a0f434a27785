#include "engine/train/time_plan.h"

#include <algorithm>
#include <utility>

#include "base/core/clock.h"
#include "base/core/thread_pool.h"
#include "engine/data/replay.h"
#include "engine/train/random_play.h"
#include "engine/train/store.h"

namespace maglev {
namespace {

// what steps of environments write is read by the policy and written once more on a device
constexpr double kPasses = 2;
// columns of a step besides observations and masks: reward, terminated, truncated, is_first
constexpr double kStepColumns = 4;
// rows of a batch lie anywhere in the ring: a line's worth more is read of each, and of its table
constexpr double kScattered = 256;

// Bytes of a block beyond which the first cache of the thread that wrote it no longer holds it
// (they have 32 to 64 KiB), and beyond which its second one does not: a block of weights and as
// much of gradients, where there are 1 to 2 MiB with what else is there.
constexpr double kFirstCache = 64 << 10, kSecondCache = 512 << 10;

// the first trial also makes the networks and sets their library up: it counts only where it took
// so long that this matters little
constexpr double kLong_s = 3;
// otherwise trials behind it, until they took so long together
constexpr double kTrial_s = 0.2;

// seconds of this thread's processor time that its flops take where it is tried out
double tried_s(const StageWork& work) {
  double begin = thread_cpu_s(), flops = work.trial(), spent = thread_cpu_s() - begin;
  if (spent < kLong_s) {
    begin = thread_cpu_s(), flops = 0, spent = 0;
    while (spent < kTrial_s) {
      flops += work.trial();
      spent = thread_cpu_s() - begin;
    }
  }
  return work.flops * spent / flops;
}

// seconds in which a thread reads what others have just written
double shared_s(const StageWork& work, const MachineRates& rates, int threads) {
  if (threads == 1 || rates.shared_gigabytes_s == 0) return 0;
  const double rate = work.shared_block > kSecondCache  ? rates.gigabytes_s
                      : work.shared_block > kFirstCache ? rates.shared_large_gigabytes_s
                                                        : rates.shared_gigabytes_s;
  return work.shared / (rate * 1e9);
}

PlannedStage timed(const StageWork& work, const MachineRates& rates, int threads) {
  // where fewer can share it, arithmetic and memory are as much slower
  const double share = std::min(1.0, work.threads / double(threads));
  const double at_rates =
      work.flops / (rates.gflops * 1e9 * work.reach) + work.elements / (rates.gelements * 1e9);
  const bool tried = rates.trials && work.trial;
  const double arithmetic = (tried ? tried_s(work) / double(threads) : at_rates) / share;
  const double memory = work.bytes / (rates.gigabytes_s * 1e9 * share);
  // threads are handed work, and what others made of theirs
  const double launches = work.launches * rates.launch_s;
  const double shared = shared_s(work, rates, threads), busy = std::max(arithmetic, memory);
  StageLimit limit = arithmetic >= memory ? StageLimit::arithmetic : StageLimit::memory;
  if (launches + shared > busy)
    limit = launches > shared ? StageLimit::launches : StageLimit::sharing;
  return {.name = work.name,
          .seconds = busy + launches + shared,
          .limit = limit,
          .tried = tried,
          .flops = work.flops,
          .bytes = work.bytes,
          .launches = work.launches};
}

// `steps` time steps of environments with `rows` rows. On a device each moves its slots and
// rows, `row_bytes` a row with what the algorithm adds; those that only the host can step bring
// their rows there.
PlannedStage stepped(const Experiment& experiment, const Placement& placement,
                     const MachineRates& rates, double steps, double rows, double row_bytes) {
  const double envs = double(experiment.run.env_count) / placement.processes;
  const bool device = !placement.device.is_cpu();
  if (device && !experiment.env().host_only) {
    const double slot = double(experiment.env().slot_bytes(experiment.env_params()));
    return timed({.name = "env_step",
                  .bytes = kPasses * (steps * envs * slot + steps * rows * row_bytes),
                  .launches = steps},
                 rates, 1);
  }
  PlannedStage env{.name = "env_step",
                   .seconds = steps * envs * rates.environment_s,
                   .limit = StageLimit::environment,
                   .host = device,
                   .bytes = steps * rows * row_bytes,
                   .launches = steps};
  if (!device) return env;
  // actions come down, all rows go up as one, and each column is copied to its place
  const EnvSpec spec = experiment.spec();
  env.bytes = steps * rows * double(Replay::row_bytes(spec, {}));
  env.launches = steps * (2 + double(spec.observations.size()) + kStepColumns + spec.action.masked);
  const double copies = env.launches * rates.launch_s + env.bytes / (rates.bus_gigabytes_s * 1e9);
  if (copies > env.seconds) env.limit = StageLimit::memory;
  env.seconds += copies;
  return env;
}

}  // namespace

TimePlan plan_time(const Experiment& experiment, const Placement& placement,
                   const MachineRates& rates) {
  const AlgoEntry& algo = experiment.algo();
  TimePlan result;
  if (!algo.work || !algo.plan || !experiment.run.dataset.empty()) return result;
  ThreadPool pool(placement.threads);
  AlgoContext context = context_of(experiment, placement, pool);
  const DataPlan data = algo.plan(experiment.algo_options(), context);
  // what words take depends on which ones come; on a device, on their room alone
  const bool words = std::ranges::any_of(context.spec.observations,
                                         [](const ObsColumn& c) { return !c.vocabulary.empty(); });
  if (words && placement.device.is_cpu())
    context.seen = seen_in_random_play(experiment, data.collect_steps);
  const int threads = placement.device.is_cpu() ? placement.threads : 1;
  const auto add = [&](const StageWork& work) {
    if (PlannedStage stage = timed(work, rates, threads); stage.seconds > 0)
      result.stages.push_back(std::move(stage));
  };
  const std::vector<StageWork> work = algo.work(experiment.algo_options(), context);
  const double steps = double(data.collect_steps), rows = steps * double(context.rows);
  const double row_bytes = double(Replay::row_bytes(context.spec, data.columns));

  // what acts comes first, then environments, then what the store does, then learning
  add(work.front());
  result.stages.push_back(
      stepped(experiment, placement, rates, steps, double(context.rows), row_bytes));
  if (data.replay) {
    // each draws its share of the batches that all learn from
    const double processes = double(placement.processes);
    const double updates = rows * processes * data.replay->updates_per_step;
    const double drawn =
        updates * double(data.replay->batch) / processes * double(data.replay->length + 1);
    add({.name = "replay",
         .bytes = drawn * (kPasses * row_bytes + kScattered) + kPasses * rows * row_bytes,
         .launches = updates + steps});
  }
  for (size_t i = 1; i < work.size(); ++i) add(work[i]);

  result.steps = data.collect_steps * context.rows * placement.processes;
  for (const PlannedStage& stage : result.stages) result.iteration_s += stage.seconds;
  return result;
}

}  // namespace maglev
