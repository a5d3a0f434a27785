#include "engine/play/rivals.h"

#include <cmath>
#include <string>

#include <ATen/ATen.h>

#include "base/core/error.h"

namespace maglev {
namespace {

// the chosen rows as a row of their own
TimeStep gathered(const TimeStep& step, const at::Tensor& index) {
  const auto take = [&](const at::Tensor& t) { return t.defined() ? t.index_select(0, index) : t; };
  TimeStep part;
  for (const auto& o : step.obs) part.obs.push_back(take(o));
  part.mask = take(step.mask);
  part.is_first = take(step.is_first);
  part.action = take(step.action);
  return part;
}

}  // namespace

Rivals::Rivals(const EnvEntry& entry, const EnvSpec& spec, int64_t N, at::Device device)
    : N_(N),
      store_(spec, {.T = 1, .rows = N, .block_rows = N}, {}, device),
      player_of_(size_t(N), 0) {
  if (entry.agents != 2)
    throw Error("[opponents] " + std::string(entry.name) + " has " + std::to_string(entry.agents) +
                " agent an environment, a league needs 2; take an environment of two players, or "
                "leave train.opponents empty");
}

int64_t Rivals::add(Player& player) {
  seats_.push_back({.player = &player, .carry = player.initial_carry(N_), .at = {}});
  return int64_t(seats_.size()) - 1;
}

void Rivals::attach(StepIo& io, bool first) {
  io.learners = 1;
  io.rivals = first ? store_.first_io() : store_.io(0);
}

void Rivals::act(uint64_t seed, int64_t step) {
  TimeStep& now = store_.step(0);
  for (Seat& seat : seats_) seat.at.clear();
  for (int64_t env = 0; env < N_; ++env) seats_[size_t(player_of_[size_t(env)])].at.push_back(env);
  ActKey key{.seed = seed, .purpose = Purpose::opponent, .step = step};
  for (Seat& seat : seats_) {
    if (seat.at.empty()) continue;
    if (int64_t(seat.at.size()) == N_) {
      key.rows = nullptr;
      seat.player->act(now, seat.carry, key);
      continue;
    }
    const at::Tensor on_host =
        at::from_blob(seat.at.data(), {int64_t(seat.at.size())}, at::TensorOptions(at::kLong));
    const at::Tensor index = on_host.to(now.action.device());
    TimeStep part = gathered(now, index);
    Carry carry;
    for (const auto& p : seat.carry.parts)
      carry.parts.push_back(p.index_select(0, p.is_cpu() ? on_host : index));
    key.rows = index.const_data_ptr<int64_t>();
    seat.player->act(part, carry, key);
    now.action.index_copy_(0, index, part.action);
    for (size_t i = 0; i < carry.parts.size(); ++i) {
      at::Tensor& whole = seat.carry.parts[i];
      whole.index_copy_(0, whole.is_cpu() ? on_host : index, carry.parts[i]);
    }
  }
}

const std::vector<GameResult>& Rivals::settle(const float* reward) {
  results_.clear();
  const Batch& batch = store_.batch();
  const at::Tensor own = batch.reward[0].cpu();
  const at::Tensor terminated = batch.terminated[0].cpu(), truncated = batch.truncated[0].cpu();
  for (int64_t env = 0; env < N_; ++env) {
    const bool decided = terminated.const_data_ptr<uint8_t>()[env];
    if (!decided && !truncated.const_data_ptr<uint8_t>()[env]) continue;
    const float lead = reward[env] - own.const_data_ptr<float>()[env];
    const bool drawn = !decided || std::fabs(lead) < kDecided;
    results_.push_back({.env = env, .score = drawn ? 0.5 : lead > 0 ? 1. : 0.});
  }
  store_.roll_over();
  return results_;
}

void Rivals::visit_state(StateVisitor& visitor) {
  store_.visit_state(visitor);
  at::Tensor assigned = at::from_blob(player_of_.data(), {N_}, at::TensorOptions(at::kLong));
  visitor.tensor("player_of", assigned);
  if (visitor.loads()) check_range("rivals.player_of", assigned, 0, int64_t(seats_.size()) - 1);
  for (size_t s = 0; s < seats_.size(); ++s)
    for (size_t i = 0; i < seats_[s].carry.parts.size(); ++i)
      visitor.tensor("carry" + std::to_string(s) + "." + std::to_string(i),
                     seats_[s].carry.parts[i]);
}

}  // namespace maglev
