#include "algos/tdmpc2/options.h"

#include <algorithm>
#include <string>

#include "base/env/pictures.h"
#include "kernels/dense/dense.h"

namespace maglev::tdmpc2 {
namespace {

/// Hidden layers a network has at most.
constexpr size_t kMostHidden = 8;

std::string text_of(const std::vector<int64_t>& widths) {
  std::string text;
  for (int64_t width : widths) text += (text.empty() ? "" : ", ") + std::to_string(width);
  return "[" + text + "]";
}

int64_t in_groups(int64_t width) {
  return (width + kSimNormGroup - 1) / kSimNormGroup * kSimNormGroup;
}

void check_widths(const std::string& network, const std::vector<int64_t>& widths, bool grouped) {
  SettingError::What what{.setting = "tdmpc2.hidden." + network, .got = text_of(widths)};
  if (widths.size() > kMostHidden) {
    what.must = "at most " + std::to_string(kMostHidden) + " layers";
    throw SettingError(what);
  }
  std::vector<int64_t> nearest;
  for (int64_t width : widths) nearest.push_back(grouped ? in_groups(width) : width);
  if (nearest == widths) return;
  what.must = "multiples of " + std::to_string(kSimNormGroup), what.nearest = text_of(nearest);
  throw SettingError(what);
}

}  // namespace

void Options::describe(OptionTable& t) {
  const Rule share{.min = 0, .max = 1}, width{.min = 0, .max = 1 << 16};
  const Rule weight{.min = 0, .max = 1e6};
  t.add("size", size, "the model by its millions of parameters; widths of 0 are taken from it");
  t.add("enc_dim", enc_dim, "width of the encoder's hidden layers; 0: by size", width);
  t.add("enc_layers", enc_layers, "hidden layers of the encoder and one more; 0: by size",
        {.min = 0, .max = 64});
  t.add("mlp_dim", mlp_dim, "width of all other hidden layers, two in each network; 0: by size",
        width);
  t.add("latent_dim", latent_dim, "width of the latent state; 0: by size", width);
  t.add("num_q", num_q, "value networks; 0: by size", {.min = 0, .max = 64});
  const Rule widths{.min = 1, .max = 1 << 16, .unit = "units"};
  std::vector<std::string> heads,
      governed{"enc_dim", "enc_layers", "mlp_dim", "latent_dim", "num_q", "hidden.encoder"};
  t.add("hidden.encoder", hidden.encoder, "hidden layers of this network; []: by enc_dim", widths);
  for (const NetworkWidths& head : kHeads) {
    heads.push_back("hidden." + std::string(head.name));
    t.add(heads.back(), hidden.*head.widths, "hidden layers of this network; []: by mlp_dim",
          widths);
  }
  governed.insert(governed.end(), heads.begin(), heads.end());
  t.stands_for("size", governed);
  for (const char* width : {"enc_dim", "enc_layers"}) t.stands_for(width, {"hidden.encoder"});
  t.stands_for("mlp_dim", heads);
  t.add("task_dim", task_dim, "width of a task's embedding, where there are several tasks",
        {.min = 1, .max = 4096});
  t.add("dropout", dropout, "share of the value networks' first layer that is dropped",
        {.min = 0, .max = 0.9});
  t.add("episodic", episodic,
        "a head that foresees terminations; auto: on, unless there are several tasks");
  t.add("q_init", q_init,
        "hidden weights of the value networks: normal, or kaiming as published results of "
        "November 2024 to July 2026 had them");

  // how a trained model plans may be changed where it is judged
  t.add("mpc", mpc, "act by planning; false: by the policy alone", {.acting = true});
  t.add("horizon", horizon, "steps planned ahead, and of each sequence learnt from",
        {.min = 1, .max = 128, .unit = "steps", .acting = true});
  t.add("iterations", iterations, "rounds of planning; two more from 20 action dimensions on",
        {.min = 1, .max = 100, .acting = true});
  t.add("samples", samples, "action sequences a round", {.min = 2, .max = 65536, .acting = true});
  t.add("elites", elites, "best sequences that the next round is drawn from",
        {.min = 1, .max = 65536, .acting = true});
  t.add("policy_trajectories", policy_trajectories, "sequences among them that the policy acts",
        {.min = 0, .max = 65536, .acting = true});
  t.add("temperature", temperature, "elites count as exp(temperature * value)",
        {.min = 0, .max = 1e3, .acting = true});
  t.add("min_std", min_std, "least deviation of a round", {.min = 0, .max = 10, .acting = true});
  t.add("max_std", max_std, "deviation of the first round, and the most",
        {.min = 0, .max = 10, .acting = true});
  t.add("terminal_action", terminal_action, "the policy's action behind the horizon",
        {.acting = true});
  t.add("termination", termination,
        "how a plan ends: hard, once the chance exceeds one half, or soft, by the chances' product",
        {.acting = true});
  t.add("prune", prune,
        "leave out what cannot change a plan or an update; false: the plain reference, slower",
        {.free = true});
  t.add("fused", fused, "kernels of the engine for whole plans and updates; off: ATen and autograd",
        {.free = true});

  t.add("lr", lr, "learning rate of Adam", {.min = 0, .max = 10});
  t.add("enc_lr_scale", enc_lr_scale, "the encoder's learning rate, as a share of lr",
        {.min = 0, .max = 10});
  t.add("grad_clip", grad_clip, "gradients are clipped to this L2 norm; 0: never",
        {.min = 0, .max = 1e6});
  t.add("rho", rho, "weight of a step beside the one before it", share);
  t.add("tau", tau, "share of the way targets and the value scale go in an update", share);
  t.add("discount", discount, "0: from the episode's length, between 0.95 and 0.995",
        {.min = 0, .max = 1, .discount = true});
  t.add("image_shift", image_shift,
        "images are moved at random by at most so much whenever they are encoded; 0: never",
        {.min = 0, .max = 32, .unit = "pixels"});
  t.add("entropy_coef", entropy_coef, "weight of the policy's entropy", weight);
  t.add("entropy_of", entropy_of,
        "whose entropy that is: the Gaussian's before tanh, as in the official code, or the "
        "action's, which keeps it from saturating at -1 and 1");
  t.add("consistency_coef", consistency_coef, "weight of the latent prediction's error", weight);
  t.add("reward_coef", reward_coef, "weight of the reward loss", weight);
  t.add("value_coef", value_coef, "weight of the value loss", weight);
  t.add("termination_coef", termination_coef, "weight of the termination loss", weight);

  t.add("batch", batch, "sequences an update learns from", {.min = 1, .max = 1 << 20});
  t.add(
      "micro_batch", micro_batch,
      "sequences of a batch learned from at once by autograd or on a GPU: the same update in less "
      "memory; 0: all, and where they do not fit half as many",
      {.min = 0, .max = 1 << 20, .free = true});
  t.add("capacity", capacity, "steps the replay keeps",
        {.min = 1, .max = 1e12, .unit = "steps", .collecting = true});
  t.add("sampling", sampling,
        "sequences: an episode uniformly and a start in it, or every start alike");
  t.add("seed_steps", seed_steps,
        "steps of random actions before the first update, of all environments together; 0: five "
        "episodes, at least one of each environment and 1000 steps",
        {.min = 0, .max = 1e12, .unit = "steps", .collecting = true});
  t.add("updates_per_step", updates_per_step, "updates a step of one environment",
        {.min = 0, .max = 1e3, .collecting = true});
  t.add("update_every", update_every, "steps between updates; what is due is made together",
        {.min = 1, .max = 1e9, .unit = "steps", .collecting = true});
}

Options Options::share_of(int64_t processes) const {
  Options share = *this;
  share.batch /= processes;
  return share;
}

std::string Options::idle(std::string_view setting, const EnvSpec& spec) const {
  for (const char* of_plans : {"iterations", "samples", "elites", "policy_trajectories",
                               "temperature", "min_std", "max_std", "terminal_action"})
    if (setting == of_plans && !mpc) return "tdmpc2.mpc is off, so nothing is planned";
  const bool foreseen = episodic.value_or(spec.tasks.empty());
  if ((setting == "termination" || setting == "termination_coef") && !foreseen)
    return "tdmpc2.episodic is off, so no termination is foreseen";
  if (setting == "termination" && !mpc) return "tdmpc2.mpc is off, so nothing is planned";
  if (setting == "entropy_of" && entropy_coef == 0)
    return "tdmpc2.entropy_coef is 0, so no entropy counts";
  if (setting == "task_dim" && spec.tasks.empty()) return "there is one task";
  if (setting == "image_shift" && !sees_picture(spec)) return "nothing is seen as an image";
  // widths that others say
  if (setting == "hidden.termination" && !foreseen)
    return "tdmpc2.episodic is off, so no termination is foreseen";
  if ((setting == "enc_dim" || setting == "enc_layers" || setting == "hidden.encoder") &&
      sees_picture(spec))
    return "the encoder of images is of convolutions";
  if ((setting == "enc_dim" || setting == "enc_layers") && !hidden.encoder.empty())
    return "tdmpc2.hidden.encoder says how wide its layers are";
  const auto said = [&](const NetworkWidths& head) {
    return !(hidden.*head.widths).empty() ||
           (!foreseen && head.widths == &HiddenWidths::termination);
  };
  if (setting == "mlp_dim" && std::ranges::all_of(kHeads, said))
    return "tdmpc2.hidden says how wide each network is";
  return "";
}

void Options::check() const {
  const auto at_most = [](const char* name, auto value, const char* bound, auto most) {
    if (value <= most) return;
    throw SettingError({.setting = "tdmpc2." + std::string(name),
                        .must = "at most " + std::string(bound) + " = " + std::to_string(most),
                        .got = std::to_string(value),
                        .nearest = std::to_string(most)});
  };
  at_most("elites", elites, "tdmpc2.samples", samples);
  at_most("policy_trajectories", policy_trajectories, "tdmpc2.samples - 1", samples - 1);
  at_most("min_std", min_std, "tdmpc2.max_std", max_std);
  // plans take rows of heads in groups
  if (mpc && in_groups(mlp_dim) != mlp_dim)
    throw SettingError({.setting = "tdmpc2.mlp_dim",
                        .must = "a multiple of " + std::to_string(kSimNormGroup),
                        .got = std::to_string(mlp_dim),
                        .nearest = std::to_string(in_groups(mlp_dim))});
  check_widths("encoder", hidden.encoder, /*grouped=*/false);
  for (const NetworkWidths& head : kHeads) check_widths(head.name, hidden.*head.widths, mpc);
}

}  // namespace maglev::tdmpc2
