// Milliseconds of one update of TD-MPC2 on the CPU, its weights published to the planner, and the
// share of the arithmetic bound it reaches: the multiply-adds of an update that computes only the
// drawn pair of value networks in targets and policy loss, at the rate of f32 matrix products
// measured in the same run.
//
//   update_throughput [--repeats 5] [--threads N] [--plain] [--precision bf16] [CASE ...]
//
// A line of JSON a case and number of threads (1 and all, unless given). --plain times the autograd
// path instead. Times are the least over the repeats: wall clock, and processor time of the calling
// thread.

#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include "algos/tdmpc2/panels/learner.h"
#include "algos/tdmpc2/panels/planner.h"
#include "algos/tdmpc2/reference/learner.h"
#include "base/core/clock.h"
#include "base/core/error.h"
#include "bench/product_rate.h"
#include "bench/program.h"
#include "engine/host/machine.h"

namespace maglev {
namespace {

using namespace tdmpc2;

struct Case {
  const char* name;
  int64_t obs, actions, horizon, batch, num_q;
  int64_t enc_dim, mlp_dim, latent;
  bool episodic;
  HiddenWidths hidden = {};
};
// the hockey report's: what it measured, two of its steps, and what it recommends in the end
const Case kCases[] = {{"default", 18, 4, 3, 256, 5, 256, 512, 512, false},
                       {"report", 18, 4, 8, 256, 5, 256, 512, 512, true},
                       {"report_512", 18, 4, 8, 512, 3, 256, 512, 512, true},
                       {"report_3q", 18, 4, 8, 256, 3, 256, 512, 512, true},
                       {"report_horizon", 18, 4, 5, 256, 5, 256, 512, 512, true},
                       {"tuned",
                        18,
                        4,
                        5,
                        512,
                        3,
                        512,
                        512,
                        512,
                        true,
                        {.encoder = {512, 512}, .reward = {384, 384}, .termination = {256, 256}}},
                       {"small", 18, 4, 3, 256, 2, 128, 128, 64, false},
                       {"middle", 18, 4, 3, 256, 2, 128, 256, 128, false}};

int64_t multiply_adds(const MlpPlaces& net) {
  int64_t sum = 0;
  for (const auto& layer : net) sum += layer.in * layer.out;
  return sum;
}

// floating-point operations of an update: forward once, back twice that where weights learn
double update_flops(const Case& c, const ModelLayout& layout) {
  const int64_t encoder = multiply_adds(layout.encoder), policy = multiply_adds(layout.policy);
  const int64_t q = multiply_adds(layout.q.front()), rows = c.horizon * c.batch;
  int64_t heads = multiply_adds(layout.dynamics) + multiply_adds(layout.reward) + c.num_q * q;
  if (c.episodic) heads += multiply_adds(layout.termination);
  const int64_t targets = rows * (encoder + policy + 2 * q);
  const int64_t later = (c.horizon + 1) * c.batch * (3 * policy + 2 * 2 * q);
  return 2. * double(targets + 3 * c.batch * encoder + 3 * rows * heads + later);
}

template <class Learner>
void measure(const Case& c, int threads, int repeats, Precision precision, const char* path) {
  ThreadPool pool(threads, [] { at::set_num_threads(1); });
  Options o;
  o.enc_dim = c.enc_dim, o.mlp_dim = c.mlp_dim, o.latent_dim = c.latent, o.num_q = c.num_q;
  o.horizon = c.horizon, o.batch = c.batch, o.episodic = c.episodic, o.hidden = c.hidden;
  EnvSpec spec{.observations = {{.name = "vector", .shape = {c.obs}}}, .max_steps = 250};
  spec.action.low.assign(size_t(c.actions), -1), spec.action.high.assign(size_t(c.actions), 1);
  const LearnerOptions options{.options = o,
                               .shape = model_shape(o, spec),
                               .seed = 1,
                               .discount = discounts(o, spec),
                               .precision = precision,
                               .pool = &pool};
  LearnerState state(o, options.shape, 1, at::kCPU);
  Learner learner(options, state);
  const Sequences batch{.obs = at::randn({c.horizon + 1, c.batch, c.obs}),
                        .action = at::rand({c.horizon, c.batch, c.actions}) * 2 - 1,
                        .reward = at::randn({c.horizon, c.batch}),
                        .terminated = at::zeros({c.horizon, c.batch})};
  auto figures = at::zeros({int64_t(kFigures)});
  PanelPlanner planner(plan_options(o, options.shape, spec, at::kCPU), options.shape, precision,
                       threads);
  const auto learn = [&] {
    learner.update(batch, figures);
    planner.publish(*state.model, state.params.data());
  };
  learn();
  double wall = 1e9, cpu = 1e9;
  for (int r = 0; r < repeats; ++r) {
    const double wall_start = steady_s(), start = thread_cpu_s();
    learn();
    wall = std::min(wall, steady_s() - wall_start);
    cpu = std::min(cpu, thread_cpu_s() - start);
  }
  const double flops = update_flops(c, state.model->layout()), rate = product_rate();
  const double bound = flops / rate / threads;
  std::printf(
      "{\"case\": \"%s\", \"path\": \"%s\", \"precision\": \"%s\", \"threads\": %d, \"ms\": %.2f, "
      "\"cpu_ms\": %.2f, \"gflop\": %.2f, \"product_gflops\": %.1f, \"bound_ms\": %.2f, "
      "\"share_of_bound\": %.3f, \"share_of_bound_cpu\": %.3f}\n",
      c.name, path, name_of(precision), threads, wall * 1e3, cpu * 1e3, flops * 1e-9, rate * 1e-9,
      bound * 1e3, bound / wall, bound / cpu);
  std::fflush(stdout);
}

void run(const std::vector<std::string>& words) {
  int repeats = 5, threads = 0;
  bool plain = false;
  Precision precision = Precision::fp32;
  std::vector<std::string> names;
  for (size_t i = 0; i < words.size(); ++i) {
    if (words[i] == "--repeats" && i + 1 < words.size()) repeats = std::stoi(words[++i]);
    else if (words[i] == "--threads" && i + 1 < words.size()) threads = std::stoi(words[++i]);
    else if (words[i] == "--plain") plain = true;
    else if (words[i] == "--precision" && i + 1 < words.size())
      precision = words[++i] == "bf16" ? Precision::bf16 : Precision::fp32;
    else names.push_back(words[i]);
  }
  claim_threads();
  std::vector<int> counts{threads > 0 ? threads : 1};
  if (threads == 0 && usable_cpus() > 1) counts.push_back(usable_cpus());
  for (const Case& c : kCases) {
    if (!names.empty() && std::find(names.begin(), names.end(), c.name) == names.end()) continue;
    for (int count : counts) {
      if (plain) measure<ReferenceLearner>(c, count, repeats, precision, "autograd");
      else measure<PanelLearner>(c, count, repeats, precision, "panels");
    }
  }
}

}  // namespace
}  // namespace maglev

int main(int argc, char** argv) { return maglev::program(argc, argv, maglev::run); }
