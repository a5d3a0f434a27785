// Time of one TD-MPC2 plan on the processor beside the arithmetic it cannot do without, at the rate
// of matrix products measured in the same run: the sizes of the paper's code, and a longer horizon
// with terminations.
//
//   plan_throughput [--repeats 5] [--threads 2]
//
// A row: milliseconds a plan (least of the repeats) by the clock and in processor time, and the
// share of the lower bound reached by each: (arithmetic / product rate of all threads) / time. With
// other programs on the machine only processor time counts.

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <functional>
#include <string>

#include <torch/torch.h>

#include "algos/tdmpc2/panel_planner.h"
#include "engine/host/machine.h"

namespace maglev::tdmpc2 {
namespace {

double clock_s(clockid_t id) {
  timespec t;
  clock_gettime(id, &t);
  return double(t.tv_sec) + 1e-9 * double(t.tv_nsec);
}

struct Times {
  double wall = 1e30, cpu = 1e30;
};

Times least(int repeats, const std::function<void()>& work) {
  Times best;
  for (int i = 0; i < repeats; ++i) {
    const double wall = clock_s(CLOCK_MONOTONIC), cpu = clock_s(CLOCK_PROCESS_CPUTIME_ID);
    work();
    best.cpu = std::min(best.cpu, clock_s(CLOCK_PROCESS_CPUTIME_ID) - cpu);
    best.wall = std::min(best.wall, clock_s(CLOCK_MONOTONIC) - wall);
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
};

void measure(const Case& c, Precision precision, int threads, int64_t rows, int repeats,
             double rate) {
  Options options;
  options.horizon = c.horizon, options.samples = c.samples;
  options.episodic = c.episodic ? "on" : "off";
  const EnvSpec spec{.observations = {{.name = "vector", .shape = {18}}},
                     .action = {.low = {-1, -1, -1, -1}, .high = {1, 1, 1, 1}},
                     .max_steps = 250};
  const ModelShape shape = model_shape(options, spec);
  const PlanOptions settings = plan_options(options, shape, spec, at::kCPU);
  PanelPlanner planner(settings, shape, precision, threads);
  auto params = at::randn({model_layout(shape).size()}) * 0.04;
  planner.publish(params.data_ptr<float>());
  const PlanSizes& s = settings.sizes;
  const PlanRequest request{.latent = at::rand({rows, shape.latent}) / 4,
                            .is_first = at::zeros({rows}, at::kByte),
                            .prev_mean = at::zeros({rows, s.H, s.A}),
                            .explore = true};
  Plan plan = planner.plan(request);
  const Times t = least(repeats, [&] { planner.plan_into(request, plan); });
  const double operations = least_operations(shape, s), bound = operations * double(rows) / rate;
  std::printf(
      "%-28s %s  rows %lld  threads %d  %6.2f GF  %8.1f ms  %8.1f cpu ms  bound %7.1f ms  "
      "%5.1f %% by the clock  %5.1f %% in processor time\n",
      c.name, precision == Precision::bf16 ? "bf16" : "fp32", (long long)rows, threads,
      operations * 1e-9, t.wall * 1e3, t.cpu * 1e3, bound / threads * 1e3,
      100 * bound / threads / t.wall, 100 * bound / t.cpu);
  std::fflush(stdout);
}

}  // namespace
}  // namespace maglev::tdmpc2

int main(int argc, char** argv) {
  using namespace maglev;
  using namespace maglev::tdmpc2;
  int repeats = 5, most_threads = 2;
  for (int i = 1; i < argc; ++i) {
    const std::string flag = argv[i];
    if (flag == "--repeats" && i + 1 < argc) repeats = std::max(1, std::atoi(argv[++i]));
    else if (flag == "--threads" && i + 1 < argc) most_threads = std::max(1, std::atoi(argv[++i]));
    else {
      std::fprintf(stderr, "plan_throughput: unknown flag %s; there are --repeats, --threads\n",
                   argv[i]);
      return 2;
    }
  }
  claim_threads();
  c10::InferenceMode no_gradients;
  for (const Precision precision : {Precision::fp32, Precision::bf16}) {
    const bool bf16 = precision == Precision::bf16;
    if (bf16 && !dense_bf16_available()) {
      std::printf("bf16: this processor does not multiply pairs of bfloat16\n");
      break;
    }
    const double rate = product_rate(bf16);
    std::printf("%s products: %.1f GFLOP/s a thread\n", bf16 ? "bf16" : "fp32", rate * 1e-9);
    for (const Case& c :
         {Case{"H 3, S 512", 3, 512, false}, {"H 8, S 256, episodic", 8, 256, true}})
      for (int threads = 1; threads <= most_threads; threads *= 2)
        for (int64_t rows : {1, 8}) measure(c, precision, threads, rows, repeats, rate);
  }
  return 0;
}
