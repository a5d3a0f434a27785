// What the replay's kernels are tried with, beside references in ATen; their entry.
#include <algorithm>
#include <memory>
#include <string>
#include <tuple>
#include <utility>

#include <ATen/ATen.h>

#include "engine/device/kernel.h"
#include "kernels/replay/replay_op.h"

namespace maglev {
namespace {

// a filled ring of random rows with episodes of 20 to 60 transitions
struct FilledRing {
  EpisodeIndexSize size;
  Tensors columns;  ///< [slots, rows, ...]; the last is is_first
  EpisodeIndex index;

  FilledRing(const EpisodeIndexSize& s,
             const std::vector<std::pair<int64_t, at::ScalarType>>& kinds, at::Device device)
      : size(s), index(s, device) {
    auto gen = at::make_generator<at::CPUGeneratorImpl>(uint64_t(s.slots));
    for (auto [width, dtype] : kinds)
      columns.push_back(
          at::randint(0, 200, {s.slots, s.rows, width}, gen, at::kInt).to(device, dtype));
    auto first = at::zeros({s.slots, s.rows}, at::kByte), ended = at::zeros_like(first);
    for (int64_t r = 0; r < s.rows; ++r)
      for (int64_t t = 0, left = 20 + r % 40; t < s.slots; ++t, --left) {
        // an ended step's last observation lies at the next time, and another episode behind that
        if (left == 0) first[t][r] = 1, left = 20 + (r + t) % 40;
        if (left == 2) ended[t][r] = 1;
      }
    if (s.prioritised)
      index.weights().copy_(at::randint(1, 9 * kWeightOne, {s.slots, s.rows}, gen, at::kInt));
    index.rebuild(first, ended, at::zeros_like(first), 0, s.slots - 1);
    columns.push_back(first.to(device));
  }
};

// batch 5, with chances where they are asked for; `ahead` and the number of the batch it holds:
// rows that were drawn before
void sample_into(const Tensors& out, const FilledRing& ring, const at::Tensor& slices,
                 const Tensors& ahead = {}, const at::Tensor& held = {},
                 const at::Tensor& chance = {}) {
  const int64_t L = ring.size.length, B = slices.size(0);
  ReplaySample args{.table = ring.index.table(),
                    .is_first = ring.columns.back().const_data_ptr<uint8_t>(),
                    .seed = 3,
                    .number = 5,
                    .base = nullptr,
                    .slices = static_cast<Slice*>(slices.data_ptr()),
                    .chance = chance.defined() ? chance.data_ptr<float>() : nullptr,
                    .held = held.defined() ? held.const_data_ptr<int64_t>() : nullptr,
                    .B = B,
                    .count = 0,
                    .columns = {}};
  for (size_t c = 0; c < out.size(); ++c)
    args.columns[args.count++] = {.from = ring.columns[c].const_data_ptr(),
                                  .to = out[c].data_ptr(),
                                  .row_bytes = int64_t(out[c].nbytes()) / out[c].size(0) / B,
                                  .times = c == 0 ? L + 1 : out[c].size(0),
                                  .ahead = c < ahead.size() ? ahead[c].const_data_ptr() : nullptr};
  ThreadPool pool(1);
  replay_sample(args, slices.device(), pool);
}

// [L+1, B, ...] of the first and the last column, [L, B, ...] of the others
Tensors empty_batch(const FilledRing& ring, int64_t B) {
  Tensors out;
  for (size_t c = 0; c < ring.columns.size(); ++c) {
    auto shape = ring.columns[c].sizes().vec();
    // what is observed is also wanted at the time behind the last step
    const bool observed = c == 0 || c + 1 == ring.columns.size();
    shape[0] = ring.size.length + observed, shape[1] = B;
    out.push_back(at::empty(shape, ring.columns[c].options()));
  }
  return out;
}

// flags of `times` time steps of rows whose episodes have 1 to `longest` transitions
struct Episodes {
  at::Tensor is_first, ended;  ///< [times + 1, rows] u8

  Episodes(int64_t times, int64_t rows, int64_t longest)
      : is_first(at::zeros({times + 1, rows}, at::kByte)), ended(at::zeros_like(is_first)) {
    auto gen = at::make_generator<at::CPUGeneratorImpl>(uint64_t(times));
    const auto lengths = at::randint(1, longest + 1, {rows, times + 1}, gen, at::kLong);
    for (int64_t r = 0; r < rows; ++r) {
      const int64_t* length = lengths[r].const_data_ptr<int64_t>();
      for (int64_t t = 0, left = *length; t <= times; ++t, --left) {
        if (left == 0) is_first[t][r] = 1, left = *++length + 1;
        else if (left == 1) ended[t][r] = 1;
      }
    }
  }
};

// slices by their weights and the chances they had, beside numbers that fall to running sums
KernelCase chance_case(const EpisodeIndexSize& size, int64_t B, at::Device device) {
  const auto ring = std::make_shared<FilledRing>(
      size, std::vector<std::pair<int64_t, at::ScalarType>>{{1, at::kFloat}}, device);
  const auto i64 = at::TensorOptions(at::kLong).device(device);
  return {
      .name = "slices of " + std::to_string(size.slots) + "x" + std::to_string(size.rows) +
              " L=" + std::to_string(size.length) + " B=" + std::to_string(B) + " by priorities",
      .reference =
          [=](const Tensors&) {
            // weights in the order of their places, the first time of which is 0
            const auto weights = ring->index.weights().cpu().flatten().to(at::kLong);
            const auto sums = weights.cumsum(0);
            const int64_t total = sums[-1].item<int64_t>();
            std::vector<int64_t> numbers;
            for (int64_t i = 0; i < B; ++i) {
              const PhiloxBlock bits = philox(3, stream_id(Purpose::replay, uint64_t(i)), 5);
              numbers.push_back(scaled(uint64_t(bits.word[0]) << 32 | bits.word[1], total));
            }
            const auto place = at::searchsorted(sums, at::tensor(numbers, at::kLong),
                                                /*out_int32=*/false, /*right=*/true);
            const auto chance = weights.index_select(0, place).to(at::kDouble) / double(total);
            return Tensors{at::stack({place.div(size.rows, "floor"), place.remainder(size.rows)}, 1)
                               .to(device),
                           chance.to(device, at::kFloat)};
          },
      .fused =
          [=](const Tensors&) {
            const auto slices = at::empty({B, 2}, i64);
            const auto chance = at::empty({B}, i64.dtype(at::kFloat));
            sample_into(empty_batch(*ring, B), *ring, slices, {}, {}, chance);
            return Tensors{slices, chance};
          },
      .tolerance = 0,
      .bytes = B * (size.length + 1) * 10};
}

// priorities of slices that share rows, into a ring that gives no longer what is oldest
KernelCase prioritise_case(int64_t times, at::Device device) {
  constexpr int64_t kSlots = 40, kRows = 3, kSlices = 50, kLength = 4;
  constexpr int64_t kOldest = 35, kNow = 70, kExponent = kExponentOne * 6 / 10;
  const EpisodeIndexSize size{
      .slots = kSlots, .rows = kRows, .length = kLength, .prioritised = true};
  const auto episodes = std::make_shared<Episodes>(kSlots - 1, kRows, 9);
  const auto none = at::zeros_like(episodes->is_first);
  auto gen = at::make_generator<at::CPUGeneratorImpl>(uint64_t(7));
  const auto slices = at::stack({at::randint(kOldest - 4, kNow - 1, {kSlices}, gen, at::kLong),
                                 at::randint(0, kRows, {kSlices}, gen, at::kLong)},
                                1);
  const auto priority = at::rand({times, kSlices}, gen, at::kFloat) * 9;
  const auto index_on = [=](at::Device where) {
    auto index = std::make_shared<EpisodeIndex>(size, where);
    index->rebuild(episodes->is_first, episodes->ended, none, kOldest, kNow);
    return index;
  };
  return {.name = "priorities of " + std::to_string(times) + " rows of " + std::to_string(kSlices) +
                  " slices",
          .reference =
              [=](const Tensors&) {
                const auto index = index_on(at::kCPU);
                auto weights = index->weights().clone();
                int64_t largest = kWeightOne;
                for (int64_t b = 0; b < kSlices; ++b)
                  for (int64_t l = 0; l < times; ++l) {
                    const int64_t time = slices[b][0].item<int64_t>() + l;
                    if (time < kOldest || time + kLength > kNow) continue;
                    const int64_t weight = weight_of(priority[l][b].item<float>(), kExponent);
                    largest = std::max(largest, weight);
                    at::Tensor leaf = weights[time % kSlots][slices[b][1].item<int64_t>()];
                    if (leaf.item<int32_t>() > 0) leaf.fill_(weight);
                  }
                const auto about = at::stack({weights.sum(), at::full({}, largest, at::kLong)});
                return Tensors{weights.to(device), about.to(device)};
              },
          .fused =
              [=](const Tensors&) {
                const auto index = index_on(device);
                const auto there = slices.to(device), given = priority.to(device);
                replay_prioritise({.table = index->table(),
                                   .slices = static_cast<const Slice*>(there.const_data_ptr()),
                                   .priority = given.const_data_ptr<float>(),
                                   .B = kSlices,
                                   .times = times,
                                   .exponent = kExponent},
                                  device);
                const EpisodeCounters counters = index->counters();
                return Tensors{
                    index->weights(),
                    at::tensor({counters.weight, counters.largest}, at::kLong).to(device)};
              },
          .tolerance = 0,
          .bytes = times * kSlices * 12};
}

// the table of a ring that time steps come to, `at_once` of them, until it went round
KernelCase table_case(const EpisodeIndexSize& size, int64_t at_once, at::Device device) {
  const int64_t times = (2 * size.slots + at_once) / at_once * at_once;
  const auto episodes = std::make_shared<Episodes>(times, size.rows, 9);
  const auto table_on = [=](at::Device where, auto reserve, auto append) {
    EpisodeIndex index(size, where);
    auto first = at::zeros({size.slots, size.rows}, at::TensorOptions(at::kByte).device(where));
    auto ended = at::zeros_like(first), cut = at::zeros_like(first);
    index.rebuild(first, ended, cut, 0, 0);
    const EpisodeFlags flags{first.const_data_ptr<uint8_t>(), ended.const_data_ptr<uint8_t>(),
                             cut.const_data_ptr<uint8_t>()};
    for (int64_t now = 0; now < times; now += at_once) {
      reserve(index, at_once);
      for (int64_t t = now; t < now + at_once; ++t) {
        ended[t % size.slots].copy_(episodes->ended[t]);
        first[(t + 1) % size.slots].copy_(episodes->is_first[t + 1]);
      }
      append(index, flags, at_once);
    }
    Tensors arrays{index.memory().clone()};
    if (size.prioritised) arrays.push_back(index.weights());
    return arrays;
  };
  return {.name = "table of " + std::to_string(size.slots) + "x" + std::to_string(size.rows) +
                  " L=" + std::to_string(size.length) + (size.by_start ? " by start" : "") +
                  (size.running ? " running" : "") + (size.crossing ? " crossing" : "") +
                  (size.prioritised ? " by priorities" : ""),
          .reference =
              [=](const Tensors&) {
                return table_on(
                    at::kCPU,
                    [](EpisodeIndex& i, int64_t steps) { episodes_reserve_cpu(i.table(), steps); },
                    [](EpisodeIndex& i, const EpisodeFlags& flags, int64_t steps) {
                      episodes_append_cpu(i.table(), flags, steps);
                    });
              },
          .fused =
              [=](const Tensors&) {
                return table_on(
                    device, [](EpisodeIndex& i, int64_t steps) { i.reserve(steps); },
                    [](EpisodeIndex& i, const EpisodeFlags& flags, int64_t steps) {
                      i.append(flags, steps);
                    });
              },
          .tolerance = 0,
          .bytes = times * size.rows * 3};
}

// steps that were collected elsewhere into a ring, round its end
KernelCase write_case(int64_t slots, int64_t times, at::Device device) {
  auto index = std::make_shared<EpisodeIndex>(EpisodeIndexSize{.slots = slots, .rows = 3}, device);
  const auto none = at::zeros({slots, 3}, at::kByte);
  const int64_t now = slots + slots - times / 2;
  index->rebuild(none, none, none, now, now);
  std::vector<std::pair<int64_t, at::ScalarType>> columns{
      {7, at::kFloat}, {16, at::kFloat}, {5, at::kByte}};
  // more times than a grid has blocks in z, of the least there is
  if (times > 65535) columns = {{1, at::kByte}};
  Tensors staged, rings;
  for (const auto& [width, dtype] : columns) {
    staged.push_back(at::arange(times * 3 * width).remainder(200).view({times, 3, width}));
    staged.back() = staged.back().to(device, dtype);
    rings.push_back(at::zeros({slots, 3, width}, staged.back().options()));
  }
  return {.name = "write of " + std::to_string(times) + " into " + std::to_string(slots),
          .reference =
              [=](const Tensors&) {
                const auto places = (at::arange(now, now + times).remainder(slots)).to(device);
                Tensors written;
                for (size_t c = 0; c < rings.size(); ++c)
                  written.push_back(rings[c].index_copy(0, places, staged[c]));
                return written;
              },
          .fused =
              [=](const Tensors&) {
                Tensors written;
                ReplayWrite args{
                    .counters = index->table().counters, .slots = slots, .count = 0, .columns = {}};
                for (size_t c = 0; c < rings.size(); ++c) {
                  written.push_back(rings[c].clone());
                  args.columns[args.count++] = {.from = staged[c].const_data_ptr(),
                                                .to = written[c].data_ptr(),
                                                .slot_bytes = int64_t(rings[c].nbytes()) / slots,
                                                .times = times};
                }
                replay_write(args, device);
                return written;
              },
          .tolerance = 0,
          .bytes = 2 * times * 3 * (23 * 4 + 5)};
}

// rows of slices that share some, back into a ring that gives no longer what is oldest
KernelCase put_back_case(at::Device device) {
  constexpr int64_t kSlots = 20, kRows = 3, kSlices = 24, kFirst = 1, kTimes = 6;
  auto index = std::make_shared<EpisodeIndex>(
      EpisodeIndexSize{.slots = kSlots, .rows = kRows, .crossing = true}, device);
  const auto none = at::zeros({kSlots, kRows}, at::kByte);
  index->rebuild(none, none, none, 35, 50);
  auto gen = at::make_generator<at::CPUGeneratorImpl>(uint64_t(7));
  const auto slices = at::stack({at::randint(31, 44, {kSlices}, gen, at::kLong),
                                 at::randint(0, kRows, {kSlices}, gen, at::kLong)},
                                1);
  const auto on_device = slices.to(device);
  Tensors batch, rings;
  for (const auto& [width, dtype] : {std::pair{int64_t(7), at::kFloat}, {16, at::kByte}}) {
    batch.push_back(at::arange(kTimes * kSlices * width).remainder(251).to(device, dtype));
    batch.back() = batch.back().view({kTimes, kSlices, width});
    rings.push_back(at::zeros({kSlots, kRows, width}, batch.back().options()));
  }
  return {
      .name = "put back " + std::to_string(kSlices) + " slices",
      .reference =
          [=](const Tensors&) {
            Tensors written;
            for (size_t c = 0; c < rings.size(); ++c) {
              written.push_back(rings[c].clone());
              for (int64_t b = 0; b < kSlices; ++b)
                for (int64_t l = kFirst; l < kTimes; ++l) {
                  const int64_t time = slices[b][0].item<int64_t>() + l;
                  if (time >= 35)
                    written[c][time % kSlots][slices[b][1].item<int64_t>()].copy_(batch[c][l][b]);
                }
            }
            return written;
          },
      .fused =
          [=](const Tensors&) {
            Tensors written;
            ReplayPutBack args{.counters = index->table().counters,
                               .slots = kSlots,
                               .rows = kRows,
                               .slices = static_cast<const Slice*>(on_device.const_data_ptr()),
                               .B = kSlices,
                               .first = kFirst,
                               .times = kTimes,
                               .count = 0,
                               .columns = {}};
            for (size_t c = 0; c < rings.size(); ++c) {
              written.push_back(rings[c].clone());
              args.columns[args.count++] = {
                  .from = batch[c].const_data_ptr(),
                  .to = written[c].data_ptr(),
                  .row_bytes = int64_t(batch[c].nbytes()) / (kTimes * kSlices)};
            }
            replay_put_back(args, device);
            return written;
          },
      .tolerance = 0,
      .bytes = 2 * (kTimes - kFirst) * kSlices * (7 * 4 + 16)};
}

// the first columns lie in a buffer that holds the batch, or another one
KernelCase ahead_case(int64_t held, at::Device device) {
  constexpr int64_t kSlots = 60, kRows = 3, kSlices = 20, kAhead = 2;
  auto ring = std::make_shared<FilledRing>(
      EpisodeIndexSize{.slots = kSlots, .rows = kRows, .length = 4, .crossing = true},
      std::vector<std::pair<int64_t, at::ScalarType>>{
          {7, at::kFloat}, {16, at::kByte}, {2, at::kFloat}},
      device);
  const auto slices = at::empty({kSlices, 2}, at::TensorOptions(at::kLong).device(device));
  Tensors ahead = empty_batch(*ring, kSlices);
  ahead.resize(kAhead);
  // numbers that the ring has not
  for (at::Tensor& column : ahead) column.fill_(211);
  return {.name = "batch 5 where " + std::to_string(held) + " lies ahead",
          .reference =
              [=](const Tensors&) {
                Tensors drawn = empty_batch(*ring, kSlices);
                sample_into(drawn, *ring, slices);
                for (size_t c = 0; held == 5 && c < kAhead; ++c) drawn[c] = ahead[c];
                return drawn;
              },
          .fused =
              [=](const Tensors&) {
                Tensors drawn = empty_batch(*ring, kSlices);
                sample_into(drawn, *ring, slices, ahead, at::full({1}, held, slices.options()));
                return drawn;
              },
          .tolerance = 0,
          .bytes = 2 * 5 * kSlices * (7 * 4 + 16 + 2 * 4 + 1)};
}

std::vector<KernelCase> replay_cases(at::Device device) {
  using Kinds = std::vector<std::pair<int64_t, at::ScalarType>>;
  const Kinds vectors{{18, at::kFloat}, {4, at::kFloat}, {1, at::kFloat}, {1, at::kByte}};
  const Kinds images{{64 * 64 * 9, at::kByte}, {2, at::kFloat}, {1, at::kFloat}, {1, at::kByte}};
  std::vector<KernelCase> list;
  enum { kByEpisode, kByStart, kCrossing };
  for (auto [slots, rows, length, B, kinds, sampling] :
       {std::tuple{int64_t(300), int64_t(1), int64_t(1), int64_t(7), vectors, kByEpisode},
        {300, 5, 9, 33, vectors, kByStart},
        {300, 5, 64, 16, vectors, kCrossing},
        {2500, 8, 3, 256, vectors, kByEpisode},
        {125000, 8, 3, 256, vectors, kByStart},
        {125, 8, 3, 64, images, kByEpisode}}) {
    const bool by_start = sampling == kByStart, crossing = sampling == kCrossing;
    auto ring = std::make_shared<FilledRing>(EpisodeIndexSize{.slots = slots,
                                                              .rows = rows,
                                                              .length = length,
                                                              .by_start = by_start,
                                                              .crossing = crossing},
                                             kinds, device);
    const auto i64 = at::TensorOptions(at::kLong).device(device);
    auto slices = at::empty({B, 2}, i64);
    auto out = empty_batch(*ring, B);
    // every byte is read and written
    int64_t bytes = 0;
    for (const auto& o : out) bytes += 2 * int64_t(o.nbytes());
    list.push_back(
        {.name = std::to_string(slots) + "x" + std::to_string(rows) +
                 " L=" + std::to_string(length) + " B=" + std::to_string(B) +
                 " D=" + std::to_string(kinds[0].first) +
                 (by_start   ? " by start"
                  : crossing ? " crossing"
                             : ""),
         .reference =
             [=](const Tensors&) {
               // the places, as fused draws them, then a selection of rows a column and time
               auto chosen = at::empty({B, 2}, i64);
               const auto places = empty_batch(*ring, B);
               sample_into(places, *ring, chosen);
               Tensors selected;
               for (size_t c = 0; c < ring->columns.size(); ++c) {
                 Tensors times;
                 for (int64_t l = 0; l < places[c].size(0); ++l)
                   times.push_back(ring->columns[c].flatten(0, 1).index_select(
                       0, (chosen.select(1, 0) + l).remainder(slots) * rows + chosen.select(1, 1)));
                 selected.push_back(at::stack(times));
               }
               return selected;
             },
         .fused =
             [=](const Tensors&) {
               auto batch = empty_batch(*ring, B);
               sample_into(batch, *ring, slices);
               return batch;
             },
         .tolerance = 0,
         .bytes = bytes,
         .repeat_fused = [=] { sample_into(out, *ring, slices); }});
  }
  for (const bool by_start : {false, true}) {
    list.push_back(
        table_case({.slots = 40, .rows = 3, .length = 2, .by_start = by_start}, 1, device));
    list.push_back(
        table_case({.slots = 20, .rows = 1030, .length = 3, .by_start = by_start, .running = true},
                   4, device));
  }
  for (const bool crossing : {false, true})
    list.push_back(table_case(
        {.slots = 20, .rows = 1030, .length = 3, .crossing = crossing, .prioritised = true}, 4,
        device));
  list.push_back(put_back_case(device));
  list.push_back(
      chance_case({.slots = 90, .rows = 1, .length = 3, .prioritised = true}, 7, device));
  list.push_back(
      chance_case({.slots = 12500, .rows = 8, .crossing = true, .prioritised = true}, 256, device));
  for (int64_t times : {1, 4}) list.push_back(prioritise_case(times, device));
  // on a processor steps are written to the ring itself, and a thread draws ahead
  if (device.is_cuda()) {
    for (int64_t times : {1, 6}) list.push_back(write_case(11, times, device));
    list.push_back(write_case(70'000, 66'000, device));
    for (int64_t held : {5, 4}) list.push_back(ahead_case(held, device));
  }
  return list;
}

}  // namespace

namespace kernels::replay {
KernelEntry entry() {
  return {"replay", "slices of episodes drawn and brought into a batch", replay_cases};
}
}  // namespace kernels::replay

}  // namespace maglev
