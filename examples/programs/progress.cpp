// A program of its own around the engine: trains PPO on CartPole and tells of it by hooks
// (engine/train/hooks.h), in place of the console that `maglev train` has.
//
//   progress FOLDER [name=value ...]

#include <cstdio>
#include <exception>
#include <span>
#include <string>

#include "engine/algo/experiment.h"
#include "engine/host/machine.h"
#include "engine/train/training_run.h"

namespace {

/// The longest episode so far, and each update's last entropy.
class Progress {
 public:
  maglev::Hooks hooks() {
    return {
        .episodes = [this](std::span<const maglev::FinishedEpisode> some) { hear(some); },
        .epoch = [this](int64_t, const maglev::Figures& figures) { hear(figures); },
        .training_end =
            [this](const maglev::Trainer&) {
              std::printf("%lld episodes, the longest of %lld steps, entropy %.3f\n",
                          (long long)episodes_, (long long)longest_, entropy_);
            },
    };
  }

 private:
  void hear(std::span<const maglev::FinishedEpisode> some) {
    episodes_ += int64_t(some.size());
    for (const maglev::FinishedEpisode& episode : some) {
      if (episode.length <= longest_) continue;
      longest_ = episode.length;
      std::printf("step %lld: environment %lld lasted %lld steps\n", (long long)episode.step,
                  (long long)episode.environment, (long long)episode.length);
    }
  }
  void hear(const maglev::Figures& figures) {
    for (const auto& [name, value] : figures)
      if (name == "loss/entropy") entropy_ = value;
  }

  int64_t episodes_ = 0, longest_ = 0;
  double entropy_ = 0;
};

}  // namespace

int main(int count, char** words) {
  try {
    if (count < 2) {
      std::fputs("usage: progress FOLDER [name=value ...]\n", stderr);
      return 2;
    }
    maglev::claim_threads();
    maglev::Experiment experiment("ppo", "cartpole");
    for (int i = 2; i < count; ++i) experiment.table().override_with(words[i]);
    Progress progress;
    const auto outcome = maglev::train_new(
        experiment, {.out = words[1], .sinks = {"jsonl"}, .hooks = progress.hooks()});
    return outcome == maglev::RunOutcome::finished ? 0 : 1;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "progress: %s\n", error.what());
    return 2;
  }
}
