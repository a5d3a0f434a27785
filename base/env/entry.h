#pragma once
// The type-erased row of an environment and the raw pointers of one batched step. A table of
// EnvEntry is what the rest of the engine, the tests, the benches and the help walk.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "base/config/options.h"
#include "base/env/env.h"
#include "base/env/image_view.h"
#include "base/env/spec.h"

namespace maglev {

class Canvas;

/// The columns of one step. Actions of row t are read; everything else is written.
struct StepColumns {
  const int32_t* action_i32 = nullptr;  ///< [rows, dims], categorical
  const float* action_f32 = nullptr;  ///< [rows, dims], continuous, as sampled (environments clip)
  std::byte* obs[kMaxObsColumns] = {};  ///< [rows, row_bytes], row t+1
  uint8_t* mask = nullptr;              ///< [rows, categories], row t+1; null unless masked
  float* reward = nullptr;              ///< [rows], row t
  uint8_t* terminated = nullptr;        ///< [rows], row t
  uint8_t* truncated = nullptr;         ///< [rows], row t
  /// [rows], row t+1: that observation begins an episode. Where agents end apart also each one of
  /// an agent that waits, so a row waits where is_first is set and set again in the row after it.
  uint8_t* is_first = nullptr;
};

/// One step of N environments, rows = N * agents, environment-major. Host pointers for the CPU
/// functions, device pointers for the CUDA one. Auto-reset is next-step: the step after an
/// episode's last ignores its action, gives the next episode's first observation with reward 0 and
/// sets is_first.
struct StepIo : StepColumns {
  int64_t obs_row_bytes[kMaxObsColumns] = {};
  int64_t mask_width = 0;
  int64_t action_dims = 0;
  /// Agents of each environment whose rows are in the columns above, the first ones; 0: all. The
  /// other agents' rows are in `rivals`, so that who learns and who only plays along each have
  /// columns without gaps.
  int32_t learners = 0;
  StepColumns rivals;
};

/// Most action dimensions of an environment whose agents are split into learners and rivals.
constexpr int kMaxSplitActionDims = 16;

/// Totals since they were last taken. Returns, lengths and episodes are of agent 0 where there are
/// several, be it the first to end or the last; steps are of the environment.
struct EpisodeTotals {
  double return_sum = 0, length_sum = 0;
  float return_min = 0, return_max = 0;  ///< over finished episodes; 0 when there are none
  int64_t episodes = 0;
  int64_t steps = 0;  ///< transitions, without the steps that only reset
  double events[kMaxEvents] = {};
};

MAGLEV_HD EpisodeTotals& operator+=(EpisodeTotals& into, const EpisodeTotals& part) {
  if (part.episodes > 0) {
    const bool first = into.episodes == 0;
    into.return_min =
        first || part.return_min < into.return_min ? part.return_min : into.return_min;
    into.return_max =
        first || part.return_max > into.return_max ? part.return_max : into.return_max;
  }
  into.return_sum += part.return_sum;
  into.length_sum += part.length_sum;
  into.episodes += part.episodes;
  into.steps += part.steps;
  for (int k = 0; k < kMaxEvents; ++k) into.events[k] += part.events[k];
  return into;
}

/// The head of every environment's slot; the state follows at kSlotHead. What a step touches comes
/// last: with a small state behind it, that is one cache line.
struct SlotHead {
  double return_sum, length_sum;  ///< of episodes finished since taken
  float return_min, return_max;
  float events[kMaxEvents];  ///< since taken
  int32_t episodes;          ///< since taken
  int32_t unused;
  uint64_t rng_counter;
  float episode_return;  ///< of the running episode
  int32_t episode_length;
  int32_t steps;  ///< since taken
  uint32_t needs_reset;
};
constexpr size_t kSlotHead = 96;
static_assert(offsetof(SlotHead, rng_counter) == 64 && sizeof(SlotHead) <= kSlotHead);

/// N slots of one environment. Pointers are to memory of the device that runs them.
struct EnvBatch {
  const void* params;
  std::byte* slots;  ///< [N, slot_bytes]
  size_t slot_bytes;
  uint64_t seed;
  int64_t first_env;             ///< index of slot 0 in the whole run, for its random stream
  const void* assets = nullptr;  ///< null: the environment has none
  void* states = nullptr;        ///< [N] live states of a host-only environment, else null
  ImageView view = {};           ///< EnvEntry::view of the params
  int agents = 1;                ///< EnvSpec::agents of the params
};

struct EnvEntry {
  const char* name;
  const char* summary;

  size_t params_bytes;
  void (*make_params)(void* params);                   ///< writes the defaults
  void (*describe)(OptionTable& table, void* params);  ///< adds env.* settings, bound to params
  void (*check)(const void* params);                   ///< throws Error on settings that contradict
  /// Where a run begins: files and folders that settings name are named as from everywhere. Returns
  /// a line for people or "".
  std::string (*settle)(void* params);
  /// Why the setting env.`name` changes nothing as the others are, in a few words; "": it may
  /// matter.
  std::string (*idle)(const void* params, std::string_view name);
  /// Settings, name=value, that a policy is judged with instead of these where nobody gives them;
  /// empty: it is judged where it learns.
  std::vector<std::string> (*judged_with)(const void* params);
  EnvSpec (*spec)(const void* params);
  ImageView (*view)(const void* params);     ///< what is done to pictures; inactive: nothing
  size_t (*slot_bytes)(const void* params);  ///< multiple of 64

  /// Of host memory that an environment's State holds besides its slot, about; 0: little.
  size_t (*held_bytes)(const void* params);
  /// Of memory that programs of its own hold beside this process, where it is `count` environments,
  /// about; 0: it has none.
  size_t (*program_bytes)(const void* params, int64_t count);

  /// Of what all environments of a batch share; 0: nothing.
  size_t (*asset_bytes)(const void* params);
  /// Writes it into zeroed host memory, aligned to 64 bytes. Throws Error when it cannot be made.
  void (*make_assets)(const void* params, std::byte* assets);

  /// Steps in host memory whatever the run's device: slots hold heads and, once saved, states.
  bool host_only;
  /// Environments that a thread is best given at once: enough to hide the hand-over, few enough to
  /// share. A library's step is longer than that: 1; those that begin ahead: all.
  int64_t at_once;
  /// What its numbers come from, such as "MuJoCo", where they are not our own arithmetic and so may
  /// differ in their last bits from processor to processor; else null.
  const char* library;
  void* (*make_states)(int64_t count);  ///< EnvBatch::states; null unless host-only
  void (*free_states)(void* states);
  /// Writes the states of slots [begin, end) into them: a host-only environment's, others lie
  /// there.
  void (*save_states)(const EnvBatch&, int64_t begin, int64_t end);
  /// Takes over slots [begin, end) that were read from a file. Returns the first whose state no
  /// episode could have led to, or `end`. Host memory.
  int64_t (*load_states)(const EnvBatch&, int64_t begin, int64_t end);

  /// Slots [begin, end) begin their first episode; writes observations, masks and is_first = 1.
  void (*reset_cpu)(const EnvBatch&, const StepIo&, int64_t begin, int64_t end);
  void (*step_cpu)(const EnvBatch&, const StepIo&, int64_t begin, int64_t end);
  /// Begins those steps elsewhere, for step_cpu to take them with the same `StepIo`; null: they do
  /// not begin ahead.
  void (*begin_cpu)(const EnvBatch&, const StepIo&, int64_t begin, int64_t end);
  /// Adds slots' totals in order, then clears them.
  void (*take_totals_cpu)(const EnvBatch&, EpisodeTotals& into, int64_t begin, int64_t end);

  /// Ends what is kept for environments that come next, such as processes, where none lives now;
  /// null: nothing is.
  void (*end_idle)() = nullptr;

  std::span<const Bot> bots;  ///< E::bots() where the environment has scripted players

  /// The same as kernels on `stream` (a cudaStream_t); null when built without CUDA. Return a
  /// cudaError_t.
  int (*reset_cuda)(const EnvBatch&, const StepIo&, int64_t count, void* stream) = nullptr;
  int (*step_cuda)(const EnvBatch&, const StepIo&, int64_t count, void* stream) = nullptr;

  /// Draws the state of slot i, in host memory, into the whole canvas; E::paint where the
  /// environment has a picture, else null.
  void (*paint)(const EnvBatch&, int64_t i, Canvas& canvas) = nullptr;
};

/// Every environment that was built in, by name.
std::span<const EnvEntry> env_table();

/// An environment that was left out of the build for want of a library, and how to get that.
struct LeftOutEnv {
  const char *name, *missing, *install;
};
std::span<const LeftOutEnv> left_out_envs();

/// Throws Error with near names, or with what is missing where the environment was left out.
const EnvEntry& find_env(std::string_view name);

}  // namespace maglev
