#include "engine/train/processes.h"

#include <chrono>
#include <cstdio>
#include <cstring>
#include <optional>
#include <unistd.h>

#include <nlohmann/json.hpp>
#include <sys/prctl.h>

#include "base/core/error.h"
#include "engine/group/host_group.h"
#include "engine/group/nccl_group.h"
#include "engine/run/checkpoint.h"
#include "engine/run/stored_experiment.h"
#include "engine/trace/run_trace.h"
#include "engine/train/init_from.h"
#include "engine/train/recorded_run.h"
#include "engine/train/training_run.h"

namespace maglev {
namespace {

using Json = nlohmann::json;
using namespace std::chrono_literals;

// in which the loop notices by itself that a process is gone
constexpr std::chrono::milliseconds kGrace = 10s, kLook = 200ms;

// what the first process tells the others of the run, once
struct Start {
  std::string algo, env, settings, from;
  int threads;
  std::optional<NcclId> nccl;

  std::string text() const {
    Json json{
        {"algo", algo}, {"env", env}, {"settings", settings}, {"from", from}, {"threads", threads}};
    if (nccl) json["nccl"] = std::vector<int>(nccl->bytes, nccl->bytes + sizeof nccl->bytes);
    return json.dump();
  }
  static Start of(const std::string& text) {
    const Json json = Json::parse(text);
    Start start{json["algo"], json["env"], json["settings"], json["from"], json["threads"], {}};
    if (!json.contains("nccl")) return start;
    start.nccl.emplace();
    for (size_t i = 0; i < sizeof start.nccl->bytes; ++i)
      start.nccl->bytes[i] = char(json["nccl"][i].get<int>());
    return start;
  }
};

// "6 or 9", near 7 of 3
std::string near_multiple(int64_t count, int64_t of) {
  const int64_t below = count - count % of;
  return (below > 0 ? std::to_string(below) + " or " : "") + std::to_string(below + of);
}

std::unique_ptr<Group> group_of(ProcessGroup& orders, const Start& start, Placement& placement,
                                GradientSums gradients) {
  std::unique_ptr<Group> group;
  if (start.nccl)
    group =
        std::make_unique<NcclGroup>(orders.rank(), orders.size(), placement.device, *start.nccl);
  else group = std::make_unique<HostGroup>(orders);
  group->round_gradients(gradients == GradientSums::bf16);
  placement.group = group.get();
  placement.orders = &orders;
  return group;
}

// what a device waits for ends with nothing but the process where another is gone
void watch(std::stop_token stop, const ProcessGroup& orders) {
  std::string why;
  while (why.empty()) {
    std::this_thread::sleep_for(kLook);
    if (stop.stop_requested()) return;
    why = orders.lost();
  }
  // the loop may notice by itself
  for (auto since = 0ms; since < kGrace; since += kLook) {
    std::this_thread::sleep_for(kLook);
    if (stop.stop_requested()) return;
  }
  std::fprintf(stderr, "maglev: %s; the run ends here, resume it from its newest checkpoint\n",
               why.c_str());
  std::_Exit(1);
}

// the others hear of it, unless it is what one of them said
void tell_failure(ProcessGroup& orders, const std::exception& e) {
  if (dynamic_cast<const ProcessGroup::Gone*>(&e)) return;
  orders.fail("[processes] process " + std::to_string(orders.rank()) + ": " + e.what());
}

}  // namespace

Placement share_of(const Experiment& experiment, const Placement& whole) {
  const RunOptions& run = experiment.run;
  const Placement part = part_of(whole, run.device, run.processes, seen_devices());
  if (run.processes == 1) return part;
  const std::string several = "[processes] processes=" + std::to_string(run.processes);
  ThreadPool pool(1);
  DataPlan plan;
  if (experiment.algo().plan)
    plan = experiment.algo().plan(experiment.algo_options(), context_of(experiment, part, pool));
  if (!plan.shares)
    throw Error(several + ": " + experiment.algo().name +
                " learns in one process; leave it out, threads share its work");
  if (plan.replay && plan.replay->batch % run.processes != 0)
    throw Error(several + " share the sequences of a batch: " + experiment.algo().name +
                ".batch must be a multiple of it, got " + std::to_string(plan.replay->batch) +
                "; use " + near_multiple(plan.replay->batch, run.processes));
  if (run.env_count % run.processes != 0)
    throw Error(several + " share the environments: env.count must be a multiple of it, got " +
                std::to_string(run.env_count) + "; use " +
                near_multiple(run.env_count, run.processes));
  if (run.threads % run.processes != 0)
    throw Error(several + " share the threads: threads must be a multiple of it, got " +
                std::to_string(run.threads) + "; use " + near_multiple(run.threads, run.processes));
  if (!run.opponents.empty())
    throw Error(several + ": a run that meets train.opponents is one process; leave either out");
  return part;
}

Processes::Processes(const Experiment& experiment, const std::vector<std::string>& command,
                     Placement& placement, const std::string& from) {
  const RunOptions& run = experiment.run;
  if (run.processes == 1) return;
  if (command.empty())
    throw Error(
        "[processes] only `maglev train` starts further processes of a run; train there, or leave "
        "processes out");
  Start start{.algo = experiment.algo().name,
              .env = experiment.env().name,
              .settings = experiment.table().yaml(),
              .from = from,
              .threads = placement.threads,
              .nccl = {}};
  if (placement.device.is_cuda()) start.nccl = NcclGroup::make_id();
  orders_ = ProcessGroup::lead(int(run.processes), command);
  if (start.nccl) watch_ = std::jthread([this](std::stop_token stop) { watch(stop, *orders_); });
  orders_->tell(start.text());
  group_ = group_of(*orders_, start, placement, run.gradients);
}

Processes::~Processes() = default;

void Processes::end(Trainer& trainer) {
  if (!orders_) return;
  trainer.end();
  // the run has its end already
  try {
    orders_->wait_for_end();
  } catch (const Error& e) {
    std::fprintf(stderr, "maglev: %s\n", e.what());
  }
}

bool train_process(const std::string& place_in_run) {
  const auto orders = ProcessGroup::join(place_in_run);
  prctl(PR_SET_NAME, ("maglev-" + std::to_string(orders->rank())).c_str());
  try {
    const Start start = Start::of(orders->hear());
    Experiment experiment(start.algo, start.env);
    experiment.table().load_text(start.settings, "the run's settings");
    const RunOptions& run = experiment.run;
    const std::string device = start.nccl ? "cuda:" + std::to_string(orders->rank()) : "cpu";
    Placement placement = place(device, start.threads, run.precision);
    placement.processes = run.processes;
    const auto group = group_of(*orders, start, placement, run.gradients);
    RunTrace trace(experiment.trace, placement.device.is_cuda(), orders->rank());
    Trainer trainer(experiment, placement);
    trace.attach("", recorded_run(trainer, ""));
    try {
      if (!start.from.empty())
        load_checkpoint(start.from, identity_of(experiment),
                        [&](StateVisitor& v) { trainer.visit_state(v); });
      else if (!run.init_from.empty()) init_from(trainer, run.init_from);
      trainer.follow(trace);
      trace.finish();
      for (const std::string& note : trace.take_notes())
        std::fprintf(stderr, "maglev: process %d: %s\n", orders->rank(), note.c_str());
      return true;
    } catch (const std::exception& e) {
      // before anything is taken down, which may wait for a device
      tell_failure(*orders, e);
      throw;
    }
  } catch (const std::exception& e) {
    tell_failure(*orders, e);
    return false;
  }
}

}  // namespace maglev
