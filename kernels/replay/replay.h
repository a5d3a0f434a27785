#pragma once
// A ring of time steps: what is stored, which slices are drawn (kernels/replay/episodes.h), and
// their rows brought together into a batch.

#include <cstdint>

#include "kernels/replay/episodes.h"

namespace maglev {

constexpr int kReplayColumns = 24;

/// Flags of the ring, each [slots, rows] u8.
struct EpisodeFlags {
  const uint8_t* is_first;
  const uint8_t* terminated;
  const uint8_t* truncated;
};

/// A row of the ring and of a batch; any dtype.
struct ReplayColumn {
  const void* from;             ///< [slots, rows, row_bytes]
  void* to;                     ///< [times, B, row_bytes], written
  int64_t row_bytes;            ///< of one row
  int64_t times;                ///< L or L + 1
  const void* ahead = nullptr;  ///< as `to`: the same rows where ReplaySample::held says so
};

/// B slices into a batch: to[l][b] = from[(begin_b + l) % slots][row_b].
struct ReplaySample {
  EpisodeTable table;
  const uint8_t* is_first;  ///< [slots, rows]: that slices are contiguous is checked with it
  uint64_t seed;
  int64_t number;           ///< of the batch
  const int64_t* base;      ///< added to it where not null, and where the functions run
  Slice* slices;            ///< [B], written
  float* chance = nullptr;  ///< [B] with what probability each was drawn, written; prioritised only
  /// On CUDA, each where not null. The number of the batch that columns hold `ahead`: where it is
  /// this one, their rows are taken from there. And where this batch's number is written.
  const int64_t* held = nullptr;
  int64_t* drawn = nullptr;
  int64_t B;
  int count;  ///< columns used
  ReplayColumn columns[kReplayColumns];
};

/// Rows of a batch back to where they were drawn from: to[(begin_b + l) % slots][row_b] =
/// from[l][b] for l in [first, times). What the ring no longer gives is left alone; of slices that
/// share a row the last one counts.
struct ReplayPutBack {
  struct Column {
    const void* from;  ///< [times, B, row_bytes]
    void* to;          ///< [slots, rows, row_bytes]
    int64_t row_bytes;
  };
  const EpisodeCounters* counters;
  int64_t slots, rows;
  const Slice* slices;  ///< [B]
  int64_t B, first, times;
  int count;
  Column columns[kReplayColumns];
};

/// Starts of a batch weigh anew: row l of slice b, where a slice can begin, by priority[l][b] (see
/// weight_of). What the ring no longer gives is left alone; of slices that share a row the last one
/// counts.
struct ReplayPriorities {
  EpisodeTable table;     ///< prioritised
  const Slice* slices;    ///< [B]
  const float* priority;  ///< [times, B]
  int64_t B, times;       ///< 1: of the slices' first rows alone; to L
  int64_t exponent;       ///< in kExponentOne-ths
};

/// Times that were collected elsewhere into the ring: to[(now + t) % slots] = from[t].
struct ReplayWrite {
  struct Column {
    const void* from;  ///< [times, slot_bytes]
    void* to;          ///< [slots, slot_bytes]
    int64_t slot_bytes;
    int64_t times;
  };
  const EpisodeCounters* counters;
  int64_t slots;
  int count;
  Column columns[kReplayColumns];
};

/// The table is empty at time `now`, and so is the ring.
void episodes_clear_cpu(const EpisodeTable& table, int64_t now);
/// Nothing is drawn any more from the slots that the next `steps` steps overwrite.
void episodes_reserve_cpu(const EpisodeTable& table, int64_t steps);
/// `steps` more steps lie in the ring: enters the episodes that finished. After reserve.
void episodes_append_cpu(const EpisodeTable& table, const EpisodeFlags& flags, int64_t steps);
/// Slices [begin, end) of the batch: draws and gathers. Returns how many are not contiguous or
/// could not be drawn; 0, or there is a mistake. Ranges may be done at once.
int64_t replay_sample_cpu(const ReplaySample& args, int64_t begin, int64_t end);
void replay_put_back_cpu(const ReplayPutBack& args);
void replay_prioritise_cpu(const ReplayPriorities& args);

/// The same on `stream` (a cudaStream_t); return a cudaError_t. Faults add to counters->faults.
/// Only in builds with device code.
int episodes_reserve_cuda(const EpisodeTable& table, int64_t steps, void* stream);
int episodes_append_cuda(const EpisodeTable& table, const EpisodeFlags& flags, int64_t steps,
                         void* stream);
int replay_sample_cuda(const ReplaySample& args, void* stream);
int replay_write_cuda(const ReplayWrite& args, void* stream);
int replay_put_back_cuda(const ReplayPutBack& args, void* stream);
int replay_prioritise_cuda(const ReplayPriorities& args, void* stream);

/// Whether a slice is one stretch that the ring still holds, of one episode unless slices cross.
MAGLEV_HD bool is_contiguous(const EpisodeTable& t, const uint8_t* is_first, const Slice& s) {
  if (s.begin < t.counters->oldest || s.begin + t.length > t.counters->now) return false;
  if (t.crossing) return true;
  uint32_t crossed = 0;
  for (int64_t l = 1; l <= t.length; ++l)
    crossed |= is_first[(s.begin + l) % t.slots * t.rows + s.row];
  return crossed == 0;
}

/// Whether the ring still gives row l of slice b.
MAGLEV_HD bool is_given(const ReplayPutBack& a, int64_t b, int64_t l) {
  return a.slices[b].begin + l >= a.counters->oldest;
}

/// Whether the ring holds a slice that begins at `time`.
MAGLEV_HD bool is_held(const EpisodeTable& t, int64_t time) {
  return time >= t.counters->oldest && time + t.length <= t.counters->now;
}

}  // namespace maglev
