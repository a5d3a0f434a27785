#include "engine/train/bottleneck.h"

#include <algorithm>
#include <cmath>
#include <optional>

namespace maglev {
namespace {

// something else stands in the way of all work from these shares on
constexpr double kPressed = 0.1, kCrowded = 0.3;
// of the run's threads less than this many have work
constexpr double kBusy = 0.6;
// programs that want less than this share of the processors they could have wait for something else
constexpr double kWanted = 0.4;
// of the time a GPU has work, whatever of its units that is for; below, it waits for its host
constexpr double kDeviceBusy = 0.5;
// what overlapping could hide is worth a try from this share on
constexpr double kHidden = 0.15;
// what is no stage of learning is named from this share on
constexpr double kBeside = 0.2;

constexpr const char* kTraceIt = "a trace says where it goes: kill -USR2 <process>";

std::string count_of(double number) { return std::to_string(std::llround(number)); }

// the setting that gives each process of the run so many games
std::string env_count(const Load& load, int64_t games) {
  return "env.count=" + std::to_string(games * load.processes);
}

// more work at once for stages that are dealt to threads in blocks; empty: there is enough
std::string wider(const Load& load) {
  if (!load.on_device && load.threads < load.usable)
    return "threads=0 uses all " + std::to_string(load.usable) + " processors";
  const int64_t blocks = (load.rows + load.block_rows - 1) / load.block_rows;
  if (!load.on_device && blocks < load.threads)
    return env_count(load, load.busy_rows / load.agents) + " gives each thread rows to act for";
  return "";
}

// more work a launch, of stages that are done for all rows at once
std::string more_rows(const Load& load) {
  return env_count(load, 4 * load.rows / load.agents) + " acts for more rows at once";
}

std::string for_environment(const Load& load) {
  if (const std::string more = wider(load); !more.empty()) return more;
  if (load.may_overlap && load.learn >= kHidden)
    return "train.overlap=true steps environments beside the updates";
  return "a faster step: settings of env.* say how much there is to it";
}

// what environments' own processes wait for, a socket or a clock, others can wait for meanwhile
std::string for_waiting(const Load& load) {
  const int64_t games = load.rows / load.agents;
  if (load.programs < std::min(games, load.most_workers))
    return games <= load.most_workers ? "env.workers=" + std::to_string(games) +
                                            ", a process for each, has all of them wait at once"
                                      : "env.workers=" + std::to_string(load.most_workers) +
                                            " has more of them wait at once";
  if (load.may_overlap && load.learn >= kHidden)
    return "train.overlap=true makes updates meanwhile";
  return env_count(load, 4 * games) + " has more of them wait at once";
}

std::string for_policy(const Load& load) {
  if (const std::string more = wider(load); !more.empty()) return more;
  if (load.on_device) return more_rows(load);
  if (load.may_round) return "train.precision=bf16";
  return "a smaller network";
}

std::string shared_update(const Load& load) {
  return load.for_more_threads + " gives more threads rows to learn from";
}

std::string for_learning(const Load& load) {
  if (!load.on_device && load.threads < load.usable) return wider(load);
  if (!load.for_more_threads.empty()) return shared_update(load);
  if (load.may_overlap && load.environment + load.policy >= kHidden)
    return "train.overlap=true makes updates beside the steps";
  if (load.may_round) return "train.precision=bf16";
  return "fewer passes over what was collected, or a smaller network";
}

// a GPU that waits while `most` takes most of the time: what its host is at, and what gives it more
// to do
Bottleneck idle_device(const Load& load, Bound most) {
  Bottleneck idle{Bound::device, 1 - load.device_busy, ""};
  if (load.host_steps && most == Bound::environment) {
    idle.meanwhile = "the host steps environments";
    const int64_t games = load.rows / load.agents;
    if (load.threads < load.usable)
      idle.advice = "threads=0 uses all " + std::to_string(load.usable) + " processors";
    else if (games < load.threads)
      idle.advice = env_count(load, load.threads) + " gives each thread one to step";
    else idle.advice = for_environment(load);
  } else if (most == Bound::other) {
    idle.meanwhile = "the host does what is no stage";
    idle.advice = kTraceIt;
  } else {
    idle.meanwhile =
        load.launches ? "the host launches kernels one by one" : "small kernels follow each other";
    if (load.may_capture) idle.advice = "train.graph=on replays them all at once";
    else if (most == Bound::learning) idle.advice = "a larger minibatch is more work for each";
    else idle.advice = more_rows(load);
  }
  return idle;
}

// what the loop does beside learning keeps all threads waiting: the one that takes most
Bottleneck most_beside(const Load& load) {
  Bottleneck beside;
  for (const Bottleneck& each :
       {Bottleneck{Bound::logging, load.logging,
                   "a larger train.log_every, or a hook that hands rows to a thread of its own"},
        Bottleneck{Bound::saving, load.saving,
                   load.saves_to_evaluate ? "a larger train.eval_every, whose checkpoints these are"
                                          : "a larger train.save_every"},
        Bottleneck{Bound::evaluation, load.evaluating,
                   "a larger train.eval_every, or fewer train.eval_episodes"},
        Bottleneck{Bound::hooks, load.hooks,
                   "hooks that do less, or hand what they hear to a thread of their own"}})
    if (each.share > beside.share) beside = each;
  return beside;
}

// whether programs of its own take the steps that the run's threads wait for: what they are at
// counts
bool is_stepped_elsewhere(const Load& load) {
  return load.programs > 0 && load.environment > std::max({load.policy, load.learn, load.copy});
}

// whether such programs wait themselves, for something that is no processor
bool programs_wait(const Load& load) {
  if (!is_stepped_elsewhere(load) || std::isnan(load.programs_queued)) return false;
  const int64_t at_once =
      std::min<int64_t>(std::min(load.programs, load.usable), load.rows / load.agents);
  return load.programs_processors + load.programs_queued <
         kWanted * double(at_once) * load.environment;
}

// without advice
Bottleneck longest_stage(const Load& load) {
  const double rest = std::max(0.0, 1 - load.environment - load.policy - load.learn - load.copy -
                                        load.logging - load.saving - load.evaluating - load.hooks);
  Bottleneck most{Bound::other, rest, ""};
  const auto stage = [&](Bound bound, double share) {
    if (share > most.share) most = {bound, share, ""};
  };
  stage(Bound::environment, load.environment);
  stage(Bound::policy, load.policy);
  stage(Bound::learning, load.learn);
  stage(Bound::copying, load.copy);
  return most;
}

// where processors that the run could have had did something else, or nothing
std::optional<Bottleneck> missing_processors(const Load& load) {
  const int programs = is_stepped_elsewhere(load) ? load.programs : 0;
  const double could = std::min(load.threads + programs, load.usable),
               had = load.processors + (programs > 0 ? load.programs_processors : 0),
               queued = load.queued + (programs > 0 ? load.programs_queued : 0);
  if (load.on_device || !(had < kBusy * could)) return std::nullopt;
  // who sleeps most of what is missing would not be busier without others
  const bool sleeps = queued < (could - had) / 2;
  if (load.processor_pressure > kCrowded && !sleeps)
    return Bottleneck{
        Bound::processors, 1 - had / could,
        "fewer of them, another time" +
            (load.threads > 1
                 ? ", or threads=" + count_of(std::max(1., load.processors)) + " meanwhile"
                 : std::string())};
  const bool learns = longest_stage(load).bound == Bound::learning;
  if (load.threads > 1 && programs == 0)
    return Bottleneck{Bound::threads, 1 - had / could,
                      learns && !load.for_more_threads.empty()
                          ? shared_update(load)
                          : "threads=" + count_of(std::max(1.0, std::ceil(load.processors)))};
  return std::nullopt;
}

}  // namespace

Bottleneck bottleneck_of(const Load& load) {
  // what stands in the way of every stage alike
  if (load.memory_pressure > kPressed)
    return {Bound::memory, load.memory_pressure,
            "a smaller replay or env.count, or fewer programs beside it"};
  if (!load.on_device && load.threads > load.usable)
    return {Bound::crowding, 1 - double(load.usable) / load.threads,
            "threads=" + std::to_string(load.usable)};
  if (const Bottleneck beside = most_beside(load);
      beside.share > std::max({kBeside, load.environment, load.policy, load.learn, load.copy}))
    return beside;
  if (programs_wait(load)) return {Bound::waiting, load.environment, for_waiting(load)};
  if (const auto missing = missing_processors(load)) return *missing;

  // else the stage that takes most of the time
  Bottleneck most = longest_stage(load);
  // and on a GPU whatever keeps the host from giving it work, in whichever stage
  if (load.on_device && load.device_busy < kDeviceBusy && most.bound != Bound::copying)
    return idle_device(load, most.bound);
  switch (most.bound) {
    case Bound::environment:
      most.advice = for_environment(load);
      break;
    case Bound::policy:
      most.advice = for_policy(load);
      break;
    case Bound::learning:
      most.advice = for_learning(load);
      break;
    case Bound::copying:
      most.advice = "a larger train.log_every: figures are brought over less often";
      break;
    default:
      most.advice = kTraceIt;
  }
  return most;
}

std::string Bottleneck::text() const {
  const std::string percent = count_of(100 * share) + " %";
  switch (bound) {
    case Bound::memory:
      return "memory, waited for " + percent + " of the time: " + advice;
    case Bound::crowding:
      return "more threads than processors, by " + percent + " of them: " + advice;
    case Bound::processors:
      return "other programs, which have " + percent + " of its processors: " + advice;
    case Bound::threads:
      return "idle threads, " + percent + " of them: " + advice;
    case Bound::waiting:
      return "waits for the environment, " + percent + " of the time: " + advice;
    case Bound::device:
      return "idle GPU, " + percent + " of the time, while " + meanwhile + ": " + advice;
    default:
      return std::string(names_of(bound)[size_t(bound)]) + ", " + percent +
             " of the time: " + advice;
  }
}

}  // namespace maglev
