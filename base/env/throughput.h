#pragma once
// Steps per second of an environment on the host, without a policy: random actions drawn
// beforehand, environments in blocks of 64. Needs no torch.

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "base/core/clock.h"
#include "base/core/thread_pool.h"
#include "base/env/host_envs.h"

namespace maglev {

class EnvThroughput {
 public:
  /// `settings` are env.* settings without the prefix.
  EnvThroughput(const EnvEntry& env,
                const std::vector<std::pair<std::string, std::string>>& settings, int64_t count,
                ThreadPool& pool)
      : envs_(env, count, 1, settings), pool_(pool), io_(envs_.io()) {
    envs_.reset();
    Rng rng(1, stream_id(Purpose::act, 0), 0);
    for (int64_t t = 0; t < kActionRows; ++t) {
      envs_.random_actions(rng);
      i32_.insert(i32_.end(), envs_.actions_i32.begin(), envs_.actions_i32.end());
      f32_.insert(f32_.end(), envs_.actions_f32.begin(), envs_.actions_f32.end());
    }
    // past the first episodes, so that resets are spread over time; a library's end at their limit
    for (int t = 0; t < (envs_.entry().library ? 20 : 600); ++t) step();
  }

  /// Of steps that are not resets alone, by the clock.
  double steps_per_second(double seconds) {
    envs_.take_totals();
    const double start = steady_s();
    do {
      for (int t = 0; t < 16; ++t) step();
    } while (steady_s() - start < seconds);
    const double took = steady_s() - start;
    return double(envs_.take_totals().steps) / took;
  }

 private:
  static constexpr int64_t kActionRows = 64;  // drawn beforehand, then used again

  void step() {
    const int64_t row = turn_++ % kActionRows * envs_.rows() * io_.action_dims;
    if (io_.action_i32) io_.action_i32 = i32_.data() + row;
    if (io_.action_f32) io_.action_f32 = f32_.data() + row;
    const int64_t block = envs_.entry().at_once;
    pool_.run((envs_.count() + block - 1) / block, [this, block](int64_t i) {
      envs_.entry().step_cpu(envs_.batch(), io_, i * block,
                             std::min((i + 1) * block, envs_.count()));
    });
  }

  HostEnvs envs_;
  ThreadPool& pool_;
  StepIo io_;
  std::vector<int32_t> i32_;
  std::vector<float> f32_;
  int64_t turn_ = 0;
};

}  // namespace maglev
