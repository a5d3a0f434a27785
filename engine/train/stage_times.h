#pragma once
// How long a GPU is at the stages of iterations. The host knows how long it took to ask for them,
// and of a replayed graph not even that; events in the stream tell, and nobody waits for them.

#include <algorithm>
#include <array>
#include <cstdint>
#include <exception>

#include "engine/device/event.h"

namespace maglev {

/// Where an iteration's time went since it was last taken, seconds.
struct PhaseTimes {
  double environment = 0, policy = 0, learn = 0, copy = 0;
};

enum class Stage { collect, learn };

/// `Event`: DeviceEvent, or a test's. A stage whose events are all still to be passed is not
/// measured: it counts as those that were.
template <class Event>
class StageTimes {
 public:
  /// `blocks`: that a time step is acted for in, of which marks are of the first.
  explicit StageTimes(int64_t blocks = 1) : blocks_(blocks) {}

  /// Around what a stage enqueues.
  void begin(Stage stage);
  void end(Stage stage);
  /// Before act (0), between act and step (1) and behind step (2) of one time step, beside whose
  /// step other blocks are acted for: its proportion is taken for that of all. Part of a graph where
  /// one is captured.
  void mark(int place);
  /// Of the stages begun since the last call; copy is 0.
  PhaseTimes take();

 private:
  // enough for what a stream is behind its host
  static constexpr size_t kSpans = 8;

  struct Span {
    Event begin{/*timed=*/true}, end{/*timed=*/true};
    bool pending = false;
  };
  struct Measured {
    std::array<Span, kSpans> spans;
    size_t next = 0;
    bool open = false;                ///< the next span has begun
    int64_t begun = 0, measured = 0;  ///< since the last take
    double sum = 0;                   ///< seconds, of those measured
    double mean = 0;                  ///< of the last that were
  };

  static bool harvest(Measured& stage, Span& span);
  static double seconds(Measured& stage);
  Measured& of(Stage stage) { return stages_[size_t(stage)]; }

  int64_t blocks_;
  std::array<Measured, 2> stages_;
  std::array<Event, 3> marks_{Event{true}, Event{true}, Event{true}};
  bool marked_ = false;
  double policy_share_ = 0.5;  ///< of collect; halves until a time step was measured
};

using DeviceTimes = StageTimes<DeviceEvent>;

/// Measures a stage while it lives; `times` null: nothing.
template <class Event>
class InStage {
 public:
  InStage(StageTimes<Event>* times, Stage stage) : times_(times), stage_(stage) {
    if (times_) times_->begin(stage_);
  }
  ~InStage() {
    if (!times_) return;
    try {
      times_->end(stage_);
    } catch (const std::exception&) {
      // the device has failed, and what it failed by is told by whoever asked it before, or next
    }
  }
  InStage(const InStage&) = delete;
  InStage& operator=(const InStage&) = delete;

 private:
  StageTimes<Event>* times_;
  Stage stage_;
};

template <class Event>
void StageTimes<Event>::begin(Stage stage) {
  Measured& m = of(stage);
  ++m.begun;
  Span& span = m.spans[m.next];
  m.open = !span.pending || harvest(m, span);
  if (m.open) span.begin.record();
}

template <class Event>
void StageTimes<Event>::end(Stage stage) {
  Measured& m = of(stage);
  if (!m.open) return;
  Span& span = m.spans[m.next];
  span.end.record();
  span.pending = true, m.open = false;
  m.next = (m.next + 1) % kSpans;
}

template <class Event>
void StageTimes<Event>::mark(int place) {
  marks_[size_t(place)].record();
  marked_ |= place == 2;
}

template <class Event>
bool StageTimes<Event>::harvest(Measured& m, Span& span) {
  if (!span.end.passed()) return false;
  if (const auto passed = span.end.seconds_since(span.begin)) m.sum += *passed, ++m.measured;
  span.pending = false;
  return true;
}

template <class Event>
double StageTimes<Event>::seconds(Measured& m) {
  for (Span& span : m.spans)
    if (span.pending) harvest(m, span);
  if (m.measured > 0) m.mean = m.sum / double(m.measured);
  const double all = m.mean * double(m.begun);
  m.begun = m.measured = 0, m.sum = 0;
  return all;
}

template <class Event>
PhaseTimes StageTimes<Event>::take() {
  const double collect = seconds(of(Stage::collect)), learn = seconds(of(Stage::learn));
  if (marked_ && marks_[2].passed()) {
    const auto policy = marks_[1].seconds_since(marks_[0]);
    const auto environment = marks_[2].seconds_since(marks_[1]);
    if (policy && environment && *policy + *environment > 0)
      policy_share_ = std::min(1.0, double(blocks_) * *policy / (*policy + *environment));
  }
  return {.environment = collect * (1 - policy_share_),
          .policy = collect * policy_share_,
          .learn = learn};
}

}  // namespace maglev
