#include "engine/data/step_window.h"

#include <algorithm>

#include <ATen/ATen.h>

#include "engine/data/scalar_type.h"

namespace maglev {
namespace {

// an algorithm's blocks are cut smaller only where there would be fewer than this many, for small
// ones spend more on dispatch than on the work (measured: acting with ATen in 128 rows instead of
// 256 costs 1.4 times as much)
constexpr int64_t kBlocks = 4;
// and to so many where each stays several times as large as the least, for more threads (measured:
// collecting with the original Goodhart's network in 16 rows instead of 48 costs two threads 1.07
// times as much)
constexpr int64_t kMostBlocks = 16, kAmple = 4;
// larger blocks are a multiple of so many rows
constexpr int64_t kStep = 8;

// a view of rows [first_row, ...) of one time, put at another time of the same column
void move_view(const at::Tensor& view, int64_t first_row) {
  if (view.defined()) view.unsafeGetTensorImpl()->set_storage_offset(first_row * view.stride(0));
}

void move_step(const TimeStep& step, int64_t first_row) {
  for (const auto& o : step.obs) move_view(o, first_row + step.first);
  move_view(step.mask, first_row + step.first);
  move_view(step.is_first, first_row + step.first);
  move_view(step.action, first_row + step.first);
  for (const auto& e : step.extra) move_view(e, first_row + step.first);
  for (const TimeStep& block : step.blocks) move_step(block, first_row);
}

}  // namespace

int64_t block_rows(int64_t most, int64_t rows, int64_t agents, int64_t least) {
  const auto share = [rows](int64_t blocks) { return (rows + blocks - 1) / blocks; };
  int64_t wanted = std::min(share(kBlocks), std::max(share(kMostBlocks), kAmple * least));
  if (wanted > kStep) wanted = (wanted + kStep - 1) / kStep * kStep;
  wanted = std::min(most, std::max(least, wanted));
  const int64_t whole = (wanted + agents - 1) / agents * agents;
  return std::max(agents, std::min(whole, most / agents * agents));
}

TimeStep cut_rows(const TimeStep& step, int64_t begin, int64_t count) {
  auto cut = [&](const at::Tensor& t) { return t.defined() ? t.narrow(0, begin, count) : t; };
  TimeStep part;
  part.first = step.first + begin;
  for (const auto& o : step.obs) part.obs.push_back(cut(o));
  part.mask = cut(step.mask);
  part.is_first = cut(step.is_first);
  part.action = cut(step.action);
  for (const auto& e : step.extra) part.extra.push_back(cut(e));
  return part;
}

Batch make_columns(const EnvSpec& spec, const std::vector<ExtraColumn>& columns, ColumnTimes times,
                   int64_t rows, at::TensorOptions memory, const MakeColumn& make) {
  auto sizes = [&](int64_t count, const std::vector<int64_t>& shape) {
    std::vector<int64_t> all{count, rows};
    all.insert(all.end(), shape.begin(), shape.end());
    return all;
  };
  auto column = [&](int64_t count, const std::vector<int64_t>& shape, at::ScalarType dtype) {
    return at::zeros(sizes(count, shape), memory.dtype(dtype));
  };
  Batch batch;
  for (const auto& c : spec.observations) {
    const at::ScalarType dtype = scalar_type(c.dtype);
    batch.obs.push_back(make ? make(sizes(times.observed, c.shape), memory.dtype(dtype))
                             : column(times.observed, c.shape, dtype));
  }
  if (spec.action.masked)
    batch.mask = column(times.observed, {spec.action.categories()}, at::kByte).fill_(1);
  batch.is_first = column(times.observed, {}, at::kByte);
  batch.action =
      column(times.acted, {spec.action.dims()}, spec.action.discrete() ? at::kInt : at::kFloat);
  batch.reward = column(times.acted, {}, at::kFloat);
  batch.terminated = column(times.acted, {}, at::kByte);
  batch.truncated = column(times.acted, {}, at::kByte);
  for (const auto& c : columns)
    batch.extra.push_back(column(c.has_last ? times.observed : times.acted, c.shape, c.dtype));
  return batch;
}

StepWindow::StepWindow(const EnvSpec& spec, const Batch& columns, const RolloutShape& shape)
    : spec_(spec), shape_(shape) {
  for (int64_t t = 0; t <= shape.T; ++t) {
    auto at_time = [&](const at::Tensor& all) {
      return all.defined() && t < all.size(0) ? all.select(0, t) : at::Tensor();
    };
    TimeStep step;
    for (const auto& o : columns.obs) step.obs.push_back(at_time(o));
    step.mask = at_time(columns.mask);
    step.is_first = at_time(columns.is_first);
    step.action = at_time(columns.action);
    for (const auto& e : columns.extra) step.extra.push_back(at_time(e));
    for (int64_t b = 0; b < shape.rows; b += shape.block_rows)
      step.blocks.push_back(cut_rows(step, b, std::min(shape.block_rows, shape.rows - b)));
    steps_.push_back(std::move(step));
    if (t == shape.T) break;
    rewards_.push_back(at_time(columns.reward));
    terminated_.push_back(at_time(columns.terminated));
    truncated_.push_back(at_time(columns.truncated));
  }
  io_.resize(size_t(shape.T));
  for (int64_t t = 0; t < shape.T; ++t) point(io_[size_t(t)], t, t + 1);
  point(first_io_, 0, 0);
}

void StepWindow::point(StepIo& io, int64_t t, int64_t next) const {
  const TimeStep &now = steps_[size_t(t)], &then = steps_[size_t(next)];
  if (spec_.action.discrete()) io.action_i32 = now.action.data_ptr<int32_t>();
  else io.action_f32 = now.action.data_ptr<float>();
  io.action_dims = spec_.action.dims();
  for (size_t c = 0; c < then.obs.size(); ++c) {
    io.obs[c] = static_cast<std::byte*>(then.obs[c].data_ptr());
    io.obs_row_bytes[c] = spec_.observations[c].row_bytes();
  }
  if (then.mask.defined()) io.mask = then.mask.data_ptr<uint8_t>();
  io.mask_width = spec_.action.categories();
  io.reward = rewards_[size_t(t)].data_ptr<float>();
  io.terminated = terminated_[size_t(t)].data_ptr<uint8_t>();
  io.truncated = truncated_[size_t(t)].data_ptr<uint8_t>();
  io.is_first = then.is_first.data_ptr<uint8_t>();
}

void StepWindow::move_to(int64_t first, int64_t slots) {
  for (int64_t t = 0; t <= shape_.T; ++t) {
    const int64_t first_row = (first + t) % slots * shape_.rows;
    move_step(steps_[size_t(t)], first_row);
    if (t == shape_.T) break;
    move_view(rewards_[size_t(t)], first_row);
    move_view(terminated_[size_t(t)], first_row);
    move_view(truncated_[size_t(t)], first_row);
  }
  for (int64_t t = 0; t < shape_.T; ++t) point(io_[size_t(t)], t, t + 1);
}

}  // namespace maglev
