#include "verbs/study/judgement.h"

#include <utility>

#include "base/core/error.h"
#include "base/core/split.h"
#include "engine/host/machine.h"

namespace maglev::verbs::study {
namespace {

std::unique_ptr<Experiment> settled_in(std::unique_ptr<Experiment> made,
                                       const std::vector<std::string>& settings) {
  made->table().override_with(settings);
  made->env().check(made->env_params());
  return made;
}

}  // namespace

Ground::Ground(std::unique_ptr<Experiment> made, const std::vector<std::string>& settings)
    : experiment(settled_in(std::move(made), settings)),
      placement(place(experiment->run.device, experiment->run.threads)),
      pool(placement.threads),
      game(game_of(*experiment, placement, pool)) {}

Judgement judge_policy(const RunName& run, uint64_t seed, const Ground& ground,
                       const Protocol& protocol) {
  RunPlayer sampled(run, ground.game, ActMode::sample), greedy(run, ground.game, ActMode::mean);
  return {.seed = seed,
          .sampled = forage(sampled, ground.game, protocol),
          .greedy = forage(greedy, ground.game, protocol)};
}

Judgement judge_player(const std::string& name, uint64_t seed, const Ground& ground,
                       const Protocol& protocol) {
  const auto player = make_player(name, ground.game, ActMode::sample);
  Protocol own = protocol;
  own.seed += seed - 1;
  return {.seed = seed, .sampled = forage(*player, ground.game, own), .greedy = std::nullopt};
}

void refuse_survival_settings(const std::vector<std::string>& settings) {
  for (const std::string& setting : settings)
    for (const std::string& own : survival_settings())
      if (name_part(setting) == name_part(own))
        throw Error("[study] " + name_part(own) + " is set where survival is judged; leave out '" +
                    setting + "'");
}

}  // namespace maglev::verbs::study
