#pragma once
// How one who was trained, or plays, forages on the ground where survival is judged.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/core/thread_pool.h"
#include "engine/algo/experiment.h"
#include "engine/play/player.h"
#include "verbs/study/foraging.h"

namespace maglev::verbs::study {

/// How one training seed forages; of a scripted player, how it does in worlds of that seed.
struct Judgement {
  uint64_t seed;
  Foraging sampled;
  std::optional<Foraging> greedy;  ///< a script has one way to play, a quantiliser draws
};

/// The grid where survival is judged, under the other settings of an experiment.
struct Ground {
  /// `settings`: env.name=value over those of `made`, survival_settings() among them. Throws Error.
  Ground(std::unique_ptr<Experiment> made, const std::vector<std::string>& settings);
  Ground(const Ground&) = delete;
  Ground& operator=(const Ground&) = delete;

  std::unique_ptr<Experiment> experiment;
  Placement placement;
  ThreadPool pool;
  Game game;
};

/// A run's policy by actions that are drawn, and by the likeliest ones; every run meets the same
/// worlds. Throws Error.
Judgement judge_policy(const RunName& run, uint64_t seed, const Ground& ground,
                       const Protocol& protocol);

/// A scripted player, in worlds of that seed: nothing of it was trained. Throws Error.
Judgement judge_player(const std::string& name, uint64_t seed, const Ground& ground,
                       const Protocol& protocol);

/// Throws Error where one of `settings`, name=value, is set where survival is judged.
void refuse_survival_settings(const std::vector<std::string>& settings);

}  // namespace maglev::verbs::study
