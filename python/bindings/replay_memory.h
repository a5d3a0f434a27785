#pragma once
// The engine's replay as a loop of somebody else's fills it, in Python: a step of all rows at a
// time, handed over in tensors. A step's next observation is that of the step after it, so what is
// drawn ends at the last step but one.
//
// Threads: one adds, saves or loads; any number draw and write back, each with a buffer of its own,
// and ask what there is.

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "base/core/thread_pool.h"
#include "engine/data/replay.h"
#include "engine/host/machine.h"

namespace maglev::python {

struct ReplayRequest {
  EnvSpec spec;       ///< what is observed and done
  ReplayShape shape;  ///< without a window; capacity: rows that are held
  int64_t rows = 1;   ///< of a step
  std::vector<ExtraColumn> columns = {};
  uint64_t seed = 1;  ///< of what is drawn
  Placement placement;
  RingMemory memory = {};
};

/// A step of all rows, of any dtypes that fit the columns', on any device.
struct GivenStep {
  std::vector<at::Tensor> obs;                ///< [rows, shape] per column
  at::Tensor mask;                            ///< [rows, categories]; undefined without masks
  at::Tensor is_first;                        ///< [rows]: obs begins an episode
  at::Tensor action;                          ///< [rows, dims] or [rows], done at obs
  at::Tensor reward, terminated, truncated;   ///< [rows], of the action
  std::map<std::string, at::Tensor> columns;  ///< [rows, shape] of all that were asked for
};

class ReplayMemory {
 public:
  /// Throws Error; also where the ring takes more memory than there is.
  explicit ReplayMemory(const ReplayRequest& request);
  ReplayMemory(const ReplayMemory&) = delete;
  ReplayMemory& operator=(const ReplayMemory&) = delete;

  at::Device device() const { return replay_->device(); }
  /// Rows that are held. On CUDA these wait for the device.
  int64_t held() const;
  /// Finished episodes that can give a slice.
  int64_t episodes() const;
  /// Slices that were not of one episode: on CUDA, where nobody looks at flags as they come.
  int64_t faults() const;
  bool drawable() const { return replay_->drawable(); }

  /// One step more. Throws Error, and adds nothing, where it does not fit, or a row begins an
  /// episode right behind a step that ended one, without its last observation in between.
  void add(const GivenStep& given);

  ReplayBuffer make_buffer() const;
  /// Batch `number` of what is held; without one the next of those that were asked for so. Throws
  /// Error where nothing can be drawn.
  void sample(ReplayBuffer& buffer, std::optional<int64_t> number);
  /// Writes `given`, [L, B, shape] by name, to where `drawn` came from: rows [first, L) of each
  /// slice that are still held. Throws Error, and writes nothing, where it does not fit.
  void update(const ReplayBuffer& drawn, const std::map<std::string, at::Tensor>& given,
              int64_t first);

  /// What is to be learned from the slices of `drawn` from now on: errors [B] of real numbers, or
  /// [L, B] of each step as the first one of a slice; |error| + epsilon is a priority. Throws Error,
  /// and changes nothing, where they do not fit, on a processor also where one is no number.
  void prioritise(const ReplayBuffer& drawn, const at::Tensor& errors, double epsilon);

  /// Everything that is held, in a folder of its own, which replaces what was saved there; `about`
  /// is kept beside it. Throws Error, and what was saved is still there then.
  void save(const std::string& folder, const std::string& about);
  /// Takes what a replay of the same request saved. Throws Error.
  void load(const std::string& folder);
  /// What was said of it when it was saved. Throws Error where nothing was.
  static std::string about(const std::string& folder);

 private:
  void expect_step(const GivenStep& given) const;
  void expect_episodes_apart(const at::Tensor& is_first);
  const ExtraColumn& column_named(const std::string& name) const;
  void show(const GivenStep& given, const TimeStep& step) const;
  /// Step 0 of the replay's window is the newest observation, where what is done there is written.
  void go_to_newest();
  void visit_state(StateVisitor& visitor);

  ReplayRequest request_;
  std::unique_ptr<Replay> replay_;
  at::Tensor action_;               ///< [rows, dims], looked at before it is written to the ring
  std::atomic<bool> begun_{false};  ///< a step was added
  std::atomic<int64_t> next_{0};    ///< number of the next batch
  std::atomic<bool> drawable_{false}, busy_{false};
  ThreadPool pool_;
  std::mutex pooled_;                    ///< who gathers with the pool; others do it alone
  mutable std::shared_mutex rewriting_;  ///< whole: while something is written back
};

}  // namespace maglev::python
