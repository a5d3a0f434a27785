#include "engine/train/bottleneck.h"

#include <algorithm>
#include <cmath>

namespace maglev {
namespace {

// something else stands in the way of all work from these shares on
constexpr double kPressed = 0.1, kCrowded = 0.3;
// of the run's threads less than this many have work
constexpr double kBusy = 0.6;
// what overlapping could hide is worth a try from this share on
constexpr double kHidden = 0.15;
// what is no stage of learning is named from this share on
constexpr double kBeside = 0.2;

std::string count_of(double number) { return std::to_string(std::llround(number)); }

// more work at once for stages that are dealt to threads in blocks; empty: there is enough
std::string wider(const Load& load) {
  if (!load.on_device && load.threads < load.usable)
    return "threads=0 uses all " + std::to_string(load.usable) + " processors";
  const int64_t blocks = (load.rows + load.block_rows - 1) / load.block_rows;
  if (!load.on_device && blocks < load.threads)
    return "env.count=" + std::to_string(load.threads * load.block_rows / load.agents) +
           " gives each thread rows to act for";
  return "";
}

std::string for_environment(const Load& load) {
  if (const std::string more = wider(load); !more.empty()) return more;
  if (load.may_overlap && load.learn >= kHidden)
    return "train.overlap=true steps environments beside the updates";
  return "a faster step: settings of env.* say how much there is to it";
}

std::string for_policy(const Load& load) {
  if (const std::string more = wider(load); !more.empty()) return more;
  if (load.on_device)
    return "env.count=" + std::to_string(4 * load.rows / load.agents) +
           " acts for more rows at once";
  if (load.may_round) return "train.precision=bf16";
  return "a smaller network";
}

std::string for_learning(const Load& load) {
  if (!load.on_device && load.threads < load.usable) return wider(load);
  if (load.may_overlap && load.environment + load.policy >= kHidden)
    return "train.overlap=true makes updates beside the steps";
  if (load.may_round) return "train.precision=bf16";
  return "fewer passes over what was collected, or a smaller network";
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

  // what the loop does beside learning keeps all threads waiting
  Bottleneck beside;
  for (const auto& [bound, share, advice] :
       {Bottleneck{Bound::logging, load.logging,
                   "a larger train.log_every, or a hook that hands rows to a thread of its own"},
        Bottleneck{Bound::saving, load.saving,
                   load.saves_to_evaluate ? "a larger train.eval_every, whose checkpoints these are"
                                          : "a larger train.save_every"},
        Bottleneck{Bound::evaluation, load.evaluating,
                   "a larger train.eval_every, or fewer train.eval_episodes"},
        Bottleneck{Bound::hooks, load.hooks,
                   "hooks that do less, or hand what they hear to a thread of their own"}})
    if (share > beside.share) beside = {bound, share, advice};
  if (beside.share > std::max({kBeside, load.environment, load.policy, load.learn, load.copy}))
    return beside;

  const double idle = 1 - load.processors / std::min(load.threads, load.usable);
  if (!load.on_device && 1 - idle < kBusy) {
    if (load.processor_pressure > kCrowded)
      return {Bound::processors, idle, "fewer of them, or another time"};
    if (load.threads > 1)
      return {Bound::threads, idle,
              "threads=" + count_of(std::max(1.0, std::ceil(load.processors)))};
  }

  // else the stage that takes most of the time
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
      most.advice = "a trace says where it goes: kill -USR2 <process>";
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
    default:
      return std::string(names_of(bound)[size_t(bound)]) + ", " + percent +
             " of the time: " + advice;
  }
}

}  // namespace maglev
