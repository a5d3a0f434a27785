#include "base/timeline/findings.h"

#include <algorithm>
#include <cstdio>

#include "base/timeline/analysis.h"

namespace maglev {
namespace {

using namespace meaning;
using Bits = uint32_t;

// One bottleneck: what is made free, and the least share of the wall that makes it worth a word.
struct Rule {
  const char* name;
  double least;
  bool (*free)(Bits);
  const char* patch;  // where the run is ours; "" : none
  const char* advice;
  enum { anywhere, with_device, without_device } where = anywhere;
  bool ours = true;  // whether it is looked for in runs of ours too
};

constexpr Bits kSpecial = data | communication | read_back | env_step | logging | saving |
                          evaluating | sync | launch | host_copy | allocate | pool | lock | io |
                          device | operation | optimiser;

const Rule kRules[] = {
    {"slow input", 0.10, [](Bits b) { return (b & data) != 0; }, "train.prefetch=on",
     "the next batch is made while the last one is learned from: DataLoader with num_workers, "
     "persistent_workers and pin_memory; fewer and larger reads"},
    {"slow environment", 0.45, [](Bits b) { return (b & env_step) && !(b & device); }, "threads=0",
     "step environments on more threads, or in one call for many"},
    {"synchronising read-back", 0.05,
     [](Bits b) { return ((b & (read_back | sync)) && !(b & device)) != 0; },
     "train.log_every=100000",
     "no .item(), .cpu(), nonzero() or print of a device's value inside an iteration: keep sums on "
     "the "
     "device and read them once in a while",
     Rule::with_device},
    {"pageable copies", 0.05, [](Bits b) { return (b & pageable) != 0; }, "",
     "copy from pinned memory (pin_memory=True) with non_blocking=True, or keep the data on the "
     "device"},
    {"copies", 0.15, [](Bits b) { return (b & (device_copy | host_copy)) && !(b & pageable); }, "",
     "keep what is copied each iteration on the device, or copy it on a stream "
     "of its own beside the work",
     Rule::with_device},
    {"launch-bound", 0.15,
     [](Bits b) { return (b & (launch | operation)) && !(b & (device | sync | host_copy)); },
     "train.graph=on",
     "the processor launches more slowly than the device works: CUDA graphs or torch.compile("
     "mode=\"reduce-overhead\"), fused operations, larger batches",
     Rule::with_device},
    {"allocation in the loop", 0.03, [](Bits b) { return (b & allocate) != 0; }, "",
     "cudaMalloc and cudaFree stop the device: allocate before the loop, shapes that stay the "
     "same, "
     "PYTORCH_ALLOC_CONF=expandable_segments:True"},
    {"slow logger", 0.05, [](Bits b) { return (b & logging) != 0; }, "train.log_every=100000",
     "write metrics less often, or on a thread of their own"},
    {"checkpoints", 0.05, [](Bits b) { return (b & saving) != 0; }, "",
     "save less often (train.save_every), or beside the work"},
    {"evaluation", 0.20, [](Bits b) { return (b & evaluating) != 0; }, "train.eval_every=0",
     "evaluate less often, or in a process of its own"},
    {"communication", 0.15, [](Bits b) { return (b & communication) != 0; }, "",
     "overlap gradients' reduction with the backward pass, larger buckets, larger batches a "
     "device"},
    {"lock contention", 0.05, [](Bits b) { return (b & lock) != 0; }, "",
     "threads wait for each other's lock: give each its own data, or hold the lock for less"},
    {"disk in the loop", 0.10, [](Bits b) { return (b & io) != 0; }, "",
     "read and write on a thread of its own, ahead of time"},
    {"tiny operations", 0.25, [](Bits b) { return (b & tiny) != 0; }, "",
     "operations of less than 10 us are mostly overhead: larger batches, fused or compiled "
     "operations",
     Rule::without_device, false},
    {"untraced host code", 0.30, [](Bits b) { return (b & kSpecial) == 0; }, "",
     "neither operations nor named stages fill this time: Python or code without spans; name its "
     "parts with "
     "record_function, or record with_stack=True",
     Rule::anywhere, false},
};

std::string amount(double ns) {
  char text[32];
  if (ns >= 1e9) std::snprintf(text, sizeof text, "%.2f s", ns / 1e9);
  else if (ns >= 1e6) std::snprintf(text, sizeof text, "%.2f ms", ns / 1e6);
  else std::snprintf(text, sizeof text, "%.1f us", ns / 1e3);
  return text;
}

std::string evidence_of(const SpanGraph& graph, const Rule& rule) {
  const SpanGraph::Free of = rule.free;
  const auto main = double(graph.time_on_main(of)), devices = double(graph.time_on_devices(of));
  std::string text = std::to_string(graph.count(of)) + " spans";
  if (main > 0)
    text += ", " + amount(main) + " of the main thread's " + amount(double(graph.length()));
  if (devices > 0) text += ", " + amount(devices) + " on devices";
  if (const PathPart most = graph.largest(of); most.length > 0)
    text += "; most under " + most.name.substr(0, 60) + " (" + amount(double(most.length)) + ")";
  return text;
}

// The main thread waits longer for its pool than the work of all threads, dealt out evenly, takes.
void add_imbalance(const Analysis& analysis, std::vector<Finding>& findings) {
  int64_t waited = 0, worked = 0;
  size_t workers = 0;
  for (const UsedTime& thread : analysis.threads) {
    if (thread.wall == 0) continue;
    if (thread.name == analysis.main_thread) waited += thread.idle[size_t(Cause::threads)];
    else if (thread.busy > 0) worked += thread.busy, ++workers;
  }
  if (workers == 0 || analysis.wall <= 0) return;
  const double even = double(worked) / double(workers);
  const double gain = (double(waited) - even) / double(analysis.wall);
  if (gain < 0.10) return;
  findings.push_back(
      {.name = "threads waiting",
       .evidence = "the main thread waits " + amount(double(waited)) + " for " +
                   std::to_string(workers) + " threads that work " + amount(even) +
                   " each on average",
       .patch = analysis.origin.ours && analysis.origin.threads > 1
                    ? "threads=" + std::to_string(std::max<int64_t>(1, analysis.origin.threads / 2))
                    : "",
       .advice = "no more threads than processors, and pieces of work of like length",
       .gain = gain});
}

}  // namespace

std::vector<Finding> find_bottlenecks(const Analysis& analysis, const SpanGraph& graph) {
  std::vector<Finding> findings;
  const bool ours = analysis.origin.ours, device = !analysis.devices.empty();
  for (const Rule& rule : kRules) {
    if ((rule.where == Rule::with_device && !device) ||
        (rule.where == Rule::without_device && device) || (ours && !rule.ours))
      continue;
    const double whole = double(graph.length());
    const double gain = whole > 0 ? 1 - double(graph.length(rule.free)) / whole : 0;
    if (gain < rule.least) continue;
    findings.push_back({.name = rule.name,
                        .evidence = evidence_of(graph, rule),
                        .patch = ours ? rule.patch : "",
                        .advice = rule.advice,
                        .gain = gain});
  }
  add_imbalance(analysis, findings);
  std::stable_sort(findings.begin(), findings.end(),
                   [](const Finding& a, const Finding& b) { return a.gain > b.gain; });
  return findings;
}

}  // namespace maglev
