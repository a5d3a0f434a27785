// TD-MPC2 where a device does it: plans and updates as captured graphs, replayed.
//
//   device_throughput [--device cuda|cpu] [--precision fp32|bf16] [--plans 10000] [--updates 200]
//                     [--dependent] [CASE ...]
//
// Cases: default (the official sizes), report (the report's: horizon 8, 256 samples, terminations,
// 3 value networks). A line of JSON for each case, precision of the device and 1, 16, 64 and 256
// rows planned together, and of each update, as a GPU makes it and by autograd. Milliseconds of a
// call that is waited for (`ms`: the median of 100) and of calls that follow each other
// (`ms_queued`: the mean of all); plans a second of those; bytes the allocator holds before and
// after them. On a processor the same program runs eagerly: it shows that it runs, PanelPlanner is
// what plans there. --dependent: kernels by dependent launches (train.dependent_launch).

#include <algorithm>
#include <cstdio>
#include <functional>
#include <string>
#include <vector>

#include <ATen/ATen.h>

#include "algos/tdmpc2/device/planner.h"
#include "algos/tdmpc2/learner.h"
#include "base/core/clock.h"
#include "base/core/error.h"
#include "bench/program.h"
#include "engine/device/device.h"
#include "engine/device/launch.h"
#include "engine/device/step_graph.h"
#include "engine/host/machine.h"

namespace maglev::tdmpc2 {
namespace {

struct Case {
  const char* name;
  int64_t horizon, samples, num_q, batch;
  bool episodic;
};
constexpr Case kCases[] = {{"default", 3, 512, 5, 256, false}, {"report", 8, 256, 3, 512, true}};
constexpr int kEager = 3;     ///< calls before a capture, in which libraries set themselves up
constexpr int kWaited = 100;  ///< calls of which each is waited for

struct Flags {
  at::Device device = at::kCPU;
  std::string precision;  ///< empty: all that the device has
  int64_t plans = 10000, updates = 200;
  bool dependent = false;
  std::vector<std::string> cases;
};

struct Times {
  double ms, ms_queued;
  int64_t bytes_before, bytes_after;
};

double seconds_of(const Flags& flags, const std::function<void()>& work) {
  const double begin = steady_s();
  work();
  if (flags.device.is_cuda()) wait_for_stream();
  return steady_s() - begin;
}

/// Captures `stage` where the device is a GPU and times `calls` of it.
Times measure(const Flags& flags, int64_t calls, const std::function<void()>& stage) {
  GraphPool pool(flags.device);
  StepGraph graph("what is measured");
  pool.on_side_stream([&] {
    for (int i = 0; i < kEager; ++i) stage();
    if (flags.device.is_cuda()) graph.capture(pool, stage);
  });
  std::vector<double> waited;
  for (int64_t i = 0; i < std::min<int64_t>(kWaited, calls); ++i)
    waited.push_back(seconds_of(flags, [&] { graph.run(stage); }));
  std::nth_element(waited.begin(), waited.begin() + ptrdiff_t(waited.size() / 2), waited.end());
  const auto reserved = [&] { return flags.device.is_cuda() ? device_memory().reserved : 0; };
  const int64_t before = reserved();
  const double all = seconds_of(flags, [&] {
    for (int64_t i = 0; i < calls; ++i) graph.run(stage);
  });
  return {.ms = 1e3 * waited[waited.size() / 2],
          .ms_queued = 1e3 * all / double(calls),
          .bytes_before = before,
          .bytes_after = reserved()};
}

Options options_of(const Case& c) {
  Options options;
  options.horizon = c.horizon, options.samples = c.samples, options.num_q = c.num_q;
  options.batch = c.batch, options.episodic = c.episodic;
  return options;
}

const EnvSpec& hockey_like() {
  static const EnvSpec spec{.observations = {{.name = "vector", .shape = {18}}},
                            .action = {.low = {-1, -1, -1, -1}, .high = {1, 1, 1, 1}},
                            .max_steps = 250};
  return spec;
}

void print(const Flags& flags, const Case& c, const char* what, const char* precision, int64_t rows,
           const Times& t) {
  std::printf(
      "{\"case\": \"%s\", \"what\": \"%s%s\", \"precision\": \"%s\", \"rows\": %lld, \"ms\": %.3f, "
      "\"ms_queued\": %.3f, \"rows_per_second\": %.0f, \"bytes_before\": %lld, "
      "\"bytes_after\": %lld}\n",
      c.name, what, flags.dependent ? ", dependent launches" : "", precision,
      static_cast<long long>(rows), t.ms, t.ms_queued, 1e3 * double(rows) / t.ms_queued,
      static_cast<long long>(t.bytes_before), static_cast<long long>(t.bytes_after));
  std::fflush(stdout);
}

void plans(const Flags& flags, const Case& c, Precision precision, int64_t rows,
           bool ends_in_products) {
  const Options options = options_of(c);
  const ModelShape shape = model_shape(options, hockey_like());
  const PlanOptions settings = plan_options(options, shape, hockey_like(), flags.device);
  const PlanSizes& s = settings.sizes;
  const auto floats = at::TensorOptions(at::kFloat).device(flags.device);
  DevicePlanner planner(settings, shape, precision, flags.device, ends_in_products);
  const WorldModel model(shape, false, Initializer::none());
  planner.publish(model, at::randn({model.layout().size()}, floats) * 0.04);
  // whose time step it is lies on the device, as in training: a replay would repeat the host's
  at::Tensor counter = at::zeros({1}, floats.dtype(at::kLong));
  PlanRequest request{.latent = at::rand({rows, shape.latent}, floats) / 4,
                      .is_first = at::zeros({rows}, floats.dtype(at::kByte)),
                      .prev_mean = at::zeros({rows, s.H, s.A}, floats),
                      .explore = true};
  request.key.base = counter.const_data_ptr<int64_t>();
  const Times t = measure(flags, std::max<int64_t>(1, flags.plans / rows), [&] {
    const Plan plan = planner.plan(request);
    request.prev_mean.copy_(plan.mean);
    counter.add_(1);
  });
  if (!at::isfinite(request.prev_mean).all().item<bool>())
    throw Error(std::string("[device_throughput] a plan of case ") + c.name + " is not finite");
  print(flags, c, ends_in_products ? "plan, ends within products" : "plan",
        precision == Precision::bf16 ? "bf16" : "fp32", rows, t);
}

void updates(const Flags& flags, const Case& c, Precision precision, bool fused, ThreadPool& pool) {
  Options o = options_of(c);
  o.fused = fused;
  const ModelShape shape = model_shape(o, hockey_like());
  const auto floats = at::TensorOptions(at::kFloat).device(flags.device);
  LearnerState state(o, shape, 1, flags.device);
  const auto learner = made_learner({.options = o,
                                     .shape = shape,
                                     .seed = 1,
                                     .discount = discounts(o, hockey_like()),
                                     .precision = precision,
                                     .pool = &pool},
                                    state);
  const Sequences batch{.obs = at::randn({o.horizon + 1, o.batch, 18}, floats),
                        .action = at::rand({o.horizon, o.batch, 4}, floats) * 2 - 1,
                        .reward = at::randn({o.horizon, o.batch}, floats),
                        .terminated = at::zeros({o.horizon, o.batch}, floats)};
  auto figures = at::zeros({int64_t(kFigures)}, floats);
  print(flags, c, fused ? "update" : "update by autograd",
        precision == Precision::bf16 ? "bf16" : "fp32", 1,
        measure(flags, flags.updates, [&] { learner->update(batch, figures); }));
}

Flags parse(const std::vector<std::string>& words) {
  Flags flags;
  for (size_t i = 0; i < words.size(); ++i) {
    const bool value = i + 1 < words.size();
    if (words[i] == "--device" && value) flags.device = at::Device(words[++i]);
    else if (words[i] == "--precision" && value) flags.precision = words[++i];
    else if (words[i] == "--plans" && value) flags.plans = std::stoll(words[++i]);
    else if (words[i] == "--updates" && value) flags.updates = std::stoll(words[++i]);
    else if (words[i] == "--dependent") flags.dependent = true;
    else if (std::any_of(std::begin(kCases), std::end(kCases),
                         [&](const Case& c) { return words[i] == c.name; }))
      flags.cases.push_back(words[i]);
    else
      throw Error("[device_throughput] no case or flag " + words[i] +
                  "; cases: default, report; flags: --device, --precision, --plans, --updates, "
                  "--dependent");
  }
  if (!flags.precision.empty() && flags.precision != "fp32" && flags.precision != "bf16")
    throw Error("[device_throughput] --precision must be fp32 or bf16, got " + flags.precision);
  if (flags.device.is_cuda() && !flags.device.has_index()) flags.device.set_index(0);
  return flags;
}

void run(const Flags& flags) {
  claim_threads();
  ThreadPool pool(1, [] { at::set_num_threads(1); });
  if (flags.device.is_cuda()) use_device(flags.device.index());
  const DependentLaunch dependent(flags.dependent, flags.device);
  std::vector<Precision> precisions;
  if (flags.precision != "bf16") precisions.push_back(Precision::fp32);
  if (flags.precision != "fp32" && flags.device.is_cuda()) precisions.push_back(Precision::bf16);
  for (const Case& c : kCases) {
    if (!flags.cases.empty() &&
        std::find(flags.cases.begin(), flags.cases.end(), c.name) == flags.cases.end())
      continue;
    for (const Precision precision : precisions)
      for (const int64_t rows : {1, 16, 64, 256}) {
        if (rows > flags.plans) continue;
        const at::InferenceMode inference;
        plans(flags, c, precision, rows, false);
        if (precision == Precision::bf16 && rows * c.samples <= kEndsInProductsRows)
          plans(flags, c, precision, rows, true);
      }
    for (const Precision precision : precisions)
      for (const bool fused : {true, false}) updates(flags, c, precision, fused, pool);
  }
}

}  // namespace
}  // namespace maglev::tdmpc2

int main(int argc, char** argv) {
  return maglev::program(
      argc, argv, [](const auto& words) { maglev::tdmpc2::run(maglev::tdmpc2::parse(words)); });
}
