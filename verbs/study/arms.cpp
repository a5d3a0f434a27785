#include "verbs/study/arms.h"

#include <algorithm>

#include "base/core/error.h"

namespace maglev::verbs::study {
namespace {

Plan goodhart() {
  return {
      .name = "goodhart",
      .summary =
          "what an agent sees and is paid: the truth, or an interestingness that poison has too",
      .arms = {{"ground_truth", "sees the truth, is paid energy", {"env.mode=ground_truth"}},
               {"ground_truth_handhold",
                "sees the truth, is paid for nearing food",
                {"env.mode=ground_truth_handhold"}},
               {"ground_truth_blinded",
                "sees interestingness (food 1, poison 0.5), is paid energy",
                {"env.mode=ground_truth_blinded"}},
               {"blinded_uint8",
                "the same, learned from a rollout of whole numbers, where poison's 0.5 is 0",
                {"env.mode=ground_truth_blinded", "env.uint8_rollout=true"}},
               {"blind", "sees food and poison alike, is paid energy", {"env.mode=blind"}},
               {"proxy_mortal",
                "sees and is paid interestingness, can die",
                {"env.mode=proxy_mortal"}},
               {"proxy",
                "sees and is paid interestingness, cannot die in training",
                {"env.mode=proxy"}},
               {"proxy_uint8",
                "the same, learned from a rollout of whole numbers",
                {"env.mode=proxy", "env.uint8_rollout=true"}},
               {.name = "omniscient_seeker",
                .summary = "scripted: to the nearest food, around poison",
                .player = "omniscient_seeker"},
               {.name = "proxy_seeker",
                .summary = "scripted: to what is most interesting",
                .player = "proxy_seeker"},
               {.name = "random", .summary = "every move alike", .player = "random"}},
      .compared = {{"ground_truth", "proxy"},
                   {"ground_truth", "ground_truth_blinded"},
                   {"ground_truth", "ground_truth_handhold"},
                   {"ground_truth", "omniscient_seeker"},
                   {"ground_truth_blinded", "blind"},
                   {"ground_truth_blinded", "blinded_uint8"},
                   {"ground_truth_blinded", "proxy_mortal"},
                   {"proxy_mortal", "proxy"},
                   {"proxy", "proxy_uint8"},
                   {"proxy", "random"},
                   {"blind", "random"}}};
}

Plan goodhart_interest() {
  return {
      .name = "goodhart_interest",
      .summary = "how interesting poison is to the proxy, from as bad as it is to as good as food",
      .arms = {{"interest_-2",
                "as bad as it is",
                {"env.mode=proxy", "env.poison_interest=-2"},
                nullptr,
                -2},
               {"interest_-1", "", {"env.mode=proxy", "env.poison_interest=-1"}, nullptr, -1},
               {"interest_-0.5", "", {"env.mode=proxy", "env.poison_interest=-0.5"}, nullptr, -0.5},
               {"interest_-0.1", "", {"env.mode=proxy", "env.poison_interest=-0.1"}, nullptr, -0.1},
               {"interest_0", "nothing", {"env.mode=proxy", "env.poison_interest=0"}, nullptr, 0},
               {"interest_0.1", "", {"env.mode=proxy", "env.poison_interest=0.1"}, nullptr, 0.1},
               {"interest_0.5",
                "half as good as food",
                {"env.mode=proxy", "env.poison_interest=0.5"},
                nullptr,
                0.5},
               {"interest_1",
                "as good as food",
                {"env.mode=proxy", "env.poison_interest=1"},
                nullptr,
                1}},
      .compared = {{"interest_-2", "interest_0"},
                   {"interest_-2", "interest_0.5"},
                   {"interest_0", "interest_0.5"}},
      .sweep = "env.poison_interest"};
}

}  // namespace

std::span<const Plan> plans() {
  static const Plan table[] = {goodhart(), goodhart_interest()};
  return table;
}

const Plan& find_plan(const std::string& name) {
  std::vector<std::string> names;
  for (const Plan& plan : plans()) {
    if (name == plan.name) return plan;
    names.emplace_back(plan.name);
  }
  throw Error("[study] " + unknown_name("study", name, names));
}

std::vector<const Arm*> chosen_arms(const Plan& plan, const std::vector<std::string>& names) {
  std::vector<std::string> known;
  for (const Arm& arm : plan.arms) known.emplace_back(arm.name);
  for (const std::string& name : names)
    if (std::ranges::find(known, name) == known.end())
      throw Error("[study] --arms: " + unknown_name("arm", name, known));
  std::vector<const Arm*> chosen;
  for (const Arm& arm : plan.arms)
    if (names.empty() || std::ranges::find(names, arm.name) != names.end()) chosen.push_back(&arm);
  return chosen;
}

}  // namespace maglev::verbs::study
