#pragma once
// Environments as a loop of somebody else's steps them, in Python: columns in tensors, two time
// steps deep, so that what a step gave stays until the step after the next.

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/InferenceMode.h>

#include "base/core/thread_pool.h"
#include "base/env/env_params.h"
#include "engine/data/step_window.h"
#include "engine/data/vec_env.h"
#include "engine/host/machine.h"
#include "engine/nn/obs_encoder.h"
#include "engine/play/player.h"
#include "engine/run/snapshot.h"
#include "python/bindings/claim.h"

namespace maglev::python {

struct EnvsRequest {
  std::string name;
  int64_t count = 1;
  std::vector<std::string> settings = {};  ///< env.name=value
  uint64_t seed = 1;
  Placement placement;
  bool events = false;  ///< each step tells what it counted
};

/// Writes `given`, [rows] or [rows, dims], into `column` [rows, dims] of actions. Throws Error, and
/// writes nothing, unless it is of integers in each head's categories and allowed by `mask`, or of
/// finite numbers. What lies on a device is not read: categories are held to their range there, and a
/// mask there is not looked at. `called`: by which call, for the message.
void take_actions(const ActionSpec& spec, const at::Tensor& given, const at::Tensor& mask,
                  const at::Tensor& column, const char* called = "step");

/// "[8, 4]", for messages.
std::string shape_text(at::IntArrayRef sizes);

/// Columns of rows as an environment stores them, in its dtypes, on `device`. Throws Error where they
/// are none of its, or have no rows.
std::vector<at::Tensor> stored_columns(const EnvSpec& spec, const std::vector<at::Tensor>& given,
                                       at::Device device);

/// Everything the next steps of environments follow from.
struct EnvsState {
  StateSnapshot state;
  std::string of;  ///< which environments can be in it
  uint64_t seed;
};

class Envs {
 public:
  /// Throws Error; also in a process that was forked from one that had made some.
  explicit Envs(const EnvsRequest& request);
  Envs(const Envs&) = delete;
  Envs& operator=(const Envs&) = delete;

  const EnvEntry& entry() const { return *entry_; }
  const EnvSpec& spec() const { return spec_; }
  int64_t count() const { return count_; }
  int64_t rows() const { return count_ * spec_.agents; }
  at::Device device() const { return placement_.device; }

  /// Every environment begins the first episode of the seed it has.
  void reset() { reset(seed_); }
  /// The same of another seed.
  void reset(uint64_t seed);
  /// One step of all. Throws Error as take_actions, and before the first reset.
  void step(const at::Tensor& action);

  /// What is seen now: stored columns, mask and is_first.
  const TimeStep& shown() const { return now().step(reset_ ? 0 : 1); }
  /// Of the last step: [rows] f32, u8, u8.
  const at::Tensor& reward() const { return now().reward(0); }
  const at::Tensor& terminated() const { return now().terminated(0); }
  const at::Tensor& truncated() const { return now().truncated(0); }
  /// [rows, events] f32: what the environment of each row counted in the last step, 0 where there was
  /// none; undefined unless they were asked for.
  const at::Tensor& events() const { return events_; }

  /// What networks take of stored columns: scaled images, cells in colours, vectors as they are.
  EncodedObs encode(const std::vector<at::Tensor>& columns) const;
  EpisodeTotals take_totals();
  /// Environment `i` as it draws itself: [height, width, 3] u8. Throws Error where it does not.
  at::Tensor picture(int64_t i, int64_t width, int64_t height) const;

  /// Everything the next steps follow from, to come back to.
  EnvsState keep();
  /// Throws Error, and changes nothing, where it is of other environments.
  void restore(const EnvsState& kept);

  /// Lets go of all environments, and of processes that step none of anybody's any more. What they
  /// are is still told; what they would do from then on throws Error. Closed ones stay closed.
  void close();

  /// As players see it. This outlives them.
  Game game();
  /// Taken while its threads work, also by its players.
  std::atomic<bool>& busy() const { return busy_; }

 private:
  /// A call's turn: nobody else works with the environments, and tensors are ordinary ones of their
  /// device.
  struct Turn {
    /// Throws Error where they are closed, or another process's.
    explicit Turn(const Envs& envs) : alone(envs.busy_), device(envs.placement_.device) {
      envs.expect_ours();
    }
    OneAtATime alone;
    c10::InferenceMode ordinary{false};
    c10::OptionalDeviceGuard device;
  };

  /// Throws Error where they are closed, or another process's.
  void expect_ours() const;
  StepWindow& now() { return windows_[size_t(turn_)]; }
  const StepWindow& now() const { return windows_[size_t(turn_)]; }
  /// Environments of this seed, which have not begun.
  void seed_into(uint64_t seed);
  void visit(StateVisitor& visitor);
  /// Takes what a step counted into events_ and counted_.
  void count_step();

  const EnvEntry* entry_;
  EnvParams params_;
  EnvSpec spec_;
  Placement placement_;
  ThreadPool pool_;
  int64_t count_;
  uint64_t seed_;
  std::string identity_;  ///< name, settings and count
  mutable std::atomic<bool> busy_{false};
  std::unique_ptr<VecEnv> envs_;  ///< null: closed
  std::unique_ptr<ObsEncoder> encoder_;
  Batch columns_;                      ///< [2, rows, ...]
  at::Tensor events_;                  ///< [rows, events]; undefined: not asked for
  at::Tensor counted_;                 ///< [events] f64, of steps since totals were taken; likewise
  std::vector<StepWindow> windows_;    ///< of times 0 and 1, and of times 1 and 0
  int64_t turn_ = 0;                   ///< the window of the last step
  bool reset_ = true, begun_ = false;  ///< the last call was a reset; there was one
};

}  // namespace maglev::python
