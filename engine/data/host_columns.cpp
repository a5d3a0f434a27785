#include "engine/data/host_columns.h"

#include <algorithm>
#include <array>
#include <exception>

#include <ATen/ATen.h>

#include "base/core/error.h"
#include "base/trace/span.h"
#include "engine/device/device.h"

namespace maglev {

HostColumns::HostColumns(const EnvSpec& spec, int64_t rows, int64_t block_rows, int64_t rivals,
                         at::Device device)
    : obs_count_(spec.observations.size()), pageable_(!device.is_cuda()) {
  MAGLEV_ASSERT(rivals == 0 || block_rows >= rows, "rivals' rows are of one block");
  int64_t bytes = 0;
  const auto place = [&bytes](Column& column, int64_t first, int64_t count, int64_t row_bytes) {
    column = {.begin = bytes, .bytes = count * row_bytes, .before = first * row_bytes};
    bytes += (column.bytes + 15) / 16 * 16;
  };
  struct Rows {
    Group* group;
    int64_t first, count;
  };
  for (int64_t first = 0; first < rows; first += block_rows) blocks_.emplace_back();
  const auto rows_of = [&](size_t block) {
    const int64_t first = int64_t(block) * block_rows;
    return std::array{Rows{&blocks_[block].learners, first, std::min(block_rows, rows - first)},
                      Rows{&blocks_[block].rivals, 0, rivals}};
  };
  for (size_t b = 0; b < blocks_.size(); ++b) {
    Block& block = blocks_[b];
    block.begin = bytes;
    // what a reset writes lies first
    for (const auto& [group, first, count] : rows_of(b)) {
      for (size_t c = 0; c < obs_count_; ++c)
        place(group->obs[c], first, count, spec.observations[c].row_bytes());
      place(group->mask, first, count, spec.action.masked ? spec.action.categories() : 0);
      place(group->is_first, first, count, 1);
    }
    block.observed_bytes = bytes - block.begin;
    for (const auto& [group, first, count] : rows_of(b)) {
      place(group->reward, first, count, sizeof(float));
      place(group->terminated, first, count, 1);
      place(group->truncated, first, count, 1);
    }
    block.all_bytes = bytes - block.begin;
  }
  // actions lie behind all that goes up; a category and a number have four bytes each
  const int64_t up = bytes;
  for (size_t b = 0; b < blocks_.size(); ++b)
    for (const auto& [group, first, count] : rows_of(b))
      place(group->action, first, count, spec.action.dims() * 4);
  const auto u8 = at::TensorOptions(at::kByte);
  host_ = at::zeros({bytes}, u8.pinned_memory(device.is_cuda()));
  device_ = at::zeros({up}, u8.device(device));
}

StepColumns HostColumns::on_host(const Group& group, const StepColumns& device) const {
  // where row 0 would lie: within the memory, for the blocks before hold the rows before
  const auto host = [this](const Column& column) {
    return static_cast<std::byte*>(host_.data_ptr()) + (column.begin - column.before);
  };
  StepColumns columns;
  if (device.action_i32) columns.action_i32 = reinterpret_cast<int32_t*>(host(group.action));
  if (device.action_f32) columns.action_f32 = reinterpret_cast<float*>(host(group.action));
  for (size_t c = 0; c < obs_count_; ++c)
    if (device.obs[c]) columns.obs[c] = host(group.obs[c]);
  const auto flags = [&](const Column& column) { return reinterpret_cast<uint8_t*>(host(column)); };
  if (device.mask) columns.mask = flags(group.mask);
  if (device.is_first) columns.is_first = flags(group.is_first);
  if (device.reward) columns.reward = reinterpret_cast<float*>(host(group.reward));
  if (device.terminated) columns.terminated = flags(group.terminated);
  if (device.truncated) columns.truncated = flags(group.truncated);
  return columns;
}

HostColumns::~HostColumns() {
  if (pageable_) return;
  try {
    wait_for_stream();
  } catch (const std::exception&) {
    // the device has failed, and whoever asks it next says so
  }
}

const StepIo& HostColumns::of(const StepIo& io, int64_t block) {
  Block& b = blocks_[size_t(block)];
  b.io = io;
  static_cast<StepColumns&>(b.io) = on_host(b.learners, io);
  b.io.rivals = on_host(b.rivals, io.rivals);
  return b.io;
}

const StepIo& HostColumns::bring_actions(const StepIo& io, int64_t block) {
  const Block& b = blocks_[size_t(block)];
  const auto bring = [this](const Column& column, const StepColumns& columns) {
    const void* actions =
        columns.action_i32 ? static_cast<const void*>(columns.action_i32) : columns.action_f32;
    if (actions)
      copy_on_stream(static_cast<std::byte*>(host_.data_ptr()) + column.begin,
                     static_cast<const std::byte*>(actions) + column.before, column.bytes);
  };
  {
    const auto span =
        trace::copy("actions", b.learners.action.bytes + b.rivals.action.bytes, "DtoH", pageable_);
    bring(b.learners.action, io);
    bring(b.rivals.action, io.rivals);
  }
  {
    const auto span = trace::wait("actions", "device");
    wait_for_stream();
  }
  return of(io, block);
}

void HostColumns::send(const StepIo& io, int64_t block, Part part) {
  const Block& b = blocks_[size_t(block)];
  const int64_t bytes = part == Part::all ? b.all_bytes : b.observed_bytes;
  const auto span = trace::copy("columns", bytes, "HtoD", pageable_);
  copy_on_stream(static_cast<std::byte*>(device_.data_ptr()) + b.begin,
                 static_cast<std::byte*>(host_.data_ptr()) + b.begin, bytes);
  send(b.learners, io, part);
  send(b.rivals, io.rivals, part);
}

void HostColumns::send(const Group& group, const StepColumns& device, Part part) const {
  const auto put = [this](void* to, const Column& column) {
    if (to)
      copy_on_stream(static_cast<std::byte*>(to) + column.before,
                     static_cast<std::byte*>(device_.data_ptr()) + column.begin, column.bytes);
  };
  for (size_t c = 0; c < obs_count_; ++c) put(device.obs[c], group.obs[c]);
  put(device.mask, group.mask);
  put(device.is_first, group.is_first);
  if (part == Part::observed) return;
  put(device.reward, group.reward);
  put(device.terminated, group.terminated);
  put(device.truncated, group.truncated);
}

}  // namespace maglev
