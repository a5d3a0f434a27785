#include "engine/data/host_columns.h"

#include <exception>

#include <ATen/ATen.h>

#include "base/trace/span.h"
#include "engine/device/device.h"

namespace maglev {

HostColumns::HostColumns(const EnvSpec& spec, int64_t rows, int64_t rivals, at::Device device)
    : obs_count_(spec.observations.size()), pageable_(!device.is_cuda()) {
  int64_t bytes = 0;
  const auto place = [&bytes](Column& column, int64_t size) {
    column = {bytes, size};
    bytes += (size + 15) / 16 * 16;
  };
  const std::pair<Group*, int64_t> groups[] = {{&learners_, rows}, {&rivals_, rivals}};
  // what a reset writes lies first, actions behind all that goes up
  for (auto [group, n] : groups) {
    for (size_t c = 0; c < obs_count_; ++c)
      place(group->obs[c], n * spec.observations[c].row_bytes());
    place(group->mask, spec.action.masked ? n * spec.action.categories() : 0);
    place(group->is_first, n);
  }
  observed_bytes_ = bytes;
  for (auto [group, n] : groups) {
    place(group->reward, n * int64_t(sizeof(float)));
    place(group->terminated, n);
    place(group->truncated, n);
  }
  all_bytes_ = bytes;
  // a category and a number have four bytes each
  for (auto [group, n] : groups) place(group->action, n * spec.action.dims() * 4);
  const auto u8 = at::TensorOptions(at::kByte);
  host_ = at::zeros({bytes}, u8.pinned_memory(device.is_cuda()));
  device_ = at::zeros({all_bytes_}, u8.device(device));
}

std::byte* HostColumns::host(const Column& column) const {
  return static_cast<std::byte*>(host_.data_ptr()) + column.begin;
}

StepColumns HostColumns::on_host(const Group& group, const StepColumns& device) const {
  StepColumns columns;
  if (device.action_i32) columns.action_i32 = reinterpret_cast<int32_t*>(host(group.action));
  if (device.action_f32) columns.action_f32 = reinterpret_cast<float*>(host(group.action));
  for (size_t c = 0; c < obs_count_; ++c)
    if (device.obs[c]) columns.obs[c] = host(group.obs[c]);
  const auto flags = [this](const Column& column) {
    return reinterpret_cast<uint8_t*>(host(column));
  };
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

const StepIo& HostColumns::of(const StepIo& io) {
  io_ = io;
  static_cast<StepColumns&>(io_) = on_host(learners_, io);
  io_.rivals = on_host(rivals_, io.rivals);
  return io_;
}

const StepIo& HostColumns::bring_actions(const StepIo& io) {
  const auto bring = [this](const Group& group, const StepColumns& columns) {
    const void* actions =
        columns.action_i32 ? static_cast<const void*>(columns.action_i32) : columns.action_f32;
    if (actions) copy_on_stream(host(group.action), actions, group.action.bytes);
  };
  {
    const auto span =
        trace::copy("actions", learners_.action.bytes + rivals_.action.bytes, "DtoH", pageable_);
    bring(learners_, io);
    bring(rivals_, io.rivals);
  }
  {
    const auto span = trace::wait("actions", "device");
    wait_for_stream();
  }
  return of(io);
}

void HostColumns::send(const StepIo& io, Part part) {
  const int64_t bytes = part == Part::all ? all_bytes_ : observed_bytes_;
  const auto span = trace::copy("columns", bytes, "HtoD", pageable_);
  copy_on_stream(device_.data_ptr(), host_.data_ptr(), bytes);
  send(learners_, io, part);
  send(rivals_, io.rivals, part);
}

void HostColumns::send(const Group& group, const StepColumns& device, Part part) const {
  const auto put = [this](void* to, const Column& column) {
    if (to)
      copy_on_stream(to, static_cast<std::byte*>(device_.data_ptr()) + column.begin, column.bytes);
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
