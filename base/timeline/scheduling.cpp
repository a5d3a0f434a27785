#include "base/timeline/scheduling.h"

#include <algorithm>
#include <string>

#include "base/core/printed.h"
#include "base/timeline/analysis.h"
#include "base/timeline/remedies.h"

namespace maglev {
namespace {

using meaning::steps_environment;

// least shares of the wall, and of a step's time, that are named
constexpr double kLeastLock = 0.15, kLeastWait = 0.15, kLeastShare = 0.3, kLeastFaults = 0.15,
                 kLeastUneven = 0.15, kLeastCrowd = 0.10;
constexpr double kFaultsPerSecond = 100;
// a page takes no longer than this; what the kernel does beyond has other reasons
constexpr double kFaultNs = 20e3;
// steps that overlap: under a lock each ends a step's length after the one before, else at any time
constexpr size_t kLeastPairs = 20;
constexpr double kApart = 0.5;
// pieces that rounds are of, and rounds that say something
constexpr size_t kLeastRounds = 10;

std::string percent(double share) { return printed("%.0f %%", 100 * share); }
std::string count(double number) { return printed("%.0f", number); }

// the main thread or one of its pool's
bool works(const SpanGraph& graph, size_t track) {
  return track == graph.main() || graph.timeline().tracks[track].thread_name.starts_with("pool ");
}

// the main thread and its pool's workers
struct Worker {
  bool main = false;
  double stepping = 0;  ///< ns of environments' steps, over the wall
  double blocked = 0;   ///< ns in which it neither ran nor was due to run, nor says that it waits
  double queued = 0, in_kernel = 0, on_processor = 0, faults = 0, waits = 0;
  double counting = 0;  ///< ns in the kernel to read the counters of its stages
};

// stages of a thread that counted
double stages_counted(const SpanGraph& graph, size_t track) {
  double stages = 0;
  for (const Span& span : graph.timeline().spans)
    stages += span.track == track && is_stage(span.kind) && span.numbers != 0 &&
              span.end > graph.from() && span.begin < graph.to();
  return stages;
}

std::vector<Worker> workers_of(const Analysis& analysis, const std::vector<UsedTime>& threads,
                               const SpanGraph& graph) {
  std::vector<Worker> workers;
  const auto& tracks = graph.timeline().tracks;
  const double counting_ns = analysis.origin.counting_cost_ns;
  // what was replayed may be less than the wall
  const double scale = double(analysis.wall) / double(std::max<int64_t>(1, graph.length()));
  for (size_t i = 0; i < tracks.size() && i < threads.size(); ++i) {
    if (tracks[i].stream || threads[i].wall == 0) continue;
    if (!works(graph, i)) continue;
    for (const trace::ThreadUse& use : analysis.origin.use) {
      if (std::to_string(use.tid) != tracks[i].thread) continue;
      const UsedTime& used = threads[i];
      const double accounted = double(use.on_processor) + double(use.queued) +
                               double(used.idle_total()) + double(used.untraced);
      workers.push_back(
          {.main = i == graph.main(),
           .stepping = scale * double(graph.time_on(i, steps_environment)),
           .blocked = std::clamp(double(used.wall) - accounted, 0.0, double(used.busy)),
           .queued = double(use.queued),
           .in_kernel = double(use.in_kernel),
           .on_processor = double(use.on_processor),
           .faults = double(use.faults),
           .waits = double(used.idle_total()),
           .counting = counting_ns > 0 ? scale * stages_counted(graph, i) * counting_ns : 0});
    }
  }
  return workers;
}

// one environment's step, or a block's
struct Step {
  int64_t begin, end;
  size_t track;
  int64_t length() const { return end - begin; }
};

std::vector<Step> steps_of(const SpanGraph& graph) {
  const Timeline& timeline = graph.timeline();
  const auto name = std::find(timeline.names.begin(), timeline.names.end(), "env_step");
  const auto number = uint32_t(name - timeline.names.begin());
  std::vector<Step> steps;
  for (const Span& span : timeline.spans)
    if (span.name == number && works(graph, span.track) && span.end > graph.from() &&
        span.begin < graph.to())
      steps.push_back({span.begin, span.end, span.track});
  return steps;
}

// the value that a share of them lies below
template <class T>
T quantile(std::vector<T> values, double share) {
  const auto place = values.begin() + int64_t(share * double(values.size() - 1));
  std::nth_element(values.begin(), place, values.end());
  return *place;
}

// How far apart the ends of steps lie that overlap, of two threads: the tenth that lies closest.
// -1: too few do.
double ends_apart(std::vector<Step> steps) {
  std::sort(steps.begin(), steps.end(), [](const Step& a, const Step& b) { return a.end < b.end; });
  std::vector<int64_t> apart;
  for (size_t i = 1; i < steps.size(); ++i)
    if (steps[i].track != steps[i - 1].track && steps[i].begin < steps[i - 1].end)
      apart.push_back(steps[i].end - steps[i - 1].end);
  return apart.size() < kLeastPairs ? -1 : double(quantile(apart, 0.1));
}

// Of rounds in which each environment steps once: the longest step's share of all of them, in the
// middle one. 0: too few rounds.
double longest_share(std::vector<Step> steps, size_t environments) {
  std::sort(steps.begin(), steps.end(),
            [](const Step& a, const Step& b) { return a.begin < b.begin; });
  std::vector<double> shares;
  for (size_t first = 0; first + environments <= steps.size(); first += environments) {
    int64_t longest = 0, sum = 0;
    for (size_t i = first; i < first + environments; ++i)
      longest = std::max(longest, steps[i].length()), sum += steps[i].length();
    if (sum > 0) shares.push_back(double(longest) / double(sum));
  }
  return shares.size() < kLeastRounds ? 0 : quantile(shares, 0.5);
}

class Rules {
 public:
  Rules(const Analysis& analysis, const std::vector<UsedTime>& threads, const SpanGraph& graph)
      : origin_(analysis.origin),
        wall_(double(analysis.wall)),
        workers_(workers_of(analysis, threads, graph)),
        steps_(steps_of(graph)),
        any_stepping_(wall_ / double(std::max<int64_t>(1, graph.length())) *
                      double(graph.time_of_any(steps_environment))) {
    for (const trace::ThreadUse& use : origin_.programs)
      if (use.on_processor > busiest_.on_processor) busiest_ = use;
    for (const Worker& worker : workers_) {
      stepping_ += worker.stepping;
      // a thread that does other things too waits in them as well, and one that waits for a program
      // at work, or due to be, waits for a processor
      const double sleeps = std::min(worker.blocked, worker.stepping) -
                            double(busiest_.on_processor + busiest_.queued);
      if (worker.stepping > 0.5 * wall_) blocked_ += std::max(0., sleeps);
    }
    const auto writes = [](uint32_t bits) {
      return (bits & (meaning::saving | meaning::logging)) != 0;
    };
    const double whole = double(graph.length());
    writing_ = wall_ / std::max(1.0, whole) * double(graph.time_on_main(writes));
    environment_ = whole > 0 ? 1 - double(graph.length(steps_environment)) / whole : 0;
  }

  std::vector<Finding> all(double& of_environment) {
    if (workers_.empty() || wall_ <= 0) return {};
    if (origin_.processors > 0 && origin_.threads > origin_.processors) {
      crowd();
      return findings_;
    }
    if (!steps_.empty()) uneven();
    if (!steps_.empty()) lock();
    elsewhere();
    waits();
    faults();
    of_environment = of_environment_;
    return findings_;
  }

 private:
  // more threads than processors: the main one is held up by those that have its processor, and by
  // its workers that have none
  void crowd() {
    double taken = 0, queued = 0;
    for (const Worker& worker : workers_) {
      queued += worker.queued;
      if (worker.main) taken = std::min(wall_, worker.queued + worker.waits) / wall_;
    }
    if (taken < kLeastCrowd) return;
    add("more threads than processors",
        count(double(origin_.threads)) + " threads on " + count(double(origin_.processors)) +
            " processors: together they waited " + amount_text(queued) +
            " for one, and the main thread " + percent(taken) +
            " of the time for a processor or for them",
        Remedy::fewer_threads, "as many threads as processors, or fewer", taken);
  }

  // threads that can work at once
  double at_once() const { return double(std::min(origin_.threads, origin_.processors)); }

  // Where each environment is a piece of its own, and one takes longer than the others together,
  // the other threads wait for it, in more than half of the rounds: a thread that lost its
  // processor in the middle of a step is none of it.
  void uneven() {
    const double environments = origin_.number("env.count");
    if (at_once() < 2 || origin_.block_environments != 1 || environments < at_once()) return;
    const double longest = longest_share(steps_, size_t(environments));
    if (longest <= 0) return;
    const double gain = any_stepping_ / wall_ * (1 - 1 / (at_once() * longest));
    if (gain < kLeastUneven) return;
    of_environment_ += gain;
    add("uneven environments",
        "of " + count(environments) + " environments that step one takes " + percent(longest) +
            " of the time of all, in the middle round; some thread is in env_step for " +
            percent(any_stepping_ / wall_) + " of the time, and " +
            printed("%.2f", stepping_ / any_stepping_) + " of " + count(at_once()) + " on average",
        Remedy::none,
        "the others wait for it: steps of like length, or more of the long ones than threads",
        gain);
  }

  // Steps that overlap and end one after the other, a step's length apart: one is done at a time.
  void lock() {
    if (at_once() < 2) return;
    std::vector<int64_t> lengths;
    for (const Step& step : steps_) lengths.push_back(step.length());
    const auto shortest = double(quantile(lengths, 0.1));
    const double apart = ends_apart(steps_);
    const double gain = any_stepping_ / wall_ * (1 - 1 / at_once());
    if (of_environment_ > 0 || apart < kApart * shortest || shortest <= 0 || gain < kLeastLock)
      return;
    of_environment_ += gain;
    add("lock contention",
        "steps of " + count(at_once()) + " threads overlap, and nine of ten end " +
            amount_text(apart) + " or more behind another thread's, where the shortest take " +
            amount_text(shortest) + ": one is done at a time",
        Remedy::none,
        "environments share a lock, or one server: give each its own, or hold the lock for less",
        gain);
  }

  // steps that are computed in the environment's own processes, one of which had a processor for
  // so long
  void elsewhere() {
    if (stepping_ <= 0 || of_environment_ > 0) return;
    const auto computed = double(busiest_.on_processor);
    const double share = std::min(1., computed / any_stepping_), gain = environment_ * share;
    if (share < kLeastShare || gain < kLeastWait) return;
    of_environment_ += gain;
    add("slow environment",
        "of " + amount_text(any_stepping_) + " in env_step, the busiest of its own processes had " +
            "a processor for " + amount_text(computed) + " (" + percent(share) +
            "), all of them for " +
            amount_text(double(trace::sum_of(origin_.programs).on_processor)),
        Remedy::more_workers,
        "the steps are computed there, in Python: py-spy or cProfile says what takes long; more of "
        "them at once where processors are left",
        gain);
  }

  // steps in which threads neither ran nor could have
  void waits() {
    if (stepping_ <= 0 || of_environment_ > 0) return;
    const double share = blocked_ / stepping_, gain = environment_ * share;
    if (share < kLeastShare || gain < kLeastWait) return;
    of_environment_ += gain;
    add("waiting environment",
        "of " + amount_text(stepping_) +
            " in env_step, threads neither ran nor waited for a "
            "processor in " +
            amount_text(blocked_) + " (" + percent(share) +
            "): it sleeps, or waits for a disk, a socket or a process",
        Remedy::none,
        "ask for all environments at once and then wait once, or wait on threads of the "
        "environment's own",
        gain);
  }

  // the system makes pages for memory that is taken and given back again and again
  void faults() {
    double faults = 0, in_kernel = 0, gain = 0;
    for (const Worker& worker : workers_) {
      // files are written and counters read in the kernel too
      const double other = worker.counting + (worker.main ? writing_ : 0);
      faults += worker.faults, in_kernel += std::max(0., worker.in_kernel - worker.counting);
      // of the thread that is held up most: no longer than its own faults take, nor than there was
      gain = std::max(
          gain, std::min({worker.in_kernel - other, kFaultNs * worker.faults, wall_}) / wall_);
    }
    if (gain < kLeastFaults || faults / (wall_ / 1e9) < kFaultsPerSecond) return;
    if (environment_ > 0.5) of_environment_ += gain;
    add("page faults",
        count(faults) + " pages were asked of the system, " + count(faults / (wall_ / 1e9)) +
            " a second, and threads were in its kernel for " + amount_text(in_kernel) +
            ", one for " + percent(gain) + " of the time",
        Remedy::none,
        "memory is taken from the system and given back again and again: keep buffers from step "
        "to step",
        gain);
  }

  void add(const std::string& name, const std::string& evidence, Remedy remedy,
           const std::string& advice, double gain) {
    const RunPatch patch = patch_for(remedy, origin_, gain);
    findings_.push_back({.name = name,
                         .evidence = evidence,
                         .patch = patch.settings,
                         .advice = advice,
                         .gain = gain,
                         .patch_gain = patch.gain});
  }

  const TraceOrigin& origin_;
  double wall_;
  std::vector<Worker> workers_;
  std::vector<Step> steps_;
  double any_stepping_;       // ns in which some thread steps
  trace::ThreadUse busiest_;  // of the threads of the run's own programs
  double stepping_ = 0, blocked_ = 0;
  double writing_ = 0;         // ns in which the main thread saves or logs
  double environment_ = 0;     // share of the wall that goes when steps are free
  double of_environment_ = 0;  // what of it is explained
  std::vector<Finding> findings_;
};

}  // namespace

std::vector<Finding> find_by_use(const Analysis& analysis, const std::vector<UsedTime>& threads,
                                 const SpanGraph& graph, double& of_environment) {
  of_environment = 0;
  if (!analysis.origin.ours || !analysis.devices.empty()) return {};
  return Rules(analysis, threads, graph).all(of_environment);
}

}  // namespace maglev
