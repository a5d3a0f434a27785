#include "engine/play/seat.h"

#include <algorithm>
#include <bit>
#include <string>

#include <ATen/ATen.h>

namespace maglev {
namespace {

/// Where `choice` has what.
enum Choice { step_place, count_place, rows_place };

// `change(column)` of each column that a player reads or writes
template <class Change>
TimeStep changed(const TimeStep& step, const Change& change) {
  const auto of = [&](const at::Tensor& t) { return t.defined() ? change(t) : t; };
  TimeStep other;
  for (const auto& o : step.obs) other.obs.push_back(of(o));
  other.mask = of(step.mask);
  other.is_first = of(step.is_first);
  other.action = of(step.action);
  return other;
}

at::Tensor room_for(const at::Tensor& column, int64_t rows) {
  std::vector<int64_t> sizes = column.sizes().vec();
  sizes[0] = rows;
  return at::zeros(sizes, column.options());
}

void gather(at::Tensor& to, const at::Tensor& from, const at::Tensor& index) {
  if (to.defined()) at::index_select_out(to, from, 0, index);
}

}  // namespace

int64_t bucket_rows(int64_t count, int64_t rows) {
  return std::min(rows, int64_t(std::bit_ceil(uint64_t(count))));
}

Seat::Seat(Player& player, TimeStep& now, GraphPool& graphs, uint64_t seed)
    : player_(&player),
      now_(&now),
      graphs_(&graphs),
      seed_(seed),
      carry_(player.initial_carry(now.rows())) {
  if (!graphs.captures() || !player.capturable()) return;
  const auto i64 = at::TensorOptions(at::kLong);
  choice_ = at::zeros({rows_place + now.rows()}, i64.device(now.action.device()));
  host_choice_ = at::zeros(choice_.sizes(), i64.pinned_memory(true));
  copied_ = std::make_unique<DeviceEvent>();
}

void Seat::act(const std::vector<int64_t>& chosen, int64_t step) {
  if (chosen.empty()) return;
  if (choice_.defined()) act_in_bucket(chosen, step);
  else act_eagerly(chosen, step);
}

void Seat::act_eagerly(const std::vector<int64_t>& chosen, int64_t step) {
  ActKey key{.seed = seed_, .purpose = Purpose::opponent, .step = step};
  const auto count = int64_t(chosen.size());
  if (count == now_->rows()) return player_->act(*now_, carry_, key);
  const at::Tensor on_host =
      at::from_blob(const_cast<int64_t*>(chosen.data()), {count}, at::TensorOptions(at::kLong));
  const at::Tensor index = on_host.to(now_->action.device());
  // a scripted player remembers on the host
  const auto beside = [&](const at::Tensor& t) { return t.is_cpu() ? on_host : index; };
  TimeStep rows =
      changed(*now_, [&](const at::Tensor& column) { return column.index_select(0, index); });
  Carry carry;
  for (const auto& part : carry_.parts) carry.parts.push_back(part.index_select(0, beside(part)));
  key.rows = index.const_data_ptr<int64_t>();
  player_->act(rows, carry, key);
  now_->action.index_copy_(0, index, rows.action);
  for (size_t i = 0; i < carry.parts.size(); ++i)
    carry_.parts[i].index_copy_(0, beside(carry_.parts[i]), carry.parts[i]);
}

void Seat::act_in_bucket(const std::vector<int64_t>& chosen, int64_t step) {
  const int64_t N = now_->rows(), rows = bucket_rows(int64_t(chosen.size()), N);
  // the copy before may still be read
  copied_->wait();
  auto* choice = host_choice_.data_ptr<int64_t>();
  choice[step_place] = step;
  choice[count_place] = int64_t(chosen.size());
  // behind the chosen rows the others: those that fill a bucket are all different
  int64_t* next = std::copy(chosen.begin(), chosen.end(), choice + rows_place);
  std::vector<uint8_t> taken(size_t(N), 0);
  for (int64_t row : chosen) taken[size_t(row)] = 1;
  for (int64_t row = 0; row < N; ++row)
    if (!taken[size_t(row)]) *next++ = row;
  choice_.copy_(host_choice_, /*non_blocking=*/true);
  copied_->record();

  auto found = buckets_.find(rows);
  if (found == buckets_.end()) found = buckets_.emplace(rows, made_bucket(rows)).first;
  Bucket& bucket = found->second;
  bucket.stage.run(*graphs_, [&] { play(bucket); });
}

Seat::Bucket Seat::made_bucket(int64_t rows) const {
  Bucket bucket{
      .rows = changed(*now_, [&](const at::Tensor& column) { return room_for(column, rows); }),
      .carry = {},
      .stage = RepeatedStage(player_->name() + " for " + std::to_string(rows) + " rows", "act")};
  for (const auto& part : carry_.parts) bucket.carry.parts.push_back(room_for(part, rows));
  return bucket;
}

void Seat::play(Bucket& bucket) {
  TimeStep& part = bucket.rows;
  const int64_t rows = part.rows();
  const at::Tensor index = choice_.narrow(0, rows_place, rows);
  for (size_t c = 0; c < part.obs.size(); ++c) gather(part.obs[c], now_->obs[c], index);
  gather(part.mask, now_->mask, index);
  gather(part.is_first, now_->is_first, index);
  for (size_t i = 0; i < carry_.parts.size(); ++i)
    gather(bucket.carry.parts[i], carry_.parts[i], index);

  const int64_t* choice = choice_.const_data_ptr<int64_t>();
  player_->act(part, bucket.carry,
               {.seed = seed_,
                .purpose = Purpose::opponent,
                .base = choice + step_place,
                .rows = choice + rows_place});

  // rows that only fill the bucket stay as they are
  const at::Tensor mine = at::arange(rows, choice_.options()) < choice_.select(0, count_place);
  const auto put_back = [&](at::Tensor& whole, const at::Tensor& acted) {
    std::vector<int64_t> sizes(size_t(whole.dim()), 1);
    sizes[0] = rows;
    whole.index_copy_(0, index, at::where(mine.view(sizes), acted, whole.index_select(0, index)));
  };
  put_back(now_->action, part.action);
  for (size_t i = 0; i < carry_.parts.size(); ++i) put_back(carry_.parts[i], bucket.carry.parts[i]);
}

std::vector<int64_t> Seat::replayed() const {
  std::vector<int64_t> sizes;
  for (const auto& [rows, bucket] : buckets_)
    if (bucket.stage.captured()) sizes.push_back(rows);
  return sizes;
}

}  // namespace maglev
