#include "python/bindings/tracing.h"

#include <memory>
#include <mutex>
#include <set>

#include <torch/cuda.h>

#include "base/config/options.h"
#include "base/core/error.h"
#include "base/core/file.h"
#include "base/core/thread_pool.h"
#include "base/core/version.h"

namespace maglev::python {
namespace {

// of all that is recorded, where a run's windows are short
constexpr int64_t kRoomMiB = 256;

// text that stays, for a span's record holds no more than where its name is
const char* lasting(const std::string& name) {
  constexpr size_t kMostNames = 4096, kLongest = 120;
  static std::mutex mutex;
  static auto* const names = new std::set<std::string>;
  if (name.empty() || name.size() > kLongest)
    throw Error("[span] a name has 1 to " + std::to_string(kLongest) + " bytes, got " +
                std::to_string(name.size()));
  const std::lock_guard lock(mutex);
  if (names->size() >= kMostNames && !names->contains(name))
    throw Error("[span] there are " + std::to_string(kMostNames) + " names already, and each is " +
                "kept; what counts is a step: span(\"update\", step=7)");
  return names->insert(name).first->c_str();
}

// threads that end a span later than its trace ends still look at its tracer: all of them stay
std::vector<std::unique_ptr<WorkTrace>>& traces() {
  static auto* const all = new std::vector<std::unique_ptr<WorkTrace>>;
  return *all;
}

}  // namespace

Span::Span(const std::string& name, int64_t step) : name_(lasting(name)), step_(step) {}

const std::shared_ptr<Span::Open>& Span::open_here() {
  thread_local const auto open = std::make_shared<Open>();
  return open;
}

Span::~Span() {
  if (!span_) return;
  // nobody ended it, as of a generator that was given up
  std::erase(*open_, this);
  // a thread's spans end on the thread: another's stays without an end
  if (open_ != open_here()) static_cast<void>(span_.release());
}

void Span::enter() {
  if (span_) throw Error(named() + " has begun already; each `with` wants a span of its own");
  open_ = open_here();
  span_.reset(new trace::ScopedSpan(trace::Category::stage, name_, nullptr, step_));
  open_->push_back(this);
}

void Span::exit() {
  if (!span_) throw Error(named() + " ends before it has begun");
  if (open_ != open_here()) throw Error(named() + " ends on another thread than it began on");
  // a tracer wants the inner one to end first
  if (open_->back() != this)
    throw Error(named() + " ends before '" + open_->back()->name_ +
                "', which began within it: as where a generator is left in the middle of a span");
  open_->pop_back();
  span_.reset();
}

Trace::Trace(const std::string& file, const std::string& mode, bool overwrite) : file_(file) {
  if (!overwrite && path_exists(file))
    throw Error("[trace] " + file +
                " is there already; name another, or replace it by overwrite=True");
  // a folder that cannot be written says so before the work, not after it
  FileWriter probe(temporary_beside(file));
  OptionTable table;
  table.section("trace", [&](OptionTable& t) { options_.describe(t); });
  table.set("trace.mode", mode, "trace");
  options_.size_limit = kRoomMiB;
}

void Trace::begin() {
  if (trace_) throw Error("[trace] " + file_ + " is recorded once; each `with` wants its own");
  traces().push_back(std::make_unique<WorkTrace>(options_, torch::cuda::is_available()));
  trace_ = traces().back().get();
}

std::vector<std::string> Trace::end(const std::string& script) {
  return trace_->finish(file_, {.version = kEngineVersion,
                                .run = script,
                                .algorithm = "python",
                                .environment = "a loop of its own",
                                .reason = "python",
                                .threads = usable_cpus(),
                                .processors = usable_cpus()});
}

}  // namespace maglev::python
