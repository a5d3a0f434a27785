#pragma once
// Takes metric rows from training and gives them to the sinks on a thread of its own, in order. A
// sink that fails is reported once; training and the other sinks go on. What it has missed is kept,
// and it is opened anew from time to time until it takes that: a disk that was full for a moment
// costs no row. Threads: push, note, flush and close may be called from any thread; sinks are
// called from the writer's only.

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <variant>
#include <vector>

#include "base/core/background.h"
#include "base/metrics/sink.h"

namespace maglev {

struct NamedSink {
  std::string name;
  std::unique_ptr<MetricSink> sink;
  /// Opens it again behind the rows up to `last_step`; empty: once failed it stays off.
  std::function<std::unique_ptr<MetricSink>(int64_t last_step)> reopen = {};
};

/// Throws Error with near names where one of the names is no sink's; opens nothing.
void check_sinks(const std::vector<std::string>& names);
/// Opens the sinks of the table that `names` lists. Throws Error when a name is unknown (near names
/// are told) or a sink cannot be opened.
std::vector<NamedSink> open_sinks(const RunInfo& info, const std::vector<std::string>& names);

class MetricWriter {
 public:
  /// `progress`, where given, outlives the writer; sinks hear of it about five times a second
  /// between rows, and people once where the run was asked to end and does not at once: what it
  /// waits for. Throws Error when the system gives no thread.
  explicit MetricWriter(std::vector<NamedSink> sinks, const Progress* progress = nullptr);
  /// Closes with the outcome "stopped" unless close() was called.
  ~MetricWriter();
  MetricWriter(const MetricWriter&) = delete;
  MetricWriter& operator=(const MetricWriter&) = delete;

  /// Hands a row over and returns; no file or terminal is waited for. Only when kQueueRows rows are
  /// waiting, that is when a disk has stood still for that many flushes, it waits for room: rows
  /// are never dropped.
  void push(MetricRow row);
  /// A line for people, in order with the rows.
  void note(std::string text);
  /// One that must be seen as it is given: on stderr where no sink shows it.
  void tell(std::string text);
  /// Likewise, and the summary repeats it.
  void warn(std::string text);
  /// Why the run ends before its steps are done: a note that the summary repeats.
  void ends_early(std::string why);
  /// Waits until every sink has had everything pushed so far and synced it; one that failed is
  /// tried again. Call it before a checkpoint is committed, so that a run which continues from
  /// there has all rows up to there.
  void flush();
  /// Opens every sink anew behind what it has written, before the next row: the folder it wrote to
  /// is gone.
  void reopen();
  /// Gives the sinks what is left and the outcome, and ends the thread. Later rows are ignored.
  /// Once is enough.
  void close(const std::string& outcome);

  /// Names of the sinks that do not take anything now, in the order they failed.
  std::vector<std::string> failed() const;

  static constexpr size_t kQueueRows = 4096;

 private:
  /// From `seen` on it is printed where no sink shows it.
  enum class Weight { noted, reason, seen, warning };
  struct Note {
    std::string text;
    Weight weight;
  };
  struct Flush {};
  struct Reopen {};
  using Item = std::variant<MetricRow, Note, Flush, Reopen>;
  /// A sink and what it has missed.
  struct Seat {
    NamedSink named;
    int64_t last_step;  ///< of the rows it took
    std::deque<Item> missed = {};
    std::chrono::steady_clock::time_point tried = {};  ///< when it was last opened or failed
  };

  void enqueue(Item item);
  void thread_main();
  /// Nothing came for a while: what waits for longer goes on, and is told.
  void tick(const Progress& progress);
  void deliver(const Item& item);
  /// Opens a failed sink and gives it what it missed; reports when it works again.
  void retry(Seat& seat);
  void give(Seat& seat, const Item& item);
  /// Calls every sink that works.
  void each_sink(const std::function<void(MetricSink&)>& call);
  void fail(Seat& seat, const std::string& why);
  /// Tells stderr and the sinks that work what fail() and retry() had to say.
  void tell_reports();

  const Progress* progress_;
  std::vector<Seat> seats_;           ///< the writer thread's
  std::vector<std::string> reports_;  ///< likewise
  bool told_leaving_ = false;         ///< likewise
  mutable std::mutex mutex_;
  std::condition_variable filled_, drained_;
  std::deque<Item> queue_;
  bool busy_ = false, closing_ = false;
  std::string outcome_;
  std::vector<std::string> failed_;
  Background thread_{"metrics"};  ///< ends first
};

}  // namespace maglev
