#pragma once
// A stage that is captured by itself once it was called often enough, for those that come and go
// while a program runs: what a player does for one number of rows, an evaluation's time step.

#include <cstdint>
#include <functional>
#include <string>

#include "engine/device/step_graph.h"

namespace maglev {

/// Calls of a stage before it is captured: the first sets libraries up, the second finds them so.
constexpr int64_t kCallsBeforeCapture = 2;

class RepeatedStage {
 public:
  /// As StepGraph.
  RepeatedStage(std::string name, const char* phases) : graph_(std::move(name), phases) {}

  /// `stage`: the same each time, and nothing it allocates outlives it, for stages of one pool are
  /// replayed in any order. On CPU a plain call, and likewise where a capture failed.
  void run(GraphPool& pool, const std::function<void()>& stage);

  bool captured() const { return graph_.captured(); }

 private:
  StepGraph graph_;
  int64_t calls_ = 0;
  bool failed_ = false;
};

}  // namespace maglev
