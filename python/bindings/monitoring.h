#pragma once
// What a loop of Python's own takes of the machine, as a run tells it in its metrics.

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <c10/core/Device.h>

#include "engine/train/monitor.h"

namespace maglev::python {

/// One thread at a time.
class LoopMonitor {
 public:
  struct Sample {
    double seconds = 0;  ///< since the monitor was made
    /// By the names that metrics have, what is not known left out; empty: none was due.
    std::vector<std::pair<std::string, double>> figures;
    std::string warning;  ///< of memory that grows, each once; empty: nothing new
  };

  /// A sample every `every_s` seconds at most; 0: whenever one is asked for. `planned`: bytes the
  /// process may come to hold beside what it has at the first one. `device`: whose GPU is told of,
  /// if it is one.
  LoopMonitor(double every_s, int64_t planned, at::Device device);
  LoopMonitor(const LoopMonitor&) = delete;
  LoopMonitor& operator=(const LoopMonitor&) = delete;

  /// `step`: environment steps so far, for what is told by them; -1: not known.
  Sample sample(int64_t step);

 private:
  const std::chrono::steady_clock::time_point began_;
  int64_t step_ = 0;               ///< that was given last
  std::unique_ptr<GpuMeter> gpu_;  ///< null: none, or nothing of it is known
  Monitor monitor_;
};

}  // namespace maglev::python
