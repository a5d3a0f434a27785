#include "engine/train/few_rows.h"

#include "base/core/error.h"
#include "base/core/home.h"
#include "engine/device/device.h"
#include "engine/train/memory_plan.h"

namespace maglev {
namespace {

// rows with which each of the 132 multiprocessors of an H100 has a block of its environments'
// kernel, 128 rows, to the next power of two below; a sixteenth of them is few
constexpr int64_t kFillingRows = 16'384, kFewRows = kFillingRows / 16;

bool fits_with(const Experiment& experiment, const Placement& placement, int64_t environments) {
  Experiment changed(experiment.algo().name, experiment.env().name);
  for (const Field& field : experiment.table().fields())
    changed.table().set(field.name, field.plain(), "note", Origin::command_line);
  changed.table().set("env.count", std::to_string(environments), "note", Origin::command_line);
  return plan_memory(changed, placement).fits();
}

}  // namespace

std::string few_rows_note(const Experiment& experiment, const Placement& placement) {
  if (!placement.device.is_cuda() || (kDeviceCode && !experiment.env().step_cuda)) return "";
  const OptionTable& table = experiment.table();
  const Field* count = table.find("env.count");
  const bool chosen = count->origin == Origin::command_line || count->origin == Origin::file;
  const int64_t now = experiment.run.env_count, rows = experiment.learning_rows() / now;
  if (chosen || now * rows >= kFewRows * placement.processes) return "";
  // what learns from a replay gains by larger batches, whoever filled it
  ThreadPool pool(1);
  const AlgoEntry& algo = experiment.algo();
  if (!algo.plan ||
      algo.plan(experiment.algo_options(), context_of(experiment, placement, pool)).replay)
    return "";

  const int64_t few = kFewRows * placement.processes / rows;
  int64_t filling = kFillingRows * placement.processes / rows;
  while (filling > few && !fits_with(experiment, placement, filling)) filling /= 2;
  if (filling <= few) return "";
  const std::string minibatch = std::string(algo.name) + ".minibatch";
  return std::to_string(now) +
         " environments keep a GPU idle for the most part: env.count=" + std::to_string(filling) +
         " gives it rows enough, and changes what is learned; " + command_name() + " tune " +
         algo.name + " " + experiment.env().name + " --learning env.count" +
         (table.find(minibatch) ? "," + minibatch : "") + " finds what is fastest";
}

}  // namespace maglev
