#include "verbs/bench/replay_speed.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <functional>
#include <unistd.h>

#include <ATen/ATen.h>

#include <nlohmann/json.hpp>

#include "base/core/clock.h"
#include "base/core/error.h"
#include "base/core/printed.h"
#include "engine/data/replay.h"
#include "engine/host/machine.h"
#include "verbs/table.h"

namespace maglev::verbs::bench {
namespace {

constexpr int64_t kTransitions = 250;  // of an episode
constexpr int64_t kStepRows[] = {8, 16, 32, 64, 128};
constexpr int64_t kWrittenRows[] = {65'536, 4'096};  // of the ring: vectors, images
constexpr int64_t kDrawnRows[] = {20'000, 1'000'000};
constexpr int64_t kFrameRows = 16'384, kAdded = 16, kSequences = 16, kLength = 63;
constexpr int kWarmUp = 20, kSamples = 3;

/// The median of three samples.
ReplayFigure timed(ReplayFigure figure, double seconds, const std::function<void()>& call) {
  for (int i = 0; i < kWarmUp; ++i) call();
  std::vector<std::pair<double, double>> rates;
  for (int sample = 0; sample < kSamples; ++sample) {
    const double wall = steady_s(), cpu = process_cpu_s();
    int64_t calls = 0;
    do {
      for (int i = 0; i < 8; ++i) call();
      calls += 8;
    } while (steady_s() - wall < seconds / kSamples);
    rates.emplace_back(double(calls) / (steady_s() - wall),
                       double(calls) / (process_cpu_s() - cpu));
  }
  std::sort(rates.begin(), rates.end());
  std::tie(figure.per_second, figure.per_cpu_second) = rates[kSamples / 2];
  return figure;
}

EnvSpec spec_of(const std::string& columns) {
  EnvSpec spec;
  if (columns == "image")
    spec.observations = {{.name = "image", .dtype = DType::u8, .shape = {64, 64, 3}}};
  else spec.observations = {{.name = "vector", .dtype = DType::f32, .shape = {18}}};
  spec.action.low = {-1, -1, -1, -1}, spec.action.high = {1, 1, 1, 1};
  return spec;
}

/// Rows of a step that are there already, and ways to bring them into the ring.
class StepWriter {
 public:
  StepWriter(const std::string& columns, const ReplayShape& shape)
      : spec_(spec_of(columns)), replay_(spec_, shape, {}, at::kCPU), rows_(shape.window.rows) {
    const at::Tensor place = replay_.window().step(0).obs[0];
    obs_ = at::randint(0, 200, place.sizes(), place.options());
    action_ = at::rand({rows_, 4}), reward_ = at::rand({rows_});
    for (int64_t r = 0; r < rows_; ++r) {
      Row& row = list_.emplace_back();
      const auto* first = static_cast<const std::byte*>(obs_.const_data_ptr()) + r * row_bytes();
      row.obs.assign(first, first + row_bytes());
      std::memcpy(row.action, action_.const_data_ptr<float>() + 4 * r, sizeof row.action);
      row.reward = reward_.const_data_ptr<float>()[r];
    }
    // once around, so that every page has been touched
    for (int64_t t = 0; t < replay_.slots(); ++t) direct();
  }

  /// As act and the environments write a step: each column where it is kept.
  void direct() {
    write([&](const StepIo& io, float* action) {
      std::memcpy(action, action_.const_data_ptr(), action_.nbytes());
      std::memcpy(io.obs[0], obs_.const_data_ptr(), obs_.nbytes());
      std::memcpy(io.reward, reward_.const_data_ptr(), reward_.nbytes());
    });
  }

  /// From structures of a row each, one after another.
  void list() {
    write([&](const StepIo& io, float* action) {
      for (size_t r = 0; r < list_.size(); ++r) {
        const Row& row = list_[r];
        std::memcpy(action + 4 * r, row.action, sizeof row.action);
        std::memcpy(io.obs[0] + r * row.obs.size(), row.obs.data(), row.obs.size());
        io.reward[r] = row.reward;
      }
    });
  }

  /// The observations' bytes alone, into the ring's memory and nowhere else.
  void copy() {
    const at::Tensor& ring = replay_.columns().obs[0];
    std::memcpy(static_cast<std::byte*>(ring.data_ptr()) +
                    time_++ % replay_.slots() * int64_t(obs_.nbytes()),
                obs_.const_data_ptr(), obs_.nbytes());
  }

  Replay& replay() { return replay_; }
  int64_t bytes() const { return int64_t(obs_.nbytes()); }

 private:
  struct Row {
    std::vector<std::byte> obs;
    float action[4], reward;
  };

  int64_t row_bytes() const { return spec_.observations[0].row_bytes(); }

  template <class Write>
  void write(const Write& columns) {
    replay_.begin();
    const StepIo& io = replay_.window().io(0);
    columns(io, replay_.window().step(0).action.data_ptr<float>());
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

  EnvSpec spec_;
  Replay replay_;
  int64_t rows_, time_ = 0;
  at::Tensor obs_, action_, reward_;
  std::vector<Row> list_;
};

ReplayShape ring_of(int64_t rows, int64_t capacity, int64_t length, int64_t batch) {
  return {.window = {.T = 1, .rows = rows, .block_rows = rows},
          .capacity = capacity,
          .length = length,
          .batch = batch};
}

}  // namespace

std::vector<ReplayFigure> measure_replay(double seconds) {
  claim_threads();
  std::vector<ReplayFigure> figures;
  for (bool image : {false, true})
    for (int64_t rows : kStepRows) {
      const std::string columns = image ? "image" : "vector";
      StepWriter writer(columns, ring_of(rows, kWrittenRows[image], 3, 256));
      const auto add = [&](const char* way, void (StepWriter::*write)()) {
        const ReplayFigure figure{
            .work = "write", .columns = columns, .rows = rows, .way = way, .bytes = writer.bytes()};
        figures.push_back(timed(figure, seconds, [&] { (writer.*write)(); }));
      };
      add("maglev direct", &StepWriter::direct);
      add("maglev list", &StepWriter::list);
      add("memcpy", &StepWriter::copy);
    }
  ThreadPool pool(1);
  int64_t number = 0;
  for (int64_t capacity : kDrawnRows) {
    StepWriter writer("vector", ring_of(8, capacity, 3, 256));
    ReplayBuffer buffer = writer.replay().make_buffer();
    figures.push_back(timed(
        {.work = "sample",
         .columns = "vector",
         .rows = capacity,
         .way = "maglev",
         .bytes = int64_t(buffer.batch.obs[0].nbytes())},
        seconds, [&] { writer.replay().sample(buffer, {.seed = 1, .number = number++}, pool); }));
  }
  // sequences cross the ends of episodes, as Dreamer draws them
  ReplayShape shape = ring_of(kAdded, kFrameRows, kLength, kSequences);
  shape.crossing = true;
  StepWriter writer("image", shape);
  ReplayBuffer buffer = writer.replay().make_buffer();
  const auto draw = [&](const std::string& way, ThreadPool& threads) {
    figures.push_back(timed({.work = "frames",
                             .columns = "image",
                             .rows = kFrameRows,
                             .way = way,
                             .bytes = writer.bytes() + int64_t(buffer.batch.obs[0].nbytes())},
                            seconds, [&] {
                              writer.direct();
                              writer.replay().sample(buffer, {.seed = 1, .number = number++},
                                                     threads);
                            }));
  };
  draw("maglev", pool);
  if (const int cpus = usable_cpus(); cpus > 1) {
    ThreadPool all(cpus);
    draw("maglev " + std::to_string(cpus) + " threads", all);
  }
  return figures;
}

std::vector<ReplayFigure> measure_peer(const std::string& python, const std::string& script,
                                       double seconds) {
  const auto quoted = [](const std::string& word) { return "'" + word + "' "; };
  const std::string command =
      quoted(python) + quoted(script) + "--seconds " + std::to_string(seconds) + " all 2>&1";
  FILE* told = popen(command.c_str(), "r");
  if (!told) throw Error("[bench] " + command + " could not be started");
  std::vector<ReplayFigure> figures;
  std::string line, last;
  const auto read = [&] {
    last = line;
    if (!line.starts_with("{")) return;
    const auto one = nlohmann::json::parse(line);
    figures.push_back({.work = one.at("work"),
                       .columns = one.at("columns"),
                       .rows = one.at("rows"),
                       .way = one.at("way"),
                       .per_second = one.at("per_second"),
                       .per_cpu_second = one.at("per_cpu_second"),
                       .bytes = one.at("bytes")});
  };
  for (int c; (c = std::fgetc(told)) != EOF;) {
    if (c != '\n') line += char(c);
    else read(), line.clear();
  }
  if (pclose(told) != 0) throw Error("[bench] " + command + ": " + last);
  return figures;
}

std::string replay_lines(const std::vector<ReplayFigure>& figures) {
  std::string lines;
  for (const ReplayFigure& f : figures)
    lines +=
        nlohmann::ordered_json{
            {"work", f.work},  {"columns", f.columns},       {"rows", f.rows},
            {"way", f.way},    {"per_second", f.per_second}, {"per_cpu_second", f.per_cpu_second},
            {"bytes", f.bytes}}
            .dump() +
        "\n";
  return lines;
}

std::string replay_table(const std::vector<ReplayFigure>& figures) {
  Table table({"work", "columns", ">rows", "way", ">us", ">us of processor", ">GB/s", ">x ours"});
  // what belongs together side by side, in the order in which ours came
  std::vector<const ReplayFigure*> rest;
  for (const ReplayFigure& figure : figures) rest.push_back(&figure);
  while (!rest.empty()) {
    const ReplayFigure& ours = *rest.front();
    std::erase_if(rest, [&](const ReplayFigure* f) {
      if (f->work != ours.work || f->columns != ours.columns || f->rows != ours.rows) return false;
      table.add({f->work, f->columns, std::to_string(f->rows), f->way,
                 printed("%.1f", 1e6 / f->per_second), printed("%.1f", 1e6 / f->per_cpu_second),
                 printed("%.1f", 1e-9 * double(f->bytes) * f->per_cpu_second),
                 printed("%.2f", ours.per_cpu_second / f->per_cpu_second)});
      return true;
    });
  }
  return table.text(probe_terminal(STDOUT_FILENO));
}

}  // namespace maglev::verbs::bench
