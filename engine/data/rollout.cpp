#include "engine/data/rollout.h"

#include <algorithm>
#include <cstring>

#include <torch/torch.h>

#include "engine/core/error.h"

namespace maglev {
namespace {

// an algorithm's blocks are cut smaller only where there would be fewer than this many, and never
// below so many rows: smaller ones spend more on dispatch than on the work (measured: acting with
// ATen in 128 rows instead of 256 costs 1.4 times as much)
constexpr int64_t kBlocks = 4, kLeastRows = 64;

at::ScalarType scalar_type(DType t) {
  switch (t) {
    case DType::u8:
      return at::kByte;
    case DType::i32:
      return at::kInt;
    case DType::f32:
      return at::kFloat;
  }
  MAGLEV_ASSERT(false, "every DType has a scalar type");
  return at::kFloat;
}

at::Tensor column(int64_t times, int64_t rows, const std::vector<int64_t>& shape,
                  at::ScalarType dtype, at::Device device) {
  std::vector<int64_t> sizes{times, rows};
  sizes.insert(sizes.end(), shape.begin(), shape.end());
  return at::zeros(sizes, at::TensorOptions(dtype).device(device));
}

Row slice(const Row& row, int64_t begin, int64_t count) {
  auto cut = [&](const at::Tensor& t) { return t.defined() ? t.narrow(0, begin, count) : t; };
  Row part;
  part.first = row.first + begin;
  for (const auto& o : row.obs) part.obs.push_back(cut(o));
  part.mask = cut(row.mask);
  part.is_first = cut(row.is_first);
  part.action = cut(row.action);
  for (const auto& e : row.extra) part.extra.push_back(cut(e));
  return part;
}

}  // namespace

int64_t block_rows(int64_t most, int64_t rows, int64_t agents) {
  const int64_t shared = (rows + kBlocks - 1) / kBlocks;
  const int64_t wanted = std::min(most, std::max(kLeastRows, (shared + 7) / 8 * 8));
  return (wanted + agents - 1) / agents * agents;
}

Rollout::Rollout(const EnvSpec& spec, RolloutShape shape, const std::vector<ExtraColumn>& columns,
                 at::Device device)
    : shape_(shape) {
  const int64_t T = shape.T, R = shape.rows;
  for (const auto& c : spec.observations)
    batch_.obs.push_back(column(T + 1, R, c.shape, scalar_type(c.dtype), device));
  if (spec.action.masked)
    batch_.mask = column(T + 1, R, {spec.action.categories()}, at::kByte, device).fill_(1);
  batch_.is_first = column(T + 1, R, {}, at::kByte, device);
  batch_.action =
      column(T, R, {spec.action.dims()}, spec.action.discrete() ? at::kInt : at::kFloat, device);
  batch_.reward = column(T, R, {}, at::kFloat, device);
  batch_.terminated = column(T, R, {}, at::kByte, device);
  batch_.truncated = column(T, R, {}, at::kByte, device);
  for (const auto& c : columns)
    batch_.extra.push_back(column(T + (c.has_last ? 1 : 0), R, c.shape, c.dtype, device));

  for (int64_t t = 0; t <= T; ++t) {
    auto at_time = [&](const at::Tensor& all) {
      return all.defined() && t < all.size(0) ? all.select(0, t) : at::Tensor();
    };
    Row row;
    for (const auto& o : batch_.obs) row.obs.push_back(at_time(o));
    row.mask = at_time(batch_.mask);
    row.is_first = at_time(batch_.is_first);
    row.action = at_time(batch_.action);
    for (const auto& e : batch_.extra) row.extra.push_back(at_time(e));
    for (int64_t b = 0; b < R; b += shape.block_rows)
      row.blocks.push_back(slice(row, b, std::min(shape.block_rows, R - b)));
    rows_.push_back(std::move(row));
  }
  for (int64_t t = 0; t < T; ++t) io_.push_back(make_io(spec, t, t + 1));
  first_io_ = make_io(spec, 0, 0);
}

StepIo Rollout::make_io(const EnvSpec& spec, int64_t t, int64_t next) const {
  StepIo io;
  const Row &now = rows_[size_t(t)], &then = rows_[size_t(next)];
  if (spec.action.discrete()) io.action_i32 = now.action.data_ptr<int32_t>();
  else io.action_f32 = now.action.data_ptr<float>();
  io.action_dims = spec.action.dims();
  for (size_t c = 0; c < then.obs.size(); ++c) {
    io.obs[c] = static_cast<std::byte*>(then.obs[c].data_ptr());
    io.obs_row_bytes[c] = spec.observations[c].row_bytes();
  }
  if (then.mask.defined()) io.mask = then.mask.data_ptr<uint8_t>();
  io.mask_width = spec.action.categories();
  io.reward = batch_.reward.select(0, t).data_ptr<float>();
  io.terminated = batch_.terminated.select(0, t).data_ptr<uint8_t>();
  io.truncated = batch_.truncated.select(0, t).data_ptr<uint8_t>();
  io.is_first = then.is_first.data_ptr<uint8_t>();
  return io;
}

void Rollout::roll_over() {
  auto copy = [](at::Tensor& to, const at::Tensor& from) {
    if (!to.defined()) return;
    if (to.is_cpu()) std::memcpy(to.data_ptr(), from.const_data_ptr(), to.nbytes());
    else to.copy_(from);
  };
  Row &first = rows_.front(), &last = rows_.back();
  for (size_t c = 0; c < first.obs.size(); ++c) copy(first.obs[c], last.obs[c]);
  copy(first.mask, last.mask);
  copy(first.is_first, last.is_first);
}

void Rollout::visit_state(StateVisitor& visitor) {
  Row& first = rows_.front();
  for (size_t c = 0; c < first.obs.size(); ++c)
    visitor.tensor("obs" + std::to_string(c), first.obs[c]);
  if (first.mask.defined()) visitor.tensor("mask", first.mask);
  visitor.tensor("is_first", first.is_first);
}

}  // namespace maglev
