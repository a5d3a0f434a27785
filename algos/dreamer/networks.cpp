#include "algos/dreamer/networks.h"

#include <utility>
#include <vector>

#include <ATen/ATen.h>

#include "engine/nn/flat_params.h"

namespace maglev::dreamer {
namespace {

// of the policy's output: at first it takes all actions alike
constexpr double kFirstPolicy = 0.01;

std::shared_ptr<Head> head_of_features(const ModelShape& s, int64_t layers, int64_t out,
                                       double scale, Initializer& init) {
  return std::make_shared<Head>(
      HeadShape{.in = s.feature(), .layers = layers, .units = s.units, .out = out, .scale = scale},
      init);
}

int64_t elements_of(const torch::nn::Module& module) {
  int64_t count = 0;
  for (const auto& p : module.parameters()) count += p.numel();
  return count;
}

using NamedModules = std::vector<std::pair<const char*, torch::nn::Module*>>;

void visit_modules(const char* section, const NamedModules& modules, StateVisitor& visitor) {
  visitor.section(section, [&](StateVisitor& v) {
    for (const auto& [name, module] : modules)
      v.section(name, [module](StateVisitor& part) { visit_module(*module, part); });
  });
}

}  // namespace

ActingNetworks::ActingNetworks(const ModelShape& s, Initializer& init)
    : encoder(register_module("encoder", std::make_shared<Encoder>(s, init))),
      rssm(register_module("rssm", std::make_shared<Rssm>(s, init))),
      policy(register_module("policy",
                             head_of_features(s, kLayers, s.policy_head(), kFirstPolicy, init))) {}

void ActingNetworks::visit_acting(StateVisitor& visitor) {
  visit_modules("acting",
                {{"encoder", encoder.get()}, {"rssm", rssm.get()}, {"policy", policy.get()}},
                visitor);
}

Networks::Networks(const ModelShape& s, Initializer init) : ActingNetworks(s, init) {
  if (s.decodes) decoder = register_module("decoder", std::make_shared<Decoder>(s, init));
  else
    projector = register_module("projector",
                                std::make_shared<Dense>(s.feature(), s.token(), init, /*scale=*/1,
                                                        /*with_bias=*/false));
  reward = register_module("reward", head_of_features(s, 1, kBins, 0, init));
  going_on = register_module("going_on", head_of_features(s, 1, 1, 1, init));
  value = register_module("value", make_value_network(s, init));
}

void Networks::visit_learning(StateVisitor& visitor) {
  NamedModules modules;
  if (decoder) modules.push_back({"decoder", decoder.get()});
  else modules.push_back({"projector", projector.get()});
  modules.push_back({"reward", reward.get()});
  modules.push_back({"going_on", going_on.get()});
  modules.push_back({"value", value.get()});
  visit_modules("learning", modules, visitor);
}

std::shared_ptr<Head> make_value_network(const ModelShape& s, Initializer& init) {
  return head_of_features(s, kLayers, kBins, 0, init);
}

int64_t parameter_count(const ModelShape& s) {
  return elements_of(Networks(s, Initializer::shapes()));
}

int64_t acting_parameter_count(const ModelShape& s) {
  Initializer shapes = Initializer::shapes();
  return elements_of(ActingNetworks(s, shapes));
}

}  // namespace maglev::dreamer
