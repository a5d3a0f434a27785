#pragma once
// What a run takes of the machine while it trains, as columns of its metrics: memory, processors,
// energy, its GPU; and whether memory grows that nobody asked for.

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include <c10/core/Device.h>

#include "base/metrics/sink.h"
#include "engine/algo/algorithm.h"
#include "engine/host/gpu_meter.h"
#include "engine/host/usage.h"
#include "engine/train/bottleneck.h"

namespace maglev {

/// Bytes of tensors, as allocators hold them.
struct TensorMemory {
  int64_t host = 0;                         ///< in use or kept for later
  int64_t device = 0, device_reserved = 0;  ///< in use; that and what is kept for later
};
TensorMemory tensor_memory(bool on_device);

/// What asks the driver of `device`; null: that is no GPU, or the driver does not know it.
std::unique_ptr<GpuMeter> meter_of(at::Device device);

/// How people are told where memory grows.
struct GrowthWords {
  const char* in_no_tensor = "in no tensor: of the environment, a library or the program";
  const char* shown = "memory/* in metrics.jsonl shows since when";
};

class Monitor {
 public:
  /// Bytes the run was planned to hold: on the host beside what the process has at the first sample,
  /// on a device all that tensors hold there. Beyond them nothing should grow.
  struct Planned {
    int64_t host = 0, device = 0;
  };
  /// A sample every `every_s` seconds; 0: none. `free`: what the run may use; its shares are filled
  /// in here. `sample`, `tensors` and `gpu` are asked; `gpu` null: there is none, or nothing of it
  /// is known. `parts`: of the tensors where the run is, asked at the first sample and where memory
  /// has grown, which then says of what; null: not known. `words`: of whose loop it is.
  Monitor(double every_s, const Planned& planned, const Load& free, std::function<Usage()> sample,
          std::function<TensorMemory()> tensors, std::function<GpuUsage()> gpu = {},
          std::function<std::vector<MemoryPart>()> parts = {}, const GrowthWords& words = {});

  /// Where a sample is due, as at the first row, `row` gets its figures and what bounded the run,
  /// of the time and steps since the sample before. Every row of the run passes here.
  void add_to(MetricRow& row);
  /// Seconds that the loop takes for what is no stage: whoever takes them adds them.
  struct Beside {
    double logging = 0, saving = 0, evaluating = 0, hooks = 0;
    double hooks_in_learn = 0;  ///< of `hooks`, what rows count as learning
  };
  Beside& beside() { return beside_; }
  /// Said once of the process, once of the programs that it started and once of a device, when their
  /// memory has grown past the plan and keeps growing; empty: nothing new.
  std::string take_warning();

 private:
  // samples a trend is taken over, and the fewest that say something
  static constexpr size_t kMost = 50, kLeast = 12;

  // one memory, and whether it grows
  struct Held {
    const char *holds, *takes;  ///< as people are told
    std::vector<double> bytes;  ///< of the last samples
    int64_t allowed = 0;        ///< bytes above which growth is told
    double growth = 0;          ///< bytes a second; NaN: not known
    bool warned = false;
  };

  void look_for_growth(Held& held);
  /// What most of the growth of `of` since the first sample is; "": not known.
  std::string grown_part(const Held& of) const;
  void add_times(const MetricRow& row);
  /// Takes the sample among those whose growth is looked for.
  void take_memory(const Usage& now, const TensorMemory& tensors);
  void add_memory(const Usage& now, const TensorMemory& tensors, MetricRow& row) const;
  /// Processors that the process had, on average, and what it did, since the last sample.
  double processors_until(const Usage& now) const;
  /// Of other programs; NaN: not known.
  double programs_until(const Usage& now) const;
  Load load_until(const Usage& now, const GpuUsage& gpu) const;
  void add_gpu(const GpuUsage& now, double steps, MetricRow& row) const;

  double every_s_;
  std::function<Usage()> sample_;
  std::function<TensorMemory()> tensors_;
  std::function<GpuUsage()> gpu_;
  std::function<std::vector<MemoryPart>()> parts_;
  GrowthWords words_;
  std::vector<MemoryPart> first_parts_;
  TensorMemory first_tensors_, tensors_now_;
  int64_t first_resident_ = 0;
  Usage last_;
  GpuUsage last_gpu_;
  Planned planned_;
  int64_t last_step_ = 0;
  double sampled_s_ = -std::numeric_limits<double>::infinity();  ///< of the run; -infinity: not yet
  Load load_;                        ///< shares since the last sample as sums, seconds
  Beside beside_;                    ///< since the last sample
  double row_s_ = 0, summed_s_ = 0;  ///< of the last row; that the sums are of
  std::vector<double> times_s_;      ///< of the last samples
  Held process_{"the process holds", "takes"},
      programs_{"the processes of its environments hold", "take"},
      device_{"tensors on the GPU hold", "take"};
  std::string warning_;
};

}  // namespace maglev
