#include "algos/dreamer/options.h"

#include <string>

#include "base/env/pictures.h"

namespace maglev::dreamer {

void Options::describe(OptionTable& t) {
  const Rule share{.min = 0, .max = 1}, width{.min = 0, .max = 1 << 16};
  const Rule weight{.min = 0, .max = 1e6};
  t.add("size", size, "the model by its parameters; widths of 0 are taken from it");
  t.add("deter", deter, "width of the recurrent state, a multiple of dreamer.blocks; 0: by size",
        width);
  t.add("hidden", hidden, "width of the layers between states; 0: by size", width);
  t.add("classes", classes, "classes of each categorical of the stochastic state; 0: by size",
        {.min = 0, .max = kMostClasses});
  t.add("depth", depth, "channels of the first convolution, even; 0: by size", width);
  t.add("units", units, "width of all other hidden layers; 0: by size", width);
  t.add("stoch", stoch, "categoricals of the stochastic state", {.min = 1, .max = 1024});
  t.stands_for("size", {"deter", "hidden", "classes", "depth", "units", "stoch"});
  t.add("blocks", blocks, "blocks of the recurrent state", {.min = 1, .max = 256});
  t.add("unimix", unimix, "share of a uniform distribution in each categorical",
        {.min = 1e-6, .max = 1});
  t.add("fused_images", fused_images,
        "on a processor, the networks of images on fused kernels; false: operations of ATen",
        {.free = true});

  t.add("objective", objective,
        "what ties the states to what is seen: a decoder, or reduced redundancy (R2-Dreamer)");
  t.add("free_nats", free_nats, "divergence of the states below which nothing is learned from it",
        weight);
  t.add("reconstruction_coef", reconstruction_coef, "weight of what is seen", weight);
  t.add("redundancy_coef", redundancy_coef, "weight of it without a decoder", weight);
  t.add("off_diagonal", off_diagonal,
        "weight in the redundancy of two numbers' correlation beside one number's own", weight);
  t.add("reward_coef", reward_coef, "weight of the reward loss", weight);
  t.add("continue_coef", continue_coef, "weight of whether the episode goes on", weight);
  t.add("dynamics_coef", dynamics_coef, "weight of the prior's way to the posterior", weight);
  t.add("representation_coef", representation_coef, "weight of the posterior's way to the prior",
        weight);

  t.add("imagination", imagination, "steps imagined from every state",
        {.min = 1, .max = 1024, .unit = "steps"});
  t.add("horizon", horizon, "the discount is 1 - 1 / horizon",
        {.min = 1, .max = 1e6, .unit = "steps", .horizon = true});
  t.add("lambda", lambda, "share of longer returns in the targets", share);
  t.add("entropy_coef", entropy_coef, "weight of the policy's entropy", weight);
  t.add("policy_coef", policy_coef, "weight of the policy's loss", weight);
  t.add("value_coef", value_coef, "weight of the value loss on what was imagined", weight);
  t.add("replay_value_coef", replay_value_coef, "weight of the value loss on what was replayed",
        weight);
  t.add("slow_rate", slow_rate, "share of the way the slow value network goes in an update", share);
  t.add("slow_coef", slow_coef, "weight of the slow network's values among the targets", weight);
  t.add("range_rate", range_rate, "share of the way the range of returns goes in an update", share);

  t.add("lr", lr, "learning rate of LaProp", {.min = 0, .max = 10});
  t.add("warmup", warmup, "updates until the learning rate is all of lr",
        {.min = 0, .max = 1e9, .unit = "updates"});
  t.add("clip", clip, "most a gradient may be of its tensor's norm; 0: anything", weight);

  t.add("batch", batch, "sequences an update learns from", {.min = 1, .max = 1 << 20});
  t.add(
      "shard", shard,
      "sequences of an update that a thread of a processor learns from at once: fewer give more "
      "threads some; 0: half the batch, 4 at least and 8 at most, but no more than 16 shards. What "
      "is learned differs by rounding alone",
      {.min = 0, .max = 1 << 20, .unit = "sequences", .free = true});
  t.add(
      "micro_batch", micro_batch,
      "sequences of a shard that are learned from at once: the same update in less memory, its way "
      "there gone twice; 0: all, and where they do not fit half as many",
      {.min = 0, .max = 1 << 20, .free = true});
  t.add("length", length, "steps of each, behind one for context",
        {.min = 2, .max = 1 << 16, .unit = "steps"});
  t.add("train_ratio", train_ratio, "steps that are replayed for each step of an environment",
        {.min = 0, .max = 1e6, .collecting = true});
  t.add("capacity", capacity, "steps the replay keeps",
        {.min = 1, .max = 1e12, .unit = "steps", .collecting = true});
  t.add("first_steps", first_steps, "steps before the first update; 0: those of a batch",
        {.min = 0, .max = 1e12, .unit = "steps", .collecting = true});
  t.add("update_every", update_every, "steps between updates; what is due is made together",
        {.min = 1, .max = 1e9, .unit = "steps", .collecting = true});
  t.add("fused", fused,
        "updates by fused kernels and all threads; off: their reference, one thread's autograd",
        {.free = true});
}

Options Options::share_of(int64_t processes) const {
  Options share = *this;
  share.batch /= processes;
  return share;
}

std::string Options::idle(std::string_view setting, const EnvSpec& spec) const {
  if (setting == "fused_images" && !sees_picture(spec)) return "nothing is seen as an image";
  if ((setting == "shard" || setting == "micro_batch") && !fused.value_or(true))
    return "the reference learns from whole batches";
  const bool decoder = objective == Objective::reconstruction;
  if (setting == "reconstruction_coef" && !decoder) return "dreamer.objective has no decoder";
  if ((setting == "redundancy_coef" || setting == "off_diagonal") && decoder)
    return "dreamer.objective is a decoder's";
  return "";
}

void Options::check() const {
  if (deter % blocks != 0)
    throw SettingError({.setting = "dreamer.deter",
                        .must = "a multiple of dreamer.blocks = " + std::to_string(blocks),
                        .got = std::to_string(deter),
                        .nearest = std::to_string((deter / blocks + 1) * blocks)});
  if (depth % 2 != 0)
    throw SettingError({.setting = "dreamer.depth",
                        .must = "even",
                        .got = std::to_string(depth),
                        .nearest = std::to_string(depth + 1)});
}

}  // namespace maglev::dreamer
