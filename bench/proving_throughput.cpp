// Proving on a knowledge graph, on the host and without a policy: what one derivation of 128 goals
// takes, as random play meets them, and steps per second of 128 environments, random actions drawn
// from those that are offered.
//
//   proving_throughput [--seconds 0.3] [--repeats 5] [name=value ...]      settings of environment kg
//
// A line of JSON: medians over the repeats, in a thread's own processor time, so that other
// programs count little. For steps on several threads see env_throughput kg.

#include <algorithm>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "base/core/clock.h"
#include "base/core/error.h"
#include "base/env/host_envs.h"
#include "bench/program.h"
#include "envs/kg/kg.h"

namespace maglev {
namespace {

constexpr int64_t kCount = 128;

class ProvingMeasurement {
 public:
  ProvingMeasurement(const std::vector<std::pair<std::string, std::string>>& settings)
      : envs_(find_env("kg"), kCount, 1, settings), rng_(1, stream_id(Purpose::act, 0), 0) {
    envs_.reset();
    for (int t = 0; t < 200; ++t) step();
  }

  /// Seconds that it takes to derive the successors of all environments' goals once, and how many
  /// there are of a goal.
  std::pair<double, double> derivation(double seconds) {
    const auto& params = params_of<Kg>(envs_.batch());
    const auto& assets = assets_of<Kg>(envs_.batch());
    double took = 0;
    int64_t derived = 0, successors = 0;
    while (took < seconds) {
      // goals of another moment of play: to derive from them again changes nothing that counts
      for (int t = 0; t < 3; ++t) step();
      std::vector<Kg::State*> open;
      for (int64_t i = 0; i < kCount; ++i)
        if (!envs_.terminated[size_t(i)]) open.push_back(&envs_.state<Kg>(i));
      const double start = thread_cpu_s();
      for (Kg::State* state : open) Kg::derive(params, assets, *state);
      took += thread_cpu_s() - start;
      for (Kg::State* state : open) successors += state->successors;
      derived += std::ssize(open);
    }
    return {took / double(derived) * kCount, double(successors) / double(derived)};
  }

  double steps_per_second(double seconds) {
    envs_.take_totals();
    double took = 0;
    while (took < seconds) {
      envs_.random_actions(rng_);
      const double start = thread_cpu_s();
      envs_.step();
      took += thread_cpu_s() - start;
    }
    return double(envs_.take_totals().steps) / took;
  }

 private:
  void step() {
    envs_.random_actions(rng_);
    envs_.step();
  }

  HostEnvs envs_;
  Rng rng_;
};

template <class T>
T median(std::vector<T> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

void run(const std::vector<std::string>& words) {
  double seconds = 0.3;
  int repeats = 5;
  std::vector<std::pair<std::string, std::string>> settings;
  for (size_t i = 0; i < words.size(); ++i) {
    const size_t equals = words[i].find('=');
    if (words[i] == "--seconds" && i + 1 < words.size()) seconds = std::stod(words[++i]);
    else if (words[i] == "--repeats" && i + 1 < words.size())
      repeats = std::max(1, std::stoi(words[++i]));
    else if (equals != std::string::npos)
      settings.emplace_back(words[i].substr(0, equals), words[i].substr(equals + 1));
    else
      throw Error("[proving_throughput] takes name=value, --seconds and --repeats, got " +
                  words[i]);
  }
  ProvingMeasurement measurement(settings);
  std::vector<std::pair<double, double>> derivations;
  std::vector<double> speeds;
  for (int r = 0; r < repeats; ++r) {
    derivations.push_back(measurement.derivation(seconds));
    speeds.push_back(measurement.steps_per_second(seconds));
  }
  const auto [derivation, successors] = median(derivations);
  std::printf(
      "{\"goals\": %lld, \"derivation_ms\": %.4f, \"derivations_per_second\": %.0f, "
      "\"successors\": %.2f, \"steps_per_second\": %.0f}\n",
      static_cast<long long>(kCount), 1e3 * derivation, 1 / derivation, successors, median(speeds));
}

}  // namespace
}  // namespace maglev

int main(int argc, char** argv) { return maglev::program(argc, argv, maglev::run); }
