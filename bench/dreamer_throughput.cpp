// Milliseconds of one update of Dreamer on a batch that is there, and the rate of f32 matrix
// products in the same run; what an update has of them, bench/dreamer_floor.py counts.
//
//   dreamer_throughput [--repeats 5] [--threads N] [--plain] [--precision fp32]
//                      [--size 1m] [--batch 16] [--length 64] [--shard 0] [CASE ...]
//
// A line of JSON a case (vector, pixels) and number of threads (1 and all, unless given). --plain
// times the autograd path instead. Times are the least over the repeats: wall clock, and processor
// time of all threads.

#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include "algos/dreamer/fused/learner.h"
#include "algos/dreamer/reference/learner.h"
#include "base/core/clock.h"
#include "base/core/error.h"
#include "base/simd/pairs.h"
#include "bench/product_rate.h"
#include "bench/program.h"
#include "engine/host/machine.h"

namespace maglev {
namespace {

using namespace dreamer;

constexpr int64_t kActions = 6, kVector = 24, kSide = 64;

struct Setup {
  int repeats = 5, threads = 0;
  bool plain = false;
  Precision precision = Precision::fp32;
  Options options;
  std::vector<std::string> names;
};

EnvSpec spec_of(bool pixels) {
  EnvSpec spec;
  if (pixels)
    spec.observations = {{.name = "image", .dtype = DType::u8, .shape = {kSide, kSide, 3}}};
  else spec.observations = {{.name = "vector", .shape = {kVector}}};
  spec.action.low.assign(kActions, -1), spec.action.high.assign(kActions, 1);
  return spec;
}

Sequences batch_of(const Options& o, const ModelShape& s) {
  const int64_t T = o.length, B = o.batch;
  Sequences batch{.is_first = (at::rand({T, B}) < 0.01).to(at::kFloat),
                  .action = 2 * at::rand({T, B, s.actions}) - 1,
                  .reward = at::randn({T, B}),
                  .terminated = at::zeros({T, B}),
                  .ended = at::zeros({T, B}),
                  .deter = at::zeros({B, s.deter}),
                  .stoch = at::zeros({B, s.stoch}, at::kByte)};
  if (s.channels > 0)
    batch.seen.image = at::randint(0, 256, {T, B, s.height, s.width, s.channels}, at::kByte);
  else batch.seen.vector = at::randn({T, B, s.vector});
  return batch;
}

template <class Learner>
void measure(const Setup& setup, bool pixels, int threads, const char* path) {
  ThreadPool pool(threads, [] { at::set_num_threads(1); });
  const LearnerOptions options{.options = setup.options,
                               .shape = model_shape(setup.options, spec_of(pixels)),
                               .seed = 1,
                               .precision = setup.precision,
                               .pool = &pool};
  LearnerState state(setup.options, options.shape, 1, at::kCPU);
  Learner learner(options, state);
  const Sequences batch = batch_of(setup.options, options.shape);
  auto figures = at::zeros({int64_t(kFigures)});
  learner.update(batch, figures);
  double wall = 1e9, cpu = 1e9;
  for (int r = 0; r < setup.repeats; ++r) {
    const double wall_start = steady_s(), start = process_cpu_s();
    learner.update(batch, figures);
    wall = std::min(wall, steady_s() - wall_start);
    cpu = std::min(cpu, process_cpu_s() - start);
  }
  std::printf(
      "{\"case\": \"%s\", \"size\": \"%s\", \"path\": \"%s\", \"precision\": \"%s\", "
      "\"threads\": %d, \"ms\": %.1f, \"cpu_ms\": %.1f, \"product_gflops\": %.1f}\n",
      pixels ? "pixels" : "vector", name_of(setup.options.size), path, name_of(setup.precision),
      threads, wall * 1e3, cpu * 1e3, product_rate() * 1e-9);
  std::fflush(stdout);
}

template <class Choice>
Choice named(const std::string& what, const std::string& name) {
  constexpr auto names = names_of(Choice{});
  const auto found = std::find(names.begin(), names.end(), name);
  if (found == names.end()) throw Error("[dreamer_throughput] no " + what + " is called " + name);
  return Choice(found - names.begin());
}

Setup read(const std::vector<std::string>& words) {
  Setup setup;
  setup.options.size = ModelSize::m1;
  for (size_t i = 0; i < words.size(); ++i) {
    const auto value = [&] {
      if (i + 1 >= words.size()) throw Error("[dreamer_throughput] " + words[i] + " wants a value");
      return words[++i];
    };
    if (words[i] == "--repeats") setup.repeats = std::stoi(value());
    else if (words[i] == "--threads") setup.threads = std::stoi(value());
    else if (words[i] == "--batch") setup.options.batch = std::stol(value());
    else if (words[i] == "--length") setup.options.length = std::stol(value());
    else if (words[i] == "--shard") setup.options.shard = std::stol(value());
    else if (words[i] == "--plain") setup.plain = true;
    else if (words[i] == "--size") setup.options.size = named<ModelSize>("size", value());
    else if (words[i] == "--precision") setup.precision = named<Precision>("precision", value());
    else setup.names.push_back(words[i]);
  }
  return setup;
}

void run(const Setup& setup) {
  const bool pairs = setup.precision == Precision::bf16 && !setup.plain;
  if (setup.precision != Precision::fp32 && !(pairs && pair_products_available()))
    throw Error(
        "[dreamer_throughput] --precision must be fp32, or bf16 of the fused learner where " +
        std::string("the processor multiplies pairs of bfloat16 (AVX512_BF16, AMX)"));
  claim_threads();
  std::vector<int> counts{setup.threads > 0 ? setup.threads : 1};
  if (setup.threads == 0 && usable_cpus() > 1) counts.push_back(usable_cpus());
  for (const std::string name : {"vector", "pixels"}) {
    const auto& names = setup.names;
    if (!names.empty() && std::find(names.begin(), names.end(), name) == names.end()) continue;
    for (int threads : counts) {
      const bool pixels = name == "pixels";
      if (setup.plain) measure<ReferenceLearner>(setup, pixels, threads, "autograd");
      else measure<FusedLearner>(setup, pixels, threads, "fused");
    }
  }
}

}  // namespace
}  // namespace maglev

int main(int argc, char** argv) {
  return maglev::program(argc, argv, [](const auto& words) { maglev::run(maglev::read(words)); });
}
