#include "base/config/other_names.h"

#include <gtest/gtest.h>

namespace maglev {
namespace {

const std::vector<std::string> kPpo{
    "seed",       "threads",     "train.steps",         "train.log_every",
    "env.count",  "ppo.rollout", "ppo.minibatch",       "ppo.epochs",
    "ppo.lr",     "ppo.clip",    "ppo.value_clip",      "ppo.entropy",
    "ppo.lambda", "ppo.gamma",   "ppo.network.hidden",  "ppo.network.normalize_obs",
    "ppo.lr_end", "ppo.tau",     "ppo.normalize_reward"};

TEST(OtherNames, settings_of_other_libraries_are_answered_with_ours) {
  const std::pair<const char*, const char*> answers[] = {{"total_timesteps", "train.steps"},
                                                         {"learning_rate", "ppo.lr"},
                                                         {"envs", "env.count"},
                                                         {"horizon_length", "ppo.rollout"},
                                                         {"n_steps", "ppo.rollout"},
                                                         {"num_steps", "ppo.rollout"},
                                                         {"batch_size", "ppo.minibatch"},
                                                         {"n_envs", "env.count"},
                                                         {"num_envs", "env.count"},
                                                         {"clip_range", "ppo.clip"},
                                                         {"clip_coef", "ppo.clip"},
                                                         {"ent_coef", "ppo.entropy"},
                                                         {"gae_lambda", "ppo.lambda"},
                                                         {"update_epochs", "ppo.epochs"},
                                                         {"ppo.learning_rate", "ppo.lr"},
                                                         {"Learning-Rate", "ppo.lr"},
                                                         {"net_arch", "ppo.network.hidden"},
                                                         {"norm_obs", "ppo.network.normalize_obs"}};
  for (const auto& [theirs, ours] : answers)
    EXPECT_EQ(answer_to_setting(theirs, kPpo), std::string(theirs) + " is " + ours + " here");
}

TEST(OtherNames, a_recurrent_policy_is_one_with_a_memory) {
  const std::vector<std::string> ppo{"ppo.sequence", "ppo.network.memory", "ppo.network.shared"};
  for (const std::string name : {"seq_len", "ppo.sequence_length", "max_seq_len"})
    EXPECT_EQ(answer_to_setting(name, ppo), name + " is ppo.sequence here");
  for (const std::string name : {"lstm_hidden_size", "ppo.network.lstm", "use_rnn", "rnn_size"})
    EXPECT_EQ(answer_to_setting(name, ppo),
              name +
                  " is ppo.network.memory here (units of a gated recurrent unit behind each "
                  "trunk; 0: none)");
  EXPECT_EQ(answer_to_setting("shared_lstm", ppo),
            "shared_lstm is ppo.network.shared here (true: one trunk and memory for policy and "
            "value; else one for each)");
  // who has none of it is told nothing
  EXPECT_EQ(answer_to_setting("use_lstm", {"tdmpc2.batch", "trace.memory"}), "");
}

TEST(OtherNames, a_name_stands_for_what_the_algorithm_has) {
  const std::vector<std::string> tdmpc2{"tdmpc2.batch", "tdmpc2.discount", "tdmpc2.capacity"};
  EXPECT_EQ(answer_to_setting("batch_size", tdmpc2), "batch_size is tdmpc2.batch here");
  EXPECT_EQ(answer_to_setting("gamma", tdmpc2), "gamma is tdmpc2.discount here");
  EXPECT_EQ(answer_to_setting("clip_range", tdmpc2), "");
  const std::vector<std::string> dreamer{"dreamer.length", "dreamer.objective",
                                         "dreamer.train_ratio", "dreamer.entropy_coef"};
  EXPECT_EQ(answer_to_setting("batch_length", dreamer), "batch_length is dreamer.length here");
  EXPECT_EQ(answer_to_setting("rep_loss", dreamer), "rep_loss is dreamer.objective here");
  EXPECT_EQ(answer_to_setting("replay_ratio", dreamer), "replay_ratio is dreamer.train_ratio here");
  EXPECT_EQ(answer_to_setting("actent", dreamer), "actent is dreamer.entropy_coef here");
  EXPECT_EQ(answer_to_setting("no_such_name", tdmpc2), "");
  // a whole table has sections besides
  const std::vector<std::string> whole{"train.steps", "trace.length", "dreamer.horizon",
                                       "dreamer.length"};
  EXPECT_EQ(answer_to_setting("seq_len", whole), "seq_len is dreamer.length here");
  EXPECT_EQ(answer_to_setting("batch_length", {"trace.length", "ppo.rollout"}), "");
  EXPECT_EQ(answer_to_setting("gamma", whole),
            "gamma is dreamer.horizon here (the discount is 1 - 1 / horizon)");
}

TEST(OtherNames, ends_are_shares_of_the_beginning_here) {
  const std::vector<std::string> ppo{"ppo.lr_end", "ppo.clip_end", "ppo.entropy", "ppo.entropy_end",
                                     "ppo.entropy_until"};
  EXPECT_EQ(answer_to_setting("lr_final", ppo),
            "lr_final is ppo.lr_end here (as a share of lr: 1e-4 of 3e-4 is 0.333)");
  EXPECT_EQ(answer_to_setting("training.eps_clip_final", ppo),
            "training.eps_clip_final is ppo.clip_end here (as a share of clip: 0.1 of 0.2 is 0.5)");
  EXPECT_EQ(answer_to_setting("entropy_initial", ppo), "entropy_initial is ppo.entropy here");
  EXPECT_EQ(answer_to_setting("entropy_final", ppo),
            "entropy_final is ppo.entropy_end here (as a share of entropy: 0.001 of 0.1 is 0.01)");
  EXPECT_EQ(answer_to_setting("entropy_decay_fraction", ppo),
            "entropy_decay_fraction is ppo.entropy_until here (a share of the run)");
}

TEST(OtherNames, what_reports_name_is_answered) {
  const std::vector<std::string> known{
      "threads",         "train.eval_every",  "train.graph",
      "train.precision", "train.opponents",   "train.rollout_memory",
      "trace.every",     "env.max_steps",     "env.privileged",
      "ppo.rollout",     "ppo.minibatch",     "ppo.network.value_head",
      "tdmpc2.hidden.q", "tdmpc2.enc_layers", "ppo.network.popart_beta"};
  const std::pair<const char*, const char*> answers[] = {
      {"steps_per_env", "ppo.rollout"},
      {"steps_per_episode", "env.max_steps"},
      {"popart_beta_min", "ppo.network.popart_beta"},
      {"value_head_type", "ppo.network.value_head"},
      {"privileged_critic", "env.privileged"},
      {"validation_interval", "train.eval_every"},
      {"compile_mode", "train.graph"},
      {"trainer.use_mixed_precision", "train.precision"},
      {"vectorization", "threads"},
      {"trainer.profiler.interval_epochs", "trace.every"},
      {"trainer.cpu_offload", "train.rollout_memory"},
      {"tdmpc2.hidden.q_function", "tdmpc2.hidden.q"},
      {"num_enc_layers", "tdmpc2.enc_layers"},
      {"tdmpc2.opponent", "train.opponents"}};
  for (const auto& [theirs, ours] : answers)
    EXPECT_TRUE(
        answer_to_setting(theirs, known).starts_with(std::string(theirs) + " is " + ours + " here"))
        << theirs << ": " << answer_to_setting(theirs, known);
  for (const char* none : {"grad_scaler_enabled", "obs_dim", "action_dim"})
    EXPECT_FALSE(answer_to_setting(none, known).empty()) << none;
}

TEST(OtherNames, settings_files_of_the_reports_are_answered) {
  const std::vector<std::string> known{"seed",
                                       "processes",
                                       "train.graph",
                                       "train.on_divergence",
                                       "trace.mode",
                                       "trace.window",
                                       "trace.folder",
                                       "env.view",
                                       "env.corrupt",
                                       "env.depths",
                                       "dreamer.fused",
                                       "dreamer.length",
                                       "dreamer.micro_batch",
                                       "ppo.network.kind",
                                       "ppo.network.shared",
                                       "ppo.network.proof.atoms"};
  const std::pair<const char*, const char*> answers[] = {
      {"random_seed", "seed here (a number; seed=$RANDOM for one of chance)"},
      {"num_gpus", "processes here (one for each GPU, with device=cuda; device=cpu for none)"},
      {"detect_anomaly",
       "train.on_divergence here (stop: where a figure or a gradient is not finite; warn: once, "
       "and "
       "goes on)"},
      {"trainer.profiler.profile_dir", "trace.folder here"},
      {"view_range", "env.view here (cells each way)"},
      {"corruption_scheme", "env.corrupt here ([head, tail] is both)"},
      {"train_depth", "env.depths here (e.g. 1-3 or 1,2)"},
      {"networks.use_scan",
       "dreamer.fused here (auto, on or off: the loop over steps, there and back, by kernels)"},
      {"replay_context", "dreamer.length here (behind one step of context, always)"},
      {"gradient_accumulation_steps",
       "dreamer.micro_batch here (how much of a batch is learned from at once, where theirs is how "
       "many times)"},
      {"brain_type", "ppo.network.kind here (base_cnn is cnn)"},
      {"separate_value_network",
       "ppo.network.shared here (the other way round: separate is shared=false)"},
      {"atom_embedder", "ppo.network.proof.atoms here"},
      {"run",
       "--out DIR of train, e.g. --out runs/NAME; one that is there is a word of its own: maglev "
       "eval RUN"}};
  for (const auto& [theirs, ours] : answers)
    EXPECT_EQ(unknown_setting(theirs, known), std::string(theirs) + " is " + ours);
}

TEST(OtherNames, names_with_sections_go_before_their_last_parts) {
  const std::vector<std::string> known{"train.graph", "trace.mode", "trace.window"};
  EXPECT_EQ(unknown_setting("optimization.compile.mode", known),
            "optimization.compile.mode is train.graph here (auto, on or off: iterations as CUDA "
            "graphs; kernels are compiled once, as the engine is)");
  EXPECT_EQ(unknown_setting("profiling.enabled", known),
            "profiling.enabled is trace.window here (iterations, e.g. 50-55; of torch's operations "
            "and kernels too with trace.mode=full)");
  EXPECT_EQ(unknown_setting("profiling.collector.enabled", known),
            "profiling.collector.enabled is nothing to ask for here: trace.window records threads "
            "that step environments, too");
  EXPECT_EQ(unknown_setting("tracing.mode", known),
            "unknown setting 'tracing.mode'; did you mean trace.mode?");
  EXPECT_EQ(answer_to_setting("enabled", known), "");
}

TEST(OtherNames, a_size_of_pictures_is_answered_where_none_are_shown) {
  EXPECT_EQ(answer_to_setting("image_size", {"env.image.resize"}),
            "image_size is env.image.resize here (pixels a side)");
  EXPECT_EQ(answer_to_setting("image_size", {"env.count"}),
            "image_size is the environment's: env.image.resize, in pixels a side, where pictures "
            "are shown; maglev envs says what is");
}

TEST(OtherNames, a_flag_may_be_another_flag_of_the_same_verb) {
  EXPECT_EQ(answer_to_flag("--output", {"--help", "-o"}), "--output is -o here");
  EXPECT_EQ(answer_to_flag("--output", {"--out"}), "--output is --out here");
  EXPECT_EQ(answer_to_flag("--output", {"--json"}), "");
  EXPECT_EQ(answer_to_flag("--n-corruptions", {"--corruptions"}),
            "--n-corruptions is --corruptions here");
  EXPECT_EQ(answer_to_flag("--no-amp"),
            "--no-amp is the setting train.precision=<value> here (fp32)");
  EXPECT_EQ(answer_to_flag("--no-warmup"),
            "--no-warmup is the setting train.warmup=<value> here (0, which it is by default)");
}

TEST(OtherNames, a_batch_beside_a_minibatch_is_the_rollout) {
  EXPECT_EQ(answer_to_setting("trainer.batch_size", kPpo),
            "trainer.batch_size is ppo.minibatch here");
  const std::vector<std::string> both{"trainer.batch_size", "trainer.minibatch_size"};
  EXPECT_EQ(answer_to_setting(both[0], kPpo, both),
            "trainer.batch_size is ppo.rollout here (in time steps: batch_size / env.count; "
            "minibatch_size is the minibatch)");
  EXPECT_EQ(answer_to_setting(both[1], kPpo, both), "trainer.minibatch_size is ppo.minibatch here");
  EXPECT_EQ(answer_to_setting("batch_size", kPpo, both), "batch_size is ppo.minibatch here")
      << "another section's";
  EXPECT_EQ(answer_to_flag("--batch-size"),
            "--batch-size is the setting <algorithm>.minibatch=<value> here");
}

TEST(OtherNames, flags_are_answered_with_the_setting_to_write) {
  EXPECT_EQ(answer_to_flag("--seed"), "--seed is the setting seed=<value> here");
  EXPECT_EQ(answer_to_flag("--learning-rate"),
            "--learning-rate is the setting <algorithm>.lr=<value> here");
  EXPECT_TRUE(answer_to_flag("--env-id")
                  .starts_with("--env-id is a word of its own: maglev train ppo cartpole; "));
  EXPECT_EQ(answer_to_flag("--processes"),
            "--processes is the setting processes=<value> here (that share one run)");
  EXPECT_EQ(answer_to_flag("--eval-freq"),
            "--eval-freq is the setting train.eval_every=<value> here (in steps)");
  for (const char* theirs : {"--policy_kwargs", "--capture_video", "--track", "--hardware"})
    EXPECT_TRUE(answer_to_flag(theirs).starts_with(std::string(theirs) + " is ")) << theirs;
  EXPECT_EQ(answer_to_flag("--otu"), "");
}

TEST(OtherNames, a_setting_behind_dashes_is_given_back_without_them) {
  for (const char* setting : {"env.count", "ppo.lr", "env.max_steps"})
    EXPECT_EQ(answer_to_flag("--" + std::string(setting)),
              "--" + std::string(setting) + " is no flag; settings have no dashes: " + setting +
                  "=<value>");
}

TEST(OtherNames, an_id_is_a_setting_where_the_environment_has_it) {
  EXPECT_EQ(answer_to_setting("env_id", {"env.count", "env.id"}), "env_id is env.id here");
  EXPECT_TRUE(answer_to_setting("env_id", kPpo).starts_with("env_id is a word of its own: "));
}

TEST(OtherNames, an_unknown_setting_is_answered_without_a_list) {
  EXPECT_EQ(unknown_setting("ppo.learning_rate", kPpo), "ppo.learning_rate is ppo.lr here");
  EXPECT_EQ(unknown_setting("lr", kPpo), "unknown setting 'lr'; did you mean ppo.lr?");
  EXPECT_EQ(unknown_setting("quite_another_thing", kPpo),
            "unknown setting 'quite_another_thing'; --help lists the " +
                std::to_string(kPpo.size()) + " there are");
}

TEST(OtherNames, an_unknown_setting_is_answered_with_all_where_they_are_few) {
  EXPECT_EQ(unknown_setting("env.gravity", {"env.dt", "env.max_steps"}),
            "unknown setting 'env.gravity'; known: env.dt, env.max_steps");
}

TEST(OtherNames, an_argument_of_an_environment_of_python_goes_into_its_kwargs) {
  EXPECT_EQ(unknown_setting("env.size", {"env.count", "env.kwargs"}),
            "unknown setting 'env.size'; what gymnasium.make takes besides is JSON, "
            "env.kwargs='{\"size\": <value>}'");
  EXPECT_EQ(unknown_setting("env.size", {"env.length"}).find("kwargs"), std::string::npos);
}

}  // namespace
}  // namespace maglev
