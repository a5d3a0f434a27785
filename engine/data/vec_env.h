#pragma once
// N environments of one kind on one device: their slots, their settings, their totals.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "base/core/background.h"
#include "base/core/thread_pool.h"
#include "base/env/host_batch.h"
#include "engine/data/host_columns.h"
#include "engine/data/state.h"

namespace maglev {

/// What all environments of a batch read, as bytes on the host; undefined where they share nothing.
/// Throws Error where it cannot be made.
at::Tensor assets_made(const EnvEntry& entry, const void* params);
/// What a saved state knows them by; empty where they are undefined.
std::string assets_hash(const at::Tensor& assets);

/// How far an episode is.
struct RunningEpisode {
  double episode_return = 0;  ///< of the environment's first agent
  int64_t length = 0;         ///< steps
};

/// On CUDA a host-only environment steps in host memory all the same: actions come down and what a
/// step wrote goes up, in one transfer each, and a step waits for the device. They may be cut into
/// blocks, of which one steps while the device acts for another.
class VecEnv {
 public:
  /// `learners`: agents of each environment whose rows the steps' columns hold, the others' are in
  /// StepIo::rivals; 0: all.
  /// `params` is entry.params_bytes of settings, copied. `first_env` shifts the random streams,
  /// e.g. for a rank. `host_blocks`: that host-only environments on CUDA are cut into, others are
  /// one; where they are more than 1 all agents have rows. Throws Error when `device` is CUDA and
  /// the engine was built without device code.
  VecEnv(const EnvEntry& entry, const void* params, int64_t N, uint64_t seed, at::Device device,
         ThreadPool& pool, int64_t first_env = 0, int64_t learners = 0, int64_t host_blocks = 1);

  const EnvEntry& entry() const { return *entry_; }
  const EnvSpec& spec() const { return spec_; }
  int64_t count() const { return N_; }
  /// Agents of each environment that have rows here.
  int64_t agents() const { return learners_; }
  int64_t rows() const { return N_ * learners_; }
  /// Whether a step is work of the host between transfers, which a captured graph would not repeat.
  bool transfers() const { return columns_ != nullptr; }
  /// Environments a block, of which the last may have fewer.
  int64_t block() const { return block_; }

  /// Every environment begins its first episode; writes the observations of `io`.
  void reset(const StepIo& io);
  /// One step of all; see StepIo for who reads and writes what. Same result for any number of
  /// threads.
  void step(const StepIo& io);
  /// One step of environments [begin, end) on the calling thread; on CUDA of a block. Ranges that do
  /// not overlap may be stepped at once (on CUDA by one thread in turn), and one may be steps ahead
  /// of another.
  void step(const StepIo& io, int64_t begin, int64_t end);
  /// Has that step begin, where steps are taken elsewhere, for step(io, begin, end) to wait for it;
  /// else nothing. On CUDA blocks that begin are stepped one after another, by the pool, which
  /// nobody else uses meanwhile.
  void begin_step(const StepIo& io, int64_t begin, int64_t end);
  /// Totals since the last call, then cleared. On CUDA this waits for the device: not for training.
  EpisodeTotals take_totals() { return take_totals(0, N_); }
  /// The same of environments [begin, end).
  EpisodeTotals take_totals(int64_t begin, int64_t end);
  /// [N, events] f32 where environments step: what each has counted since this or totals were last
  /// taken, then cleared, so that totals have none of it. Waits for nothing.
  at::Tensor take_events();

  /// The episode each environment is in. Waits for a device.
  std::vector<RunningEpisode> running_episodes() const;

  /// Draws environment `i` into the whole canvas, where EnvEntry::paint is not null. Waits for a
  /// device.
  void paint(int64_t i, Canvas& canvas) const;

  /// Totals of all since the last call as bytes of an EpisodeTotals, [sizeof] u8 on the device,
  /// then cleared. Waits for nothing; valid until the next call.
  const at::Tensor& totals();

  /// Slots, and which assets they belong to: these are made anew, and loading a state of others, or
  /// one that the environment cannot be in, throws Error.
  void visit_state(StateVisitor& visitor);

 private:
  EnvBatch batch() const;
  void step_on_host(const StepIo& io, int64_t begin, int64_t end);
  void wait_for_stepper();
  /// What environments are made of, in host memory.
  struct OnHost {
    at::Tensor params, assets, slots;
    EnvBatch batch;
  };
  OnHost on_host() const;
  /// Throws Error when a slot that was loaded holds a state that the environment cannot be in.
  void expect_valid_slots();

  const EnvEntry* entry_;
  EnvSpec spec_;
  ImageView view_;
  int64_t N_;
  uint64_t seed_;
  int64_t first_env_, learners_;
  int64_t block_;   ///< environments
  bool on_device_;  ///< whether environments step there
  ThreadPool* pool_;
  at::Tensor params_;        ///< [params_bytes] u8, where environments step
  at::Tensor assets_;        ///< [asset_bytes] u8, likewise
  std::string assets_hash_;  ///< empty: there are none
  at::Tensor slots_;         ///< [N, slot_bytes] u8, likewise
  LiveStates states_;
  std::unique_ptr<HostColumns> columns_;  ///< host-only on CUDA
  at::Tensor totals_;                     ///< [sizeof(EpisodeTotals)] u8, on the device
  at::Tensor partial_totals_;             ///< scratch of these, where environments step there
  /// By block, the step that has begun, in host memory, and was not taken; null: none has. Empty
  /// where there are no transfers.
  std::vector<const StepIo*> begun_;
  int64_t beside_ = -1;  ///< the block that stepper_ steps
  struct {
    const StepIo* io = nullptr;
    int64_t begin = 0, end = 0;
  } next_;  ///< what it is to do
  /// Steps blocks that begin beside who asks, where no processes of their own do. The last member,
  /// for it uses the others.
  std::unique_ptr<Background> stepper_;
};

}  // namespace maglev
