// Compares the TD-MPC2 this engine ships with its public formulas in f64.
//
//   tdmpc2_replay FOLDER [CASE ...]     cases of tdmpc2_fixture.py; all of the folder when none is
//   named
//
// Weights, observations and batches are the fixture's; random numbers, plans and updates are this
// engine's own, by every path it has. Prints "<case> <quantity> <worst difference>" and "<case>
// ok|FAILED"; exit status 1 when a difference is above 1e-5 (relative where a figure is above 1),
// 2 on errors.

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <limits>
#include <map>
#include <optional>

#include "algos/tdmpc2/policy_prior.h"
#include "algos/tdmpc2/tdmpc2.h"
#include "algos/tdmpc2/world_model.h"
#include "base/core/error.h"
#include "kernels/two_hot/two_hot_op.h"
#include "tests/parity/case_file.h"
#include "tests/parity/run_cases.h"

namespace maglev {
namespace {

constexpr double kTolerance = 1e-5;

/// Worst difference of each quantity, relative where the expected figure is above 1.
class Differences {
 public:
  void add(const std::string& quantity, const at::Tensor& ours, const at::Tensor& theirs) {
    auto a = ours.detach().to(at::kDouble).flatten(), b = theirs.to(at::kDouble).flatten();
    MAGLEV_ASSERT(a.sizes() == b.sizes(), "as many figures here as there");
    const auto difference = at::abs(a - b) / at::clamp_min(at::abs(b), 1.0);
    const double worst =
        at::nan_to_num(difference, std::numeric_limits<double>::infinity()).max().item<double>();
    auto [at, fresh] = worst_.emplace(quantity, worst);
    if (!fresh) at->second = std::max(at->second, worst);
  }
  const std::map<std::string, double>& worst() const { return worst_; }

 private:
  std::map<std::string, double> worst_;
};

void compare_functions(const CaseFile& c, Differences& d) {
  const TwoHotBins bins;
  d.add("two_hot_loss", two_hot_loss(c["logits"], c["x"], bins), c["two_hot_loss"]);
  d.add("two_hot_inverse", two_hot_value_reference(c["logits"], bins), c["two_hot_inverse"]);
  d.add("simnorm", tdmpc2::simnorm(c["wide"], 8), c["simnorm"]);
  const auto draw = tdmpc2::draw_policy(c["head"], c["noise"], {});
  d.add("action", draw.action, c["action"]);
  d.add("entropy", draw.entropy, c["entropy"]);
  d.add("scaled_entropy", draw.scaled_entropy, c["scaled_entropy"]);
  auto scale = at::full({1}, 3.f);
  tdmpc2::update_running_scale(scale, c["x"], 0.01);
  d.add("running_scale", scale, c["running_scale"]);
}

/// One of the ways this engine computes plans and updates.
struct Path {
  const char* name;
  bool prune;
  OnOff fused;
};
constexpr Path kPaths[] = {{"plain", false, false}, {"aten", true, false}, {"fused", true, {}}};

class Replay {
 public:
  Replay(const CaseFile& c, const Path& path) : c_(c), pool_(2) {
    const int64_t obs = c.numbers.at("obs");
    EnvSpec spec{.observations = {{.name = "vector", .shape = {obs}}}, .max_steps = 100};
    spec.action.low.assign(size_t(c.numbers.at("actions")), -1.f);
    spec.action.high.assign(spec.action.low.size(), 1.f);
    tdmpc2::Options options;
    OptionTable table;
    options.describe(table);
    for (const auto& [name, value] : c.options) table.set(name, value);
    options.prune = path.prune, options.fused = path.fused;
    algo_ = std::make_unique<tdmpc2::Tdmpc2>(options,
                                             AlgoContext{.spec = spec,
                                                         .rows = c.numbers.at("rows"),
                                                         .total_steps = 1000,
                                                         .seed = uint64_t(c.numbers.at("seed")),
                                                         .pool = &pool_});
    algo_->state().params.data().copy_(c["params"]);
    algo_->publish();
  }

  void plan(Differences& d) {
    const int64_t N = c_.numbers.at("rows"), A = c_.numbers.at("actions");
    for (auto mode : {ActMode::mean, ActMode::sample}) {
      Carry carry{{c_["prev_mean"].clone()}};
      TimeStep step;
      step.obs = {c_["obs"]};
      step.is_first = c_["is_first"];
      step.action = at::zeros({N, A});
      algo_->policy().act(step, carry, mode,
                          {.seed = uint64_t(c_.numbers.at("seed")),
                           .purpose = Purpose::act,
                           .step = c_.numbers.at("step")});
      d.add("plan_mean", carry.parts[0], c_["plan/mean"]);
      if (mode == ActMode::mean) d.add("plan_action", step.action, c_["plan/action"]);
      else d.add("plan_noisy_action", step.action, c_["plan/noisy"]);
    }
  }

  void update(Differences& d) {
    tdmpc2::LearnerState& s = algo_->state();
    const int64_t policy = s.model->layout().policy_begin(), all = s.params.size();
    auto fill = [&](FlatAdam& adam, int64_t begin, int64_t count) {
      adam.first_moment().copy_(c_["first"].narrow(0, begin, count));
      adam.second_moment().copy_(c_["second"].narrow(0, begin, count));
      adam.steps().fill_(double(c_.numbers.at("adam_steps")));
    };
    fill(s.model_adam, 0, policy), fill(s.policy_adam, policy, all - policy);
    s.target_q.copy_(c_["target"]);
    s.scale.fill_(1.5);
    s.updates.fill_(c_.numbers.at("updates"));
    const auto action = c_["batch_action"];
    const int64_t H = action.size(0), B = action.size(1);
    Batch batch{.obs = {c_["batch_obs"]},
                .is_first = at::zeros({H + 1, B}, at::kByte),
                .action = action,
                .reward = c_["batch_reward"],
                .terminated = c_["batch_terminated"].to(at::kByte),
                .truncated = at::zeros({H, B}, at::kByte)};
    Metrics metrics(at::kCPU);
    algo_->update(batch, metrics);
    d.add("grad", s.grad / c_["update/largest"], c_["update/grad"]);
    d.add("params", s.params.data(), c_["update/params"]);
    d.add("target", s.target_q, c_["update/target"]);
    d.add("scale", s.scale, c_["update/scale"]);
    d.add("figures", algo_->figures(), c_["update/figures"]);
  }

 private:
  const CaseFile& c_;
  ThreadPool pool_;
  std::unique_ptr<tdmpc2::Tdmpc2> algo_;
};

bool run_case(const std::filesystem::path& path) {
  const CaseFile c(path.string());
  const std::string name = path.stem().string();
  std::map<std::string, double> all;
  auto take = [&](const std::string& prefix, const Differences& d) {
    for (const auto& [quantity, worst] : d.worst()) all[prefix + quantity] = worst;
  };
  if (c.options.empty()) {
    Differences d;
    compare_functions(c, d);
    take("", d);
  } else {
    for (const Path& path : kPaths) {
      Differences d;
      Replay replay(c, path);
      replay.plan(d);
      replay.update(d);
      take(std::string(path.name) + "/", d);
    }
  }
  bool ok = true;
  for (const auto& [quantity, worst] : all) {
    std::printf("%s %s %.3g\n", name.c_str(), quantity.c_str(), worst);
    ok &= worst <= kTolerance;
  }
  std::printf("%s %s\n", name.c_str(), ok ? "ok" : "FAILED");
  return ok;
}

}  // namespace
}  // namespace maglev

int main(int argc, char** argv) { return maglev::run_cases(argc, argv, maglev::run_case); }
