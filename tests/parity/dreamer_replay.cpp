// Compares the loss of the Dreamer this engine ships, and every gradient of it, with its public
// formulas in f64.
//
//   dreamer_replay FOLDER [CASE ...]     cases of dreamer_fixture.py; all of the folder when none is
//   named
//
// Weights, sequences and random numbers are the fixture's. Prints "<case> <quantity> <worst
// difference>" and "<case> ok|FAILED"; exit status 1 when a difference is above 1e-9 (of the
// largest figure of the quantity), 2 on errors.

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <limits>

#include "algos/dreamer/reference/loss.h"
#include "base/core/error.h"
#include "tests/parity/case_file.h"
#include "tests/parity/run_cases.h"

namespace maglev {
namespace {

constexpr double kTolerance = 1e-9;

/// Prints how far ours is from theirs and keeps whether all were near.
class Comparison {
 public:
  explicit Comparison(std::string name) : name_(std::move(name)) {}

  void add(const std::string& quantity, const at::Tensor& ours, const at::Tensor& theirs) {
    const auto a = ours.detach().to(at::kDouble).flatten(), b = theirs.to(at::kDouble).flatten();
    MAGLEV_ASSERT(a.sizes() == b.sizes(), "as many figures here as there");
    const double largest = b.abs().max().item<double>();
    const double worst = (a - b).abs().max().item<double>() / (largest > 0 ? largest : 1);
    std::printf("%s %s %.3g\n", name_.c_str(), quantity.c_str(), worst);
    // NaN is not near either
    ok_ &= worst <= kTolerance;
  }
  bool finish() const {
    std::printf("%s %s\n", name_.c_str(), ok_ ? "ok" : "FAILED");
    return ok_;
  }

 private:
  std::string name_;
  bool ok_ = true;
};

dreamer::ModelShape shape_of(const CaseFile& c, const dreamer::Options& o) {
  const auto number = [&](const char* name) { return c.numbers.at(name); };
  dreamer::ModelShape shape{.height = number("height"),
                            .width = number("width"),
                            .channels = number("channels"),
                            .vector = number("vector"),
                            .actions = number("actions"),
                            .deter = number("deter"),
                            .hidden = number("hidden"),
                            .stoch = number("stoch"),
                            .classes = number("classes"),
                            .blocks = number("blocks"),
                            .depth = number("depth"),
                            .units = number("units"),
                            .unimix = o.unimix,
                            .decodes = o.objective == dreamer::Objective::reconstruction};
  for (int64_t i = 0; c.numbers.contains("head" + std::to_string(i)); ++i)
    shape.heads.push_back(number(("head" + std::to_string(i)).c_str()));
  return shape;
}

void take_weights(torch::nn::Module& module, const CaseFile& c, const std::string& prefix) {
  module.to(at::kDouble);
  at::NoGradGuard no_grad;
  for (auto& p : module.named_parameters()) {
    const at::Tensor& weight = c[prefix + p.key()];
    MAGLEV_ASSERT(weight.sizes() == p.value().sizes(), "a weight has one shape");
    p.value().copy_(weight);
  }
}

bool run_case(const std::filesystem::path& path) {
  const CaseFile c(path.string());
  const std::string name = path.stem().string();
  dreamer::Options options;
  OptionTable table;
  options.describe(table);
  for (const auto& [setting, value] : c.options) table.set(setting, value);
  const dreamer::ModelShape shape = shape_of(c, options);
  dreamer::Networks networks(shape, Initializer::none());
  Initializer none = Initializer::none();
  const auto slow_value = dreamer::make_value_network(shape, none);
  take_weights(networks, c, "weight.");
  take_weights(*slow_value, c, "slow.");

  const auto or_none = [&](const char* tensor) { return c.has(tensor) ? c[tensor] : at::Tensor(); };
  const dreamer::Sequences batch{.seen = {or_none("batch.image"), or_none("batch.vector")},
                                 .is_first = c["batch.is_first"],
                                 .action = c["batch.action"],
                                 .reward = c["batch.reward"],
                                 .terminated = c["batch.terminated"],
                                 .ended = c["batch.ended"],
                                 .deter = c["batch.deter"],
                                 .stoch = c["batch.stoch"]};
  const dreamer::UpdateNoise noise{
      .posterior = c["noise.posterior"], .prior = c["noise.prior"], .action = c["noise.action"]};
  auto range = c["spread"].clone();
  const dreamer::ReferenceLoss loss(options, shape, networks, *slow_value);
  const auto terms = loss.compute(batch, noise, range);
  terms.total.backward();

  Comparison compare(name);
  const dreamer::Latent& latent = terms.observed.latent;
  compare.add("deter", latent.deter, c["out.deter"]);
  compare.add("stoch", latent.stoch.unflatten(-1, {shape.stoch, -1}).argmax(-1), c["out.stoch"]);
  compare.add("observation", terms.observation, c["out.observation"]);
  compare.add("reward", terms.reward, c["out.reward"]);
  compare.add("going_on", terms.going_on, c["out.going_on"]);
  compare.add("dynamics", terms.dynamics, c["out.dynamics"]);
  compare.add("representation", terms.representation, c["out.representation"]);
  compare.add("divergence", terms.divergence, c["out.divergence"]);
  compare.add("mean_return", terms.mean_return, c["out.returns"].mean());
  compare.add("range", range, c["out.range"]);
  compare.add("policy", terms.policy, c["out.policy"]);
  compare.add("value", terms.value, c["out.value"]);
  compare.add("replay_value", terms.replay_value, c["out.replay_value"]);
  compare.add("total", terms.total, c["out.total"]);
  for (auto& p : networks.named_parameters())
    compare.add("grad." + p.key(), p.value().grad(), c["grad." + p.key()]);
  return compare.finish();
}

}  // namespace
}  // namespace maglev

int main(int argc, char** argv) { return maglev::run_cases(argc, argv, maglev::run_case); }
