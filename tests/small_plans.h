#pragma once
// Settings of TD-MPC2 for devices that take their time: behind the algorithm's own small run.

#include <string>
#include <vector>

namespace maglev {

/// Few and small plans; episodes end within what is random. The replay holds what a test writes, for
/// all of its memory is filled with what was never written.
inline const std::vector<std::string> kSmallPlans{"env.count=2",
                                                  "train.replay_capacity=4000",
                                                  "tdmpc2.samples=8",
                                                  "tdmpc2.elites=2",
                                                  "tdmpc2.policy_trajectories=2",
                                                  "tdmpc2.iterations=2",
                                                  "tdmpc2.horizon=2",
                                                  "tdmpc2.batch=8",
                                                  "tdmpc2.update_every=42",
                                                  "tdmpc2.seed_steps=126",
                                                  "tdmpc2.updates_per_step=0.05"};
/// Behind those, where the environment is Pendulum.
inline const std::vector<std::string> kShortEpisodes{"env.max_steps=20", "tdmpc2.update_every=14",
                                                     "tdmpc2.seed_steps=42"};

}  // namespace maglev
