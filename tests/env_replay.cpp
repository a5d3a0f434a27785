// Replays actions from given states, for comparison with another implementation.
//
//   env_replay ENV STEPS [name=value ...] < input > output
//
// The first members of a classic environment's State are `k` floats; of the others k is 0, and they
// begin as seed 1 does. Input, f32, until it ends: k state values, then STEPS action values.
// Output, f32, for each step: k state values, the observation, reward, terminated, truncated.

#include <cstdio>
#include <iostream>
#include <span>

#include "base/core/error.h"
#include "base/env/host_envs.h"

namespace maglev {
namespace {

size_t state_floats(std::string_view env) {
  if (env == "pendulum" || env == "mountain_car") return 2;
  if (env == "cartpole" || env == "acrobot") return 4;
  return 0;
}

/// Observation column 0 of the only row, as floats.
void copy_obs(const HostEnvs& env, std::span<float> to) {
  if (env.spec().observations[0].dtype == DType::f32)
    std::copy_n(env.obs<float>(0, 0), to.size(), to.begin());
  else std::copy_n(env.obs<uint8_t>(0, 0), to.size(), to.begin());
}

void replay(const std::string& name, int64_t steps,
            const std::vector<std::pair<std::string, std::string>>& settings) {
  const size_t k = state_floats(name);
  HostEnvs env(find_env(name), 1, 1, settings);
  const size_t obs = size_t(env.spec().observations[0].elements());
  std::vector<float> in(k + size_t(steps)), out(k + obs + 3);
  while (std::fread(in.data(), sizeof(float), in.size(), stdin) == in.size()) {
    env.reset();
    std::memcpy(env.slot(0) + kSlotHead, in.data(), k * sizeof(float));
    for (int64_t t = 0; t < steps; ++t) {
      const float action = in[k + size_t(t)];
      if (env.spec().action.discrete()) env.actions_i32[0] = int32_t(action);
      else env.actions_f32[0] = action;
      env.step();
      std::memcpy(out.data(), env.slot(0) + kSlotHead, k * sizeof(float));
      copy_obs(env, std::span(out).subspan(k, obs));
      out[k + obs] = env.reward[0];
      out[k + obs + 1] = env.terminated[0];
      out[k + obs + 2] = env.truncated[0];
      std::fwrite(out.data(), sizeof(float), out.size(), stdout);
    }
  }
}

}  // namespace
}  // namespace maglev

int main(int argc, char** argv) {
  try {
    if (argc < 3) throw maglev::Error("[env_replay] usage: env_replay ENV STEPS [name=value ...]");
    std::vector<std::pair<std::string, std::string>> settings;
    for (int i = 3; i < argc; ++i) {
      const std::string text = argv[i];
      const size_t equals = text.find('=');
      if (equals == std::string::npos)
        throw maglev::Error("[env_replay] settings are name=value, got '" + text + "'");
      settings.emplace_back(text.substr(0, equals), text.substr(equals + 1));
    }
    maglev::replay(argv[1], std::stoll(argv[2]), settings);
  } catch (const std::exception& error) {
    std::cerr << error.what() << "\n";
    return 2;
  }
}
