#include "verbs/bench/stages.h"

#include "base/core/error.h"
#include "engine/train/idle_settings.h"

namespace maglev::verbs::bench {

std::vector<Stage> stages(const std::string& algo, int64_t envs, int64_t rollout) {
  const auto text = [](int64_t number) { return std::to_string(number); };
  return {
      {.name = "naive", .what = "one environment, one thread, one operation after another"},
      {.name = "vectorised",
       .what = "environments step together, networks see them as one batch",
       .switches = {{"env.count", "1", text(envs)},
                    {algo + ".rollout", text(envs * rollout), text(rollout)}}},
      {.name = "threads",
       .what = "all processors: environments step and networks act in blocks",
       .switches = {{"threads", "1", "0"}}},
      {.name = "own tanh",
       .what = "tanh by a kernel with run-time dispatch",
       .switches = {{algo + ".network.fast_tanh", "false", "true"}}},
      {.name = "own layers",
       .what = "convolutions and dense layers with their relu as one operation",
       .switches = {{algo + ".network.cnn.fused_layers", "false", "true"}}},
      {.name = "winograd",
       .what = "3x3 convolutions in fewer products, by Winograd's F(4x4, 3x3)",
       .switches = {{algo + ".network.cnn.winograd", "false", "true"}}},
      {.name = "packed goals",
       .what = "proofs' goals are embedded each once, without the slots that none has",
       .switches = {{algo + ".network.proof.packed", "false", "true"}}},
      {.name = "own goals",
       .what = "layers, sums of rows and attention of proofs' goals as one operation each",
       .switches = {{algo + ".network.proof.fused_layers", "false", "true"}}},
      {.name = "own memory",
       .what = "a recurrent cell through all steps there and back without autograd between them",
       .switches = {{algo + ".network.fused_memory", "false", "true"}}},
      {.name = "own images",
       .what = "networks of images on kernels, images in lanes",
       .switches = {{algo + ".fused_images", "false", "true"}}},
      {.name = "pruned",
       .what = "what cannot change a plan or an update is not worked out",
       .switches = {{algo + ".prune", "false", "true"}}},
      {.name = "fused",
       .what =
           "the fused learner: minibatches in shards on all processors, loss and optimiser as one "
           "kernel each, fully connected networks on panels",
       .switches = {{algo + ".fused", "false", "true"}}},
      {.name = "no barrier a step",
       .what = "each block of environments collects its whole rollout by itself",
       .switches = {{"train.collect", "lockstep", "blocks"}}},
      {.name = "next batch ahead",
       .what = "the next batch is drawn from the replay while one is learned from",
       .switches = {{"train.prefetch", "off", "on"}}},
      {.name = "overlapped",
       .what = "updates run beside the steps of the next iteration, on threads or a stream of "
               "their own",
       .switches = {{"train.overlap", "false", "true"}}},
      {.name = "captured",
       .what = "collect and learn as one CUDA graph each",
       .switches = {{"train.graph", "off", "on"}},
       .needs_cuda = true},
      {.name = "bf16",
       .what = "forward passes in bfloat16",
       .switches = {{"train.precision", "fp32", "bf16"}}},
  };
}

std::vector<Stage> as_given(std::vector<Stage> stages, const OptionTable& table) {
  for (Stage& stage : stages)
    for (Switch& one : stage.switches)
      if (const Field* field = table.find(one.name); field && field->origin >= Origin::file)
        one.after = field->plain();
  return stages;
}

std::string lacking(const Stage& stage, const Experiment& experiment, const Placement& placement) {
  for (const Switch& one : stage.switches)
    if (!experiment.table().find(one.name))
      return std::string(experiment.algo().name) + " has no such setting: " + one.name;
  if (stage.needs_cuda && !placement.device.is_cuda()) return "needs a CUDA device";
  const IdleSettings idle(experiment, placement);
  for (const Switch& one : stage.switches)
    if (const std::string why = idle.why(one.name); !why.empty()) return why;
  return "";
}

std::vector<std::string> settings_at(const std::vector<Stage>& all, size_t last,
                                     const std::vector<bool>& skipped, const OptionTable& table) {
  MAGLEV_ASSERT(last < all.size() && skipped.size() == all.size(), "one mark a stage");
  std::vector<std::string> settings;
  for (size_t i = 0; i < all.size(); ++i)
    for (const Switch& one : all[i].switches)
      if (table.find(one.name))
        settings.push_back(one.name + "=" + (i <= last && !skipped[i] ? one.after : one.before));
  return settings;
}

}  // namespace maglev::verbs::bench
