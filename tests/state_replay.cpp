// Replays actions from saved states of any environment, for comparison with another implementation.
//
//   state_replay ENV STEPS BYTES [name=value ...] < input > output
//
// A state is the first BYTES of what a checkpoint holds of it. Input, until it ends: a state, then
// STEPS rows of f32 actions. Output for each step: the state, every observation column, then
// reward, terminated and truncated as f32. With STEPS 0: states and observations that 1,000
// environments begin with, and no input is read.

#include <cstdio>

#include "base/core/error.h"
#include "base/env/host_envs.h"
#include "bench/program.h"

namespace maglev {
namespace {

void write(const void* data, size_t bytes) { std::fwrite(data, 1, bytes, stdout); }

void write_row(const HostEnvs& envs, const std::vector<std::byte>& slots, int64_t row,
               size_t bytes) {
  write(slots.data() + size_t(row) * envs.batch().slot_bytes + kSlotHead, bytes);
  for (int c = 0; c < int(envs.spec().observations.size()); ++c)
    write(envs.obs<std::byte>(c, row), size_t(envs.io().obs_row_bytes[c]));
}

void replay(HostEnvs& env, int64_t steps, size_t bytes) {
  env.reset();
  std::vector<std::byte> slots = env.save();
  if (kSlotHead + bytes > slots.size())
    throw Error("[state_replay] a state has at most " + std::to_string(slots.size() - kSlotHead) +
                " bytes");
  std::vector<float> actions(size_t(steps * env.io().action_dims));
  while (std::fread(slots.data() + kSlotHead, 1, bytes, stdin) == bytes) {
    if (std::fread(actions.data(), sizeof(float), actions.size(), stdin) != actions.size())
      throw Error("[state_replay] the input ends within a run");
    env.load(slots);
    for (int64_t t = 0; t < steps; ++t) {
      std::copy_n(&actions[size_t(t) * env.actions_f32.size()], env.actions_f32.size(),
                  env.actions_f32.begin());
      env.step();
      write_row(env, env.save(), 0, bytes);
      const float rest[] = {env.reward[0], float(env.terminated[0]), float(env.truncated[0])};
      write(rest, sizeof rest);
    }
  }
}

void run(const std::vector<std::string>& words) {
  if (words.size() < 3)
    throw Error("[state_replay] usage: state_replay ENV STEPS BYTES [name=value ...]");
  std::vector<std::pair<std::string, std::string>> settings;
  for (size_t i = 3; i < words.size(); ++i) {
    const size_t equals = words[i].find('=');
    if (equals == std::string::npos)
      throw Error("[state_replay] settings are name=value, got '" + words[i] + "'");
    settings.emplace_back(words[i].substr(0, equals), words[i].substr(equals + 1));
  }
  const int64_t steps = std::stoll(words[1]), count = steps > 0 ? 1 : 1000;
  const size_t bytes = std::stoull(words[2]);
  HostEnvs envs(find_env(words[0]), count, 1, settings);
  if (steps > 0) return replay(envs, steps, bytes);
  envs.reset();
  const std::vector<std::byte> slots = envs.save();
  for (int64_t row = 0; row < count; ++row) write_row(envs, slots, row, bytes);
}

}  // namespace
}  // namespace maglev

int main(int argc, char** argv) { return maglev::program(argc, argv, maglev::run); }
