#include "base/metrics/writer.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <exception>
#include <utility>

#include "base/core/find.h"
#include "base/core/printed.h"
#include "base/trace/span.h"

namespace maglev {
namespace {

constexpr std::chrono::milliseconds kTick{200}, kBetweenTries{1000};

// what went wrong, of any kind of exception; empty: nothing
template <class Call>
std::string failure_of(const Call& call) {
  try {
    call();
    return "";
  } catch (const std::exception& e) {
    return e.what();
  } catch (...) {
    return "unknown error";
  }
}

// what a run that was asked to end waits for; `last_s`: its last iteration, 0: none is over
std::string leaving_text(double last_s) {
  return "asked to stop: this iteration ends first" +
         (last_s > 0 ? " (the last one took " + printed("%.1f s", last_s) + ")" : "") +
         ", then a checkpoint is saved; asked once more the run leaves at once, without one";
}

}  // namespace

void check_sinks(const std::vector<std::string>& names) {
  for (const auto& name : names) find_row(sink_table(), name, "[sinks] ", "sink");
}

std::vector<NamedSink> open_sinks(const RunInfo& info, const std::vector<std::string>& names) {
  std::vector<NamedSink> sinks;
  for (const auto& name : names) {
    const SinkEntry& entry = find_row(sink_table(), name, "[sinks] ", "sink");
    // opened again, a sink goes on behind what it has already
    const auto reopen = [&entry, info](int64_t last_step) {
      RunInfo again = info;
      again.resumed_at = std::max(info.resumed_at, last_step);
      return entry.open(again);
    };
    sinks.push_back(
        {name, entry.open(info), entry.reopens ? reopen : decltype(NamedSink::reopen){}});
  }
  return sinks;
}

MetricWriter::MetricWriter(std::vector<NamedSink> sinks, const Progress* progress)
    : progress_(progress) {
  for (NamedSink& named : sinks) seats_.push_back({.named = std::move(named), .last_step = -1});
  thread_.start([this] { thread_main(); });
}

MetricWriter::~MetricWriter() { close("stopped"); }

void MetricWriter::push(MetricRow row) { enqueue(std::move(row)); }
void MetricWriter::note(std::string text) { enqueue(Note{std::move(text), Weight::noted}); }
void MetricWriter::tell(std::string text) { enqueue(Note{std::move(text), Weight::seen}); }
void MetricWriter::warn(std::string text) { enqueue(Note{std::move(text), Weight::warning}); }
void MetricWriter::ends_early(std::string why) { enqueue(Note{std::move(why), Weight::reason}); }
void MetricWriter::reopen() { enqueue(Reopen{}); }

void MetricWriter::enqueue(Item item) {
  std::unique_lock lock(mutex_);
  // no row is dropped: training waits for room
  drained_.wait(lock, [&] { return queue_.size() < kQueueRows || closing_; });
  if (closing_) return;
  queue_.push_back(std::move(item));
  filled_.notify_one();
}

void MetricWriter::flush() {
  enqueue(Flush{});
  const auto span = trace::wait("metrics", "io");
  std::unique_lock lock(mutex_);
  drained_.wait(lock, [&] { return (queue_.empty() && !busy_) || closing_; });
}

void MetricWriter::close(const std::string& outcome) {
  {
    std::lock_guard lock(mutex_);
    if (closing_) return;
    closing_ = true;
    outcome_ = outcome;
    filled_.notify_one();
    drained_.notify_all();
  }
  // the thread gives what is left and ends
  thread_.wait();
}

std::vector<std::string> MetricWriter::failed() const {
  std::lock_guard lock(mutex_);
  return failed_;
}

void MetricWriter::thread_main() {
  std::unique_lock lock(mutex_);
  for (;;) {
    const bool woken = filled_.wait_for(lock, kTick, [&] { return !queue_.empty() || closing_; });
    if (!woken) {
      if (!progress_) continue;
      // sinks are called without the lock: they may take their time
      lock.unlock();
      tick(*progress_);
      lock.lock();
      continue;
    }
    // woken by close(), and all is given
    if (queue_.empty()) break;
    Item item = std::move(queue_.front());
    queue_.pop_front();
    busy_ = true;
    lock.unlock();
    deliver(item);
    lock.lock();
    busy_ = false;
    drained_.notify_all();
  }
  lock.unlock();
  // failed sinks have one more chance to take what they missed
  for (Seat& seat : seats_) retry(seat);
  tell_reports();
  each_sink([&](MetricSink& s) { s.close(outcome_); });
}

void MetricWriter::tick(const Progress& progress) {
  if (progress.leaving() && !std::exchange(told_leaving_, true))
    deliver(Note{leaving_text(progress.iteration_s), Weight::seen});
  each_sink([&](MetricSink& s) { s.tick(progress); });
}

void MetricWriter::deliver(const Item& item) {
  const bool flush = std::holds_alternative<Flush>(item);
  const auto* note = std::get_if<Note>(&item);
  const bool shown = std::ranges::any_of(
      seats_, [](const Seat& seat) { return seat.named.sink && seat.named.sink->shows(); });
  if (note && note->weight >= Weight::seen && !shown)
    std::fprintf(stderr, "maglev: %s\n", note->text.c_str());
  for (Seat& seat : seats_) {
    // where it wrote to is gone: open it again behind what it had
    if (std::holds_alternative<Reopen>(item)) {
      if (!seat.named.reopen) continue;
      seat.named.sink.reset();
      retry(seat);
      continue;
    }
    // a failed sink is tried again now and then, and before every checkpoint
    const bool due = std::chrono::steady_clock::now() - seat.tried >= kBetweenTries;
    if (!seat.named.sink && (flush || due)) retry(seat);
    if (seat.named.sink) {
      const std::string why = failure_of([&] { give(seat, item); });
      if (why.empty()) continue;
      fail(seat, why);
    }
    // bounded, as the queue is: a disk that stays full must not fill the memory
    if (flush || !seat.named.reopen || seat.missed.size() >= kQueueRows) continue;
    seat.missed.push_back(item);
  }
  tell_reports();
}

void MetricWriter::give(Seat& seat, const Item& item) {
  MetricSink& sink = *seat.named.sink;
  if (const auto* row = std::get_if<MetricRow>(&item)) {
    sink.write(*row);
    seat.last_step = std::max(seat.last_step, row->step);
  } else if (const auto* note = std::get_if<Note>(&item)) {
    if (note->weight == Weight::warning) sink.warn(note->text);
    else if (note->weight == Weight::reason) sink.ends_early(note->text);
    else sink.note(note->text);
  } else {
    sink.sync();
  }
}

void MetricWriter::retry(Seat& seat) {
  if (seat.named.sink || !seat.named.reopen) return;
  seat.tried = std::chrono::steady_clock::now();
  const std::string why = failure_of([&] {
    seat.named.sink = seat.named.reopen(seat.last_step);
    // what it missed comes first, in order
    for (; !seat.missed.empty(); seat.missed.pop_front()) give(seat, seat.missed.front());
  });
  if (!why.empty()) {
    // a failure that was told is not told again
    const bool told = [&] {
      std::lock_guard lock(mutex_);
      return std::ranges::find(failed_, seat.named.name) != failed_.end();
    }();
    return told ? seat.named.sink.reset() : fail(seat, why);
  }
  // it works again, which is news only where the failure was
  bool was_off;
  {
    std::lock_guard lock(mutex_);
    was_off = std::erase(failed_, seat.named.name) > 0;
  }
  if (was_off) reports_.push_back("[sinks." + seat.named.name + "] takes rows again");
}

void MetricWriter::each_sink(const std::function<void(MetricSink&)>& call) {
  for (Seat& seat : seats_) {
    if (!seat.named.sink) continue;
    const std::string why = failure_of([&] { call(*seat.named.sink); });
    if (!why.empty()) fail(seat, why);
  }
  tell_reports();
}

void MetricWriter::fail(Seat& seat, const std::string& why) {
  seat.named.sink.reset();
  seat.tried = std::chrono::steady_clock::now();
  {
    std::lock_guard lock(mutex_);
    failed_.push_back(seat.named.name);
  }
  reports_.push_back(
      "[sinks." + seat.named.name + "] " +
      (seat.named.reopen ? "failed, its rows are kept and it is tried again" : "is switched off") +
      ", training goes on: " + why);
}

void MetricWriter::tell_reports() {
  // one that fails on a report has one of its own
  for (const std::string& text : std::exchange(reports_, {})) {
    std::fprintf(stderr, "maglev: %s\n", text.c_str());
    each_sink([&](MetricSink& s) { s.note(text); });
  }
}

}  // namespace maglev
