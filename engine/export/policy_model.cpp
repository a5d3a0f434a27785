#include "engine/export/policy_model.h"

#include <algorithm>
#include <cmath>
#include <map>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "base/core/error.h"
#include "base/core/version.h"
#include "engine/data/scalar_type.h"
#include "engine/data/state.h"
#include "engine/device/aten_only.h"
#include "engine/export/graph.h"
#include "engine/export/recording.h"

namespace maglev {
namespace {

/// Names of a policy's parameters and statistics.
class StateNames : public PartialVisitor {
 public:
  std::map<std::string, at::Tensor> tensors;

 protected:
  void visit_tensor(const std::string& name, at::Tensor& value) override { tensors[name] = value; }
};

// any numbers an environment could show, other ones for other rows: which operations are made does
// not depend on them, what they make does. None is neutral: what is written over in place shows
StepInputs some_inputs(Policy& policy, const EnvSpec& spec, int64_t rows) {
  auto gen = at::make_generator<at::CPUGeneratorImpl>(uint64_t(rows));
  StepInputs inputs;
  for (const ObsColumn& column : spec.observations) {
    std::vector<int64_t> sizes{rows};
    sizes.insert(sizes.end(), column.shape.begin(), column.shape.end());
    const at::TensorOptions options(scalar_type(column.dtype));
    auto numbers = at::zeros(sizes, options);
    if (column.dtype == DType::f32) numbers.normal_(0, 1, gen);
    else if (column.dtype == DType::u8) numbers.random_(0, 256, gen);
    for (size_t k = 0; k < column.vocabulary.size(); ++k)
      numbers.select(-1, int64_t(k)).random_(0, column.vocabulary[k], gen);
    inputs.obs.push_back(numbers);
  }
  // some row excludes each category, and of each head one stays
  if (spec.action.masked) {
    inputs.mask = at::zeros({rows, spec.action.categories()}, at::kByte);
    inputs.mask.random_(0, 2, gen);
    int64_t first = 0;
    for (int64_t categories : spec.action.heads) {
      const auto head = inputs.mask.narrow(1, first, categories);
      head.select(1, 0).fill_(1), head[0].fill_(0), head[0][categories - 1].fill_(1);
      first += categories;
    }
  }
  inputs.is_first = at::zeros({rows}, at::kByte);
  inputs.is_first[0].fill_(1);
  inputs.carry = policy.initial_carry(rows);
  for (at::Tensor& part : inputs.carry.parts)
    if (part.is_floating_point()) part = at::randn(part.sizes(), gen, part.options());
  inputs.noise = policy.mean_noise(0, rows, {.seed = 1, .purpose = Purpose::eval});
  return inputs;
}

Recording recorded(Policy& policy, const EnvSpec& spec, int64_t rows,
                   std::vector<std::string>& inputs, std::vector<std::string>& outputs) {
  const StepInputs given = some_inputs(policy, spec, rows);
  std::vector<at::Tensor> tensors;
  inputs.clear(), outputs.clear();
  for (const auto& [name, tensor] : named_inputs(policy, spec, given)) {
    inputs.push_back(name);
    tensors.push_back(tensor);
  }
  const AtenOnly plain;
  const at::NoGradGuard no_grad;
  return record(tensors, [&] {
    std::vector<at::Tensor> made;
    const auto found = policy.evaluate(given);
    if (!found)
      throw Error("[export] this algorithm's policies cannot be exported: they have no evaluate()");
    for (const auto& [name, tensor] : named_outputs(policy, spec, *found)) {
      outputs.push_back(name);
      made.push_back(tensor);
    }
    return made;
  });
}

}  // namespace

std::string carry_input(const std::string& part) { return "carry_" + part; }
std::string carry_output(const std::string& part) { return "next_" + carry_input(part); }

NamedTensors named_inputs(const Policy& policy, const EnvSpec& spec, const StepInputs& inputs) {
  NamedTensors named;
  const auto add = [&](const std::string& name, const at::Tensor& tensor) {
    if (!tensor.defined()) return;
    for (const auto& [other, _] : named)
      if (other == name)
        throw Error("[export] the environment's column " + name +
                    " has the name of another input of the model");
    named.push_back({name, tensor});
  };
  for (size_t i = 0; i < inputs.obs.size(); ++i) add(spec.observations[i].name, inputs.obs[i]);
  add(kMaskInput, inputs.mask);
  add(kFirstInput, inputs.is_first);
  const auto parts = policy.carry_names();
  for (size_t i = 0; i < parts.size(); ++i) add(carry_input(parts[i]), inputs.carry.parts.at(i));
  add(kNoiseInput, inputs.noise);
  return named;
}

NamedTensors named_outputs(const Policy& policy, const EnvSpec& spec, const StepOutputs& outputs) {
  at::Tensor action = outputs.action;
  if (!spec.action.discrete()) {
    // bounds that are none stay none
    const auto low = at::tensor(spec.action.low), high = at::tensor(spec.action.high);
    action = at::minimum(at::maximum(action, low), high);
  }
  NamedTensors named{{kActionOutput, action}};
  named.insert(named.end(), outputs.figures.begin(), outputs.figures.end());
  const auto parts = policy.carry_names();
  MAGLEV_ASSERT(parts.size() == outputs.carry.parts.size(), "a name for each part of the carry");
  for (size_t i = 0; i < parts.size(); ++i)
    named.push_back({carry_output(parts[i]), outputs.carry.parts.at(i)});
  return named;
}

onnx::Model policy_model(Policy& policy, const EnvSpec& spec) {
  std::vector<std::string> inputs, outputs;
  RecordedTwice twice;
  twice.few = recorded(policy, spec, twice.few_rows, inputs, outputs);
  twice.more = recorded(policy, spec, twice.more_rows, inputs, outputs);
  StateNames state;
  policy.visit_state(state);
  onnx::Model model;
  model.producer = "maglev", model.producer_version = kEngineVersion;
  model.graph_name = "policy";
  for (const std::string& output : outputs)
    if (std::ranges::find(inputs, output) != inputs.end())
      throw Error("[export] the environment's column " + output +
                  " has the name of an output of the model");
  OnnxGraph graph(twice, inputs, state.tensors);
  graph.build();
  graph.finish(outputs, model);
  return model;
}

}  // namespace maglev
