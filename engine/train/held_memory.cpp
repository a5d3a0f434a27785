#include "engine/train/held_memory.h"

#include <algorithm>
#include <exception>

#include <nlohmann/json.hpp>

#include "base/core/error.h"
#include "base/core/file.h"
#include "base/core/home.h"
#include "base/core/words.h"
#include "engine/host/system.h"
#include "engine/train/store.h"

namespace maglev {
namespace {

class StateBytes : public PartialVisitor {
 public:
  int64_t bytes = 0;

  bool sees_values() const override { return false; }

 private:
  void visit_tensor(const std::string&, at::Tensor& value) override {
    if (value.defined()) bytes += int64_t(value.nbytes());
  }
};

int64_t bytes_there(const at::Tensor& column, at::Device device) {
  return column.defined() && column.device().type() == device.type() ? int64_t(column.nbytes()) : 0;
}

int64_t bytes_there(const Batch& batch, at::Device device) {
  int64_t bytes = 0;
  for (const at::Tensor& column : batch.obs) bytes += bytes_there(column, device);
  for (const at::Tensor& column : batch.extra) bytes += bytes_there(column, device);
  for (const at::Tensor* column : {&batch.mask, &batch.is_first, &batch.action, &batch.reward,
                                   &batch.terminated, &batch.truncated})
    bytes += bytes_there(*column, device);
  return bytes;
}

// "12 MiB", and of what was planned for it
std::string beside(int64_t held, int64_t planned) {
  return bytes_text(held) + " of " + bytes_text(planned);
}

}  // namespace

int64_t HeldMemory::rest() const {
  return std::max<int64_t>(0, tensors - environments - collected - state);
}

std::vector<MemoryPart> HeldMemory::parts() const {
  return {{"environments", environments},
          {"rollout or replay", collected},
          {"parameters and optimiser", state},
          {"activations, gradients, batches", rest()}};
}

HeldMemory held_memory(Trainer& trainer, int64_t tensors, int64_t process) {
  const at::Device device = trainer.placement().device;
  HeldMemory held{.tensors = tensors, .process = process};
  const Experiment& experiment = trainer.experiment();
  const EnvEntry& env = experiment.env();
  held.environments = trainer.envs().count() * int64_t(env.slot_bytes(experiment.env_params())) +
                      int64_t(env.asset_bytes(experiment.env_params()));
  if (Rollout* rollout = trainer.store().rollout()) {
    held.collected = bytes_there(rollout->batch(), device);
    held.pinned = rollout_is_pinned(experiment.run, device);
  }
  if (Replay* replay = trainer.store().replay()) {
    held.pinned = replay->pinned();
    Batch ring = replay->columns();
    // observations that lie in a file are no memory that an allocator gave
    if (!experiment.run.replay_folder.empty()) ring.obs.clear();
    held.collected = bytes_there(ring, device);
    if (device.is_cuda()) held.collected += bytes_there(replay->collected(), device);
  }
  StateBytes state;
  trainer.algorithm().visit_state(state);
  held.state = state.bytes;
  return held;
}

std::string held_text(const HeldMemory& held, const MemoryPlan& plan) {
  return "tensors " + beside(held.tensors, plan.tensors()) + " planned: environments " +
         beside(held.environments, plan.environments) + ", rollout or replay " +
         beside(held.collected, plan.collected) + ", learning " +
         beside(held.state + held.rest(), plan.learning()) + " (parameters and optimiser " +
         bytes_text(held.state) + "; activations, gradients, batches " + bytes_text(held.rest()) +
         "); the process holds " + bytes_text(held.process);
}

std::string json_with(const MemoryPlan& plan, const HeldMemory& held) {
  auto json = nlohmann::ordered_json::parse(plan.json());
  const auto pair = [](int64_t planned, int64_t measured) {
    return nlohmann::ordered_json{{"planned", planned}, {"measured", measured}};
  };
  json["measured"] = {{"tensors", pair(plan.tensors(), held.tensors)},
                      {"environments", pair(plan.environments, held.environments)},
                      {"collected", pair(plan.collected, held.collected)},
                      {"learning", pair(plan.learning(), held.state + held.rest())},
                      {"state", held.state},
                      {"process", held.process}};
  return json.dump(2) + "\n";
}

std::string out_of_memory_text(const c10::Error& error, const HeldMemory& held,
                               const Experiment& experiment, const Placement& placement) {
  std::string what = error.what_without_backtrace();
  // torch's advice for its own programs follows in further sentences
  what = what.substr(0, what.find('\n'));
  if (const size_t advice = what.find(" If reserved but unallocated"); advice != what.npos)
    what.erase(advice);
  std::string text = "[memory] " + std::string(experiment.algo().name) + " asked for more than " +
                     placement.device.str() + " has: " + what + "; tensors held " +
                     bytes_text(held.tensors) + ":";
  std::vector<MemoryPart> parts = held.parts();
  std::ranges::stable_sort(parts, std::greater(), &MemoryPart::bytes);
  for (const MemoryPart& part : parts)
    text += (&part == &parts[0] ? " " : ", ") + part.name + " " + bytes_text(part.bytes);
  text += "; make smaller what takes most (";
  try {
    std::vector<std::string> settings;
    for (const Saving& one : savings(experiment, placement, held.pinned))
      settings.push_back(one.setting);
    text += joined(settings);
  } catch (const std::exception&) {
    // a machine that has no memory left may refuse to plan, too
    text += "env.count";
  }
  return text + "), " + command_name() + " plan says how far each can go";
}

std::string keep_blocks(const std::string& blocks, const std::string& folder) {
  if (blocks.empty()) return "";
  const std::string path = folder + "/out_of_memory.pickle";
  try {
    write_atomic(path, blocks);
  } catch (const Error&) {
    // what is said without it is what matters
    return "";
  }
  return "; all blocks of the device as it refused, for pytorch.org/memory_viz: " + path;
}

}  // namespace maglev
