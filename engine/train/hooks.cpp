#include "engine/train/hooks.h"

#include <ATen/ATen.h>

namespace maglev {

EpisodeLog::EpisodeLog(const VecEnv& envs)
    : agents_(envs.agents()), running_(envs.running_episodes()) {}

std::span<const FinishedEpisode> EpisodeLog::read(StepWindow& window, int64_t step) {
  finished_.clear();
  const int64_t T = window.shape().T, rows = window.shape().rows;
  for (int64_t t = 0; t < T; ++t) {
    const at::Tensor reward = window.reward(t).cpu(), terminated = window.terminated(t).cpu(),
                     truncated = window.truncated(t).cpu(),
                     next_first = window.step(t + 1).is_first.cpu();
    const float* r = reward.const_data_ptr<float>();
    const uint8_t *end = terminated.const_data_ptr<uint8_t>(),
                  *cut = truncated.const_data_ptr<uint8_t>(),
                  *first = next_first.const_data_ptr<uint8_t>();
    for (size_t e = 0; e < running_.size(); ++e) {
      RunningEpisode& episode = running_[e];
      const int64_t row = int64_t(e) * agents_;
      // a step that only begins the next episode, or waits for it
      if (first[row]) {
        episode = {};
        continue;
      }
      episode.episode_return += double(r[row]);
      ++episode.length;
      if (end[row] || cut[row])
        finished_.push_back({.environment = int64_t(e),
                             .step = step - (T - 1 - t) * rows,
                             .episode_return = episode.episode_return,
                             .length = episode.length,
                             .terminated = end[row] != 0});
    }
  }
  return finished_;
}

}  // namespace maglev
