#include "base/timeline/findings.h"

#include <algorithm>

#include "base/core/printed.h"
#include "base/timeline/analysis.h"
#include "base/timeline/remedies.h"
#include "base/timeline/scheduling.h"

namespace maglev {
namespace {

using namespace meaning;
using Bits = uint32_t;

// One bottleneck: what is made free, and the least share of the wall that makes it worth a word.
struct Rule {
  const char* name;
  double least;
  bool (*free)(Bits);
  Remedy remedy;  // where the run is ours
  const char* advice;
  enum { anywhere, with_device, without_device } where = anywhere;
  bool ours = true;     // whether it is looked for in runs of ours too
  uint64_t fewest = 1;  // spans that must be there: one of what comes seldom says little
};

// of the environment's time this share has a cause of its own, or it is the environment's
constexpr double kExplained = 0.4;

constexpr Bits kSpecial = data | communication | read_back | env_step | logging | saving |
                          evaluating | sync | launch | host_copy | allocate | pool | lock | io |
                          device | operation | optimiser | compiling;

// operations that have findings of their own
constexpr Bits kOtherwiseNamed = data | communication | read_back | env_step | logging | saving |
                                 evaluating | sync | host_copy | allocate | pool | lock | io |
                                 hook | compiling | converting;

const Rule kRules[] = {
    {"slow input", 0.10, [](Bits b) { return (b & data) != 0; }, Remedy::prefetch,
     "the next batch is made while the last one is learned from: DataLoader with num_workers, "
     "persistent_workers and pin_memory, fewer and larger reads; of a replay buffer: sample on a "
     "thread ahead, or keep it on the device and index it there"},
    {"slow environment", 0.45, steps_environment, Remedy::more_threads,
     "step environments on more threads, or in one call for many"},
    {"synchronising read-back", 0.05,
     [](Bits b) { return ((b & (read_back | sync)) && !(b & device)) != 0; }, Remedy::log_less,
     "no .item(), .cpu(), nonzero() or print of a device's value inside an iteration: keep sums on "
     "the "
     "device and read them once in a while",
     Rule::with_device},
    {"pageable copies", 0.05, [](Bits b) { return (b & pageable) != 0; }, Remedy::none,
     "copy from pinned memory (pin_memory=True) with non_blocking=True, or keep the data on the "
     "device"},
    {"copies", 0.15, [](Bits b) { return (b & (device_copy | host_copy)) && !(b & pageable); },
     Remedy::none,
     "keep what is copied each iteration on the device, or copy it on a stream "
     "of its own beside the work",
     Rule::with_device},
    {"launch-bound", 0.15,
     [](Bits b) {
       return (b & (launch | operation)) &&
              !(b & (device | sync | host_copy | compiling | host_work));
     },
     Remedy::graph,
     "the processor launches more slowly than the device works: fused operations, larger batches; "
     "where shapes stay the same CUDA graphs or torch.compile(mode=\"reduce-overhead\"), which "
     "keep a graph for each shape and record a new one for every new shape",
     Rule::with_device},
    {"host work", 0.15, [](Bits b) { return (b & host_work) && !(b & kOtherwiseNamed); },
     Remedy::none,
     "operations on the host that give the device nothing hold it up: do them on the device, or on "
     "a thread of their own ahead of time",
     Rule::with_device},
    {"recompilation", 0.05, [](Bits b) { return (b & compiling) != 0; }, Remedy::none,
     "torch.compile compiles again within these iterations, as it does for each new shape: shapes "
     "that stay the same, dynamic=True or torch._dynamo.mark_dynamic for what varies, or leave "
     "that function uncompiled; TORCH_LOGS=recompiles says why"},
    // what waits for the device is a read-back, and what copies to it has findings of its own
    {"conversions", 0.10,
     [](Bits b) {
       return (b & converting) && !(b & (device | sync | host_copy | compiling | read_back));
     },
     Remedy::none,
     "make tensors in the type and on the device they are used in: torch.from_numpy(x).to(device, "
     "dtype, non_blocking=True) in place of torch.FloatTensor(x).to(device), one call for all "
     "rows, and keep converted what does not change"},
    {"allocation in the loop", 0.03, [](Bits b) { return (b & allocate) != 0; }, Remedy::none,
     "cudaMalloc and cudaFree stop the device: allocate before the loop, shapes that stay the "
     "same, "
     "PYTORCH_ALLOC_CONF=expandable_segments:True"},
    {"slow logger", 0.05, [](Bits b) { return (b & logging) != 0; }, Remedy::log_less,
     "write metrics less often, or on a thread of their own"},
    {"checkpoints", 0.05, [](Bits b) { return (b & saving) != 0; }, Remedy::save_less,
     "save less often, or beside the work", Rule::anywhere, true, 2},
    {"evaluation", 0.20, [](Bits b) { return (b & evaluating) != 0; }, Remedy::evaluate_less,
     "evaluate less often, or in a process of its own"},
    {"slow hook", 0.10, [](Bits b) { return (b & hook) && !(b & (logging | host_copy)); },
     Remedy::none,
     "a function of the program around the engine holds the loop up: do less in it, or hand what "
     "it is told to a thread of its own"},
    {"communication", 0.15, [](Bits b) { return (b & communication) != 0; }, Remedy::none,
     "overlap gradients' reduction with the backward pass, larger buckets, larger batches a "
     "device; of processes on hosts: each waits here for the slowest, so give all as much to do, "
     "larger batches a process, or fewer processes"},
    {"lock contention", 0.05, [](Bits b) { return (b & lock) != 0; }, Remedy::none,
     "threads wait for each other's lock: give each its own data, or hold the lock for less"},
    {"disk in the loop", 0.10, [](Bits b) { return (b & io) && !(b & (saving | logging)); },
     Remedy::none, "read and write on a thread of its own, ahead of time"},
    {"tiny operations", 0.25, [](Bits b) { return (b & tiny) && !(b & compiling); }, Remedy::none,
     "operations of less than 10 us are mostly overhead: larger batches, fused or compiled "
     "operations",
     Rule::without_device, false},
    {"untraced host code", 0.30, [](Bits b) { return (b & kSpecial) == 0; }, Remedy::none,
     "neither operations nor named stages fill this time: Python or code without spans; name its "
     "parts with "
     "record_function, or record with_stack=True",
     Rule::anywhere, false},
};

// whether checkpoints are there to be evaluated more than to be kept
bool saves_to_judge(const TraceOrigin& origin) {
  const double judged = origin.number("train.eval_every"), set = origin.number("train.save_every"),
               kept = set > 0 ? set : origin.number("train.steps") / 10;
  return judged > 0 && judged < kept;
}

// Whether they are as seldom as the engine makes them of itself, and short: then it is
// the run that is short.
bool saves_as_it_should(const Analysis& analysis) {
  constexpr double kShort = 1e9;
  const auto set = analysis.origin.settings.find("train.save_every");
  if (set == analysis.origin.settings.end() || set->second != "0") return false;
  for (const NamedTime& stage : analysis.stages)
    if (stage.name == "save") return stage.mean() < kShort;
  return true;
}

// Share of the wall in which the main thread was due to run and others did: by as much any span may
// be longer than what it names takes. The run's own programs are no others: a thread that looks
// again and again whether they are done lets them have its processor.
double held_up(const Analysis& analysis, const SpanGraph& graph) {
  const std::string& main = graph.timeline().tracks[graph.main()].thread;
  const auto by_own = double(trace::sum_of(analysis.origin.programs).on_processor);
  for (const trace::ThreadUse& use : analysis.origin.use)
    if (std::to_string(use.tid) == main && analysis.wall > 0)
      return std::max(0., double(use.queued) - by_own) / double(analysis.wall);
  return 0;
}

std::string evidence_of(const SpanGraph& graph, const SpanGraph::Free& of) {
  const auto main = double(graph.time_on_main(of)), devices = double(graph.time_on_devices(of));
  std::string text = counted(int64_t(graph.count(of)), "span");
  if (main > 0)
    text +=
        ", " + amount_text(main) + " of the main thread's " + amount_text(double(graph.length()));
  if (devices > 0) text += ", " + amount_text(devices) + " on devices";
  if (const PathPart most = graph.largest(of); most.length > 0)
    text +=
        "; most under " + most.name.substr(0, 60) + " (" + amount_text(double(most.length)) + ")";
  return text;
}

// Others have the processors: then times say little of the run.
void add_other_programs(const Analysis& analysis, double by_others,
                        std::vector<Finding>& findings) {
  constexpr double kLeast = 0.3;
  const TraceOrigin& origin = analysis.origin;
  if (by_others < kLeast || origin.threads > origin.processors) return;
  findings.push_back(
      {.name = "other programs",
       .evidence = "the main thread was due to run and had no processor for " +
                   amount_text(by_others * double(analysis.wall)) + " of " +
                   amount_text(double(analysis.wall)),
       .advice = "record at rest: other programs have this machine's processors, and what else is "
                 "named is in doubt",
       .gain = by_others});
}

// Minibatches of fewer rows than kernels take at once: each costs what a full one does.
void add_tiny_minibatches(const Analysis& analysis, std::vector<Finding>& findings) {
  constexpr double kAtOnce = 64, kLeast = 0.25;
  const double rows = analysis.origin.number(analysis.origin.algorithm + ".minibatch");
  if (rows <= 0 || rows >= kAtOnce || analysis.wall <= 0) return;
  for (const NamedTime& stage : analysis.stages) {
    if (stage.name != "minibatch" || stage.calls == 0) continue;
    const double gain = double(stage.total) / double(analysis.wall) * (1 - rows / kAtOnce);
    if (gain < kLeast) return;
    const RunPatch patch = patch_for(Remedy::larger_minibatch, analysis.origin, gain);
    findings.push_back(
        {.name = "tiny minibatches",
         .evidence =
             printed("%llu minibatches of %.0f rows, %s each, which %.0f rows take as well; "
                     "%.0f %% of the time",
                     (unsigned long long)stage.calls, rows, amount_text(stage.mean()).c_str(),
                     kAtOnce, 100 * double(stage.total) / double(analysis.wall)),
         .patch = patch.settings,
         .advice = "larger minibatches; fewer optimiser steps may want a higher "
                   "learning rate",
         .gain = gain,
         .patch_gain = patch.gain});
  }
}

}  // namespace

std::string amount_text(double ns) {
  if (ns >= 1e9) return printed("%.2f s", ns / 1e9);
  if (ns >= 1e6) return printed("%.2f ms", ns / 1e6);
  return printed("%.1f us", ns / 1e3);
}

std::vector<Finding> find_bottlenecks(const Analysis& analysis,
                                      const std::vector<UsedTime>& threads,
                                      const SpanGraph& graph) {
  const bool ours = analysis.origin.ours, device = !analysis.devices.empty();
  const double by_others = held_up(analysis, graph);
  const bool judges = saves_to_judge(analysis.origin);
  double of_environment = 0;
  std::vector<Finding> findings = find_by_use(analysis, threads, graph, of_environment);
  for (const Rule& rule : kRules) {
    if ((rule.where == Rule::with_device && !device) ||
        (rule.where == Rule::without_device && device) || (ours && !rule.ours))
      continue;
    const double whole = double(graph.length());
    // a checkpoint that is made to be judged is a part of that
    const bool with_saves = rule.remedy == Remedy::evaluate_less && judges;
    const SpanGraph::Free free = [&](Bits b) {
      return rule.free(b) || (with_saves && (b & saving) != 0);
    };
    double gain = whole > 0 ? 1 - double(graph.length(free)) / whole : 0;
    // a cause that is known comes first; what is left is looked at when that is mended
    if (rule.free == steps_environment) {
      if (of_environment >= kExplained * gain) continue;
      gain -= of_environment;
    }
    if (rule.remedy == Remedy::save_less && (judges || saves_as_it_should(analysis))) continue;
    // at worst all that others held up lies in these spans
    if (gain - by_others < rule.least * (1 - by_others) || graph.count(free) < rule.fewest)
      continue;
    const RunPatch patch = patch_for(rule.remedy, analysis.origin, gain);
    findings.push_back({.name = rule.name,
                        .evidence = evidence_of(graph, free),
                        .patch = patch.settings,
                        .advice = rule.advice,
                        .gain = gain,
                        .patch_gain = patch.gain});
  }
  if (ours && !device) add_other_programs(analysis, by_others, findings);
  if (ours) add_tiny_minibatches(analysis, findings);
  std::stable_sort(findings.begin(), findings.end(),
                   [](const Finding& a, const Finding& b) { return a.gain > b.gain; });
  return findings;
}

}  // namespace maglev
