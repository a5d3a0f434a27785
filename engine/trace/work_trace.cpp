#include "engine/trace/work_trace.h"

#include <chrono>
#include <unistd.h>

#include "base/core/error.h"
#include "base/core/file.h"
#include "base/core/other_program.h"
#include "base/core/printed.h"
#include "engine/host/peaks.h"
#include "engine/trace/trace_file.h"

namespace maglev {
namespace {

// a thread that does nothing but small kernels fills its buffer in some tens of these
constexpr std::chrono::milliseconds kDrainEvery{5};

}  // namespace

WorkTrace::WorkTrace(const TraceOptions& options, bool with_device)
    : options_(options),
      counters_(options.counts() ? trace::perf_counters() : trace::CounterSource()),
      tracer_(size_t(options.size_limit) * (size_t(1) << 20) / sizeof(trace::SpanRecord),
              trace::Tracer::kSpansPerThread, counters_),
      drain_("trace reader") {
  if (options.mode == TraceMode::full)
    kineto_ = std::make_unique<Kineto>(
        with_device, KinetoDetail{.shapes = options.shapes, .memory = options.memory});
  if (!tracer_.start())
    throw Error("[trace] another run of this process is being traced; end that first");
  if (kineto_) kineto_->start();
  use_ = trace::use_of_threads(), programs_ = threads_of_other_programs();
  drain_.start([this] { drain(); });
}

WorkTrace::~WorkTrace() { end(); }

void WorkTrace::drain() {
  std::unique_lock lock(mutex_);
  while (!changed_.wait_for(lock, kDrainEvery, [this] { return over_; })) tracer_.drain();
}

void WorkTrace::end() {
  {
    const std::lock_guard lock(mutex_);
    over_ = true;
  }
  changed_.notify_one();
  drain_.wait();
  tracer_.stop();
}

std::vector<std::string> WorkTrace::finish(const std::string& path, trace::RecordedRun about) {
  about.use = trace::use_between(use_, trace::use_of_threads());
  about.programs = trace::use_between(programs_, threads_of_other_programs());
  end();
  const trace::Recording recording = tracer_.take();
  // the profiler ends where it began, on this thread
  const std::string torchs = kineto_ ? temporary_beside(path + ".torch") : "";
  if (kineto_) kineto_->stop(torchs);

  about.mode = name_of(options_.mode);
  about.written_by = getpid();
  about.boot = trace::boot_of_this_machine();
  if (options_.counts()) about.counters = counters_.lacks.empty() ? "counted" : counters_.lacks;
  // of one thread, as kernels on processors are
  const ThreadPeaks peaks = measure_one_thread();
  about.peak_gflops = peaks.gflops, about.peak_gbytes_s = peaks.gigabytes_s;
  const std::string left_out = write_chrome_file(path, recording, about, torchs);

  std::vector<std::string> lines{"traced in " + path + ": maglev trace analyze " + path};
  if (!left_out.empty()) lines.push_back(left_out);
  if (recording.dropped > 0)
    lines.push_back(counted(recording.dropped, "span") +
                    " found no room in trace.size_limit=" + std::to_string(options_.size_limit));
  if (options_.counters == TraceCounters::on && !counters_.lacks.empty())
    lines.push_back("trace.counters: " + counters_.lacks);
  return lines;
}

}  // namespace maglev
