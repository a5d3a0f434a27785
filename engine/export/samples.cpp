#include "engine/export/samples.h"

#include <map>
#include <vector>

#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>

#include "base/core/error.h"
#include "base/core/file.h"
#include "base/core/safetensors.h"
#include "engine/play/record.h"

namespace maglev {
namespace {

SafeDType sample_type(at::ScalarType type) {
  if (type == at::kFloat) return SafeDType::f32;
  if (type == at::kInt) return SafeDType::i32;
  MAGLEV_ASSERT(type == at::kByte, "columns and figures are f32, i32 or u8");
  return SafeDType::u8;
}

}  // namespace

NamedTensors policy_samples(Policy& policy, const Experiment& experiment,
                            const Placement& placement, ThreadPool& pool,
                            const SampleOptions& options) {
  const EnvSpec spec = experiment.spec();
  const Batch play = record_play(
      policy, experiment, placement, pool,
      {.steps = options.steps, .envs = options.envs, .seed = options.seed, .mode = ActMode::mean});
  const c10::InferenceMode guard;
  const int64_t rows = play.is_first.size(1);
  StepInputs inputs{.carry = policy.initial_carry(rows)};
  NamedTensors samples;
  const auto parts = policy.carry_names();
  for (size_t i = 0; i < parts.size(); ++i)
    samples.push_back({"carry/" + carry_input(parts[i]), inputs.carry.parts[i].clone()});

  std::map<std::string, std::vector<at::Tensor>> columns;
  for (int64_t t = 0; t < options.steps; ++t) {
    inputs.obs.clear();
    for (const at::Tensor& column : play.obs) inputs.obs.push_back(column[t]);
    if (play.mask.defined()) inputs.mask = play.mask[t];
    inputs.is_first = play.is_first[t];
    // as record_play has it
    inputs.noise =
        policy.mean_noise(0, rows, {.seed = options.seed, .purpose = Purpose::eval, .step = t});
    auto found = policy.evaluate(inputs);
    if (!found) throw Error("[export] this algorithm's policies cannot be exported");
    found->action = play.action[t];
    for (const auto& [name, tensor] : named_inputs(policy, spec, inputs))
      columns["input/" + name].push_back(tensor.clone());
    for (const auto& [name, tensor] : named_outputs(policy, spec, *found))
      columns["output/" + name].push_back(tensor.clone());
    if (!parts.empty()) inputs.carry = found->carry;
  }
  for (const std::string& part : parts) columns.erase("input/" + carry_input(part));
  for (const auto& [name, steps] : columns) samples.push_back({name, at::stack(steps)});
  return samples;
}

void write_samples(const std::string& path, const NamedTensors& samples) {
  std::vector<SafeTensorInfo> infos;
  std::vector<at::Tensor> dense;
  for (const auto& [name, tensor] : samples) {
    infos.push_back({name, sample_type(tensor.scalar_type()), tensor.sizes().vec()});
    dense.push_back(tensor.contiguous());
  }
  const std::string beside = temporary_beside(path);
  {
    FileWriter out(beside);
    write_safetensors(out, infos, {}, [&](size_t i) {
      return std::span(static_cast<const std::byte*>(dense[i].const_data_ptr()), dense[i].nbytes());
    });
    out.finish();
  }
  rename_path(beside, path);
}

}  // namespace maglev
