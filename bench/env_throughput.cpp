// Environment steps per second on the host, without a policy: every environment of the table (or
// those named), with random actions drawn beforehand, N environments in blocks of 64, on one thread
// and on all.
//
//   env_throughput [--seconds 0.3] [--repeats 3] [--count N] [ENV [name=value ...]] ...
//
// Prints the median over the repeats, with N environments, or with 8, 64, 1024 and 4096; those that
// a library steps, one by one, with 8. Steps that only reset are counted apart: they are not in the
// figure.

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <iostream>
#include <memory>

#include "base/core/error.h"
#include "base/core/thread_pool.h"
#include "tests/envs_host.h"

namespace maglev {
namespace {

constexpr int64_t kActionRows = 64;  // rows of actions drawn beforehand, then used again

struct Case {
  std::string env;
  std::vector<std::pair<std::string, std::string>> settings;
};

double now_s() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

class Measurement {
 public:
  Measurement(const Case& which, int64_t count, ThreadPool& pool)
      : envs_(find_env(which.env), count, 1, which.settings), pool_(pool), io_(envs_.io()) {
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

  double steps_per_second(double seconds) {
    envs_.take_totals();
    const double start = now_s();
    do {
      for (int t = 0; t < 16; ++t) step();
    } while (now_s() - start < seconds);
    const double took = now_s() - start;
    return double(envs_.take_totals().steps) / took;
  }

 private:
  void step() {
    const int64_t row = turn_++ % kActionRows * envs_.rows() * io_.action_dims;
    if (io_.action_i32) io_.action_i32 = i32_.data() + row;
    if (io_.action_f32) io_.action_f32 = f32_.data() + row;
    const int64_t block = envs_.entry().host_only ? 1 : 64;
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

void run(const std::vector<std::string>& words) {
  double seconds = 0.3;
  int repeats = 3;
  int64_t chosen_count = 0;
  std::vector<Case> cases;
  for (size_t i = 0; i < words.size(); ++i) {
    const size_t equals = words[i].find('=');
    if (words[i] == "--seconds" && i + 1 < words.size()) seconds = std::stod(words[++i]);
    else if (words[i] == "--repeats" && i + 1 < words.size())
      repeats = std::max(1, std::stoi(words[++i]));
    else if (words[i] == "--count" && i + 1 < words.size())
      chosen_count = std::max(1, std::stoi(words[++i]));
    else if (equals == std::string::npos)
      cases.push_back({std::string(find_env(words[i]).name), {}});
    else if (cases.empty())
      throw Error("[env_throughput] name the environment before its settings");
    else
      cases.back().settings.emplace_back(words[i].substr(0, equals), words[i].substr(equals + 1));
  }
  if (cases.empty())
    for (const auto& e : env_table()) cases.push_back({e.name, {}});

  std::vector<int> thread_counts{1};
  if (usable_cpus() > 1) thread_counts.push_back(usable_cpus());
  std::printf("%-14s %8s %8s %16s %10s %10s\n", "environment", "N", "threads", "steps/s median",
              "min", "max");
  for (const auto& which : cases) {
    std::vector<int64_t> counts{8, 64, 1024, 4096};
    if (find_env(which.env).library) counts = {8};
    if (chosen_count) counts = {chosen_count};
    for (int threads : thread_counts)
      for (int64_t count : counts) {
        ThreadPool pool(threads);
        Measurement measurement(which, count, pool);
        std::vector<double> speeds;
        for (int r = 0; r < repeats; ++r) speeds.push_back(measurement.steps_per_second(seconds));
        std::sort(speeds.begin(), speeds.end());
        std::printf("%-14s %8lld %8d %14.4g M %8.4g M %8.4g M\n", which.env.c_str(),
                    static_cast<long long>(count), threads, speeds[speeds.size() / 2] / 1e6,
                    speeds.front() / 1e6, speeds.back() / 1e6);
        std::fflush(stdout);
      }
  }
}

}  // namespace
}  // namespace maglev

int main(int argc, char** argv) {
  try {
    maglev::run({argv + 1, argv + argc});
  } catch (const std::exception& error) {
    std::cerr << error.what() << "\n";
    return 2;
  }
}
