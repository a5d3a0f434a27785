#include "base/config/other_names.h"

#include <algorithm>
#include <span>

#include "base/core/error.h"
#include "base/core/words.h"

namespace maglev {
namespace {

/// `ours`, in order of preference: a whole name, or behind an asterisk one of any algorithm; none
/// where it is no setting here, and the remark says what it is. A name of `theirs` with a dot is
/// the end of one with sections, "compile.mode" of optimization.compile.mode.
struct OtherName {
  std::vector<std::string_view> theirs;
  std::vector<std::string_view> ours;
  const char* remark = "";
  std::string_view beside = "";  ///< what it means this only where that name stands in its section
};

// names of stable-baselines3, sb3-contrib, CleanRL, RLlib, Tianshou, Sample Factory, PufferLib,
// Metta, rl-games, the official TD-MPC2, DreamerV3 and its ports, as their users write them; what is
// a number of theirs at the end of a run is a share of the beginning here
std::span<const OtherName> other_names() {
  static const std::vector<OtherName> table{
      {{"total_timesteps", "timesteps", "total_steps", "train_steps", "max_steps", "num_timesteps",
        "train_for_env_steps", "total_env_steps", "n_timesteps"},
       {"train.steps"}},
      {{"seed"}, {"seed"}},
      {{"random_seed"}, {"seed"}, "a number; seed=$RANDOM for one of chance"},
      {{"device", "gpu", "use_gpu", "cuda", "use_cuda"}, {"device"}, "auto, cpu or cuda"},
      {{"no_cuda"}, {"device"}, "cpu"},
      {{"gpus", "num_gpus", "n_gpus"},
       {"processes"},
       "one for each GPU, with device=cuda; device=cpu for none"},
      {{"ddp"}, {"processes"}, "a number: so many share one run"},
      {{"processes", "num_processes", "n_processes", "nproc_per_node", "world_size"},
       {"processes"},
       "that share one run"},
      {{"threads", "num_threads", "n_threads", "num_workers", "n_jobs", "torch_threads"},
       {"threads"}},
      {{"n_envs", "num_envs", "num_environments", "n_env", "env_num", "training_num", "num_actors",
        "envs", "num"},
       {"env.count"}},
      {{"frame_stack", "framestack", "num_stack", "stack_size", "n_stack"},
       {"env.image.stack"},
       "in steps, where pictures are shown"},
      {{"grayscale", "greyscale", "gray", "grayscale_obs", "gray_scale"}, {"env.image.grey"}},
      {{"image_size", "img_size", "screen_size", "resize_shape", "frame_size"},
       {"env.image.resize"},
       "pixels a side"},
      {{"image_size", "img_size", "screen_size", "resize_shape", "frame_size"},
       {},
       "the environment's: env.image.resize, in pixels a side, where pictures are shown; maglev "
       "envs says what is"},
      {{"from_pixels"}, {"env.observe"}, "image: a picture; both: numbers besides"},
      {{"from_pixels"},
       {},
       "the environment's: pendulum_pixels is one, and dmc_walker with env.observe=image; maglev "
       "envs lists what each shows"},
      {{"log_interval", "log_freq", "log_frequency", "log_every"}, {"train.log_every"}, "in steps"},
      {{"save_freq", "save_interval", "save_frequency", "checkpoint_interval", "checkpoint_freq",
        "save_every"},
       {"train.save_every"},
       "in steps"},
      {{"eval_freq", "eval_frequency", "eval_interval", "evaluation_interval"},
       {"train.eval_every"},
       "in steps"},
      {{"n_eval_episodes", "num_eval_episodes", "eval_num_episodes", "evaluation_duration"},
       {"train.eval_episodes"}},
      {{"validation_interval"},
       {"train.eval_every"},
       "in steps: of updates, that number * env.count * the rollout"},
      {{"validation_episodes"}, {"train.eval_episodes"}},
      {{"validation_mode", "validation_food", "validation_poison"},
       {"train.eval_env"},
       "for fixed: min_food=128,max_food=128,min_poison=128,max_poison=128; empty: as in training"},
      {{"detect_anomaly"},
       {"train.on_divergence"},
       "stop: where a figure or a gradient is not finite; warn: once, and goes on"},
      {{"no_warmup"}, {"train.warmup"}, "0, which it is by default"},
      {{"torch_deterministic", "cudnn_deterministic"}, {"train.deterministic"}},
      {{"fp16", "amp", "mixed_precision", "use_mixed_precision", "dtype", "use_amp", "autocast",
        "bf16"},
       {"train.precision"}},
      {{"no_amp"}, {"train.precision"}, "fp32"},
      {{"grad_scaler_enabled", "use_grad_scaler", "grad_scaler"},
       {},
       "nothing to ask for here: where train.precision=fp16, losses are scaled"},
      {{"cudagraphs", "cuda_graphs"}, {"train.graph"}},
      {{"compile", "torch_compile", "use_compile", "compile_mode", "compile_env", "compile_models",
        "compile.enabled", "compile.mode"},
       {"train.graph"},
       "auto, on or off: iterations as CUDA graphs; kernels are compiled once, as the engine is"},
      {{"compile.losses"},
       {"train.graph"},
       "auto, on or off: whole updates as CUDA graphs, no losses by name"},
      {{"compile.backend"},
       {},
       "nothing to choose here: kernels are compiled once, as the engine is; train.graph has "
       "iterations as CUDA graphs"},
      {{"cudnn_benchmark"},
       {},
       "nothing to ask for here: cuDNN's algorithms are tried on a GPU, unless "
       "train.deterministic=true"},
      {{"gpu_transforms"},
       {},
       "not needed here: pictures go to the device as bytes and become numbers there"},
      {{"use_scan"},
       {"dreamer.fused"},
       "auto, on or off: the loop over steps, there and back, by kernels"},
      {{"vectorization"},
       {"threads"},
       "serial is threads=1; environments step in threads, those of Python in processes"},
      {{"interval_epochs"}, {"trace.every"}, "in iterations"},
      {{"profile_dir"}, {"trace.folder"}},
      {{"profile_trace", "profiling.enabled"},
       {"trace.window"},
       "iterations, e.g. 50-55; of torch's operations and kernels too with trace.mode=full"},
      {{"use_gpu_profiler"},
       {"trace.mode"},
       "full: torch's profiler besides, in the iterations of trace.window"},
      {{"profiling.distributed.enabled"},
       {},
       "nothing to ask for here: trace.window records each process in a file of its own, and "
       "maglev trace merge joins them"},
      {{"profiling.collector.enabled"},
       {},
       "nothing to ask for here: trace.window records threads that step environments, too"},
      {{"gradient_accumulation_steps", "gradient_accumulation", "accumulate_grad_batches"},
       {"*.micro_batch", "*.shard_rows"},
       "how much of a batch is learned from at once, where theirs is how many times"},
      {{"gradient_checkpointing"},
       {"*.micro_batch", "*.shard_rows"},
       "learns from parts from the start; where memory runs out a run does so by itself"},
      {{"cpu_offload"},
       {"train.rollout_memory", "train.replay_memory"},
       "pinned: what is observed lies in the host's memory; parameters stay on the device"},
      {{"pin_memory"},
       {"train.rollout_memory", "train.replay_memory"},
       "pinned, where a GPU's own does not suffice"},
      {{"frame_skip", "frameskip", "action_repeat"}, {"env.action_repeat"}},
      {{"view_range"}, {"env.view"}, "cells each way"},
      {{"max_move_distance"}, {"env.max_move"}},
      {{"max_depth"}, {"env.max_steps"}, "of a proof"},
      {{"steps_per_episode", "max_episode_steps", "episode_length"}, {"env.max_steps"}},
      {{"privileged_critic"}, {"env.privileged"}},
      {{"opponent"}, {"env.opponent", "train.opponents"}},
      {{"negative_ratio", "negatives"}, {"env.negatives"}, "false queries for each true one"},
      {{"padding_atoms"}, {"env.atoms"}},
      {{"padding_states"}, {"env.successors"}},
      {{"reward_type"}, {"env.reward"}},
      {{"dataset_name"}, {"env.data"}, "a built-in graph's name, or a folder of one"},
      {{"corruption_scheme"}, {"env.corrupt"}, "[head, tail] is both"},
      {{"memory_pruning"}, {"env.prune_visited"}},
      {{"train_depth"}, {"env.depths"}, "e.g. 1-3 or 1,2"},
      {{"filter_queries_by_rules"}, {"env.only_with_rules"}},
      {{"max_total_vars"},
       {},
       "not needed here: a goal's variables are numbered anew in each step, at most two for each "
       "of env.atoms"},
      {{"n_queries", "n_corruptions"},
       {},
       "asked for when a run is ranked: maglev rank RUN --queries N --corruptions N"},
      {{"endf_action", "end_action"}, {"env.end_action"}},

      {{"learning_rate", "lr", "step_size", "actor_lr", "critic_lr", "lr_schedule"}, {"*.lr"}},
      {{"anneal_lr", "lr_decay", "linear_lr_decay"}, {"*.lr_end"}, "0 anneals to nothing"},
      {{"lr_final", "final_lr", "learning_rate_final"},
       {"*.lr_end"},
       "as a share of lr: 1e-4 of 3e-4 is 0.333"},
      {{"n_steps", "num_steps", "rollout_steps", "rollout_length", "rollout_fragment_length",
        "nsteps", "horizon_length", "horizon", "unroll_length", "bptt_horizon", "step_per_collect",
        "steps_per_env"},
       {"*.rollout"}},
      {{"batch_size"},
       {"*.rollout"},
       "in time steps: batch_size / env.count; minibatch_size is the minibatch",
       "minibatch_size"},
      {{"batch_size", "minibatch_size", "sgd_minibatch_size", "mini_batch_size"},
       {"*.minibatch", "*.batch"}},
      {{"num_minibatches", "n_minibatches", "nminibatches"},
       {"*.minibatch"},
       "in rows: rollout * env.count / that number"},
      {{"n_epochs", "num_epochs", "update_epochs", "num_sgd_iter", "noptepochs", "mini_epochs",
        "ppo_epochs", "repeat_per_collect", "k_epochs"},
       {"*.epochs"}},
      {{"clip_range", "clip_coef", "clip_param", "clip_ratio", "eps_clip", "clip_epsilon",
        "cliprange", "e_clip"},
       {"*.clip"}},
      {{"eps_clip_final", "clip_final", "clip_range_final"},
       {"*.clip_end"},
       "as a share of clip: 0.1 of 0.2 is 0.5"},
      {{"clip_range_vf", "vf_clip_param", "vf_clip_coef", "cliprange_vf"}, {"*.value_clip"}},
      {{"clip_vloss"}, {"*.value_clip", "*.value_clip_loss"}},
      {{"ent_coef", "entropy_coef", "entropy_coeff", "ent_coeff", "entropy_weight", "entropy_cost",
        "actent", "act_entropy", "actor_entropy", "entropy_initial"},
       {"*.entropy", "*.entropy_coef"}},
      {{"entropy_final", "ent_coef_final"},
       {"*.entropy_end"},
       "as a share of entropy: 0.001 of 0.1 is 0.01"},
      {{"entropy_decay_fraction"}, {"*.entropy_until"}, "a share of the run"},
      {{"vf_coef", "vf_loss_coeff", "value_loss_coef", "critic_coef", "value_loss_weight"},
       {"*.value_coef"}},
      {{"gae_lambda", "lam", "lambda_", "gae_lam", "tau_gae"}, {"*.lambda"}},
      {{"gamma", "discount", "discount_factor", "discounting"}, {"*.gamma", "*.discount"}},
      {{"gamma", "discount", "discount_factor", "discounting"},
       {"dreamer.horizon"},
       "the discount is 1 - 1 / horizon"},
      {{"max_grad_norm", "grad_clip", "grad_clip_norm", "grad_norm", "clip_grad_norm"},
       {"*.max_grad_norm", "*.grad_clip"}},
      {{"no_norm_adv"}, {"*.normalize_advantage"}, "off"},
      {{"norm_adv", "advantage_normalization", "normalize_advantages", "adv_norm"},
       {"*.normalize_advantage"}},
      {{"norm_obs", "normalize_observations", "normalize_input", "obs_norm", "normalize_obs"},
       {"*.network.normalize_obs"}},
      {{"norm_reward", "norm_rew", "normalize_rewards", "reward_normalization", "rew_norm"},
       {"*.normalize_reward"}},
      {{"desired_kl", "kl_target", "kl_threshold"}, {"*.target_kl"}},
      {{"adam_epsilon", "optimizer_eps", "eps"}, {"*.adam_eps"}},
      {{"hidden_sizes", "hidden_size", "hidden_dim", "hidden_dims", "net_arch", "fcnet_hiddens",
        "num_units"},
       {"*.network.hidden", "*.mlp_dim"}},
      {{"use_lstm", "use_rnn", "lstm", "gru", "rnn", "recurrent", "lstm_hidden_size", "lstm_size",
        "lstm_cell_size", "rnn_hidden_size", "rnn_size", "rnn_hidden_dim"},
       {"*.network.memory"},
       "units of a gated recurrent unit behind each trunk; 0: none"},
      {{"rnn_type", "n_lstm_layers", "lstm_layers", "rnn_num_layers", "rnn_layers"},
       {"*.network.memory"},
       "units; the cell is one gated recurrent unit behind each trunk"},
      {{"shared_lstm", "enable_critic_lstm"},
       {"*.network.shared"},
       "true: one trunk and memory for policy and value; else one for each"},
      {{"separate_value_network"},
       {"*.network.shared"},
       "the other way round: separate is shared=false"},
      {{"conv_filters", "cnn_channels", "conv_channels"},
       {"*.network.cnn.channels"},
       "beside network.cnn.kernels and network.cnn.strides"},
      {{"kernel_sizes", "kernel_size", "conv_kernels"}, {"*.network.cnn.kernels"}},
      {{"conv_strides", "stride"}, {"*.network.cnn.strides"}},
      {{"conv_paddings", "padding"}, {"*.network.cnn.paddings"}},
      {{"value_head_type"}, {"*.network.value_head"}},
      {{"popart_beta_min"}, {"*.network.popart_beta"}},
      {{"popart_rescale_weights"}, {"*.network.value_head"}, "popart always rescales them"},
      {{"atom_embedder"}, {"*.network.proof.atoms"}},
      {{"state_embedder"}, {"*.network.proof.goals"}},
      {{"atom_embedding_size"}, {"*.network.proof.embedding"}},
      {{"brain_type"}, {"*.network.kind"}, "base_cnn is cnn"},
      {{"features_extractor_class", "features_extractor", "network_type", "policy_type"},
       {"*.network.kind"}},
      {{"activation_fn", "fcnet_activation", "nonlinearity"}, {"*.network.activation"}},

      {{"buffer_size", "replay_size", "replay_buffer_size", "replay_buffer_capacity",
        "memory_size"},
       {"*.capacity"}},
      {{"learning_starts", "start_steps", "start_timesteps", "warmup_steps", "random_steps"},
       {"*.seed_steps", "*.first_steps"}},
      {{"gradient_steps", "utd_ratio", "utd"}, {"*.updates_per_step"}},
      {{"replay_ratio", "train_ratio"}, {"*.updates_per_step", "*.train_ratio"}},
      {{"train_freq", "train_frequency", "update_frequency"}, {"*.update_every"}},
      {{"polyak", "target_update_rate"}, {"*.tau"}},
      {{"num_iterations", "n_iterations"}, {"*.iterations"}},
      {{"num_samples"}, {"*.samples"}},
      {{"num_elites"}, {"*.elites"}},
      {{"num_pi_trajs"}, {"*.policy_trajectories"}},
      {{"num_enc_layers"}, {"*.enc_layers"}},
      {{"q_function"}, {"*.hidden.q"}, "hidden layers of the value networks"},
      {{"model_size"}, {"*.size"}},
      {{"batch_length", "sequence_length", "seq_len", "slice_len"}, {"*.length"}},
      {{"replay_context"}, {"dreamer.length"}, "behind one step of context, always"},
      {{"sequence_length", "seq_len", "seq_length", "max_seq_len", "recurrence"}, {"*.sequence"}},
      {{"imag_horizon", "imag_length", "imagination_horizon"}, {"*.imagination"}},
      {{"kl_free", "free_bits"}, {"*.free_nats"}},
      {{"deter_size", "deter_dim", "recurrent_state_size"}, {"*.deter"}},
      {{"cnn_depth", "conv_depth"}, {"*.depth"}},
      {{"slow_target_fraction", "slow_critic_rate"}, {"*.slow_rate"}},
      {{"rep_loss", "representation_loss"}, {"*.objective"}},

      {{"policy_kwargs", "model_kwargs", "network_kwargs"},
       {},
       "several settings here, e.g. ppo.network.hidden=256,256 and ppo.network.activation=relu"},
      {{"capture_video", "record_video", "save_video", "video", "render", "render_mode"},
       {},
       "for afterwards here: maglev play RUN --record game.mp4"},
      {{"tensorboard", "use_tensorboard"},
       {},
       "always written here: tensorboard --logdir runs, or maglev watch runs"},
      {{"track", "wandb", "use_wandb", "wandb_project", "wandb_project_name", "wandb_entity",
        "mlflow"},
       {},
       "for afterwards here: maglev sync RUN --to wandb, or mlflow; maglev watch shows curves "
       "meanwhile"},
      {{"obs_dim", "action_dim", "obs_shape", "obs_size", "action_size", "action_space_type"},
       {},
       "the environment's: maglev envs ENVIRONMENT shows what is seen and done"},
      {{"hardware"}, {}, "layered as a word with a plus: +hardware=NAME"},
      {{"env_id", "env_name", "environment", "gym_id"}, {"env.id"}},
      {{"env", "env_id", "env_name", "environment", "gym_id"},
       {},
       "a word of its own: maglev train ppo cartpole; one of Gymnasium's is a setting besides: "
       "maglev train ppo gymnasium env.id=CartPole-v1"},
      {{"algo", "algorithm", "agent", "policy"},
       {},
       "a word of its own: maglev train ppo cartpole"},
      {{"logdir", "log_dir", "output_dir", "save_dir", "save_path", "tensorboard_log", "run_name",
        "exp_name", "experiment"},
       {},
       "--out DIR"},
      {{"run"},
       {},
       "--out DIR of train, e.g. --out runs/NAME; one that is there is a word of its own: maglev "
       "eval RUN"},
  };
  return table;
}

// flags of others that are flags here too, of the verb that has them
struct OtherFlag {
  std::vector<std::string_view> theirs, ours;
};

std::span<const OtherFlag> other_flags() {
  static const std::vector<OtherFlag> table{
      {{"output", "output_file"}, {"-o", "--out", "--onnx", "--record"}},
      {{"n_eval_episodes", "num_eval_episodes", "eval_num_episodes"}, {"--episodes"}},
      {{"n_corruptions"}, {"--corruptions"}},
  };
  return table;
}

// "--Learning-Rate" as learning_rate
std::string plain(std::string_view name) {
  while (!name.empty() && name.front() == '-') name.remove_prefix(1);
  std::string word = lower_case(name);
  std::ranges::replace(word, '-', '_');
  return word;
}

// whether `name`, which is plain, ends with `theirs` and its sections
bool ends_with_parts(std::string_view name, std::string_view theirs) {
  if (!name.ends_with(theirs)) return false;
  name.remove_suffix(theirs.size());
  return name.empty() || name.back() == '.';
}

bool has_sections(std::string_view name) { return name.find('.') != name.npos; }

// rows of a name: several where algorithms have other settings for it; with sections before those
// of its last part
std::vector<const OtherName*> find_others(std::string_view name) {
  const std::string word = plain(name);
  std::vector<const OtherName*> rows;
  for (const bool sections : {true, false})
    for (const OtherName& row : other_names())
      if (std::ranges::any_of(row.theirs, [&](std::string_view theirs) {
            return has_sections(theirs) == sections && ends_with_parts(word, theirs);
          }))
        rows.push_back(&row);
  return rows;
}

// whether a row has `name` with its sections, so that it is no setting of ours in another one
bool is_others(std::string_view name) {
  const std::string word = plain(name);
  return std::ranges::any_of(other_names(), [&](const OtherName& row) {
    return std::ranges::any_of(row.theirs, [&](std::string_view theirs) {
      return has_sections(theirs) && ends_with_parts(word, theirs);
    });
  });
}

bool stands_for(std::string_view ours, std::string_view setting) {
  if (ours.front() != '*') return ours == setting;
  // "*.lr" is ppo.lr and not ppo.network.lr, "*.length" an algorithm's and not trace.length
  const size_t dot = setting.find('.');
  for (const char* section : {"train", "trace", "env"})
    if (setting.substr(0, dot) == section) return false;
  return dot != std::string_view::npos && setting.substr(dot) == ours.substr(1);
}

// whether `other` stands in the section of `name`
bool stands_beside(std::string_view name, std::string_view other,
                   const std::vector<std::string>& beside) {
  const size_t dot = name.rfind('.');
  const std::string section(name.substr(0, dot == name.npos ? 0 : dot + 1));
  return std::ranges::find(beside, section + std::string(other)) != beside.end();
}

std::string with_remark(std::string text, const OtherName& row) {
  return *row.remark ? text + " (" + row.remark + ")" : text;
}

}  // namespace

std::string answer_to_setting(std::string_view name, const std::vector<std::string>& known,
                              const std::vector<std::string>& beside) {
  const std::string begin = std::string(name) + " is ";
  for (const OtherName* row : find_others(name)) {
    if (!row->beside.empty() && !stands_beside(name, row->beside, beside)) continue;
    if (row->ours.empty()) return begin + row->remark;
    for (std::string_view ours : row->ours)
      for (const std::string& setting : known)
        if (stands_for(ours, setting)) return begin + with_remark(setting + " here", *row);
  }
  return "";
}

std::string unknown_setting(std::string_view name, const std::vector<std::string>& known,
                            const std::vector<std::string>& beside) {
  const auto near = near_names(name, known);
  // what another library calls it, unless it is a name of ours in another section
  const bool ours = !near.empty() && same_leaf(name, near[0]) && !is_others(name);
  const std::string answer = ours ? "" : answer_to_setting(name, known, beside);
  if (!answer.empty()) return answer;
  if (!near.empty()) return unknown_name("setting", name, known);
  // what an environment of Python takes besides
  constexpr std::string_view kEnv = "env.", kKwargs = "env.kwargs";
  if (name.starts_with(kEnv) && std::ranges::find(known, kKwargs) != known.end())
    return "unknown setting '" + std::string(name) +
           "'; what gymnasium.make takes besides is JSON, env.kwargs='{\"" +
           std::string(name.substr(kEnv.size())) + "\": <value>}'";
  // of a run they would fill the screen, of an environment alone they are few
  constexpr size_t kFew = 16;
  if (known.size() <= kFew) return unknown_name("setting", name, known);
  return "unknown setting '" + std::string(name) + "'; --help lists the " +
         std::to_string(known.size()) + " there are";
}

std::string answer_to_flag(std::string_view flag, const std::vector<std::string>& known) {
  const std::string begin = std::string(flag) + " is ";
  for (const OtherFlag& row : other_flags())
    if (std::ranges::find(row.theirs, plain(flag)) != row.theirs.end())
      for (std::string_view ours : row.ours)
        if (std::ranges::find(known, ours) != known.end())
          return begin + std::string(ours) + " here";
  // whether it is one is said where its section is known
  if (const size_t first = flag.find_first_not_of('-'); flag.find('.') != flag.npos)
    return begin + "no flag; settings have no dashes: " + std::string(flag.substr(first)) +
           "=<value>";
  auto rows = find_others(flag);
  std::erase_if(rows, [](const OtherName* row) { return !row->beside.empty(); });
  if (rows.empty()) return "";
  // a flag is none of one environment's settings
  const auto word = std::ranges::find_if(rows, [](const OtherName* r) { return r->ours.empty(); });
  const OtherName* row = word == rows.end() ? rows.front() : *word;
  if (row->ours.empty()) return begin + row->remark;
  std::string name(row->ours.front());
  if (name.front() == '*') name.replace(0, 1, "<algorithm>");
  return begin + with_remark("the setting " + name + "=<value> here", *row);
}

}  // namespace maglev
