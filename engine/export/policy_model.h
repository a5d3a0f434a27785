#pragma once
// A policy as an ONNX model: what it does in mode mean, from an environment's observations to an
// action in the environment's units, its normalisers inside.

#include <string>
#include <utility>
#include <vector>

#include "base/env/spec.h"
#include "base/onnx/model.h"
#include "engine/algo/policy.h"

namespace maglev {

/// Names of what is no column of the environment's.
constexpr const char *kMaskInput = "action_mask", *kFirstInput = "is_first", *kNoiseInput = "noise",
                     *kActionOutput = "action";
std::string carry_input(const std::string& part);
std::string carry_output(const std::string& part);

using NamedTensors = std::vector<std::pair<std::string, at::Tensor>>;
/// By the names a model has for them; what is undefined is left out.
NamedTensors named_inputs(const Policy& policy, const EnvSpec& spec, const StepInputs& inputs);
/// Likewise, the action within the environment's bounds, as the environment takes it.
NamedTensors named_outputs(const Policy& policy, const EnvSpec& spec, const StepOutputs& outputs);

/// The model; `policy` is on a processor and in f32. Inputs that nothing follows from are left out.
/// Throws Error where the policy cannot be exported, naming what stands in the way.
onnx::Model policy_model(Policy& policy, const EnvSpec& spec);

}  // namespace maglev
