// Environments of this engine for a program in another language, over its pipes: what plays them
// there is tests/parity/sb3_envs.py.
//
//   env_pipe ENV COUNT SEED [name=value ...] < actions > rows
//
// First comes what there is, as text: lines "column <name> <dtype> <sizes>", "vocabulary <sizes>"
// (of tokens, else none), "heads <sizes>" (none: actions are numbers), "mask <width>" (0: there is
// none) and "end". Then what all environments begin with, and for each actions i32 [COUNT, heads] or
// f32 [COUNT, dims] that are read what came of them: reward f32 [COUNT], terminated and truncated u8 [COUNT], the columns of those whose
// episodes ended, one column after another, and what all environments show then. What is shown is
// every column [COUNT, sizes] and the mask u8 [COUNT, width].
//
// An episode that ended begins anew within the step, as Gymnasium's vector environments once did
// and Stable-Baselines3's do.

#include <cstdio>
#include <iostream>
#include <string>
#include <vector>

#include "base/core/error.h"
#include "base/env/host_envs.h"

namespace maglev {
namespace {

template <class T>
void write(const std::vector<T>& values) {
  std::fwrite(values.data(), sizeof(T), values.size(), stdout);
}

void write_columns(const HostEnvs& envs, const std::vector<int64_t>& rows) {
  for (int c = 0; c < int(envs.spec().observations.size()); ++c)
    for (int64_t row : rows)
      std::fwrite(envs.obs<std::byte>(c, row), 1, size_t(envs.io().obs_row_bytes[c]), stdout);
}

std::string sizes_of(const std::vector<int64_t>& sizes) {
  std::string text;
  for (int64_t size : sizes) text += " " + std::to_string(size);
  return text;
}

void introduce(const HostEnvs& envs) {
  const EnvSpec& spec = envs.spec();
  std::string text;
  for (const ObsColumn& column : spec.observations)
    text += "column " + column.name +
            (column.dtype == DType::u8    ? " uint8"
             : column.dtype == DType::i32 ? " int32"
                                          : " float32") +
            sizes_of(column.shape) + "\n";
  text += "vocabulary" + sizes_of(spec.observations[0].vocabulary) + "\n";
  text += "heads" + sizes_of(spec.action.heads) + "\n";
  text += "mask " + std::to_string(envs.io().mask_width) + "\nend\n";
  std::fwrite(text.data(), 1, text.size(), stdout);
}

template <class T>
bool read(std::vector<T>& actions) {
  const size_t count = std::fread(actions.data(), sizeof(T), actions.size(), stdin);
  if (count == actions.size()) return true;
  if (count != 0) throw Error("[env_pipe] the actions end within a step");
  return false;
}

void serve(HostEnvs& envs) {
  if (envs.rows() != envs.count())
    throw Error("[env_pipe] takes environments of one agent, not " +
                std::string(envs.entry().name));
  std::vector<int64_t> all(size_t(envs.count()));
  for (size_t i = 0; i < all.size(); ++i) all[i] = int64_t(i);
  envs.reset();
  introduce(envs);
  for (;;) {
    write_columns(envs, all);
    write(envs.mask);
    std::fflush(stdout);

    if (!(envs.spec().action.discrete() ? read(envs.actions_i32) : read(envs.actions_f32))) return;
    envs.step();
    write(envs.reward), write(envs.terminated), write(envs.truncated);
    std::vector<int64_t> ended;
    for (int64_t i : all)
      if (envs.terminated[size_t(i)] | envs.truncated[size_t(i)]) ended.push_back(i);
    write_columns(envs, ended);
    // the step after an episode's last begins the next
    for (int64_t i : ended) envs.step(i, i + 1);
  }
}

}  // namespace
}  // namespace maglev

int main(int argc, char** argv) {
  try {
    if (argc < 4) throw maglev::Error("[env_pipe] usage: env_pipe ENV COUNT SEED [name=value ...]");
    std::vector<std::pair<std::string, std::string>> settings;
    for (int i = 4; i < argc; ++i) {
      const std::string text = argv[i];
      const size_t equals = text.find('=');
      if (equals == std::string::npos)
        throw maglev::Error("[env_pipe] settings are name=value, got '" + text + "'");
      settings.emplace_back(text.substr(0, equals), text.substr(equals + 1));
    }
    maglev::HostEnvs envs(maglev::find_env(argv[1]), std::stoll(argv[2]),
                          uint64_t(std::stoull(argv[3])), settings);
    maglev::serve(envs);
  } catch (const std::exception& error) {
    std::cerr << error.what() << "\n";
    return 2;
  }
}
