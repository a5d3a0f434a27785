#include "engine/train/trainer.h"

#include <bit>
#include <chrono>
#include <cmath>
#include <limits>
#include <utility>

#include <torch/torch.h>

#include "engine/core/error.h"

namespace maglev {
namespace {

constexpr int64_t kRecent = 128;  // flushes whose returns are remembered
constexpr int64_t kRecentEpisodes = 100;
constexpr int64_t kRowsPerRun = 2000;

double now_s() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

bool all_finite(const float* values, int64_t count) {
  // an exponent of ones only is an infinity or not a number
  constexpr uint32_t kExponent = 0x7f800000u;
  uint32_t bad = 0;
  for (int64_t i = 0; i < count; ++i)
    bad |= uint32_t((std::bit_cast<uint32_t>(values[i]) & kExponent) == kExponent);
  return bad == 0;
}

// adds the time a stage takes to a phase
class Timed {
 public:
  explicit Timed(double& phase) : phase_(phase), begin_(now_s()) {}
  ~Timed() { phase_ += now_s() - begin_; }

 private:
  double& phase_;
  double begin_;
};

}  // namespace

Trainer::Trainer(const Experiment& experiment, const Placement& placement)
    : experiment_(&experiment),
      placement_(placement),
      pool_(placement.threads),
      metrics_(placement.device),
      return_mean_(std::numeric_limits<double>::quiet_NaN()) {
  const RunOptions& run = experiment.run;
  envs_ = std::make_unique<VecEnv>(experiment.env(), experiment.env_params(), run.env_count,
                                   run.seed, placement.device, pool_);
  algo_ = experiment.algo().make(experiment.algo_options(), {.spec = envs_->spec(),
                                                             .rows = envs_->rows(),
                                                             .total_steps = run.steps,
                                                             .seed = run.seed,
                                                             .device = placement.device,
                                                             .pool = &pool_});
  plan_ = &algo_->plan();
  const int64_t rows = envs_->rows();
  const int64_t block =
      placement.device.is_cpu() ? block_rows(plan_->block_rows, rows, envs_->entry().agents) : rows;
  store_ = std::make_unique<Rollout>(
      envs_->spec(), RolloutShape{.T = plan_->collect_steps, .rows = rows, .block_rows = block},
      plan_->columns, placement.device);
  carry_ = algo_->initial_carry(rows);
  for (const Row& part : store_->row(0).blocks)
    blocks_.push_back({.carry = carry_.rows(part.first, part.rows())});
  // a block that runs ahead by itself waits for nobody and finds its rows in the cache
  lockstep_ = run.collect == "lockstep";
  recent_ = at::zeros({kRecent, 2}, at::kDouble);
  envs_->reset(store_->first_io());
  progress_.iteration_steps = steps_per_iteration();
  progress_.total_steps = run.steps;
  started_s_ = flushed_s_ = now_s();
}

void Trainer::act(int64_t t, int64_t block) {
  BlockState& state = blocks_[size_t(block)];
  Timed timed(state.times.policy);
  algo_->act(store_->row(t).blocks[size_t(block)], state.carry, ActMode::sample,
             {.seed = experiment_->run.seed,
              .purpose = Purpose::act,
              .step = iterations_ * plan_->collect_steps + t});
}

void Trainer::step_block(int64_t t, int64_t block) {
  BlockState& state = blocks_[size_t(block)];
  Timed timed(state.times.environment);
  const Row& part = store_->row(t).blocks[size_t(block)];
  const int64_t agents = envs_->entry().agents, begin = part.first, count = part.rows();
  const StepIo& io = store_->io(t);
  envs_->step(io, begin / agents, (begin + count) / agents);
  progress_.iteration_step.fetch_add(count, std::memory_order_relaxed);
  if (!placement_.device.is_cpu()) return;
  // while the rows are in the cache
  state.finite &= all_finite(io.reward + begin, count);
  const auto& columns = envs_->spec().observations;
  for (size_t c = 0; c < columns.size(); ++c)
    if (columns[c].dtype == DType::f32)
      state.finite &=
          all_finite(reinterpret_cast<const float*>(io.obs[c] + begin * io.obs_row_bytes[c]),
                     count * columns[c].elements());
}

void Trainer::collect() {
  const int64_t T = plan_->collect_steps, blocks = int64_t(blocks_.size());
  const double begin = now_s();
  if (lockstep_) {
    for (int64_t t = 0; t < T; ++t) {
      pool_.run(blocks, [&](int64_t b) { act(t, b); });
      pool_.run(blocks, [&](int64_t b) { step_block(t, b); });
    }
  } else {
    pool_.run(blocks, [&](int64_t b) {
      for (int64_t t = 0; t < T; ++t) act(t, b), step_block(t, b);
    });
  }
  // the time that passed, in the proportion of the time threads spent
  PhaseTimes spent;
  bool finite = true;
  for (BlockState& block : blocks_) {
    spent.policy += block.times.policy, spent.environment += block.times.environment;
    finite &= std::exchange(block.finite, true);
    block.times = {};
  }
  const double share = (now_s() - begin) / std::max(1e-12, spent.policy + spent.environment);
  times_.policy += share * spent.policy;
  times_.environment += share * spent.environment;
  if (!finite) report_nonfinite();
}

void Trainer::iterate() {
  collect_.run([&] { collect(); });
  // on a GPU reading the answer would make it wait, so there the check rides on iterations that
  // report anyway; gradients that are not finite change nothing in between
  if (!placement_.device.is_cpu() && flush_due_at(iterations_ + 1)) report_nonfinite();
  {
    Timed timed(times_.learn);
    update_.run([&] { algo_->update(store_->batch(), metrics_); });
  }
  Timed timed(times_.copy);
  store_->roll_over();
  ++iterations_;
  progress_.iteration_step.store(0, std::memory_order_relaxed);
  progress_.step.store(step(), std::memory_order_relaxed);
}

void Trainer::report_nonfinite() {
  const Batch& batch = store_->batch();
  const auto& columns = envs_->spec().observations;
  auto check = [&](const at::Tensor& values, const std::string& name, int64_t first_time) {
    auto flat = values.reshape({values.size(0), values.size(1), -1});
    auto bad = at::isfinite(flat).all(2).logical_not().nonzero();
    if (bad.size(0) == 0) return;
    const int64_t t = bad[0][0].item<int64_t>(), row = bad[0][1].item<int64_t>();
    throw Error("[env] " + std::string(experiment_->env().name) +
                " gave a number that is not finite: " + name + " of environment " +
                std::to_string(row / envs_->entry().agents) + " at time step " +
                std::to_string(iterations_ * plan_->collect_steps + t + first_time) +
                "; the update was not made, checkpoints before it are intact");
  };
  check(batch.reward, "reward", 0);
  for (size_t c = 0; c < columns.size(); ++c)
    if (columns[c].dtype == DType::f32)
      check(batch.obs[c].narrow(0, 1, plan_->collect_steps),
            "observation '" + columns[c].name + "'", 1);
}

bool Trainer::flush_due_at(int64_t iterations) const {
  int64_t every = experiment_->run.log_every;
  if (every == 0) every = experiment_->run.steps / kRowsPerRun;
  return (iterations - flushed_iterations_) * steps_per_iteration() >= std::max<int64_t>(1, every);
}

bool Trainer::save_due() const {
  if (done()) return true;
  int64_t every = experiment_->run.save_every;
  if (every == 0) every = std::max<int64_t>(1, experiment_->run.steps / 10);
  return step() / every != (step() - steps_per_iteration()) / every;
}

MetricRow Trainer::flush() {
  const double begin = now_s();
  MetricRow row;
  EpisodeTotals totals = envs_->take_totals();
  episodes_ += totals.episodes;
  if (totals.episodes > 0) {
    recent_[recent_next_ % kRecent][0] = totals.return_sum;
    recent_[recent_next_ % kRecent][1] = double(totals.episodes);
    ++recent_next_;
  }
  double sum = 0, count = 0;
  auto recent = recent_.accessor<double, 2>();
  for (int64_t i = 1; i <= std::min(recent_next_, kRecent) && count < kRecentEpisodes; ++i) {
    const int64_t slot = (recent_next_ - i) % kRecent;
    sum += recent[slot][0], count += recent[slot][1];
  }
  if (count > 0) return_mean_ = sum / count;

  const double nan = std::numeric_limits<double>::quiet_NaN(), episodes = double(totals.episodes);
  row.values.emplace_back("episode/return_min", totals.episodes ? totals.return_min : nan);
  row.values.emplace_back("episode/return_max", totals.episodes ? totals.return_max : nan);
  row.values.emplace_back("episode/length_mean",
                          totals.episodes ? totals.length_sum / episodes : nan);
  const auto& events = envs_->spec().events;
  for (size_t k = 0; k < events.size(); ++k)
    row.values.emplace_back("events/" + events[k] + "_per_1k",
                            totals.steps ? 1000 * totals.events[k] / double(totals.steps) : nan);
  for (auto& figure : metrics_.take()) row.values.push_back(std::move(figure));

  const double end = now_s(), interval = end - flushed_s_;
  times_.copy += end - begin;
  const double total = std::max(1e-12, interval);
  row.values.emplace_back("time/environment", times_.environment / total);
  row.values.emplace_back("time/policy", times_.policy / total);
  row.values.emplace_back("time/learn", times_.learn / total);
  row.values.emplace_back("time/copy", times_.copy / total);
  row.step = step();
  row.seconds = seconds();
  row.steps_per_second =
      double((iterations_ - flushed_iterations_) * steps_per_iteration()) / total;
  row.episodes = episodes_;
  row.return_mean = return_mean_;
  flushed_s_ = end;
  flushed_iterations_ = iterations_;
  times_ = {};
  return row;
}

double Trainer::seconds() const { return seconds_before_ + now_s() - started_s_; }

void Trainer::visit_state(StateVisitor& visitor) {
  visitor.section("algo", [&](StateVisitor& v) { algo_->visit_state(v); });
  visitor.section("envs", [&](StateVisitor& v) { envs_->visit_state(v); });
  visitor.section("rollout", [&](StateVisitor& v) { store_->visit_state(v); });
  visitor.section("carry", [&](StateVisitor& v) {
    for (size_t i = 0; i < carry_.parts.size(); ++i) v.tensor(std::to_string(i), carry_.parts[i]);
  });
  visitor.section("trainer", [&](StateVisitor& v) {
    v.integer("iterations", iterations_);
    v.integer("flushed_iterations", flushed_iterations_);
    v.integer("episodes", episodes_);
    v.real("return_mean", return_mean_);
    v.tensor("recent", recent_);
    v.integer("recent_next", recent_next_);
  });
}

}  // namespace maglev
