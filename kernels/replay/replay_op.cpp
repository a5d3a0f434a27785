#include "kernels/replay/replay_op.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include <ATen/ATen.h>

#include "base/core/error.h"
#include "engine/device/kernel.h"
#include "engine/device/launch.h"

namespace maglev {
namespace {

// bytes a thread should at least gather: below that handing over costs more
constexpr int64_t kShareBytes = 1 << 18;

constexpr int64_t words(size_t bytes) { return int64_t(bytes / sizeof(int64_t)); }

EpisodeTable sizes_of(const EpisodeIndexSize& s) {
  EpisodeTable table{};
  table.slots = s.slots, table.rows = s.rows, table.length = s.length;
  table.entries = episode_entries(s.slots, s.rows, s.length);
  table.by_start = s.by_start && !s.prioritised, table.running = s.running && !s.prioritised;
  table.crossing = s.crossing, table.prioritised = s.prioritised;
  if (s.prioritised) table.weights.leaves = s.slots * s.rows;
  return table;
}

int64_t words_of(const EpisodeTable& t) {
  return words(sizeof(EpisodeCounters)) + t.entries * words(sizeof(Episode)) + 4 * t.rows + 1 +
         (t.by_start ? t.entries + 1 : 0) + weight_sums(t.weights.leaves);
}

void place(EpisodeTable& t, int64_t* memory) {
  // all arrays are words of 64 bits in one tensor, which is copied as a whole
  auto take = [&](int64_t count) { return std::exchange(memory, memory + count); };
  t.counters = reinterpret_cast<EpisodeCounters*>(take(words(sizeof(EpisodeCounters))));
  t.episodes = reinterpret_cast<Episode*>(take(t.entries * words(sizeof(Episode))));
  t.begun = take(t.rows);
  t.oldest = take(t.rows);
  t.newest = take(t.rows);
  t.open = take(t.rows + 1);
  t.starts = t.by_start ? take(t.entries + 1) : nullptr;
  t.weights.sums = take(weight_sums(t.weights.leaves));
}

}  // namespace

EpisodeIndex::EpisodeIndex(const EpisodeIndexSize& size, at::Device device)
    : table_(sizes_of(size)), device_(device) {
  if (!has_kernels_for(device)) refuse_device("replay", device);
  memory_ = at::zeros({words_of(table_)}, at::TensorOptions(at::kLong).device(device));
  place(table_, memory_.data_ptr<int64_t>());
  if (!size.prioritised) return;
  MAGLEV_ASSERT(table_.weights.leaves < kMostLeaves, "the sum of all weights fits into an integer");
  weights_ = at::zeros({size.slots, size.rows}, memory_.options().dtype(at::kInt));
  table_.weights.weight = weights_.data_ptr<int32_t>();
}

at::Tensor EpisodeIndex::counters_on_device() const {
  return memory_.narrow(0, 0, words(sizeof(EpisodeCounters)));
}

EpisodeCounters EpisodeIndex::counters() const {
  const auto host = counters_on_device().cpu();
  return *reinterpret_cast<const EpisodeCounters*>(host.const_data_ptr<int64_t>());
}

void EpisodeIndex::rebuild(const at::Tensor& is_first, const at::Tensor& terminated,
                           const at::Tensor& truncated, int64_t oldest, int64_t now,
                           int64_t largest) {
  const auto first = is_first.cpu(), end = terminated.cpu(), cut = truncated.cpu();
  const EpisodeFlags flags{first.const_data_ptr<uint8_t>(), end.const_data_ptr<uint8_t>(),
                           cut.const_data_ptr<uint8_t>()};
  // on the host, whatever the device: it happens when a run is loaded or saved
  const auto host = memory_.is_cpu() ? memory_ : at::zeros_like(memory_, at::kCPU);
  EpisodeTable table = table_;
  place(table, host.data_ptr<int64_t>());
  const EpisodeCounters before = counters();
  at::Tensor weights, given;
  if (table.prioritised) {
    weights = weights_.cpu(), given = weights.clone();
    table.weights.weight = weights.data_ptr<int32_t>();
  }
  // an empty table, then all that the ring holds
  episodes_clear_cpu(table, oldest);
  if (table.prioritised && largest > 0) table.counters->largest = largest;
  else if (table.prioritised)
    table.counters->largest = std::max<int64_t>(before.largest, kWeightOne);
  episodes_append_cpu(table, flags, now - oldest);
  for (int64_t leaf = 0; leaf < table.weights.leaves; ++leaf)
    if (const int32_t was = given.const_data_ptr<int32_t>()[leaf];
        was > 0 && table.weights.weight[leaf] > 0)
      set_weight(table, leaf, was);
  // faults that no flush has told yet are told at the next one
  table.counters->faults = before.faults;
  if (memory_.is_cpu()) return;
  memory_.copy_(host);
  if (table.prioritised) weights_.copy_(weights);
}

void EpisodeIndex::reserve(int64_t steps) {
  launch<episodes_reserve_cuda>("episodes_reserve", device_, episodes_reserve_cpu, table_, steps);
}

void EpisodeIndex::append(const EpisodeFlags& flags, int64_t steps) {
  launch<episodes_append_cuda>("episodes_append", device_, episodes_append_cpu, table_, flags,
                               steps);
}

void replay_sample(const ReplaySample& args, at::Device device, ThreadPool& pool) {
  const auto on_threads = [&pool](const ReplaySample& batch) {
    // shares of the batch that are worth a thread
    int64_t bytes = 0;
    for (int c = 0; c < batch.count; ++c)
      bytes += batch.B * batch.columns[c].times * batch.columns[c].row_bytes;
    const int64_t shares = std::clamp<int64_t>(bytes / kShareBytes, 1, pool.threads());
    std::atomic<int64_t> faults{0};
    pool.run(shares, [&](int64_t i) {
      faults += replay_sample_cpu(batch, batch.B * i / shares, batch.B * (i + 1) / shares);
    });
    MAGLEV_ASSERT(faults == 0, "every slice lies in one episode that the ring still holds");
  };
  launch<replay_sample_cuda>("replay_sample", device, on_threads, args);
}

void replay_put_back(const ReplayPutBack& args, at::Device device) {
  launch<replay_put_back_cuda>("replay_put_back", device, replay_put_back_cpu, args);
}

void replay_prioritise(const ReplayPriorities& args, at::Device device) {
  launch<replay_prioritise_cuda>("replay_prioritise", device, replay_prioritise_cpu, args);
}

void replay_write(const ReplayWrite& args, at::Device device) {
  const auto nowhere = [](const ReplayWrite&) {
    MAGLEV_ASSERT(false, "on the CPU steps are written to the ring itself");
  };
  launch<replay_write_cuda>("replay_write", device, nowhere, args);
}

}  // namespace maglev
