#include "algos/ppo/options.h"

#include <algorithm>

#include "base/core/error.h"

namespace maglev::ppo {
namespace {

// of options whose network remembers
void check_sequences(const Options& o) {
  // sequences lie one behind another in a rollout, and whole in a minibatch
  const int64_t L = o.sequence_steps();
  if (o.rollout % L != 0) {
    int64_t near = std::min(L, o.rollout);
    while (o.rollout % near != 0) --near;
    throw SettingError({.setting = "ppo.sequence",
                        .must = "a divisor of ppo.rollout=" + std::to_string(o.rollout),
                        .got = std::to_string(L),
                        .nearest = std::to_string(near)});
  }
  if (o.minibatch % L != 0)
    throw SettingError(
        {.setting = "ppo.minibatch",
         .must = "a multiple of the " + std::to_string(L) + " steps of a sequence (ppo.sequence)",
         .got = std::to_string(o.minibatch),
         .nearest = std::to_string(std::max(L, o.minibatch / L * L))});
  if (o.leash > 0)
    throw Error(
        "[ppo] ppo.leash compares policies step by step, and one with ppo.network.memory goes by "
        "what was before; leave one of them out");
}

}  // namespace

void Options::describe(OptionTable& t) {
  const Rule share{.min = 0, .max = 1};
  t.add("rollout", rollout, "time steps between updates", {.min = 1, .max = 1e6, .unit = "steps"});
  t.add("minibatch", minibatch, "rows an optimiser step learns from; 0: the whole rollout",
        {.min = 0, .max = 1e9, .unit = "rows"});
  t.add("sequence", sequence,
        "time steps that gradients reach back where ppo.network.memory remembers; 0: the whole "
        "rollout",
        {.min = 0, .max = 1e6, .unit = "steps"});
  t.add("epochs", epochs, "passes over a rollout", {.min = 1, .max = 1000});
  t.add("lr", lr, "learning rate", {.min = 0, .max = 10});
  t.add("lr_end", lr_end, "learning rate behind the last update, as a share of lr", share);
  t.add("gamma", gamma, "discount", {.min = 0, .max = 1, .discount = true});
  t.add("lambda", lambda, "trace decay of GAE", share);
  t.add("clip", clip, "probability ratios are clipped to 1 +- this", {.min = 0, .max = 10});
  t.add("clip_end", clip_end, "clip behind the last update, as a share of clip", share);
  t.add("value_clip", value_clip,
        "values move at most this far from the rollout's, in units of the value head; 0: free",
        {.min = 0, .max = 1e6});
  t.add("value_clip_end", value_clip_end,
        "value_clip behind the last update, as a share of value_clip", share);
  t.add("value_clip_loss", value_clip_loss,
        "clipped: error of the clipped value; max: the larger error of each row");
  t.add("value_coef", value_coef, "weight of the value loss", {.min = 0, .max = 1e3});
  t.add("entropy", entropy, "weight of the entropy bonus", {.min = 0, .max = 1e3});
  t.add("entropy_end", entropy_end, "entropy weight at the end, as a share of entropy", share);
  t.add("entropy_until", entropy_until,
        "share of the run after which the entropy weight stays at its end; the floor, constant "
        "until then, goes to 0 in the rest",
        {.min = 1e-6, .max = 1});
  t.add("entropy_floor", entropy_floor, "mean entropy below which the penalty pushes back",
        {.min = 0, .max = 100, .unit = "nats"});
  t.add("entropy_floor_penalty", entropy_floor_penalty, "entropy weight added below the floor",
        {.min = 0, .max = 1e3});
  t.add("normalize_advantage", normalize_advantage, "advantages to mean 0 and deviation 1 over");
  t.add("normalize_reward", normalize_reward,
        "scale rewards by the deviation of the discounted return");
  t.add("max_grad_norm", max_grad_norm, "gradients are clipped to this L2 norm; 0: never",
        {.min = 0, .max = 1e6});
  t.add("clip_grad", clip_grad,
        "one norm over all parameters, or one of the policy and one of the value");
  t.add("target_kl", target_kl, "an update ends when the policy moved by 1.5 times this; 0: never",
        {.min = 0, .max = 100, .unit = "nats"});
  t.add("leash", leash,
        "KL penalty to a reference policy: reward a step costs for each nat its action is likelier "
        "than by the policy the run began "
        "with (train.init_from, else as initialised); 0: free",
        {.min = 0, .max = 1e6});
  t.add("optimizer", optimizer,
        "adam, or muon: matrices of hidden layers by Muon, everything else by Adam");
  t.add("adam_eps", adam_eps, "epsilon of Adam", {.min = 0, .max = 1});
  t.add("weight_decay", weight_decay, "decoupled weight decay (AdamW)", {.min = 0, .max = 10});
  t.add("shard_rows", shard_rows,
        "rows a thread learns from at once off panels (which have 64), whole sequences where it "
        "remembers; 0: chosen from the sizes of network and minibatch. What is learned differs by "
        "rounding alone",
        {.min = 0, .max = 1e9, .unit = "rows", .free = true});
  t.add("fused", fused,
        "the learner on fused kernels and all threads; false: its reference, the paper in plain "
        "ATen",
        {.free = true});
  t.section("network", [this](OptionTable& s) { network.describe(s); });
}

std::string Options::idle(std::string_view setting, const EnvSpec& spec) const {
  if (setting == "entropy_floor" && entropy_floor_penalty == 0)
    return "ppo.entropy_floor_penalty is 0";
  // a Gaussian's entropy may be below 0
  if (setting == "entropy_floor_penalty" && entropy_floor == 0 && spec.action.discrete())
    return "ppo.entropy_floor is 0";
  if ((setting == "sequence" || setting == "network.fused_memory") && network.memory == 0)
    return "ppo.network.memory is 0";
  if (setting == "entropy_end" && entropy == 0) return "ppo.entropy is 0";
  if (setting == "entropy_until" && entropy == 0 && entropy_floor_penalty == 0)
    return "there is no entropy bonus that could end";
  if ((setting == "value_clip_loss" || setting == "value_clip_end") && value_clip == 0)
    return "ppo.value_clip is 0";
  if (setting == "clip_grad" && max_grad_norm == 0) return "ppo.max_grad_norm is 0";
  if (setting == "network.popart_beta" && network.value_head != ValueHeadKind::popart)
    return "ppo.network.value_head is not popart";
  if (setting == "network.log_std" && spec.action.discrete()) return "actions are categories";
  return "";
}

void Options::check(int64_t rows) const {
  if (minibatch > rollout * rows) {
    const std::string most = std::to_string(rollout * rows);
    throw SettingError({.setting = "ppo.minibatch",
                        .must = "at most ppo.rollout * env.count = " + most + " rows",
                        .got = std::to_string(minibatch),
                        .nearest = most});
  }
  if (network.memory > 0) check_sequences(*this);
}

void Options::expect_shares(int64_t rows, int64_t processes) const {
  // each process has whole sequences
  const int64_t unit = processes * (processes > 1 ? sequence_steps() : 1);
  if (minibatch % unit == 0) return;
  const int64_t below = minibatch - minibatch % unit, above = below + unit;
  std::string near = below > 0 ? std::to_string(below) : "";
  if (above <= rollout * rows * processes)
    near += (near.empty() ? "" : " or ") + std::to_string(above);
  const std::string whole =
      unit == processes ? "" : " sequences of " + std::to_string(sequence_steps()) + " steps";
  throw Error("[ppo] ppo.minibatch must be a multiple of processes=" + std::to_string(processes) +
              whole + ", which share its rows, got " + std::to_string(minibatch) + "; use " + near);
}

}  // namespace maglev::ppo
