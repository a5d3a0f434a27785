#include "engine/train/random_play.h"

#include <algorithm>
#include <cstring>
#include <string_view>

#include <ATen/ATen.h>

#include "base/env/host_envs.h"
#include "engine/data/scalar_type.h"

namespace maglev {
namespace {

// what is looked at of a rollout: rows, and bytes
constexpr int64_t kSeenRows = 16384, kSeenBytes = int64_t(64) << 20;
// steps before: environments begin alike
constexpr int kApart = 32;
constexpr uint64_t kPlaySeed = 1;

}  // namespace

std::vector<std::pair<std::string, std::string>> own_env_settings(const Experiment& experiment) {
  constexpr std::string_view kSection = "env.", kCount = "env.count";
  std::vector<std::pair<std::string, std::string>> settings;
  for (const Field& field : experiment.table().fields())
    if (field.name.starts_with(kSection) && field.name != kCount)
      settings.emplace_back(field.name.substr(kSection.size()), field.plain());
  return settings;
}

std::vector<at::Tensor> seen_in_random_play(const Experiment& experiment, int64_t steps) {
  const EnvSpec spec = experiment.spec();
  int64_t row_bytes = 1;
  for (const ObsColumn& column : spec.observations) row_bytes += column.row_bytes();
  const int64_t most = std::clamp<int64_t>(kSeenBytes / row_bytes, 1, kSeenRows);
  const int64_t count =
      std::clamp<int64_t>(most / spec.agents, 1, std::max<int64_t>(1, experiment.run.env_count));
  HostEnvs envs(experiment.env(), count, kPlaySeed, own_env_settings(experiment));
  const int64_t rows = envs.rows();
  steps = std::clamp<int64_t>(most / rows, 1, std::max<int64_t>(1, steps));
  std::vector<at::Tensor> seen;
  for (const ObsColumn& column : spec.observations) {
    std::vector<int64_t> sizes{steps, rows};
    sizes.insert(sizes.end(), column.shape.begin(), column.shape.end());
    seen.push_back(at::empty(sizes, scalar_type(column.dtype)));
  }

  Rng rng(kPlaySeed, stream_id(Purpose::act, 0), 0);
  envs.reset();
  for (int64_t t = -kApart; t < steps; ++t) {
    for (size_t c = 0; t >= 0 && c < seen.size(); ++c) {
      const at::Tensor step = seen[c][t];
      std::memcpy(step.mutable_data_ptr(), envs.obs<std::byte>(int(c), 0), step.nbytes());
    }
    envs.random_actions(rng);
    envs.step();
  }
  return seen;
}

}  // namespace maglev
