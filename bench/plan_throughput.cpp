// Time of one TD-MPC2 plan on the processor, weights published anew before it, beside the
// arithmetic it cannot do without at the rate of matrix products measured in the same run: the
// sizes of the paper's code, and those of the hockey report: a longer horizon with terminations, what
// it recommends in the end, and each of its steps there by itself.
//
//   plan_throughput [--repeats 5] [--threads N] [--envs N] [--precision fp32|bf16] [CASE ...]
//
// Cases: default, report, tuned, samples, horizon, rounds, widths. A line of JSON for each of them,
// 1 and 8 environments, both precisions, 1 and all threads, unless given: milliseconds of one call
// that plans all environments, the least of the repeats, by the clock and in processor time, and the
// share of the lower bound reached by each: (arithmetic / product rate of all threads) / time. With
// other programs on the machine only processor time counts. Where the processor lacks bf16 the line
// says so as `missing`.

#include <algorithm>
#include <cstdio>
#include <functional>
#include <string>
#include <vector>

#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>

#include "algos/tdmpc2/panels/planner.h"
#include "base/config/choice.h"
#include "base/core/clock.h"
#include "base/core/error.h"
#include "bench/program.h"
#include "engine/device/precision.h"
#include "engine/host/machine.h"

namespace maglev::tdmpc2 {
namespace {

struct Times {
  double wall = 1e30, cpu = 1e30;
};

Times least(int repeats, const std::function<void()>& work) {
  Times best;
  for (int i = 0; i < repeats; ++i) {
    const double wall = steady_s(), cpu = process_cpu_s();
    work();
    best.cpu = std::min(best.cpu, process_cpu_s() - cpu);
    best.wall = std::min(best.wall, steady_s() - wall);
  }
  return best;
}

/// Operations a second of products [512, 512] x [512, 512], one thread, processor time.
double product_rate(bool bf16) {
  const auto type = bf16 ? at::kBFloat16 : at::kFloat;
  auto x = at::randn({512, 512}).to(type), w = at::randn({512, 512}).to(type);
  auto out = at::empty({512, 512}, type);
  const int count = 16;
  const Times t = least(20, [&] {
    for (int i = 0; i < count; ++i) at::linear_out(out, x, w);
  });
  return count * 2 * 512. * 512 * 512 / t.cpu;
}

/// Multiply-adds of a row through layers, its first `shared` inputs left out of the first layer.
double multiply_adds(const MlpPlaces& places, int64_t shared = 0) {
  double sum = -double(shared * places[0].out);
  for (const auto& place : places) sum += double(place.in * place.out);
  return sum;
}

/// Operations of a plan with everything left out that cannot change it.
double least_operations(const ModelShape& shape, const PlanSizes& s) {
  const ModelLayout m = model_layout(shape);
  const double first =
      multiply_adds(m.dynamics, shape.latent) + multiply_adds(m.reward, shape.latent);
  const double later = multiply_adds(m.dynamics) + multiply_adds(m.reward);
  const double ended = shape.episodic ? multiply_adds(m.termination) : 0;
  const double steps = first + double(s.H - 1) * later + double(s.H) * ended;
  const double behind = multiply_adds(m.policy) + 2 * multiply_adds(m.q[0]);
  const double policy = double(s.H) * multiply_adds(m.policy) + steps;
  return 2 *
         (double(s.I) * (double(s.S - s.P) * steps + double(s.S) * behind) + double(s.P) * policy);
}

struct Case {
  const char* name;
  int64_t horizon, samples;
  bool episodic;
  int64_t iterations = 6, elites = 64, policy_trajectories = 24;
  bool widths = false;  ///< those of configs/tdmpc2/hockey_report_tuned.yaml
};
constexpr Case kCases[] = {{"default", 3, 512, false},
                           {"report", 8, 256, true},
                           {"tuned", 5, 128, true, 4, 32, 16, true},
                           {"samples", 8, 128, true},
                           {"horizon", 5, 256, true},
                           {"rounds", 8, 256, true, 4, 32, 16},
                           {"widths", 8, 256, true, 6, 64, 24, true}};

void measure(const Case& c, Precision precision, int threads, int64_t rows, int repeats,
             double rate) {
  Options options;
  options.horizon = c.horizon, options.samples = c.samples;
  options.episodic = c.episodic;
  options.iterations = c.iterations, options.elites = c.elites;
  options.policy_trajectories = c.policy_trajectories;
  if (c.widths) options.hidden = {.reward = {384, 384}, .termination = {256, 256}};
  const EnvSpec spec{.observations = {{.name = "vector", .shape = {18}}},
                     .action = {.low = {-1, -1, -1, -1}, .high = {1, 1, 1, 1}},
                     .max_steps = 250};
  const ModelShape shape = model_shape(options, spec);
  const PlanOptions settings = plan_options(options, shape, spec, at::kCPU);
  PanelPlanner planner(settings, shape, precision, threads);
  const WorldModel model(shape, false, Initializer::none());
  const PlanSizes& s = settings.sizes;
  const PlanRequest request{.latent = at::rand({rows, shape.latent}) / 4,
                            .is_first = at::zeros({rows}, at::kByte),
                            .prev_mean = at::zeros({rows, s.H, s.A}),
                            .explore = true};
  // as in training, where weights are new at every step that has learned
  const at::Tensor weights = at::randn({model.layout().size()}) * 0.04;
  planner.publish(model, weights);
  Plan plan = planner.plan(request);
  const Times t = least(repeats, [&] {
    planner.publish(model, weights);
    planner.plan_into(request, plan);
  });
  const double operations = least_operations(shape, s), bound = operations * double(rows) / rate;
  std::printf(
      "{\"case\": \"%s\", \"threads\": %d, \"envs\": %lld, \"precision\": \"%s\", "
      "\"ms\": %.2f, \"cpu_ms\": %.2f, \"gflop\": %.2f, \"product_gflops\": %.1f, "
      "\"bound_ms\": %.2f, \"share_of_bound\": %.3f, \"share_of_bound_cpu\": %.3f}\n",
      c.name, threads, static_cast<long long>(rows), name_of(precision), t.wall * 1e3, t.cpu * 1e3,
      operations * double(rows) * 1e-9, rate * 1e-9, bound / threads * 1e3,
      bound / threads / t.wall, bound / t.cpu);
  std::fflush(stdout);
}

void run(const std::vector<std::string>& words) {
  int repeats = 5;
  std::vector<int> threads{1};
  if (usable_cpus() > 1) threads.push_back(usable_cpus());
  std::vector<int64_t> envs{1, 8};
  std::vector<Precision> precisions{Precision::fp32, Precision::bf16};
  std::vector<std::string> names;
  for (size_t i = 0; i < words.size(); ++i) {
    const bool value = i + 1 < words.size();
    if (words[i] == "--repeats" && value) repeats = std::stoi(words[++i]);
    else if (words[i] == "--threads" && value) threads = {std::stoi(words[++i])};
    else if (words[i] == "--envs" && value) envs = {std::stoll(words[++i])};
    else if (words[i] == "--precision" && value)
      precisions = {words[++i] == "bf16" ? Precision::bf16 : Precision::fp32};
    else if (std::any_of(std::begin(kCases), std::end(kCases),
                         [&](const Case& c) { return words[i] == c.name; }))
      names.push_back(words[i]);
    else
      throw Error("[plan_throughput] no case or flag " + words[i] +
                  "; cases: default, report, tuned, samples, horizon, rounds, widths; flags: "
                  "--repeats, --threads, --envs, --precision");
  }
  claim_threads();
  c10::InferenceMode no_gradients;
  for (const Precision precision : precisions) {
    const bool bf16 = precision == Precision::bf16, offered = !bf16 || pair_products_available();
    const double rate = offered ? product_rate(bf16) : 0;
    for (const Case& c : kCases) {
      if (!names.empty() && std::find(names.begin(), names.end(), c.name) == names.end()) continue;
      if (!offered) {
        std::printf(
            "{\"case\": \"%s\", \"precision\": \"bf16\", \"missing\": \"this processor "
            "does not multiply pairs of bfloat16\"}\n",
            c.name);
        continue;
      }
      for (const int count : threads)
        for (const int64_t rows : envs) measure(c, precision, count, rows, repeats, rate);
    }
  }
}

}  // namespace
}  // namespace maglev::tdmpc2

int main(int argc, char** argv) { return maglev::program(argc, argv, maglev::tdmpc2::run); }
