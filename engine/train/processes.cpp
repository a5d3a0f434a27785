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
#include "engine/host/build_text.h"
#include "engine/host/cpu_cache.h"
#include "engine/run/checkpoint.h"
#include "engine/run/stored_experiment.h"
#include "engine/trace/run_trace.h"
#include "engine/train/init_from.h"
#include "engine/train/memory_plan.h"
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
  int threads;   ///< of each process; 0: as many as its machine has for it
  bool resumed;  ///< `from` is what it goes on from, not networks that a new run begins with
  std::optional<NcclId> nccl;

  std::string text() const {
    Json json{{"algo", algo}, {"env", env},         {"settings", settings},
              {"from", from}, {"threads", threads}, {"resumed", resumed}};
    if (nccl) json["nccl"] = std::vector<int>(nccl->bytes, nccl->bytes + sizeof nccl->bytes);
    return json.dump();
  }
  static Start of(const std::string& text) {
    const Json json = Json::parse(text);
    Start start{json["algo"],    json["env"], json["settings"], json["from"], json["threads"],
                json["resumed"], {}};
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

std::unique_ptr<MachineLine> led_line(const RunOptions& run, const std::string& listen) {
  if (listen.empty())
    throw Error("[machines] machines=" + std::to_string(run.machines) +
                ": give --listen PORT, where this one waits for the others, or machines=1 to have "
                "all processes here");
  return MachineLine::lead(
      listen,
      {.machines = int(run.machines), .processes = int(run.processes), .build = build_text()},
      [](const std::string& line) {
        std::printf("maglev: %s\n", line.c_str());
        std::fflush(stdout);
      });
}

// Others hear of one that is gone, also while the loop is at something long; and what a device waits
// for (`waits`) ends with nothing but the process then.
void watch(std::stop_token stop, ProcessGroup& orders, bool waits) {
  std::string why;
  while (why.empty()) {
    std::this_thread::sleep_for(kLook);
    if (stop.stop_requested()) return;
    why = orders.lost();
  }
  orders.fail(why);
  if (!waits) return;
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
  orders.fail("[processes] process " + std::to_string(orders.rank()) + orders.where() + ": " +
              e.what());
}

}  // namespace

Placement share_of(const Experiment& experiment, const Placement& whole) {
  const RunOptions& run = experiment.run;
  if (run.processes % run.machines != 0)
    throw Error("[processes] machines=" + std::to_string(run.machines) +
                " have as many processes each: processes must be a multiple of it, got " +
                std::to_string(run.processes) + "; use " +
                near_multiple(run.processes, run.machines) + ", and --listen PORT");
  const int64_t here = run.processes / run.machines;
  Placement part = part_of(whole, run.device, here, seen_devices());
  part.processes = run.processes;
  part.machines = run.machines;
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
  if (run.threads % here != 0)
    throw Error(several + " share the threads" +
                (run.machines > 1 ? " of their machine: of " + std::to_string(here) + " there"
                                  : ": threads must be a multiple of it") +
                ", got " + std::to_string(run.threads) + "; use " +
                near_multiple(run.threads, here));
  if (!run.opponents.empty())
    throw Error(several +
                ": a run that meets train.opponents is one process; leave it out, or meet none "
                "(train.opponents=)");
  return part;
}

Processes::Processes(const Experiment& experiment, const RunRequest& request, Placement& placement,
                     const std::string& from, bool resumed) {
  const RunOptions& run = experiment.run;
  if (run.machines == 1 && !request.listen.empty())
    throw Error(
        "[machines] --listen is where other machines come to: give machines=N and a number "
        "of processes too, or leave it out");
  if (run.processes == 1) return;
  if (request.process.empty())
    throw Error(
        "[processes] only `maglev train` starts further processes of a run; train there, or leave "
        "processes out");
  Start start{.algo = experiment.algo().name,
              .env = experiment.env().name,
              .settings = experiment.table().yaml(),
              .from = from,
              .threads = run.machines > 1 && run.threads == 0 ? 0 : placement.threads,
              .resumed = resumed,
              .nccl = {}};
  if (placement.device.is_cuda()) start.nccl = NcclGroup::make_id();
  std::unique_ptr<MachineLine> line;
  if (run.machines > 1) line = led_line(run, request.listen);
  orders_ = ProcessGroup::lead(int(run.processes), request.process, std::move(line));
  if (start.nccl || run.machines > 1)
    watch_ = std::jthread([this, waits = start.nccl.has_value()](std::stop_token stop) {
      watch(stop, *orders_, waits);
    });
  orders_->tell(start.text());
  group_ = group_of(*orders_, start, placement, run.gradients);
  if (!from.empty()) begins_with_.emplace(*orders_, from);
}

Processes::~Processes() = default;

void Processes::tell_failure(const std::exception& e) {
  if (orders_) maglev::tell_failure(*orders_, e);
}

void Processes::begun() {
  if (begins_with_) begins_with_->let_go();
}

void Processes::end(Trainer& trainer) {
  if (!orders_) return;
  // the run has its end already
  try {
    trainer.end();
    orders_->wait_for_end();
  } catch (const Error& e) {
    std::fprintf(stderr, "maglev: %s\n", e.what());
  }
}

namespace {

// what all processes but the first do, from what it tells them to the run's end. Why it did not end
// well; empty: it did
std::string follow(ProcessGroup& orders) {
  prctl(PR_SET_NAME, ("maglev-" + std::to_string(orders.rank())).c_str());
  try {
    const Start start = Start::of(orders.hear());
    Experiment experiment(start.algo, start.env);
    experiment.table().load_text(start.settings, "the run's settings");
    const RunOptions& run = experiment.run;
    const int local = orders.rank() - orders.first_here();
    const std::string device = start.nccl ? "cuda:" + std::to_string(local) : "cpu";
    const int threads = start.threads > 0 ? start.threads : orders.processors();
    Placement placement = place(device, threads, run.precision);
    placement.processes = run.processes;
    placement.machines = run.machines;
    // the first process has looked at its own machine
    if (orders.is_head()) fit_memory(experiment, placement, /*note=*/nullptr);
    // of another machine's head, as of the first one's
    std::jthread watching;
    if (orders.is_head())
      watching = std::jthread(
          [&](std::stop_token stop) { watch(stop, orders, /*waits=*/start.nccl.has_value()); });
    const auto group = group_of(orders, start, placement, run.gradients);
    std::optional<SharedFolder> begins_with;
    if (!start.from.empty()) begins_with.emplace(orders, start.from);
    RunTrace trace(experiment.trace, placement.device.is_cuda(), orders.rank());
    Trainer trainer(experiment, placement);
    const CpuCacheLimit limit(
        tensor_limit(plan_memory(experiment, placement), experiment, placement));
    trace.attach("", recorded_run(trainer, ""));
    try {
      if (begins_with && start.resumed)
        load_checkpoint(begins_with->path(), identity_of(experiment),
                        [&](StateVisitor& v) { trainer.visit_state(v); });
      else if (begins_with) init_from(trainer, begins_with->path());
      if (begins_with) begins_with->let_go();
      trainer.follow(trace);
      trace.finish();
      for (const std::string& note : trace.take_notes())
        std::fprintf(stderr, "maglev: process %d: %s\n", orders.rank(), note.c_str());
      return "";
    } catch (const std::exception& e) {
      // before anything is taken down, which may wait for a device
      tell_failure(orders, e);
      throw;
    }
  } catch (const std::exception& e) {
    tell_failure(orders, e);
    return e.what();
  }
}

}  // namespace

bool train_process(const std::string& place_in_run) {
  return follow(*ProcessGroup::join(place_in_run)).empty();
}

bool train_machine(const JoinRequest& request) {
  auto line = MachineLine::join(request.address, build_text(), request.patience_s, request.say);
  request.begun();
  const MachineLine::Run run = line->run();
  // people count from 1
  const int machine = line->machine() + 1;
  const auto orders = ProcessGroup::lead(run.processes, request.process, std::move(line));
  const int first = orders->rank(), last = first + orders->here() - 1;
  request.say(
      "machine " + std::to_string(machine) + " of " + std::to_string(run.machines) + ": " +
      (first == last ? "process " + std::to_string(first)
                     : "processes " + std::to_string(first) + " to " + std::to_string(last)) +
      " of " + std::to_string(run.processes) + " (from 0) of the run at " + request.address);
  if (const std::string why = follow(*orders); !why.empty()) {
    std::fprintf(stderr, "maglev: %s\n", why.c_str());
    return false;
  }
  orders->wait_for_end();
  request.say("the run has ended");
  return true;
}

}  // namespace maglev
