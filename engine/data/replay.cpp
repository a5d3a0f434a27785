#include "engine/data/replay.h"

#include <algorithm>
#include <cmath>
#include <mutex>

#include <ATen/ATen.h>

#include "base/core/error.h"
#include "base/core/mapped_file.h"
#include "base/core/printed.h"

namespace maglev {
namespace {

// of a ring: beyond it sums of parts could wrap
constexpr double kMostBytes = 0x1p60;

/// Calls visit(name, column of the ring, the same column of each of `more`) for each defined one,
/// in a fixed order. `name` is called for a name, so that who wants none allocates none.
template <class Visit, class... More>
void for_columns(const std::vector<ExtraColumn>& extra, const Visit& visit, const Batch& ring,
                 const More&... more) {
  const auto named = [](const char* name) { return [name] { return std::string(name); }; };
  for (size_t c = 0; c < ring.obs.size(); ++c)
    visit([c] { return "obs" + std::to_string(c); }, ring.obs[c], more.obs[c]...);
  if (ring.mask.defined()) visit(named("mask"), ring.mask, more.mask...);
  visit(named("is_first"), ring.is_first, more.is_first...);
  visit(named("action"), ring.action, more.action...);
  visit(named("reward"), ring.reward, more.reward...);
  visit(named("terminated"), ring.terminated, more.terminated...);
  visit(named("truncated"), ring.truncated, more.truncated...);
  for (size_t c = 0; c < ring.extra.size(); ++c)
    visit([&extra, c] { return "extra." + extra[c].name; }, ring.extra[c], more.extra[c]...);
}

int64_t row_bytes_of(const ExtraColumn& column) {
  return c10::multiply_integers(column.shape) * int64_t(c10::elementSize(column.dtype));
}

int64_t slots_of(const ReplayShape& shape) {
  Replay::expect_capacity(shape);
  return shape.capacity / shape.window.rows;
}

at::TensorOptions memory_of(at::Device device, bool pinned) {
  if (pinned && device.is_cuda()) return at::TensorOptions(at::kCPU).pinned_memory(true);
  return at::TensorOptions(device);
}

// memory that nothing was written to takes none yet, in a file likewise but for its space
MakeColumn observations_in(const std::string& folder) {
  return [folder](at::IntArrayRef sizes, at::TensorOptions options) {
    if (folder.empty()) {
      at::Tensor column = at::empty(sizes, options);
      if (column.is_cpu() && !options.pinned_memory())
        prefer_large_pages(column.data_ptr(), int64_t(column.nbytes()));
      return column;
    }
    const int64_t bytes = c10::multiply_integers(sizes) * int64_t(options.dtype().itemsize());
    auto file = std::make_unique<MappedFile>(folder, bytes);
    std::byte* data = file->data();
    // the tensor's end is the file's
    return at::from_blob(
        data, sizes, [held = file.release()](void*) { delete held; }, options);
  };
}

}  // namespace

Replay::Replay(const EnvSpec& spec, const ReplayShape& shape,
               const std::vector<ExtraColumn>& columns, at::Device device, const RingMemory& memory)
    : spec_(spec),
      extra_(columns),
      shape_(shape),
      slots_(slots_of(shape)),
      device_(device),
      pinned_(memory.pinned && device.is_cuda()),
      columns_(make_columns(spec, columns, {.observed = slots_, .acted = slots_}, shape.window.rows,
                            memory_of(device, memory.pinned), observations_in(memory.folder))),
      index_({.slots = slots_,
              .rows = shape.window.rows,
              .length = shape.length,
              .by_start = shape.by_start,
              .running = shape.running,
              .crossing = shape.crossing,
              .prioritised = shape.priorities.has_value()},
             device) {
  if (device.is_cuda()) staging_ = std::make_unique<Rollout>(spec, shape.window, columns, device);
  else window_ = std::make_unique<StepWindow>(spec, columns_, shape.window);
  hold(0, 0);
}

void Replay::begin() {
  if (staging_) return;  // commit sees to it, at the device's own time
  std::unique_lock lock(mutex_);
  index_.reserve(shape_.window.T);
  window_->move_to(index_.table().counters->now, slots_);
}

void Replay::commit() {
  const EpisodeFlags flags{columns_.is_first.const_data_ptr<uint8_t>(),
                           columns_.terminated.const_data_ptr<uint8_t>(),
                           columns_.truncated.const_data_ptr<uint8_t>()};
  std::unique_lock lock(mutex_);
  if (staging_) {
    index_.reserve(shape_.window.T);
    store();
  }
  index_.append(flags, shape_.window.T);
  if (staging_) staging_->roll_over();
}

void Replay::store() {
  ReplayWrite args{.counters = index_.table().counters, .slots = slots_, .count = 0, .columns = {}};
  const auto add = [&](const auto&, const at::Tensor& ring, const at::Tensor& staged) {
    MAGLEV_ASSERT(args.count < kReplayColumns, "raise kReplayColumns");
    args.columns[args.count++] = {.from = staged.const_data_ptr(),
                                  .to = ring.data_ptr(),
                                  .slot_bytes = int64_t(ring.nbytes()) / slots_,
                                  .times = staged.size(0)};
  };
  for_columns(extra_, add, columns_, staging_->batch());
  replay_write(args, device_);
}

EpisodeCounters Replay::counters() const {
  std::shared_lock lock(mutex_);
  return index_.counters();
}

Error Replay::undrawable() const {
  const char* of = shape_.crossing ? "row" : shape_.running ? "episode" : "finished episode";
  return Error("[replay] nothing can be drawn: no " + std::string(of) + " that is held has the " +
               counted(shape_.length, "transition") + " of a slice; add more steps first");
}

bool Replay::drawable() const {
  std::shared_lock lock(mutex_);
  EpisodeTable table = index_.table();
  EpisodeCounters counters = index_.counters();
  table.counters = &counters;
  return maglev::drawable(table) > 0;
}

ReplayBuffer Replay::make_buffer() const {
  const auto on_device = at::TensorOptions(device_);
  ReplayBuffer buffer;
  buffer.batch =
      make_columns(spec_, extra_, {.observed = shape_.length + 1, .acted = shape_.length},
                   shape_.batch, on_device, observations_in(/*folder=*/""));
  buffer.slices = at::zeros({shape_.batch, 2}, on_device.dtype(at::kLong));
  if (shape_.priorities) {
    buffer.batch.chance = at::zeros({shape_.batch}, on_device.dtype(at::kFloat));
    buffer.batch.priority = at::zeros_like(buffer.batch.chance);
  }
  if (device_.is_cuda()) buffer.number = at::full({1}, -1, buffer.slices.options());
  return buffer;
}

bool Replay::rewritten(const at::Tensor& column) const {
  for (size_t c = 0; c < extra_.size(); ++c)
    if (columns_.extra[c].is_same(column)) return extra_[c].rewritten;
  return false;
}

template <class Visit>
void Replay::for_rewritten(const Visit& visit) const {
  for (size_t c = 0; c < extra_.size(); ++c)
    if (extra_[c].rewritten) visit("rewritten." + extra_[c].name, columns_.extra[c]);
  if (shape_.priorities) visit(std::string("reweighted"), index_.weights());
}

void Replay::sample(ReplayBuffer& buffer, const ReplayKey& key, ThreadPool& pool,
                    SampledColumns which, const ReplayBuffer* ahead) {
  ReplaySample args{.table = index_.table(),
                    .is_first = columns_.is_first.const_data_ptr<uint8_t>(),
                    .seed = key.seed,
                    .number = key.number,
                    .base = key.base,
                    .slices = static_cast<Slice*>(buffer.slices.data_ptr()),
                    .B = shape_.batch,
                    .count = 0,
                    .columns = {}};
  if (buffer.number.defined()) args.drawn = buffer.number.data_ptr<int64_t>();
  if (ahead) args.held = ahead->number.const_data_ptr<int64_t>();
  if (shape_.priorities) args.chance = buffer.batch.chance.data_ptr<float>();
  const auto add = [&](const auto&, const at::Tensor& ring, const at::Tensor& to,
                       const at::Tensor& held) {
    if (which != SampledColumns::all && (which == SampledColumns::rewritten) != rewritten(ring))
      return;
    MAGLEV_ASSERT(args.count < kReplayColumns, "raise kReplayColumns");
    args.columns[args.count++] = {
        .from = ring.const_data_ptr(),
        .to = to.data_ptr(),
        .row_bytes = int64_t(ring.nbytes()) / (slots_ * shape_.window.rows),
        .times = to.size(0),
        .ahead = ahead && !rewritten(ring) ? held.const_data_ptr() : nullptr};
  };
  for_columns(extra_, add, columns_, buffer.batch, (ahead ? *ahead : buffer).batch);
  if (args.count == 0) return;
  std::shared_lock lock(mutex_);
  // a device is not waited for
  if (!device_.is_cuda() && maglev::drawable(index_.table()) == 0) throw undrawable();
  replay_sample(args, device_, pool);
}

void Replay::put_back(const ReplayBuffer& buffer, int64_t first) {
  ReplayPutBack args{.counters = index_.table().counters,
                     .slots = slots_,
                     .rows = shape_.window.rows,
                     .slices = static_cast<const Slice*>(buffer.slices.const_data_ptr()),
                     .B = shape_.batch,
                     .first = first,
                     .times = shape_.length,
                     .count = 0,
                     .columns = {}};
  for (size_t c = 0; c < extra_.size(); ++c) {
    if (!extra_[c].rewritten || !buffer.batch.extra[c].defined()) continue;
    MAGLEV_ASSERT(args.count < kReplayColumns, "raise kReplayColumns");
    const at::Tensor& ring = columns_.extra[c];
    args.columns[args.count++] = {
        .from = buffer.batch.extra[c].const_data_ptr(),
        .to = ring.data_ptr(),
        .row_bytes = int64_t(ring.nbytes()) / (slots_ * shape_.window.rows)};
  }
  if (args.count > 0) {
    std::shared_lock lock(mutex_);
    replay_put_back(args, device_);
  }
  const at::Tensor& priority = buffer.batch.priority;
  if (!priority.defined()) return;
  std::unique_lock lock(mutex_);
  replay_prioritise({.table = index_.table(),
                     .slices = args.slices,
                     .priority = priority.const_data_ptr<float>(),
                     .B = shape_.batch,
                     .times = priority.dim() > 1 ? priority.size(0) : 1,
                     .exponent = std::llround(*shape_.priorities * double(kExponentOne))},
                    device_);
}

void Replay::visit_times(StateVisitor& visitor, int64_t first, int64_t count, bool all) {
  // at most two stretches: the ring may end in between
  const int64_t begin = first % slots_, whole = std::min(count, slots_ - begin);
  const auto visit = [&](const auto& name, const at::Tensor& ring) {
    at::Tensor part = ring.narrow(0, begin, whole);
    visitor.rows(name(), part, /*dim=*/1);
    if (whole == count) return;
    part = ring.narrow(0, 0, count - whole);
    visitor.rows(name() + ".wrapped", part, /*dim=*/1);
  };
  if (all) {
    for_columns(extra_, visit, columns_);
    if (shape_.priorities) visit([] { return std::string("weights"); }, index_.weights());
    return;
  }
  for_rewritten(
      [&](const std::string& name, const at::Tensor& ring) { visit([&] { return name; }, ring); });
}

void Replay::visit_state(StateVisitor& visitor) {
  EpisodeCounters c = index_.counters();
  exchange_newest(c.now, /*into_ring=*/true);
  visit_counters(visitor, c);
  visit_times(visitor, 0, std::min(c.now + 1, slots_));
  if (visitor.loads()) check_values(std::min(c.now + 1, slots_));
  hold(c.oldest, c.now, c.largest);
}

void Replay::visit_counters(StateVisitor& visitor, EpisodeCounters& c) {
  // before the tensors, whose sizes they say
  visitor.count("now", c.now);
  visitor.integer("oldest", c.oldest, 0, c.now);
  visit_largest(visitor.loads(), c, [&](const std::string& name, at::Tensor& rows, int64_t dim) {
    visitor.rows(name, rows, dim);
  });
}

template <class Visit>
void Replay::visit_largest(bool loads, EpisodeCounters& c, const Visit& visit) const {
  if (!shape_.priorities) return;
  // each of several processes has its own; whoever takes rows of several takes the largest
  at::Tensor largest = at::full({shape_.window.rows}, c.largest, at::kLong);
  visit("largest", largest, /*dim=*/0);
  if (!loads) return;
  check_range("replay.largest", largest, kWeightOne, kMostWeight);
  c.largest = largest.max().item<int64_t>();
}

void Replay::check_values(int64_t times) const {
  const auto check = [&](const char* name, const at::Tensor& ring, int64_t most) {
    check_range(std::string("replay.") + name, ring.narrow(0, 0, times), 0, most);
  };
  // a category indexes what networks make of it
  for (size_t h = 0; h < spec_.action.heads.size(); ++h)
    check("action", columns_.action.select(-1, int64_t(h)), spec_.action.heads[h] - 1);
  check("is_first", columns_.is_first, 1);
  check("terminated", columns_.terminated, 1);
  check("truncated", columns_.truncated, 1);
  if (columns_.mask.defined()) check("mask", columns_.mask, 1);
  if (shape_.priorities) check("weights", index_.weights(), kMostWeight);
}

void Replay::visit_ahead(StateVisitor& visitor, int64_t steps) {
  EpisodeCounters c = index_.counters();
  exchange_newest(c.now, /*into_ring=*/true);
  visit_counters(visitor, c);
  visit_times(visitor, c.now, std::min(steps + 1, slots_));
  // updates write where they draw from, which is anywhere
  if (steps > 0) visit_times(visitor, 0, std::min(c.now + 1, slots_), /*all=*/false);
  hold(c.oldest, c.now, c.largest);
}

template <class Visit>
void Replay::visit_held_rewritten(bool loads, const Visit& visit) {
  EpisodeCounters c = index_.counters();
  const int64_t times = std::min(c.now + 1, slots_);
  for_rewritten([&](const std::string& name, const at::Tensor& ring) {
    at::Tensor held = ring.narrow(0, 0, times);
    visit(name, held, /*dim=*/1);
  });
  visit_largest(loads, c, visit);
  if (!loads || !shape_.priorities) return;
  check_range("replay.weights", index_.weights().narrow(0, 0, times), 0, kMostWeight);
  hold(c.oldest, c.now, c.largest);
}

void Replay::visit_rewritten(StateVisitor& visitor) {
  visit_held_rewritten(visitor.loads(), [&](const std::string& name, at::Tensor& rows,
                                            int64_t dim) { visitor.rows(name, rows, dim); });
}

void Replay::visit_rewritten_of(StateVisitor& visitor, int64_t processes, int64_t of) {
  const int64_t rows = shape_.window.rows;
  visit_held_rewritten(visitor.loads(), [&](const std::string& name, at::Tensor& own, int64_t dim) {
    std::vector<int64_t> shape = own.sizes().vec();
    shape[size_t(dim)] = rows * processes;
    at::Tensor all = at::empty(shape, at::TensorOptions(own.scalar_type()));
    visitor.tensor(name, all);
    if (visitor.loads()) own.copy_(all.narrow(dim, of * rows, rows));
  });
}

void Replay::forget() {
  const int64_t now = index_.counters().now;
  hold(now, now);
}

void Replay::hold(int64_t oldest, int64_t now, int64_t largest) {
  oldest = std::max(oldest, now + 1 - slots_);
  std::unique_lock lock(mutex_);
  index_.rebuild(columns_.is_first, columns_.terminated, columns_.truncated, oldest, now, largest);
  exchange_newest(now, /*into_ring=*/false);
}

void Replay::exchange_newest(int64_t now, bool into_ring) {
  if (!staging_) return;
  auto copy = [&](at::Tensor& staged, const at::Tensor& ring) {
    if (!staged.defined()) return;
    at::Tensor slot = ring.select(0, now % slots_);
    if (into_ring) slot.copy_(staged);
    else staged.copy_(slot);
  };
  TimeStep& step = staging_->step(0);
  for (size_t c = 0; c < step.obs.size(); ++c) copy(step.obs[c], columns_.obs[c]);
  copy(step.mask, columns_.mask);
  copy(step.is_first, columns_.is_first);
}

std::vector<int64_t> Replay::column_bytes(const EnvSpec& spec,
                                          const std::vector<ExtraColumn>& columns) {
  std::vector<int64_t> bytes;
  for (const auto& c : spec.observations) bytes.push_back(c.row_bytes());
  if (spec.action.masked) bytes.push_back(spec.action.categories());
  // is_first, terminated, truncated; reward; action
  bytes.insert(bytes.end(), {1, 1, 1, 4, 4 * spec.action.dims()});
  for (const auto& c : columns) bytes.push_back(row_bytes_of(c));
  return bytes;
}

int64_t Replay::rewritten_bytes(const std::vector<ExtraColumn>& columns) {
  int64_t bytes = 0;
  for (const auto& c : columns) bytes += c.rewritten ? row_bytes_of(c) : 0;
  return bytes;
}

int64_t Replay::row_bytes(const EnvSpec& spec, const std::vector<ExtraColumn>& columns) {
  int64_t row = 0;
  for (int64_t bytes : column_bytes(spec, columns)) row += bytes;
  return row;
}

int64_t Replay::least_capacity(const ReplayShape& shape) {
  return (shape.length + shape.window.T + 2) * shape.window.rows;
}

void Replay::expect_capacity(const ReplayShape& shape, int64_t shares) {
  const int64_t least = least_capacity(shape), rows = shape.window.rows;
  if (shape.capacity >= least) return;
  throw Error("[replay] a capacity of " + std::to_string(shape.capacity * shares) + " rows is " +
              std::to_string(shape.capacity / rows) + " of each of " +
              std::to_string(rows * shares) +
              " environment rows, a sequence and the steps collected meanwhile take " +
              std::to_string(least / rows) + "; raise the capacity to at least " +
              std::to_string(least * shares));
}

int64_t Replay::ring_rows(const ReplayShape& shape) { return slots_of(shape) * shape.window.rows; }

int64_t Replay::observed_bytes(const EnvSpec& spec, const ReplayShape& shape) {
  int64_t row = 0;
  for (const auto& c : spec.observations) row += c.row_bytes();
  return ring_rows(shape) * row;
}

int64_t Replay::bytes(const EnvSpec& spec, const ReplayShape& shape,
                      const std::vector<ExtraColumn>& columns) {
  const int64_t slots = slots_of(shape), rows = shape.window.rows;
  const int64_t entry = int64_t(sizeof(Episode)) + (shape.by_start ? 8 : 0);
  const int64_t row = row_bytes(spec, columns);
  if (shape.priorities && slots * rows >= kMostLeaves)
    throw Error("[replay] " + std::to_string(slots * rows) +
                " rows have more priorities than can be added up, the most are " +
                std::to_string(kMostLeaves - 1) + "; take fewer, or no priorities");
  if (double(slots) * double(rows) * double(row + entry) > kMostBytes)
    throw Error("[replay] " + std::to_string(slots * rows) + " rows of " + std::to_string(row) +
                " bytes are more than any machine holds; take fewer");
  const int64_t weights = shape.priorities ? 4 * slots * rows + 8 * weight_sums(slots * rows) : 0;
  return slots * rows * row + episode_entries(slots, rows, shape.length) * entry + weights;
}

}  // namespace maglev
