// Replays stable-baselines3's PPO on the PPO this engine ships, by both of its learners, and
// compares everything they compute.
//
//   sb3_replay FOLDER [CASE ...]     cases of sb3_fixture.py; all of the folder when none is named
//
// The other side's rollouts, actions and permutations are taken as recorded; values,
// log-probabilities, advantages, returns, losses, gradients' norms and weights are this engine's
// own. Prints "<case> <quantity> <worst difference>", the reference learner's as
// reference_<quantity>, and "<case> ok|FAILED"; exit status 1 when a difference is above 1e-5
// (relative where a figure is above 1), 2 on errors.

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <limits>
#include <map>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "algos/ppo/ppo.h"
#include "base/core/error.h"
#include "kernels/policy/distribution_op.h"
#include "tests/parity/case_file.h"
#include "tests/parity/run_cases.h"

namespace maglev {
namespace {

constexpr double kTolerance = 1e-5;

std::vector<int64_t> numbers_of(const at::Tensor& t) {
  return {t.data_ptr<int64_t>(), t.data_ptr<int64_t>() + t.numel()};
}

EnvSpec spec_of(const CaseFile& c) {
  const auto& heads = c["heads"];
  EnvSpec spec;
  const std::string prefix = "0/obs/";
  for (const auto& [name, obs] : c.tensors) {
    if (name.rfind(prefix, 0) != 0) continue;
    ObsColumn column{.name = name.substr(prefix.size()),
                     .dtype = obs.scalar_type() == at::kByte  ? DType::u8
                              : obs.scalar_type() == at::kInt ? DType::i32
                                                              : DType::f32,
                     .vocabulary = numbers_of(c["vocabulary"])};
    column.shape.assign(obs.sizes().begin() + 2, obs.sizes().end());
    spec.observations.push_back(column);
  }
  spec.action.heads = numbers_of(heads);
  if (!spec.action.discrete()) {
    spec.action.low.assign(size_t(c["0/action"].size(2)), -1.f);
    spec.action.high.assign(spec.action.low.size(), 1.f);
  }
  spec.action.masked = c.has("0/mask");
  return spec;
}

/// One recorded rollout in this engine's layout: next-step auto-reset, so that an episode's final
/// observation has a row of its own, and columns filled up to T with rows that only reset.
struct LaidOut {
  Batch batch;
  at::Tensor
      real;  ///< [envs * steps] i64: flat row of the recorded step, in the order env * steps + t
};

/// Rows a column needs at most: its steps and one more for each episode's end.
int64_t padded_steps(const CaseFile& c) {
  int64_t most = 0;
  for (int64_t k = 0; k < c.numbers.at("iterations"); ++k) {
    const auto i = std::to_string(k);
    auto ends =
        at::bitwise_or(c[i + "/terminated"], c[i + "/truncated"]).sum(0).max().item<int64_t>();
    most = std::max(most, c.numbers.at("steps") + ends);
  }
  return most;
}

LaidOut lay_out(const CaseFile& c, const EnvSpec& spec, int64_t iteration, int64_t T) {
  const int64_t S = c.numbers.at("steps"), N = c.numbers.at("envs");
  auto in = [&](const std::string& name) { return c[std::to_string(iteration) + "/" + name]; };
  const auto action = in("action"), reward = in("reward");
  const auto terminated = in("terminated"), truncated = in("truncated");
  Batch b;
  std::vector<at::Tensor> obs, final_obs;
  for (const ObsColumn& column : spec.observations) {
    obs.push_back(in("obs/" + column.name));
    final_obs.push_back(in("final_obs/" + column.name));
    auto sizes = obs.back().sizes().vec();
    sizes[0] = T + 1;
    b.obs.push_back(at::zeros(sizes, obs.back().options()));
  }
  const auto show = [&](int64_t row, int64_t n, const std::vector<at::Tensor>& columns, int64_t t) {
    for (size_t i = 0; i < columns.size(); ++i) b.obs[i][row][n].copy_(columns[i][t][n]);
  };
  if (spec.action.masked) b.mask = at::ones({T + 1, N, spec.action.categories()}, at::kByte);
  b.is_first = at::zeros({T + 1, N}, at::kByte);
  b.action = at::zeros({T, N, spec.action.dims()}, spec.action.discrete() ? at::kInt : at::kFloat);
  b.reward = at::zeros({T, N});
  b.terminated = at::zeros({T, N}, at::kByte);
  b.truncated = at::zeros({T, N}, at::kByte);
  b.extra = {at::zeros({T, N}), at::zeros({T + 1, N})};
  auto real = at::zeros({N * S}, at::kLong);
  for (int64_t n = 0; n < N; ++n) {
    int64_t row = 0;
    for (int64_t t = 0; t < S; ++t, ++row) {
      real[n * S + t] = row * N + n;
      show(row, n, obs, t);
      if (spec.action.masked) b.mask[row][n].copy_(in("mask")[t][n]);
      b.action[row][n].copy_(action[t][n]);
      b.reward[row][n] = reward[t][n];
      b.terminated[row][n] = terminated[t][n];
      b.truncated[row][n] = truncated[t][n];
      if (!at::bitwise_or(terminated[t][n], truncated[t][n]).item<uint8_t>()) continue;
      ++row;
      show(row, n, final_obs, t);
      if (row < T) b.is_first[row + 1][n] = 1;
    }
    // the row behind the last step bootstraps; rows after it begin episodes that nothing is learnt
    // from
    for (int64_t end = row; row <= T; ++row) {
      show(row, n, obs, S);
      if (row > end) b.is_first[row][n] = 1;
    }
  }
  return {std::move(b), std::move(real)};
}

/// Worst difference of each quantity, relative where the expected figure is above 1.
class Differences {
 public:
  void add(const std::string& quantity, const at::Tensor& ours, const at::Tensor& theirs) {
    auto a = ours.detach().to(at::kDouble).flatten(), b = theirs.to(at::kDouble).flatten();
    MAGLEV_ASSERT(a.sizes() == b.sizes(), "as many figures here as there");
    auto difference = at::abs(a - b) / at::clamp_min(at::abs(b), 1.0);
    difference = at::where(at::logical_and(at::isnan(a), at::isnan(b)), 0.0, difference);
    const double worst =
        at::nan_to_num(difference, std::numeric_limits<double>::infinity()).max().item<double>();
    auto [at, fresh] = worst_.emplace(quantity, worst);
    if (!fresh) at->second = std::max(at->second, worst);
  }
  const std::map<std::string, double>& worst() const { return worst_; }

 private:
  std::map<std::string, double> worst_;
};

class Replay {
 public:
  Replay(const CaseFile& c, bool fused) : case_(c), spec_(spec_of(c)), T_(padded_steps(c)) {
    ppo::Options options;
    OptionTable table;
    options.describe(table);
    for (const auto& [name, value] : c.options) table.set(name, value, "case file");
    if (!fused)
      for (const auto& [name, value] : c.reference) table.set(name, value, "case file");
    const int64_t N = c.numbers.at("envs"), buffer = c.numbers.at("steps") * N;
    minibatch_ = std::min(c.numbers.at("batch_size"), buffer);
    options.rollout = T_;
    options.minibatch = minibatch_;
    options.fused = fused;
    // schedules run over rows, of which the padded layout has more
    ppo_ = std::make_unique<ppo::Ppo>(
        options, AlgoContext{.spec = spec_,
                             .rows = N,
                             .total_steps = c.numbers.at("iterations") * T_ * N,
                             .seed = 1,
                             .pool = &pool_});
    at::NoGradGuard no_grad;
    for (auto& p : ppo_->policy().network().named_parameters())
      p.value().copy_(c["initial/" + p.key()]);
  }

  Differences run() {
    for (int64_t k = 0; k < case_.numbers.at("iterations"); ++k) iterate(k);
    return std::move(differences_);
  }

 private:
  void iterate(int64_t k) {
    at::NoGradGuard no_grad;
    auto theirs = [&](const std::string& name) { return case_[std::to_string(k) + "/" + name]; };
    auto [batch, real] = lay_out(case_, spec_, k, T_);
    auto steps = [&](const at::Tensor& rows) { return rows.flatten(0, 1).index_select(0, real); };
    auto compare_steps = [&](const std::string& name, const at::Tensor& rows) {
      differences_.add(name, steps(rows), theirs(name).t().reshape(-1));
    };

    act(batch);
    compare_steps("values", batch.extra[1]);
    compare_steps("log_probs", batch.extra[0]);
    ppo_->learner().prepare(batch);
    compare_steps("advantages", ppo_->learner().results().advantage);
    // behind an episode's last step nothing follows: its advantage is its reward, with the value it
    // was cut off from, less its own value
    const auto ends = at::bitwise_or(theirs("terminated"), theirs("truncated")).t().reshape(-1);
    const auto rewards =
        steps(ppo_->learner().results().advantage + batch.extra[1].narrow(0, 0, T_));
    differences_.add("last_rewards", rewards * ends, theirs("rewards").t().reshape(-1) * ends);
    compare_steps("returns", ppo_->learner().results().returns);
    differences_.add("explained_variance", ppo_->learner().results().explained_variance,
                     theirs("explained_variance"));

    // every epoch that was begun, in the recorded order; behind a stop nothing may move any more
    const auto permutations = theirs("permutations"), figures = theirs("figures"),
               norms = theirs("grad_norms");
    const int64_t rows = permutations.size(1), recorded = figures.size(0);
    int64_t m = 0;
    for (int64_t e = 0; e < permutations.size(0); ++e)
      for (int64_t begin = 0; begin < rows; begin += minibatch_, ++m) {
        auto index = real.index_select(
            0, permutations[e].narrow(0, begin, std::min(minibatch_, rows - begin)));
        ppo_->learner().minibatch_step(batch, index);
        const bool stopped = ppo_->learner().results().stopped.item<float>() != 0;
        if (m < recorded) compare_figures(figures[m], norms[m], stopped);
        else differences_.add("stops", at::ones({}) * stopped, at::ones({}));
      }
    MAGLEV_ASSERT(m >= recorded, "every recorded minibatch was replayed");
    ppo_->learner().finish(batch);
    for (const auto& p : ppo_->policy().network().named_parameters())
      differences_.add("weights", p.value(), theirs("weights/" + p.key()));
  }

  void compare_figures(const at::Tensor& theirs, const at::Tensor& norm, bool stopped) {
    using ppo::Ppo;
    const std::pair<const char*, int> names[] = {
        {"policy_loss", kPpoPolicy}, {"value_loss", kPpoValue},           {"entropy", kPpoEntropy},
        {"approx_kl", kPpoApproxKl}, {"clip_fraction", kPpoClipFraction}, {"loss", kPpoTotal}};
    int64_t i = 0;
    for (auto [name, figure] : names)
      differences_.add(name, ppo_->learner().results().figures[figure], theirs[i++]);
    // the minibatch that stopped the other side has no gradient there
    differences_.add("stops", at::ones({}) * stopped, at::isnan(norm).to(at::kFloat));
    if (!stopped) differences_.add("gradient_norm", ppo_->learner().results().grad_norm, norm);
  }

  // what collecting would have written beside the recorded actions
  void act(Batch& batch) {
    auto& network = ppo_->policy().network();
    std::vector<at::Tensor> columns;
    for (const auto& column : batch.obs) columns.push_back(column.flatten(0, 1));
    auto out = network.forward(columns, {.policy = true, .value = true});
    batch.extra[1].copy_(network.value_head().denormalize(out.value).view_as(batch.extra[1]));
    const int64_t count = batch.reward.numel();
    DistParams dist{out.logits.narrow(0, 0, count), network.log_std(), {}};
    if (batch.mask.defined()) dist.mask = batch.mask.flatten(0, 1).narrow(0, 0, count);
    const auto drawn = log_prob(spec_.action, dist, batch.action.flatten(0, 1));
    batch.extra[0].copy_(drawn.log_prob.view_as(batch.extra[0]));
    if (!spec_.action.masked) return;
    // where one action is allowed there is no doubt, to the bit
    const auto doubt =
        at::where(dist.mask.sum(1) == 1, drawn.log_prob.abs() + drawn.entropy.abs(), at::zeros({}));
    differences_.add("one_action", doubt, at::zeros_like(doubt));
  }

  const CaseFile& case_;
  EnvSpec spec_;
  int64_t T_, minibatch_ = 0;
  ThreadPool pool_{1};
  std::unique_ptr<ppo::Ppo> ppo_;
  Differences differences_;
};

bool replay(const std::filesystem::path& path) {
  CaseFile file(path.string());
  const std::string name = path.stem().string();
  bool ok = true;
  for (const bool fused : {true, false}) {
    const auto differences = Replay(file, fused).run();
    for (const auto& [quantity, worst] : differences.worst()) {
      std::printf("%s %s%s %.2e%s\n", name.c_str(), fused ? "" : "reference_", quantity.c_str(),
                  worst, worst <= kTolerance ? "" : " above 1e-5");
      ok = ok && worst <= kTolerance;
    }
  }
  std::printf("%s %s\n", name.c_str(), ok ? "ok" : "FAILED");
  return ok;
}

}  // namespace
}  // namespace maglev

int main(int argc, char** argv) { return maglev::run_cases(argc, argv, maglev::replay); }
