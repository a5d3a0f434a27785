#include "engine/nn/network.h"

#include <algorithm>

#include <ATen/ATen.h>

#include "base/core/find.h"

namespace maglev {
namespace {

// what there is to choose from, for help
std::string kinds_text() {
  std::string text = "auto: by what is observed";
  for (const auto& row : network_table()) text += std::string("; ") + row.name + ": " + row.summary;
  return text;
}

}  // namespace

std::vector<std::any> NetworkOptions::defaults() {
  std::vector<std::any> own;
  for (const auto& row : network_table()) own.push_back(row.own.defaults);
  return own;
}

void NetworkOptions::describe(OptionTable& t) {
  t.add("kind", kind, kinds_text());
  t.add("hidden", hidden, "fully connected layers", {.min = 1, .max = 65536, .unit = "units"});
  t.add("critic_hidden", critic_hidden, "layers between features and value",
        {.min = 1, .max = 65536, .unit = "units"});
  t.add("activation", activation, "activation");
  t.add("fast_tanh", fast_tanh, "tanh by the engine's kernel instead of ATen's", {.free = true});
  t.add("shared", shared, "one trunk for policy and value");
  t.add("memory", memory,
        "units of a recurrent cell behind each trunk, for what one time step does not show; of a "
        "network from Python what it remembers; 0: none",
        {.min = 0, .max = 65536, .unit = "units"});
  t.add("fused_memory", fused_memory, "that cell by the engine's kernel instead of ATen",
        {.free = true});
  t.add("value_head", value_head, "value head");
  t.add("popart_beta", popart_beta, "least step size of PopArt's moments", {.min = 1e-8, .max = 1});
  t.add("log_std", log_std, "initial log standard deviation of continuous actions",
        {.min = -10, .max = 5});
  t.add("normalize_obs", normalize_obs, "standardise vector observations by running statistics");
  for (size_t i = 0; i < own.size(); ++i) {
    const NetworkEntry& row = network_table()[i];
    if (!row.suits || !row.make)
      throw Error("[network] " + std::string(row.name) + "'s entry has no ." +
                  (row.suits ? "make" : "suits") + ", which every network has");
    if (own[i].has_value())
      t.section(row.name, [&](OptionTable& s) { row.own.describe(s, own[i]); });
  }
}

const NetworkEntry& find_network(std::string_view name) {
  return find_row(network_table(), name, "[network] ", "network");
}

const NetworkEntry& network_for(const NetworkEntry* kind, const EnvSpec& spec) {
  if (kind) {
    if (kind->suits(spec) != Suits::no) return *kind;
    throw Error(std::string("[network] the kind ") + kind->name + " needs " + kind->needs +
                ", which this environment does not show; use auto, or leave the kind out");
  }
  for (const auto& row : network_table())
    if (row.suits(spec) == Suits::best) return row;
  throw Error("[network] no kind of network suits what this environment shows best; name one");
}

std::shared_ptr<ActorCritic> make_network(const NetworkOptions& options,
                                          const NetworkContext& context, Initializer init) {
  auto network = network_for(options.kind, context.spec).make(options, context, init);
  if (options.memory > 0 && network->memory_size() == 0)
    throw Error(std::string("[network] the kind ") + network_for(options.kind, context.spec).name +
                " remembers nothing from step to step; leave ppo.network.memory out");
  const auto parameters = network->parameters();
  const auto holds = [&](const at::Tensor& wanted) {
    return std::any_of(parameters.begin(), parameters.end(),
                       [&](const at::Tensor& p) { return p.is_same(wanted); });
  };
  MAGLEV_ASSERT(holds(network->value_head().weight()), "a network registers its value head");
  MAGLEV_ASSERT(context.spec.action.discrete() || holds(network->log_std()),
                "a network registers log_std where actions are continuous");
  return network;
}

ChoiceMember choice_member(const NetworkEntry*& kind) {
  using Member = const NetworkEntry*;
  ChoiceMember choice{
      .member = &kind,
      .names = {"auto"},
      .index =
          [](const void* m) {
            const Member row = *static_cast<const Member*>(m);
            return row ? size_t(row - network_table().data()) + 1 : 0;
          },
      .assign = [](void* m,
                   size_t i) { *static_cast<Member*>(m) = i ? &network_table()[i - 1] : nullptr; }};
  for (const auto& row : network_table()) choice.names.push_back(row.name);
  return choice;
}

}  // namespace maglev
