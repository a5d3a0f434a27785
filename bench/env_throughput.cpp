// Environment steps per second on the host, without a policy: every environment of the table (or
// those named), with random actions drawn beforehand, N environments in blocks of 64, on one thread
// and on all.
//
//   env_throughput [--seconds 0.3] [--repeats 3] [--count N] [ENV [name=value ...]] ...
//
// Prints the median over the repeats, with N environments, or with 8, 64, 1024 and 4096; those that
// a library steps, one by one, with 8, Python's with 8 and 64. Steps that only reset are counted
// apart: they are not in the figure.

#include <algorithm>
#include <cstdio>

#include "base/core/error.h"
#include "base/core/thread_pool.h"
#include "base/env/throughput.h"
#include "bench/program.h"

namespace maglev {
namespace {

struct Case {
  std::string env;
  std::vector<std::pair<std::string, std::string>> settings;
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
    const EnvEntry& env = find_env(which.env);
    if (env.library)
      counts = env.at_once == 1 ? std::vector<int64_t>{8} : std::vector<int64_t>{8, 64};
    if (chosen_count) counts = {chosen_count};
    for (int threads : thread_counts)
      for (int64_t count : counts) {
        ThreadPool pool(threads);
        EnvThroughput measurement(env, which.settings, count, pool);
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

int main(int argc, char** argv) { return maglev::program(argc, argv, maglev::run); }
