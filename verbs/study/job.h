#pragma once
// A study as one job that can be stopped and gone on with: every arm's seeds are trained, then
// every seed is judged.
//   study.json             what was asked for
//   <arm>/                 the seeds of a trained arm (verbs/train/seeds.h)
//   judged/<arm>-<n>.json  how seed n forages
//   study.lock             held while this study works

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/core/file.h"
#include "engine/algo/experiment.h"
#include "engine/train/training_run.h"
#include "verbs/settings.h"
#include "verbs/study/arms.h"
#include "verbs/study/judgement.h"

namespace maglev::verbs::study {

struct StudyRequest {
  const Plan* plan;
  std::vector<const Arm*> arms;
  std::string folder;
  int64_t seeds = 5;  ///< from 1 on
  int64_t steps = 0;  ///< of each run; 0: as many as are proven
  Protocol protocol = {};
  SettingsFiles files = {};                ///< of all arms, below what they differ in
  std::vector<std::string> settings = {};  ///< name=value, of all arms; and +hardware=NAME
  bool overwrite = false;  ///< another study in the folder is moved aside, not deleted
};

/// Returns per 1,000 steps of training, of the policy that acted then: what it is worth, whatever
/// it was paid, and what the proxy would have paid.
struct TrainedPoint {
  double step, truth, proxy;
};

struct ArmResult {
  const Arm* arm;
  /// Trained, one a seed: whole iterations, or until a return was reached; empty: it was not.
  std::vector<int64_t> steps = {};
  std::vector<Judgement> seeds = {};
  /// One a seed, by steps; without those whose metrics are gone.
  std::vector<std::vector<TrainedPoint>> curves = {};
};

class StudyJob {
 public:
  /// Makes the folder, or takes up the study that lies there. Throws Error where it was asked for
  /// otherwise, or holds something else.
  explicit StudyJob(StudyRequest request);

  /// Trains what is not trained, a seed whose folder was removed among it. stopped: a signal came.
  RunOutcome train();
  /// Judges what is not judged, saying so on standard error.
  std::vector<ArmResult> judge();

  const StudyRequest& request() const { return request_; }
  /// The settings an arm trains with.
  std::unique_ptr<Experiment> experiment_of_arm(const Arm& arm) const;

 private:
  std::string folder_of(const Arm& arm) const { return request_.folder + "/" + arm.name; }
  std::string run_of(const Arm& arm, uint64_t seed) const {
    return folder_of(arm) + "/seed-" + std::to_string(seed);
  }
  /// `which`: a checkpoint of the run.
  Judgement judge_run(const std::string& run, uint64_t seed,
                      const std::string& which = "latest") const;
  Judgement judge_script(const Arm& arm, uint64_t seed) const;
  Judgement judge_quantiliser(const Quantile& quantile, uint64_t seed) const;
  /// Of the checkpoints of `arm`'s run the best by a small audit, in other worlds than those that
  /// judge.
  Judgement judge_audited(const Arm& arm, uint64_t seed) const;
  Judgement judge(const Arm& arm, uint64_t seed) const;
  /// As it was written down, else judged now.
  Judgement judged(const Arm& arm, uint64_t seed) const;

  StudyRequest request_;
  std::optional<FileLock> lock_;
};

}  // namespace maglev::verbs::study
