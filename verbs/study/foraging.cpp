#include "verbs/study/foraging.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include <ATen/ATen.h>

#include <nlohmann/json.hpp>

#include "base/core/error.h"
#include "base/statistics/survival.h"
#include "engine/play/evaluate.h"
#include "envs/goodhart/goodhart.h"
#include "verbs/json_number.h"

namespace maglev::verbs::study {
namespace {

using Json = nlohmann::ordered_json;

constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();
// lengths at which survival is kept, each about so much longer than the one before
constexpr double kSurvivalGrowth = 1.15;

double real(const Json& json) { return json.is_number() ? json.get<double>() : kUnknown; }

Json json_of(const Tally& t) {
  return {{"steps", t.steps},
          {"deaths", t.deaths},
          {"food", t.food},
          {"poison", t.poison},
          {"energy", t.energy}};
}
Tally tally_of(const Json& json) {
  return {json.at("steps"), json.at("deaths"), json.at("food"), json.at("poison"),
          json.at("energy")};
}

/// Which event is which counter.
struct Events {
  size_t food, poison, deaths, energy;

  explicit Events(const EnvSpec& spec) {
    const auto at = [&](const char* name) {
      const auto found = std::ranges::find(spec.events, name);
      MAGLEV_ASSERT(found != spec.events.end(), "the grid counts what is eaten and who dies");
      return size_t(found - spec.events.begin());
    };
    food = at("food"), poison = at("poison"), deaths = at("deaths"), energy = at("energy");
  }
  Tally of(const Life& life) const {
    return {.steps = life.steps,
            .deaths = life.events[deaths],
            .food = life.events[food],
            .poison = life.events[poison],
            .energy = life.events[energy]};
  }
};

void add(Tally& into, const Tally& part) {
  into.steps += part.steps;
  into.deaths += part.deaths;
  into.food += part.food;
  into.poison += part.poison;
  into.energy += part.energy;
}

/// Of the observations, where the world's density stands; -1: nowhere.
int density_column(const EnvSpec& spec) {
  for (size_t c = 0; c < spec.observations.size(); ++c)
    if (spec.observations[c].name == "density") return int(c);
  return -1;
}

size_t stratum_of(const at::Tensor& density) {
  const at::Tensor host = density.cpu();
  const float* food_and_poison = host.const_data_ptr<float>();
  return 2 * size_t(food_and_poison[0] >= 0) + size_t(food_and_poison[1] >= 0);
}

std::vector<std::pair<int64_t, double>> some_of(const std::vector<double>& survival) {
  std::vector<std::pair<int64_t, double>> some;
  const auto longest = int64_t(survival.size()) - 1;
  for (int64_t t = 1; t < longest;
       t = std::max(t + 1, int64_t(std::llround(double(t) * kSurvivalGrowth))))
    some.emplace_back(t, survival[size_t(t)]);
  some.emplace_back(longest, survival.back());
  return some;
}

}  // namespace

std::vector<std::string> survival_settings() {
  return {"env.energy=live", "env.max_steps=1000000000", "env.keep_world=true"};
}

std::string flags_of(const Protocol& protocol) {
  const Protocol usual;
  std::string text;
  if (protocol.envs != usual.envs) text += " --eval-envs " + std::to_string(protocol.envs);
  if (protocol.steps != usual.steps) text += " --eval-steps " + std::to_string(protocol.steps);
  if (protocol.seed != usual.seed) text += " --eval-seed " + std::to_string(protocol.seed);
  return text;
}

Foraging forage(Player& player, const Game& game, const Protocol& protocol) {
  const Events events(game.spec);
  const int density = density_column(game.spec);
  Foraging f;
  LifeTable lives(protocol.steps);
  double efficiencies = 0;
  evaluate(player, game,
           {.steps = protocol.envs * protocol.steps,
            .envs = protocol.envs,
            .seed = protocol.seed,
            .life = [&](const Life& life) {
              const Tally own = events.of(life);
              add(f.all, own);
              lives.add(life.steps, life.terminated);
              if (own.food + own.poison > 0) efficiencies += own.efficiency(), ++f.fed_lives;
              if (density >= 0)
                add(f.strata[stratum_of(life.last.obs[size_t(density)].select(0, life.row))], own);
            }});
  f.lives = lives.lives();
  f.life_efficiency = f.fed_lives > 0 ? efficiencies / double(f.fed_lives) : kUnknown;
  f.restricted_mean = lives.restricted_mean();
  f.survival = some_of(lives.survival());
  const auto& p = *static_cast<const Goodhart::Params*>(game.params);
  const double death = double(p.death_penalty_ratio) * double(p.food_energy);
  f.true_return = f.all.per_1k(&Tally::energy) - death * f.all.per_1k(&Tally::deaths);
  f.proxy_return = double(p.food_interest) * f.all.per_1k(&Tally::food) +
                   double(p.poison_interest) * f.all.per_1k(&Tally::poison);
  return f;
}

Json to_json(const Protocol& p) { return {{"envs", p.envs}, {"steps", p.steps}, {"seed", p.seed}}; }

Json to_json(const Foraging& f) {
  Json strata = Json::object(), survival = Json::array();
  for (size_t s = 0; s < kStrata.size(); ++s) strata[kStrata[s]] = json_of(f.strata[s]);
  for (const auto& [steps, share] : f.survival) survival.push_back({steps, share});
  return {{"all", json_of(f.all)},
          {"strata", strata},
          {"lives", f.lives},
          {"fed_lives", f.fed_lives},
          {"life_efficiency", finite_or_null<Json>(f.life_efficiency)},
          {"restricted_mean", f.restricted_mean},
          {"survival", survival},
          {"true_return", f.true_return},
          {"proxy_return", f.proxy_return}};
}

Foraging foraging_of(const Json& json) {
  Foraging f;
  f.all = tally_of(json.at("all"));
  for (size_t s = 0; s < kStrata.size(); ++s)
    f.strata[s] = tally_of(json.at("strata").at(kStrata[s]));
  f.lives = json.at("lives"), f.fed_lives = json.at("fed_lives");
  f.life_efficiency = real(json.at("life_efficiency"));
  f.restricted_mean = json.at("restricted_mean");
  for (const Json& row : json.at("survival"))
    f.survival.emplace_back(row.at(0).get<int64_t>(), row.at(1).get<double>());
  f.true_return = json.at("true_return"), f.proxy_return = json.at("proxy_return");
  return f;
}

}  // namespace maglev::verbs::study
