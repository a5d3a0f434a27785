#include "engine/trace/run_trace.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <unistd.h>
#include <utility>

#include <nlohmann/json.hpp>

#include "base/core/error.h"
#include "base/core/file.h"
#include "base/core/other_program.h"
#include "base/core/printed.h"
#include "engine/trace/trace_file.h"

namespace maglev {
namespace {

// iterations a running median is of, and how many there must be
constexpr size_t kMedianOf = 101;
constexpr int64_t kFirstMedian = 10;
// files that anomalies may leave
constexpr int64_t kMostAnomalies = 10;

double median(std::vector<double> values) {
  const auto middle = values.begin() + int64_t(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

std::string range_text(int64_t first, int64_t last) {
  return std::to_string(first) + (first == last ? "" : "-" + std::to_string(last));
}

std::string iterations_text(int64_t first, int64_t last) {
  return (first == last ? "iteration " : "iterations ") + range_text(first, last);
}

// a name in `folder` that neither of the two files has
std::string free_name(const std::string& folder, const std::string& name,
                      const std::string& suffix) {
  for (int64_t n = 1;; ++n) {
    const std::string path = folder + "/" + name + (n == 1 ? "" : "." + std::to_string(n)) + suffix;
    if (!path_exists(path + ".json.gz") && !path_exists(path + ".perfetto")) return path;
  }
}

}  // namespace

RunTrace::RunTrace(const TraceOptions& options, bool with_device, int rank)
    : options_(with_environment(options)),
      ranges_(parse_windows(options_.window, "trace.window")),
      counters_(options_.counts() ? trace::perf_counters() : trace::CounterSource()),
      rank_(rank),
      suffix_(rank == 0 ? "" : ".rank" + std::to_string(rank)),
      tracer_(size_t(options_.size_limit) * (size_t(1) << 20) / sizeof(trace::SpanRecord),
              trace::Tracer::kSpansPerThread, counters_) {
  if (options_.mode == TraceMode::full)
    kineto_ = std::make_unique<Kineto>(
        with_device, KinetoDetail{.shapes = options_.shapes, .memory = options_.memory});
  // the first process says when
  if (rank > 0) ranges_.clear(), options_.every = 0, options_.anomaly = 0;
}

void RunTrace::attach(const std::string& run_folder, trace::RecordedRun run) {
  run_ = std::move(run);
  run_.mode = name_of(options_.mode);
  run_.written_by = getpid();
  run_.boot = trace::boot_of_this_machine();
  if (options_.counts()) run_.counters = counters_.lacks.empty() ? "counted" : counters_.lacks;
  if (rank_ == 0 && options_.counters == TraceCounters::on && !counters_.lacks.empty())
    note("trace.counters: " + counters_.lacks);
  // in a folder that several runs share files are told apart by the run
  folder_ = options_.folder.empty() ? run_folder + "/traces" : options_.folder;
  prefix_ = options_.folder.empty()
                ? ""
                : std::filesystem::path(run_folder).lexically_normal().filename().string() + ".";
}

void RunTrace::expect(int64_t last) {
  std::erase_if(ranges_, [&](const IterationRange& range) {
    if (range.first <= last) return false;
    note("no trace of " + iterations_text(range.first, range.second) +
         ", which trace.window asks for: with train.steps as it is iteration " +
         std::to_string(last) + " is the last one");
    return true;
  });
}

std::optional<std::string> RunTrace::take_order() { return std::exchange(order_, std::nullopt); }

int64_t RunTrace::follow(const std::string& order) {
  const auto json = nlohmann::json::parse(order);
  // one that is open goes on, at another number
  const int64_t next = json["next"].get<int64_t>();
  if (open_) return next;
  ordered_ = Window{json["first"].get<int64_t>(), json["last"].get<int64_t>(),
                    json["reason"].get<std::string>()};
  folder_ = json["folder"].get<std::string>(), prefix_ = json["prefix"].get<std::string>();
  run_.run = json["run"].get<std::string>();
  return next;
}

std::optional<RunTrace::Window> RunTrace::window_at(int64_t iteration) {
  if (rank_ > 0) return std::exchange(ordered_, std::nullopt);
  for (const auto& [first, last] : ranges_)
    if (iteration >= first && iteration <= last) return Window{iteration, last, "window"};
  if (std::exchange(asked_, false))
    return Window{iteration, iteration + options_.length - 1, "signal"};
  if (options_.every > 0 && iteration > 0 && iteration % options_.every == 0)
    return Window{iteration, iteration + options_.length - 1, "every"};
  return std::nullopt;
}

void RunTrace::begin_iteration(int64_t iteration) {
  excused_ = false;
  const bool begun = !open_;
  if (!open_) {
    if (const auto window = window_at(iteration)) open(*window);
    else if (options_.anomaly > 0 && iteration > 0 && anomalies_ < kMostAnomalies) tracer_.start();
  }
  // others count by themselves until a run that is resumed leaps from its warm-up
  if (open_ && (begun || iteration != last_ + 1)) order_ = order_of(*open_, iteration);
  begin_ns_ = trace::now_ns();
}

std::string RunTrace::order_of(const Window& window, int64_t next) const {
  const nlohmann::json order{{"first", window.first},   {"last", window.last}, {"next", next},
                             {"reason", window.reason}, {"folder", folder_},   {"prefix", prefix_},
                             {"run", run_.run}};
  return order.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

void RunTrace::open(const Window& window) {
  // what an iteration that was no anomaly has left
  tracer_.stop();
  if (!tracer_.start()) {
    if (!std::exchange(told_busy_, true))
      note("no trace of iteration " + std::to_string(window.first) +
           ": another run of this process is being traced");
    return;
  }
  try {
    if (kineto_) kineto_->start();
  } catch (const Error& e) {
    note(std::string(e.what()) + "; this window has the engine's spans alone");
    kineto_.reset();
  }
  open_ = window;
  open_->use = trace::use_of_threads(), open_->programs = threads_of_other_programs();
}

void RunTrace::end_iteration(int64_t iteration) {
  const double seconds = 1e-9 * double(trace::now_ns() - begin_ns_);
  last_ = iteration;
  if (open_) {
    tracer_.drain();
    if (iteration >= open_->last) close(iteration);
  } else if (tracer_.recording_now()) {
    look_for_anomaly(iteration, seconds);
  }
  diverged_ = false;
  if (excused_ || iteration == 0 || options_.anomaly == 0) return;
  if (times_.size() < kMedianOf) times_.push_back(seconds);
  else times_[size_t(timed_) % kMedianOf] = seconds;
  ++timed_;
}

void RunTrace::look_for_anomaly(int64_t iteration, double seconds) {
  Window window{iteration, iteration, "divergence"};
  window.alone = true;
  if (!diverged_) {
    if (excused_ || timed_ < kFirstMedian) return void(tracer_.take());
    const double usual = median(times_);
    if (seconds <= options_.anomaly * usual) return void(tracer_.take());
    window.reason = "slow iteration";
    note("iteration " + std::to_string(iteration) + " took " + std::to_string(seconds) +
         " s, the median is " + std::to_string(usual) + " s");
  }
  tracer_.drain();
  tracer_.stop();
  if (++anomalies_ == kMostAnomalies)
    note("this was trace " + std::to_string(anomalies_) + " of an anomaly, and the last");
  write(window, /*full=*/false);
}

void RunTrace::close(int64_t last) {
  Window window = *std::exchange(open_, std::nullopt);
  window.last = last;
  tracer_.stop();
  window.use = trace::use_between(window.use, trace::use_of_threads());
  window.programs = trace::use_between(window.programs, threads_of_other_programs());
  write(window, kineto_ != nullptr);
}

std::string RunTrace::files_of(const Window& window, const std::string& path) const {
  const std::string end = ".json.gz";
  int64_t processes = 1;
  for (const auto& [name, value] : run_.settings)
    if (name == "processes") processes = std::strtoll(value.c_str(), nullptr, 10);
  std::string files = path + end;
  if (rank_ > 0 || window.alone || processes < 2) return files;
  files += " and " + path + ".rank1" + end;
  if (processes > 2) files += " to .rank" + std::to_string(processes - 1) + end;
  return files;
}

void RunTrace::write(const Window& window, bool full) {
  try {
    auto recording = std::make_shared<trace::Recording>(tracer_.take());
    if (recording->spans() == 0 && !full)
      return note("no trace of " + iterations_text(window.first, window.last) +
                  ": nothing was recorded" +
                  (window.last == 0 ? "; train.warmup says how many iterations warm up" : ""));
    make_dirs(folder_);
    if (!writer_) writer_ = std::make_unique<Background>("trace writer");
    writer_->wait();
    const std::string path =
        free_name(folder_, prefix_ + "iter_" + range_text(window.first, window.last), suffix_);
    // the profiler ends where it began, on this thread
    const std::string torchs = full ? temporary_beside(path + ".json") : "";
    if (full) kineto_->stop(torchs);
    trace::RecordedRun run = run_;
    run.window = range_text(window.first, window.last);
    run.reason = window.reason;
    run.use = window.use, run.programs = window.programs;
    if (!full) run.mode = name_of(TraceMode::lite);

    const std::string what = iterations_text(window.first, window.last),
                      told = what + (window.first == window.last ? " is" : " are") + " traced in " +
                             files_of(window, path);
    writer_->start([this, path, torchs, run, recording, what, told]() mutable {
      try {
        // of one thread, as kernels on processors are
        if (peaks_.gflops == 0) peaks_ = measure_one_thread();
        run.peak_gflops = peaks_.gflops, run.peak_gbytes_s = peaks_.gigabytes_s;
        const std::string left_out = write_chrome_file(path + ".json.gz", *recording, run, torchs);
        if (!left_out.empty()) note(left_out);
        write_perfetto_file(path + ".perfetto", *recording, run);
        if (rank_ == 0 || recording->dropped > 0)
          note(told + (recording->dropped > 0 ? "; " + counted(recording->dropped, "span") +
                                                    " found no room, trace.size_limit"
                                              : ""));
      } catch (const std::exception& e) {
        note("no trace of " + what + ": " + e.what());
        std::error_code gone;
        std::filesystem::remove(torchs, gone);
      }
    });
  } catch (const std::exception& e) {
    if (full) kineto_->cancel();
    note("no trace of " + iterations_text(window.first, window.last) + ": " + e.what());
  }
}

void RunTrace::finish() {
  // a window that the run's end cut short has what there was
  if (open_) tracer_.drain(), close(std::max(open_->first, last_));
  tracer_.stop();
  for (const auto& [first, last] : std::exchange(ranges_, {}))
    if (first > last_)
      note("no trace of " + iterations_text(first, last) +
           ", which trace.window asks for: iteration " + std::to_string(last_) +
           " was the last one");
  if (writer_) writer_->wait();
}

void RunTrace::note(std::string text) {
  const std::lock_guard lock(mutex_);
  notes_.push_back(std::move(text));
}

std::vector<std::string> RunTrace::take_notes() {
  const std::lock_guard lock(mutex_);
  return std::exchange(notes_, {});
}

}  // namespace maglev
