#include "verbs/tune/trials.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <string_view>

#include "base/core/clock.h"
#include "base/core/error.h"
#include "base/core/file.h"
#include "engine/host/machine.h"
#include "engine/host/system.h"
#include "engine/train/memory_plan.h"
#include "engine/train/processes.h"
#include "verbs/bench/run_child.h"

namespace maglev::verbs::tune {
namespace {

// more than any measurement takes
constexpr const char* kEndless = "1000000000000";
constexpr double kRowsPerSecond = 20;  // of metrics: enough to measure by, too few to be felt

std::string made_folder() {
  std::string path = (std::filesystem::temp_directory_path() / "maglev-tune-XXXXXX").string();
  if (!mkdtemp(path.data()))
    throw Error("[tune] no temporary folder: " + std::string(std::strerror(errno)) +
                "; set TMPDIR to a folder that can be written");
  return path;
}

DataPlan data_plan(const Experiment& experiment) {
  ThreadPool pool(1);
  const auto plan = experiment.algo().plan;
  return plan ? plan(experiment.algo_options(), context_of(experiment, place("cpu", 1), pool))
              : DataPlan{.collect_steps = 1};
}

// what a run said, without who it is: it is passed on
std::string words_of_run(std::string_view said) {
  constexpr std::string_view kSpeaker = "maglev: ";
  if (said.starts_with(kSpeaker)) said.remove_prefix(kSpeaker.size());
  return std::string(said);
}

}  // namespace

Trials::Trials(const Experiment& experiment) : experiment_(experiment), folder_(made_folder()) {}

Trials::~Trials() {
  std::error_code ignored;
  std::filesystem::remove_all(folder_, ignored);
}

std::unique_ptr<Experiment> Trials::changed(const Candidate& candidate) const {
  auto experiment = std::make_unique<Experiment>(experiment_.algo().name, experiment_.env().name);
  OptionTable& table = experiment->table();
  for (const Field& field : experiment_.table().fields())
    table.set(field.name, field.plain(), "tune", field.origin);
  for (const Setting& one : candidate) table.set(one.name, one.value, "tune", Origin::profile);
  experiment->settle();
  // what it settles otherwise would be another candidate
  for (const Setting& one : candidate)
    if (const Field* field = table.find(one.name); field->plain() != one.value)
      throw Error(one.name + "=" + one.value + " cannot hold beside the other settings");
  return experiment;
}

Fit Trials::plan(const Candidate& candidate) const {
  try {
    const auto experiment = changed(candidate);
    const RunOptions& run = experiment->run;
    const MemoryPlan plan = plan_memory(
        *experiment, share_of(*experiment, place(run.device, run.threads, run.precision)));
    Fit fit{.bytes = plan.total()};
    if (plan.limit > 0 && fit.bytes > plan.limit)
      fit.refused = "does not fit: " + bytes_text(fit.bytes) + " planned of " +
                    bytes_text(plan.limit) + " (" + plan.limit_why + ")";
    else if (!plan.fits())
      fit.refused = "does not fit: " + bytes_text(plan.pinned) + " to be pinned of " +
                    bytes_text(plan.host_left) + " left on the host";
    return fit;
  } catch (const Error& why) {
    return {.refused = why.what()};
  }
}

Sample Trials::measure(const Candidate& candidate, double seconds, double limit) {
  const double end = steady_s() + limit;
  try {
    const auto experiment = changed(candidate);
    const RunOptions& run = experiment->run;
    const DataPlan plan = data_plan(*experiment);
    const int64_t update = std::max<int64_t>(1, plan.collect_steps) * run.env_count;
    const int64_t rows = std::max(update, int64_t(speed_ / kRowsPerSecond));
    const std::string file = folder_ + "/settings.yaml";
    write_atomic(file, experiment->table().yaml());
    const std::string endless = kEndless;
    std::vector<std::string> words = {experiment->algo().name,
                                      experiment->env().name,
                                      "--bare",
                                      "--config",
                                      file,
                                      "train.steps=" + endless,
                                      "train.save_every=" + endless,
                                      "train.log_every=" + std::to_string(rows),
                                      "train.eval_every=0",
                                      "train.until_return=.inf",
                                      "train.on_divergence=warn"};
    // no larger a ring than the run's own would be
    if (plan.replay && run.replay_capacity == 0 && run.dataset.empty())
      words.push_back("train.replay_capacity=" +
                      std::to_string(std::min(plan.replay->capacity, run.steps)));
    const bench::Speed speed = bench::measure_training(words, seconds, limit);
    if (speed.updates < 2) return {.failed = "it ended before it could be measured"};
    speed_ = speed.steps_per_second;
    return {.speed = speed.steps_per_second, .peak_bytes = speed.peak_bytes};
  } catch (const Error& why) {
    return {.failed = words_of_run(why.what()), .late = steady_s() >= end};
  }
}

}  // namespace maglev::verbs::tune
