// Steps written to a replay and batches drawn from it, on one thread: the cases of
// bench/peers/torchrl_storage.py.
//
//   replay_throughput [--seconds 0.5]
//
// Prints a JSON object a line. A written step is `rows` rows ready made outside the clock, brought
// into the ring's own columns as act and the environments would write them, and the table's part of
// it. A batch is 256 slices of 3 transitions of episodes of 250. per_second is by the wall clock,
// per_cpu_second by the thread's own.

#include <chrono>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <functional>
#include <iostream>
#include <string>
#include <vector>

#include <ATen/ATen.h>

#include "engine/data/replay.h"
#include "engine/host/machine.h"

namespace maglev {
namespace {

constexpr int64_t kTransitions = 250;  // of an episode
constexpr int kWarmUp = 20;

double wall_s() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double cpu_s() {
  timespec t{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return double(t.tv_sec) + 1e-9 * double(t.tv_nsec);
}

struct Rate {
  double per_second, per_cpu_second;
};

Rate rate_of(double seconds, const std::function<void()>& call) {
  for (int i = 0; i < kWarmUp; ++i) call();
  const double wall = wall_s(), cpu = cpu_s();
  int64_t calls = 0;
  do {
    for (int i = 0; i < 8; ++i) call();
    calls += 8;
  } while (wall_s() - wall < seconds);
  return {double(calls) / (wall_s() - wall), double(calls) / (cpu_s() - cpu)};
}

EnvSpec spec_of(const std::string& columns) {
  EnvSpec spec;
  if (columns == "image")
    spec.observations = {{.name = "image", .dtype = DType::u8, .shape = {64, 64, 9}}};
  else spec.observations = {{.name = "vector", .dtype = DType::f32, .shape = {18}}};
  spec.action.low = {-1, -1, -1, -1}, spec.action.high = {1, 1, 1, 1};
  return spec;
}

Replay replay_of(const std::string& columns, int64_t rows, int64_t capacity) {
  return Replay(spec_of(columns),
                {.window = {.T = 1, .rows = rows, .block_rows = rows},
                 .capacity = capacity,
                 .length = 3,
                 .batch = 256},
                {}, at::kCPU);
}

/// Rows of a step that are there already, and the copy of them into the ring.
class Writer {
 public:
  Writer(Replay& replay, int64_t rows)
      : replay_(replay),
        rows_(rows),
        obs_(at::randint(0, 200, replay.window().step(0).obs[0].sizes(),
                         replay.window().step(0).obs[0].options())),
        action_(at::rand({rows, 4})),
        reward_(at::rand({rows})) {}

  void step() {
    replay_.begin();
    StepWindow& window = replay_.window();
    const StepIo& io = window.io(0);
    std::memcpy(window.step(0).action.data_ptr(), action_.const_data_ptr(), action_.nbytes());
    std::memcpy(io.obs[0], obs_.const_data_ptr(), obs_.nbytes());
    std::memcpy(io.reward, reward_.const_data_ptr(), reward_.nbytes());
    // all environments begin apart, as they do after a while
    for (int64_t r = 0; r < rows_; ++r) {
      const int64_t t = (time_ + r * 7) % (kTransitions + 1);
      io.terminated[r] = 0;
      io.truncated[r] = t == kTransitions - 1;
      io.is_first[r] = t == kTransitions;
    }
    ++time_;
    replay_.commit();
  }

 private:
  Replay& replay_;
  int64_t rows_, time_ = 0;
  at::Tensor obs_, action_, reward_;
};

void write_cases(double seconds) {
  for (const char* columns : {"vector", "image"})
    for (int64_t rows : {8, 32, 128}) {
      const bool image = columns == std::string("image");
      Replay replay = replay_of(columns, rows, image ? 4096 : 65536);
      Writer writer(replay, rows);
      // once around, so that every page has been touched
      for (int64_t t = 0; t < replay.slots(); ++t) writer.step();
      const Rate rate = rate_of(seconds, [&] { writer.step(); });
      std::printf(
          "{\"case\": \"write\", \"columns\": \"%s\", \"rows\": %lld, \"per_second\": %.1f, "
          "\"per_cpu_second\": %.1f}\n",
          columns, static_cast<long long>(rows), rate.per_second, rate.per_cpu_second);
      std::fflush(stdout);
    }
}

void sample_cases(double seconds) {
  for (int64_t capacity : {20'000, 1'000'000}) {
    Replay replay = replay_of("vector", 8, capacity);
    Writer writer(replay, 8);
    for (int64_t t = 0; t < replay.slots(); ++t) writer.step();
    ReplayBuffer buffer = replay.make_buffer();
    ThreadPool pool(1);
    int64_t number = 0;
    const Rate rate =
        rate_of(seconds, [&] { replay.sample(buffer, {.seed = 1, .number = number++}, pool); });
    std::printf(
        "{\"case\": \"sample\", \"capacity\": %lld, \"per_second\": %.1f, \"per_cpu_second\": "
        "%.1f}\n",
        static_cast<long long>(capacity), rate.per_second, rate.per_cpu_second);
    std::fflush(stdout);
  }
}

}  // namespace
}  // namespace maglev

int main(int argc, char** argv) {
  double seconds = 0.5;
  if (argc == 3 && argv[1] == std::string("--seconds")) {
    seconds = std::atof(argv[2]);
  } else if (argc != 1) {
    std::cerr << "usage: replay_throughput [--seconds 0.5]\n";
    return 2;
  }
  maglev::claim_threads();
  maglev::write_cases(seconds);
  maglev::sample_cases(seconds);
}
