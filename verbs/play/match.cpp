#include "verbs/play/match.h"

#include <algorithm>
#include <limits>

#include <ATen/ATen.h>

#include "base/core/error.h"
#include "base/core/printed.h"
#include "base/env/batch.h"
#include "base/env/env_params.h"

namespace maglev {
namespace {

Carry copy_of(const Carry& carry) {
  Carry copy;
  for (const at::Tensor& part : carry.parts) copy.parts.push_back(part.clone());
  return copy;
}

std::string number(float x) { return printed("%.3g", double(x)); }

}  // namespace

Match::Match(const EnvEntry& entry, const GivenSettings& settings,
             const std::vector<std::string>& names, Keyboard* keyboard, ActMode mode, uint64_t seed)
    : entry_(&entry), seed_(seed) {
  const EnvParams params(entry, settings.env);
  env_ = std::make_unique<HostBatch>(entry, params.get(), 1, seed);
  spec_ = entry.spec(params.get());

  const int64_t agents = spec_.agents;
  store_ = std::make_unique<Rollout>(spec_, RolloutShape{.T = 1, .rows = agents, .block_rows = 1},
                                     std::vector<ExtraColumn>{}, at::kCPU);
  const Game game{.env = entry,
                  .params = env_->batch().params,
                  .spec = spec_,
                  .placement = {.device = at::kCPU, .threads = pool_.threads()},
                  .pool = pool_,
                  .rows = 1,
                  .acting = settings.acting,
                  .temperature = settings.temperature};
  // who follows no policy plays beside those that do
  Game scripted = game;
  scripted.temperature = 1;
  for (int64_t a = 0; a < agents; ++a) {
    const std::string& name = names[size_t(a)];
    if (name == "human") {
      expect_played_by_hand(entry, spec_);
      auto human = std::make_unique<HumanPlayer>(spec_, *keyboard, a > 0);
      human_ = human.get(), human_agent_ = size_t(a);
      players_.push_back(std::move(human));
    } else {
      players_.push_back(make_player(name, run_named(name) ? game : scripted, mode));
    }
    carries_.push_back(players_.back()->initial_carry(1));
    before_.push_back(copy_of(carries_.back()));
  }
  returns_.assign(size_t(agents), 0);
  wins_.assign(size_t(agents), 0);
  last_.resize(size_t(agents));
  entry_->reset_cpu(env_->batch(), store_->first_io(), 0, 1);
}

bool Match::step() {
  const bool first = time_ == 0;
  if (!first) store_->roll_over();
  if (episode_over_) {
    std::fill(returns_.begin(), returns_.end(), 0.0);
    std::fill(last_.begin(), last_.end(), LastStep{});
    steps_ = 0;
  }
  for (size_t a = 0; a < players_.size(); ++a) {
    for (size_t i = 0; i < carries_[a].parts.size(); ++i)
      before_[a].parts[i].copy_(carries_[a].parts[i]);
    players_[a]->act(store_->step(0).blocks[a], carries_[a],
                     {.seed = seed_, .purpose = Purpose::opponent, .step = time_});
  }
  const bool begins = episode_over_;
  entry_->step_cpu(env_->batch(), store_->io(0), 0, 1);
  ++time_;
  const Batch& row = store_->batch();
  // of all agents: one may end before the others
  episode_over_ = head_of(env_->batch(), 0).needs_reset != 0;
  if (begins) return false;
  const float* reward = row.reward.const_data_ptr<float>();
  const uint8_t *terminated = row.terminated.const_data_ptr<uint8_t>(),
                *truncated = row.truncated.const_data_ptr<uint8_t>();
  for (size_t a = 0; a < players_.size(); ++a) {
    returns_[a] += reward[a];
    if (terminated[a] || truncated[a]) last_[a] = {reward[a], terminated[a], /*ended=*/1};
  }
  steps_ += 1;
  episodes_ += episode_over_;
  if (episode_over_) count_win();
  return true;
}

// as Rivals decide a game
void Match::count_win() {
  if (std::ranges::none_of(last_, [](const LastStep& last) { return last.terminated != 0; }))
    return;
  for (size_t a = 0; a < players_.size(); ++a) {
    float best_other = -std::numeric_limits<float>::infinity();
    for (size_t b = 0; b < players_.size(); ++b)
      if (b != a) best_other = std::max(best_other, last_[b].reward);
    wins_[a] += players_.size() > 1 && last_[a].reward - best_other >= kDecided;
  }
}

void Match::paint(Canvas& canvas) const { entry_->paint(env_->batch(), 0, canvas); }

ActedStep Match::acted(size_t agent) {
  const TimeStep& step = store_->step(0).blocks[agent];
  const auto copied = [](const at::Tensor& t) { return t.defined() ? t.clone() : t; };
  ActedStep acted{.step = {.first = step.first,
                           .mask = copied(step.mask),
                           .is_first = copied(step.is_first),
                           .action = copied(step.action)},
                  .before = copy_of(before_[agent]),
                  .after = copy_of(carries_[agent])};
  for (const at::Tensor& column : step.obs) acted.step.obs.push_back(copied(column));
  return acted;
}

std::vector<float> Match::rewards() const {
  const float* reward = store_->batch().reward.const_data_ptr<float>();
  return {reward, reward + players_.size()};
}

std::vector<float> Match::action() const {
  const at::Tensor action = store_->batch().action[0][0].to(at::kFloat);
  return {action.const_data_ptr<float>(), action.const_data_ptr<float>() + action.numel()};
}

std::string Match::last_step() const {
  const Batch& batch = store_->batch();
  std::string text = "step " + std::to_string(steps_) + "  action";
  const at::Tensor action = batch.action[0][0].to(at::kFloat);
  for (int64_t d = 0; d < action.size(0); ++d) {
    const float taken = action.const_data_ptr<float>()[d];
    text += " " + number(taken);
    if (!spec_.action.names.empty()) text += " (" + spec_.action.name(d, int64_t(taken)) + ")";
  }
  text += "  reward " + number(batch.reward.const_data_ptr<float>()[0]) + "  sees";
  for (size_t c = 0; c < spec_.observations.size(); ++c) {
    const at::Tensor& column = batch.obs[c];
    if (column.scalar_type() != at::kFloat) continue;
    const at::Tensor seen = column[1][0].flatten();
    for (int64_t k = 0; k < std::min<int64_t>(seen.size(0), 18); ++k)
      text += " " + number(seen.const_data_ptr<float>()[k]);
  }
  return text;
}

std::string Match::events() const {
  // a copy, so that taking them changes nothing
  std::vector<std::byte> copy = env_->save();
  EnvBatch of_copy = env_->batch();
  of_copy.slots = copy.data();
  EpisodeTotals totals;
  entry_->take_totals_cpu(of_copy, totals, 0, 1);
  std::string text;
  for (size_t k = 0; k < spec_.events.size(); ++k)
    text += (k ? ", " : "") + spec_.events[k] + " " + number(float(totals.events[k]));
  return text;
}

}  // namespace maglev
