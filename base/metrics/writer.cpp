#include "base/metrics/writer.h"

#include <chrono>
#include <cstdio>
#include <exception>

#include "base/core/find.h"

namespace maglev {
namespace {
constexpr std::chrono::milliseconds kTick{200};
}

std::vector<NamedSink> open_sinks(const RunInfo& info, const std::vector<std::string>& names) {
  std::vector<NamedSink> sinks;
  for (const auto& name : names)
    sinks.push_back({name, find_row(sink_table(), name, "[sinks] ", "sink").open(info)});
  return sinks;
}

MetricWriter::MetricWriter(std::vector<NamedSink> sinks, const Progress* progress)
    : progress_(progress), sinks_(std::move(sinks)), thread_([this] { thread_main(); }) {}

MetricWriter::~MetricWriter() { close("stopped"); }

void MetricWriter::push(MetricRow row) { enqueue(std::move(row)); }
void MetricWriter::note(std::string text) { enqueue(std::move(text)); }

void MetricWriter::enqueue(Item item) {
  std::unique_lock lock(mutex_);
  drained_.wait(lock, [&] { return queue_.size() < kQueueRows || closing_; });
  if (closing_) return;
  queue_.push_back(std::move(item));
  filled_.notify_one();
}

void MetricWriter::flush() {
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
  thread_.join();
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
      lock.unlock();
      each_sink([&](MetricSink& s) { s.tick(*progress_); });
      lock.lock();
      continue;
    }
    if (queue_.empty()) break;
    Item item = std::move(queue_.front());
    queue_.pop_front();
    busy_ = true;
    lock.unlock();
    if (const auto* row = std::get_if<MetricRow>(&item))
      each_sink([&](MetricSink& s) { s.write(*row); });
    else each_sink([&](MetricSink& s) { s.note(std::get<std::string>(item)); });
    lock.lock();
    busy_ = false;
    drained_.notify_all();
  }
  lock.unlock();
  each_sink([&](MetricSink& s) { s.close(outcome_); });
}

void MetricWriter::each_sink(const std::function<void(MetricSink&)>& call) {
  std::vector<std::string> reports;
  for (NamedSink& named : sinks_) {
    if (!named.sink) continue;
    std::string why;
    try {
      call(*named.sink);
      continue;
    } catch (const std::exception& e) {
      why = e.what();
    } catch (...) {
      why = "unknown error";
    }
    named.sink.reset();
    reports.push_back("[sinks." + named.name + "] is switched off, training goes on: " + why);
    std::lock_guard lock(mutex_);
    failed_.push_back(named.name);
  }
  // told to the sinks that are left; one that fails on it reports itself
  for (const auto& report : reports) {
    std::fprintf(stderr, "maglev: %s\n", report.c_str());
    each_sink([&](MetricSink& s) { s.note(report); });
  }
}

}  // namespace maglev
