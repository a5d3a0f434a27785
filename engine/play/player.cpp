#include "engine/play/player.h"

#include <algorithm>
#include <vector>

#include <ATen/ATen.h>

#include "base/core/error.h"
#include "engine/algo/experiment.h"
#include "engine/data/step_window.h"
#include "engine/run/checkpoint.h"
#include "engine/run/checkpoint_store.h"
#include "engine/run/run_dir.h"
#include "engine/run/stored_experiment.h"

namespace maglev {
namespace {

// counters a bot may use up in one step
constexpr uint64_t kCountersAStep = 64;

bool same_columns(const EnvSpec& a, const EnvSpec& b) {
  const auto same = [](const ObsColumn& x, const ObsColumn& y) {
    return x.name == y.name && x.dtype == y.dtype && x.shape == y.shape;
  };
  return a.observations.size() == b.observations.size() &&
         std::equal(a.observations.begin(), a.observations.end(), b.observations.begin(), same) &&
         a.action.heads == b.action.heads && a.action.dims() == b.action.dims();
}

}  // namespace

Carry BotPlayer::initial_carry(int64_t rows) {
  return {.parts = {at::zeros({rows, int64_t(kMaxBotState)}, at::kByte)}};
}

void BotPlayer::act(TimeStep& step, Carry& carry, const ActKey& key) {
  std::vector<at::Tensor> obs;
  for (const auto& column : step.obs) obs.push_back(column.cpu());
  const at::Tensor first = step.is_first.cpu();
  at::Tensor rows;
  if (key.rows)
    rows = at::from_blob(const_cast<int64_t*>(key.rows), {step.rows()},
                         step.is_first.options().dtype(at::kLong))
               .cpu();
  at::Tensor action = step.action.is_cpu() ? step.action : step.action.cpu();
  for (int64_t r = 0; r < step.rows(); ++r) {
    void* state = carry.parts[0].data_ptr<uint8_t>() + r * int64_t(kMaxBotState);
    const int64_t index = rows.defined() ? rows.const_data_ptr<int64_t>()[r] : step.first + r;
    Rng rng(key.seed, stream_id(key.purpose, uint64_t(index)), uint64_t(key.step) * kCountersAStep);
    if (first.const_data_ptr<uint8_t>()[r]) bot_->begin(state, rng);
    const std::byte* columns[kMaxObsColumns] = {};
    for (size_t c = 0; c < obs.size(); ++c)
      columns[c] = static_cast<const std::byte*>(obs[c].const_data_ptr()) +
                   r * int64_t(obs[c].nbytes()) / step.rows();
    float chosen[kMaxSplitActionDims] = {};
    bot_->act(state, columns, rng, chosen);
    std::copy_n(chosen, action.size(1), action.data_ptr<float>() + r * action.size(1));
  }
  if (!step.action.is_cpu()) step.action.copy_(action);
}

void PolicyPlayer::act(TimeStep& step, Carry& carry, const ActKey& key) {
  const int64_t most = policy_->block_rows();
  for (int64_t begin = 0; begin < step.rows(); begin += most) {
    const int64_t count = std::min(most, step.rows() - begin);
    TimeStep part = cut_rows(step, begin, count);
    Carry state = carry.rows(begin, count);
    ActKey part_key = key;
    if (key.rows) part_key.rows += begin;
    policy_->act(part, state, mode_, part_key);
  }
}

RunPlayer::RunPlayer(const std::string& folder, const Game& game, ActMode mode) : Player(folder) {
  experiment_ = experiment_of(folder);
  if (!same_columns(experiment_->spec(), game.spec))
    throw Error("[player] the run " + folder + " was trained on " + experiment_->env().name +
                ", whose observations or actions differ from the game's; take a run of the same "
                "environment and env.* settings");
  const std::string checkpoint = CheckpointStore(folder, 0).newest_valid();
  if (checkpoint.empty())
    throw Error("[player] " + folder + " holds no valid checkpoint; train longer or resume it");
  AlgoContext context = context_of(*experiment_, game.placement, game.pool);
  context.rows = game.rows;
  policy_ = experiment_->algo().make_policy(experiment_->algo_options(), context);
  load_section(checkpoint, "algo",
               {.algo = experiment_->algo().name, .env = experiment_->env().name},
               [&](StateVisitor& v) { policy_->visit_state(v); });
  policy_->publish();
  player_ = std::make_unique<PolicyPlayer>(*policy_, folder, mode);
}

RunPlayer::~RunPlayer() = default;

std::unique_ptr<Player> make_player(const std::string& name, const Game& game, ActMode mode) {
  for (const Bot& bot : game.env.bots)
    if (name == bot.name) return std::make_unique<BotPlayer>(bot, name);
  if (is_run(name)) return std::make_unique<RunPlayer>(name, game, mode);
  std::string bots;
  for (const Bot& bot : game.env.bots) bots += std::string(bots.empty() ? "" : ", ") + bot.name;
  throw Error("[player] '" + name + "' is neither a scripted player of " + game.env.name + " (" +
              (bots.empty() ? "it has none" : bots) + ") nor the folder of a run");
}

}  // namespace maglev
