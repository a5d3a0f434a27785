#include "engine/play/rivals.h"

#include <cmath>
#include <string>

#include <ATen/ATen.h>

#include "base/core/error.h"
#include "base/core/printed.h"

namespace maglev {

Rivals::Rivals(const EnvEntry& entry, const EnvSpec& spec, int64_t N, at::Device device,
               uint64_t seed)
    : N_(N),
      seed_(seed),
      ends_apart_(spec.ends_apart),
      store_(spec, {.T = 1, .rows = N, .block_rows = N}, {}, device),
      ended_(device),
      graphs_(device),
      player_of_(size_t(N), 0),
      games_(static_cast<size_t>(N)) {
  if (spec.agents != 2)
    throw Error("[opponents] " + std::string(entry.name) + " has " + counted(spec.agents, "agent") +
                " an environment, a league needs 2; take an environment of two players, or "
                "leave train.opponents empty");
}

int64_t Rivals::add(Player& player) {
  seats_.push_back(std::make_unique<Seat>(player, store_.step(0), graphs_, seed_));
  rows_of_.emplace_back();
  return int64_t(seats_.size()) - 1;
}

void Rivals::attach(StepIo& io, bool first) {
  io.learners = 1;
  io.rivals = first ? store_.first_io() : store_.io(0);
}

void Rivals::act(int64_t step) {
  for (auto& rows : rows_of_) rows.clear();
  for (int64_t env = 0; env < N_; ++env) rows_of_[size_t(player_of_[size_t(env)])].push_back(env);
  for (size_t s = 0; s < seats_.size(); ++s) seats_[s]->act(rows_of_[s], step);
}

const std::vector<GameResult>& Rivals::settle(const LearnersStep& step) {
  results_.clear();
  const Batch& batch = store_.batch();
  ended_.start({step.reward, step.terminated, step.truncated, step.next_is_first, batch.reward[0],
                batch.terminated[0], batch.truncated[0], batch.is_first[1]});
  ended_.wait();
  // the columns of a side, its next is_first last
  const auto reset = [&](int side, int64_t env) {
    return ended_.part<uint8_t>(size_t(4 * side + 3))[env] != 0;
  };
  const auto look = [&](int side, int64_t env, LastStep& last) {
    const bool terminated = ended_.part<uint8_t>(size_t(4 * side + 1))[env] != 0;
    if (!terminated && !ended_.part<uint8_t>(size_t(4 * side + 2))[env]) return;
    last = {ended_.part<float>(size_t(4 * side))[env], terminated, /*ended=*/1};
  };
  for (int64_t env = 0; env < N_; ++env) {
    RunningGame& game = games_[size_t(env)];
    look(0, env, game.learner), look(1, env, game.rival);
    // one waits for the other; both at once begin the next game
    const bool begins = reset(0, env) && reset(1, env);
    if (!game.settled && game.learner.ended && (game.rival.ended || begins)) {
      const float lead = game.learner.reward - game.rival.reward;
      const bool terminated = game.learner.terminated || game.rival.terminated;
      const bool drawn = !terminated || std::fabs(lead) < kDecided;
      results_.push_back({.env = env, .score = drawn ? 0.5 : lead > 0 ? 1. : 0.});
      game.settled = 1;
    }
    if (begins) game = {};
  }
  store_.roll_over();
  return results_;
}

void Rivals::visit_state(StateVisitor& visitor) {
  store_.visit_state(visitor);
  at::Tensor assigned = at::from_blob(player_of_.data(), {N_}, at::TensorOptions(at::kLong));
  visitor.tensor("player_of", assigned);
  if (visitor.loads()) check_range("rivals.player_of", assigned, 0, int64_t(seats_.size()) - 1);
  constexpr int64_t kWords = sizeof(RunningGame) / sizeof(int32_t);
  at::Tensor games = at::from_blob(games_.data(), {N_, kWords}, at::TensorOptions(at::kInt));
  if (ends_apart_) visitor.tensor("games", games);
  // others' end in one step, and what is kept of them until the next begin is of no use; but what a
  // warm-up left would stand for games that have been scored
  else if (visitor.loads()) games.zero_();
  for (size_t s = 0; s < seats_.size(); ++s) {
    std::vector<at::Tensor>& parts = seats_[s]->carry().parts;
    for (size_t i = 0; i < parts.size(); ++i)
      visitor.tensor("carry" + std::to_string(s) + "." + std::to_string(i), parts[i]);
  }
}

}  // namespace maglev
