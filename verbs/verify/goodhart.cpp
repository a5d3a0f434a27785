#include "envs/goodhart/goodhart.h"

#include <cstring>

#include <ATen/ATen.h>

#include "base/core/printed.h"
#include "base/statistics/samples.h"
#include "base/statistics/survival.h"
#include "engine/play/evaluate.h"
#include "engine/play/record.h"
#include "engine/run/stored_experiment.h"
#include "verbs/study/foraging.h"
#include "verbs/verify/checks.h"
#include "verbs/verify/views.h"

namespace maglev::verbs::verify {
namespace {

// at random three in eight are right towards food, seven in eight beside poison
constexpr double kTowardsFood = 0.75, kOffPoison = 0.95;
constexpr int64_t kFollowedSteps = 128, kFollowedEnvs = 32;
constexpr study::Protocol kSurvival{.envs = 64, .steps = 2048};

const Goodhart::Params& params_of(const Subject& s) {
  return *static_cast<const Goodhart::Params*>(s.game.params);
}

bool sees_truth(const Goodhart::Params& p) {
  return p.mode == Goodhart::Mode::truth || p.mode == Goodhart::Mode::handhold;
}

/// The likeliest action in each view, as a move.
std::vector<CellAt> moves_in(Subject& s, const std::vector<View>& views) {
  const Goodhart::Params& p = params_of(s);
  const int64_t count = int64_t(views.size());
  TimeStep step;
  for (const ObsColumn& column : s.spec().observations) {
    std::vector<int64_t> shape{count};
    shape.insert(shape.end(), column.shape.begin(), column.shape.end());
    step.obs.push_back(at::zeros(shape, column.dtype == DType::u8 ? at::kByte : at::kFloat));
  }
  for (int64_t i = 0; i < count; ++i) {
    const std::vector<uint8_t> stored = packed(views[size_t(i)], p.view);
    std::memcpy(step.obs[0][i].data_ptr<uint8_t>(), stored.data(), stored.size());
  }
  const at::Device device = s.game.placement.device;
  for (auto& column : step.obs) column = column.to(device);
  step.is_first = at::ones({count}, at::TensorOptions(at::kByte).device(device));
  step.action = at::zeros({count, 1}, at::TensorOptions(at::kInt).device(device));
  PolicyPlayer player(s.run.policy(), s.folder, ActMode::mean);
  Carry carry = player.initial_carry(count);
  player.act(step, carry, {.seed = 1, .purpose = Purpose::eval});
  const at::Tensor actions = step.action.cpu();
  std::vector<CellAt> moves;
  for (int64_t i = 0; i < count; ++i)
    moves.push_back(move_of(actions.const_data_ptr<int32_t>()[i], p.max_move));
  return moves;
}

/// How many of the likeliest moves are right in their views.
Finding right_moves(Subject& s, const std::vector<View>& views, double wanted, const char* what,
                    bool (*right)(const View&, CellAt)) {
  const auto moves = moves_in(s, views);
  int64_t good = 0;
  for (size_t i = 0; i < views.size(); ++i) good += right(views[i], moves[i]);
  return found(double(good) >= wanted * double(views.size()),
               printed("%s in %ld of %zu views; wanted: %.0f %%", what, long(good), views.size(),
                       100 * wanted));
}

Finding goes_towards_food(Subject& s) {
  return right_moves(s, food_views(params_of(s)), kTowardsFood, "goes towards food", nears_food);
}

Finding avoids_poison(Subject& s) {
  if (!sees_truth(params_of(s))) return {Outcome::skipped, "it does not see what is poison"};
  return right_moves(s, poison_views(params_of(s)), kOffPoison, "keeps off poison",
                     keeps_off_poison);
}

/// How a player does in each of kSurvival's worlds, and the mean of all its lives there.
struct Survival {
  std::vector<double> deaths_per_1k;  ///< a world
  double mean_life;
};
Survival survival_of(Player& player, const Game& game) {
  std::vector<double> deaths(size_t(kSurvival.envs), 0.);
  LifeTable lives(kSurvival.steps);
  evaluate(player, game,
           {.steps = kSurvival.envs * kSurvival.steps,
            .envs = kSurvival.envs,
            .seed = kSurvival.seed,
            .life = [&](const Life& life) {
              deaths[size_t(life.row)] += life.terminated;
              lives.add(life.steps, life.terminated);
            }});
  for (double& count : deaths) count *= 1000. / double(kSurvival.steps);
  return {std::move(deaths), lives.restricted_mean()};
}

// worlds are independent draws, lives within one are not: one figure a world, and both players meet
// the same worlds
Finding lives_longer(Subject& s) {
  const auto experiment = experiment_of(s.folder);
  for (const std::string& setting : study::survival_settings())
    experiment->table().override_with(setting);
  const Game game = game_of(*experiment, s.game.placement, s.game.pool);
  PolicyPlayer policy(s.run.policy(), s.folder, ActMode::sample);
  RandomPlayer random(game.spec);
  const Survival ours = survival_of(policy, game), theirs = survival_of(random, game);
  std::vector<double> fewer;
  for (size_t world = 0; world < ours.deaths_per_1k.size(); ++world)
    fewer.push_back(theirs.deaths_per_1k[world] - ours.deaths_per_1k[world]);
  const Spread spread = spread_of(fewer);
  return found(spread.interval.low > 0,
               printed("lives %.0f steps where energy is live, at random %.0f; %.3g fewer deaths "
                       "per 1,000 steps, %.3g to %.3g (95 %%, %zu worlds)",
                       ours.mean_life, theirs.mean_life, spread.mean, spread.interval.low,
                       spread.interval.high, fewer.size()));
}

/// Steps that belong together: the window moves as the action says, the world's density stays.
Finding what_follows_fits(Subject& s) {
  const Goodhart::Params& p = params_of(s);
  const int32_t side = 2 * (p.view + p.max_move) + 1;
  if (p.width < side || p.height < side)
    return {Outcome::skipped, "a window that goes around the world shows a cell twice"};
  const Batch batch =
      record_play(s.run.policy(), s.run.experiment(), s.run.placement(), s.run.pool(),
                  {.steps = kFollowedSteps,
                   .envs = kFollowedEnvs,
                   .seed = kSurvival.seed,
                   .mode = ActMode::sample});
  const at::Tensor window = batch.obs[0].cpu(), action = batch.action.cpu(),
                   first = batch.is_first.cpu();
  int64_t steps = 0, torn = 0;
  for (int64_t t = 0; t < kFollowedSteps; ++t)
    for (int64_t n = 0; n < kFollowedEnvs; ++n) {
      if (first[t + 1][n].item<uint8_t>()) continue;
      ++steps;
      bool fits = follows(window[t][n].const_data_ptr<uint8_t>(),
                          window[t + 1][n].const_data_ptr<uint8_t>(),
                          move_of(action[t][n].item<int32_t>(), p.max_move), p.view);
      if (batch.obs.size() > 1) fits &= at::equal(batch.obs[1][t][n], batch.obs[1][t + 1][n]);
      torn += !fits;
    }
  if (torn > 0)
    return found(false, std::to_string(torn) + " of " + std::to_string(steps) +
                            " steps show a window that does not follow from the one before");
  return found(true, "in " + std::to_string(steps) +
                         " steps each window is the one before, moved by the action");
}

Finding critic_sees_the_same_state(Subject& s) {
  const Goodhart::Params& p = params_of(s);
  if (!p.privileged) return {Outcome::skipped, "the critic sees no more than the policy"};
  Batch batch = record_play(s.run.policy(), s.run.experiment(), s.run.placement(), s.run.pool(),
                            {.steps = kFollowedSteps,
                             .envs = kFollowedEnvs,
                             .seed = kSurvival.seed,
                             .mode = ActMode::sample});
  for (at::Tensor* column : {&batch.action, &batch.is_first, &batch.reward, &batch.terminated,
                             &batch.obs[0], &batch.obs[1]})
    *column = column->cpu();
  const Alignment a = alignment_of(p, s.spec(), batch);
  if (a.unlike > 0)
    return found(false, std::to_string(a.unlike) + " of " + std::to_string(a.steps) +
                            " steps show the policy something else than its mode makes of what the "
                            "critic sees");
  if (a.unpaid > 0)
    return found(false, std::to_string(a.unpaid) + " of " + std::to_string(a.steps) +
                            " rewards do not fit the cell that the critic saw where the move led");
  return found(true, "in " + std::to_string(a.steps) +
                         " steps the policy sees what its mode makes of the critic's view, and is "
                         "paid for the cell that was seen there");
}

}  // namespace

std::span<const Check> goodhart_checks() {
  static constexpr Check table[] = {{"towards food", goes_towards_food},
                                    {"off poison", avoids_poison},
                                    {"survival", lives_longer},
                                    {"windows follow", what_follows_fits},
                                    {"privileged view", critic_sees_the_same_state}};
  return table;
}

}  // namespace maglev::verbs::verify
