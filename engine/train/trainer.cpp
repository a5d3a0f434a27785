#include "engine/train/trainer.h"

#include <bit>
#include <chrono>
#include <cmath>
#include <limits>
#include <utility>

#include <ATen/ATen.h>

#include "base/core/error.h"
#include "engine/run/snapshot.h"

namespace maglev {
namespace {

constexpr int64_t kRecent = 128;  // flushes whose returns are remembered
constexpr int64_t kRecentEpisodes = 100;
constexpr int64_t kRowsPerRun = 2000;
// iterations before a capture: the first sets libraries up, the second shows what a warm one needs
constexpr int64_t kBeforeCapture = 2;
// parts of a report: sums, totals, then the replay's counters where there is one
constexpr size_t kCountersPart = 2;

// threads that act and step beside updates; the others learn
int collect_threads(const Experiment& experiment, int threads) {
  return experiment.run.overlap ? std::max(1, threads / 2) : threads;
}

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
      overlap_(experiment.run.overlap),
      pool_(collect_threads(experiment, placement.threads)),
      metrics_(placement.device),
      graphs_(placement.device),
      report_(placement.device),
      return_mean_(std::numeric_limits<double>::quiet_NaN()) {
  const RunOptions& run = experiment.run;
  if (overlap_) {
    learn_pool_ = std::make_unique<ThreadPool>(std::max(1, placement.threads - pool_.threads()));
    stages_ = std::make_unique<ThreadPool>(2);
  }
  const int64_t learners = run.opponents.empty() ? 0 : 1;
  envs_ = std::make_unique<VecEnv>(experiment.env(), experiment.env_params(), run.env_count,
                                   run.seed, placement.device, pool_, /*first_env=*/0, learners);
  const AlgoContext context = context_of(experiment, placement, overlap_ ? *learn_pool_ : pool_);
  algo_ = experiment.algo().make(experiment.algo_options(), context);
  plan_ = &algo_->plan();
  const Precision precision = placement.precision;
  if (!plan_->autocast && (precision == Precision::bf16 || precision == Precision::fp16))
    throw Error("[train] train.precision=" + std::string(name_of(precision)) +
                " is not offered by " + experiment.algo().name + "; use fp32 or auto");
  if (overlap_ && (!plan_->overlap || !plan_->replay || offline()))
    throw Error(
        "[train] train.overlap=true needs an algorithm that acts on a copy of what it learns "
        "from a replay, and steps to collect; leave it out");
  if (overlap_ && !placement.device.is_cpu())
    throw Error("[train] train.overlap=true is for a processor; on " + placement.device.str() +
                " leave it out");
  apply_precision(precision, placement.device);
  const int64_t rows = envs_->rows();
  const int64_t block =
      placement.device.is_cpu() ? block_rows(plan_->block_rows, rows, envs_->agents()) : rows;
  store_ =
      make_store(run, envs_->spec(), *plan_,
                 {.T = plan_->collect_steps, .rows = rows, .block_rows = block}, placement.device);
  carry_ = algo_->policy().initial_carry(rows);
  if (!offline())
    for (const Row& part : store_->window().row(0).blocks)
      blocks_.push_back({.carry = carry_.rows(part.first, part.rows())});
  // a block that runs ahead by itself waits for nobody and finds its rows in the cache
  lockstep_ = run.collect == Collect::lockstep || learners;
  const auto on_device = at::TensorOptions(at::kFloat).device(placement.device);
  const bool graph = run.graph.value_or(placement.device.is_cuda());
  if (graph) {
    steps_before_ = at::zeros({1}, on_device.dtype(at::kLong));
    updates_before_ = at::zeros_like(steps_before_);
  }
  if (placement.device.is_cuda()) finite_ = at::ones({1}, on_device);
  recent_ = at::zeros({kRecent, 2}, at::kDouble);
  if (learners) league_ = std::make_unique<League>(experiment, placement, pool_, algo_->policy());
  StepIo first = store_->window().first_io();
  if (league_) league_->rivals().attach(first, /*first=*/true);
  if (!offline()) envs_->reset(first);
  progress_.iteration_steps = steps_per_iteration();
  progress_.total_steps = run.steps;
  started_s_ = flushed_s_ = now_s();
}

void Trainer::act(int64_t t, int64_t block) {
  BlockState& state = blocks_[size_t(block)];
  Timed timed(state.times.policy);
  ActKey key{.seed = experiment_->run.seed, .purpose = Purpose::act, .step = t};
  if (steps_before_.defined()) key.base = steps_before_.const_data_ptr<int64_t>();
  else key.step += iterations_ * plan_->collect_steps;
  algo_->policy().act(store_->window().row(t).blocks[size_t(block)], state.carry, ActMode::sample,
                      key);
}

void Trainer::step_block(int64_t t, int64_t block) {
  BlockState& state = blocks_[size_t(block)];
  Timed timed(state.times.environment);
  const Row& part = store_->window().row(t).blocks[size_t(block)];
  const int64_t agents = envs_->agents(), begin = part.first, count = part.rows();
  StepIo io = store_->window().io(t);
  if (league_) league_->rivals().attach(io, /*first=*/false);
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
      if (league_) league_->rivals().act(experiment_->run.seed, iterations_ * T + t);
      pool_.run(blocks, [&](int64_t b) { step_block(t, b); });
      if (league_) settle_games(t);
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
  if (finite_.defined()) check_on_device();
  if (!overlap_) store_->commit();
  if (steps_before_.defined()) steps_before_.add_(T);
}

void Trainer::settle_games(int64_t t) {
  const at::Tensor reward = at::from_blob(store_->window().io(t).reward, {envs_->count()},
                                          at::TensorOptions(at::kFloat).device(placement_.device))
                                .cpu();
  league_->settle(reward.const_data_ptr<float>());
}

void Trainer::learn() {
  ReplayKey key{.seed = experiment_->run.seed};
  if (updates_before_.defined()) key.base = updates_before_.const_data_ptr<int64_t>();
  else key.number = updates_;
  ThreadPool& pool = overlap_ ? *learn_pool_ : pool_;
  algo_->update(store_->batch(key, pool), metrics_);
  store_->learned();
  if (updates_before_.defined()) updates_before_.add_(1);
}

void Trainer::make_updates(int64_t count) {
  Timed timed(times_.learn);
  for (int64_t i = 0; i < count; ++i, ++updates_) update_.run([this] { learn(); });
}

void Trainer::make_owed_updates() {
  if (owed_ == 0) return;
  // a replay is saved as it is, so the rest can wait; a rollout is not
  const bool may_stop = stop_ && plan_->replay;
  for (; owed_ > 0 && !(may_stop && stop_()); --owed_) make_updates(1);
  if (owed_ == 0) publish_.run([this] { publish(); });
}

void Trainer::iterate_in_turn() {
  // what an iteration that was cut short has left
  make_owed_updates();
  if (owed_ > 0) return;
  if (!offline()) {
    store_->begin();
    collect_.run([this] { collect(); });
  }
  ++iterations_;
  owed_ = store_->due(step(), updates_);
  make_owed_updates();
}

void Trainer::iterate_overlapped() {
  // what is sampled is fixed here: begin() takes out what the steps overwrite, commit() is after
  store_->begin();
  const int64_t due = store_->due(step(), updates_);
  stages_->run(2, [&](int64_t stage) {
    if (stage == 0) collect();
    else make_updates(due);
  });
  store_->commit();
  if (due > 0) publish();
  ++iterations_;
}

void Trainer::iterate() {
  if (overlap_) {
    iterate_overlapped();
  } else if (capture_after_ < 0) {
    iterate_in_turn();
  } else {
    graphs_.on_side_stream([&] {
      iterate_in_turn();
      if (updates_ >= capture_after_) capture_graphs();
    });
  }
  if (league_) league_->remember(step());
  progress_.iteration_step.store(0, std::memory_order_relaxed);
  progress_.step.store(step(), std::memory_order_relaxed);
}

void Trainer::warm_up() {
  const bool graphs = steps_before_.defined() && placement_.device.is_cuda();
  const int64_t iterations = std::max(experiment_->run.warmup, graphs ? kBeforeCapture : 0);
  if (iterations == 0) return;
  // of a replay only what the steps overwrite, for it may be most of the memory
  const auto visit = [this, steps = iterations * plan_->collect_steps](StateVisitor& v) {
    visit_learner(v);
    store_->visit_ahead(v, steps);
    visit_clocks(v);
  };
  const StateSnapshot before(visit);
  const int64_t updates = updates_;
  graphs_.on_side_stream([&] {
    for (int64_t i = 0; i < iterations; ++i) iterate();
    if (graphs && updates_ >= updates + kBeforeCapture) capture_graphs();
  });
  before.restore(visit);
  // a replay has nothing to learn from in the beginning: its graphs come after its first updates
  if (graphs && graph_note_.empty()) capture_after_ = updates_ + kBeforeCapture;
  metrics_.clear();
  if (finite_.defined()) finite_.fill_(1);
  progress_.iteration_step.store(0, std::memory_order_relaxed);
  progress_.step.store(step(), std::memory_order_relaxed);
  times_ = {};
  flushed_s_ = now_s();
}

void Trainer::capture_graphs() {
  capture_after_ = -1;
  if (league_) {
    graph_note_ = "iterations run eagerly: who plays against the learner is chosen on the host";
    return;
  }
  if (envs_->transfers()) {
    graph_note_ = std::string("iterations run eagerly: ") + experiment_->env().name +
                  " steps on the host";
    return;
  }
  if (!plan_->capturable) {
    graph_note_ = std::string("iterations run eagerly: ") + experiment_->algo().name +
                  " does work on the host that a captured graph would not repeat";
    return;
  }
  const int64_t before = graphs_.reserved_bytes();
  try {
    collect_.capture(graphs_, [this] { collect(); });
    update_.capture(graphs_, [this] { learn(); });
    if (plan_->replay) publish_.capture(graphs_, [this] { publish(); });
    graph_note_ = "iterations are replayed as graphs: device memory " +
                  std::to_string(before >> 20) + " MiB before they were captured, " +
                  std::to_string(graphs_.reserved_bytes() >> 20) + " MiB after";
  } catch (const Error& e) {
    collect_.reset();
    update_.reset();
    publish_.reset();
    graph_note_ = std::string("iterations run eagerly, they could not be captured: ") + e.what();
  }
}

void Trainer::check_on_device() {
  const Batch& batch = store_->collected();
  finite_.mul_(at::isfinite(batch.reward).all());
  for (const auto& column : batch.obs)
    if (column.scalar_type() == at::kFloat)
      finite_.mul_(at::isfinite(column.narrow(0, 1, plan_->collect_steps)).all());
}

void Trainer::report_nonfinite() {
  RowWindow& window = store_->window();
  const auto& columns = envs_->spec().observations;
  auto check = [&](const at::Tensor& values, const std::string& name, int64_t t) {
    auto bad = at::isfinite(values.reshape({values.size(0), -1})).all(1).logical_not().nonzero();
    if (bad.size(0) == 0) return;
    throw Error("[env] " + std::string(experiment_->env().name) +
                " gave a number that is not finite: " + name + " of environment " +
                std::to_string(bad[0][0].item<int64_t>() / envs_->agents()) + " at time step " +
                std::to_string(iterations_ * plan_->collect_steps + t) +
                "; the update was not made, checkpoints before it are intact");
  };
  const int64_t T = plan_->collect_steps;
  for (int64_t t = 0; t < T; ++t) check(window.reward(t), "reward", t);
  for (size_t c = 0; c < columns.size(); ++c)
    for (int64_t t = 1; t <= T && columns[c].dtype == DType::f32; ++t)
      check(window.row(t).obs[c], "observation '" + columns[c].name + "'", t);
}

bool Trainer::flush_due() const {
  int64_t every = experiment_->run.log_every;
  if (every == 0) every = experiment_->run.steps / kRowsPerRun;
  return (iterations_ - flushed_iterations_) * steps_per_iteration() >= std::max<int64_t>(1, every);
}

bool Trainer::save_due() const {
  if (done()) return true;
  int64_t every = experiment_->run.save_every;
  if (every == 0) every = std::max<int64_t>(1, experiment_->run.steps / 10);
  return step() / every != (step() - steps_per_iteration()) / every;
}

void Trainer::begin_flush() {
  settle();
  const double begin = now_s();
  std::vector<at::Tensor> parts{metrics_.sums(), envs_->totals()};
  if (plan_->replay) parts.push_back(store_->replay()->counters_on_device());
  if (finite_.defined()) parts.push_back(finite_);
  report_.start(parts);
  metrics_.clear();
  report_open_ = true;

  const double end = now_s(), interval = std::max(1e-12, end - flushed_s_);
  times_.copy += end - begin;
  open_row_ = {};
  open_row_.step = step();
  open_row_.seconds = seconds();
  open_row_.steps_per_second =
      double((iterations_ - flushed_iterations_) * steps_per_iteration()) / interval;
  open_row_.values.emplace_back("time/environment", times_.environment / interval);
  open_row_.values.emplace_back("time/policy", times_.policy / interval);
  open_row_.values.emplace_back("time/learn", times_.learn / interval);
  open_row_.values.emplace_back("time/copy", times_.copy / interval);
  flushed_s_ = end;
  flushed_iterations_ = iterations_;
  times_ = {};
}

void Trainer::settle() {
  if (!report_open_) return;
  report_.wait();
  report_open_ = false;
  if (plan_->replay && report_.part<EpisodeCounters>(kCountersPart)->faults > 0)
    throw Error(
        "[replay] a sequence was asked for while no episode held one; raise the capacity "
        "above the longest episode of each environment");
  if (finite_.defined() && *report_.part<float>(plan_->replay ? 3 : kCountersPart) == 0) {
    report_nonfinite();
    throw Error("[env] " + std::string(experiment_->env().name) +
                " gave a number that is not finite in the " + "iterations before step " +
                std::to_string(open_row_.step) + "; checkpoints before it are intact");
  }

  const EpisodeTotals& totals = *report_.part<EpisodeTotals>(1);
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

  MetricRow row = std::exchange(open_row_, {});
  const auto times = std::exchange(row.values, {});
  const double nan = std::numeric_limits<double>::quiet_NaN(), episodes = double(totals.episodes);
  row.values.emplace_back("episode/return_min", totals.episodes ? totals.return_min : nan);
  row.values.emplace_back("episode/return_max", totals.episodes ? totals.return_max : nan);
  row.values.emplace_back("episode/length_mean",
                          totals.episodes ? totals.length_sum / episodes : nan);
  const auto& events = envs_->spec().events;
  for (size_t k = 0; k < events.size(); ++k)
    row.values.emplace_back("events/" + events[k] + "_per_1k",
                            totals.steps ? 1000 * totals.events[k] / double(totals.steps) : nan);
  for (auto& figure : metrics_.means(report_.part<float>(0)))
    row.values.push_back(std::move(figure));
  if (plan_->replay) {
    const auto& c = *report_.part<EpisodeCounters>(kCountersPart);
    const int64_t of_a_time = store_->replay()->shape().window.rows;
    row.values.emplace_back("replay/rows", double((c.now - c.oldest + 1) * of_a_time));
    row.values.emplace_back("replay/episodes", double(c.end - c.first));
  }
  if (league_)
    for (auto& figure : league_->figures()) row.values.push_back(std::move(figure));
  row.values.insert(row.values.end(), times.begin(), times.end());
  row.episodes = episodes_;
  row.return_mean = return_mean_;
  rows_.push_back(std::move(row));
}

std::optional<MetricRow> Trainer::next_row(bool wait) {
  if (report_open_ && (wait || report_.ready())) settle();
  if (rows_.empty()) return std::nullopt;
  MetricRow row = std::move(rows_.front());
  rows_.erase(rows_.begin());
  return row;
}

MetricRow Trainer::flush() {
  begin_flush();
  return *next_row(/*wait=*/true);
}

double Trainer::seconds() const { return seconds_before_ + now_s() - started_s_; }

void Trainer::visit_state(StateVisitor& visitor) {
  settle();
  visit_learner(visitor);
  store_->visit_state(visitor);
  visit_clocks(visitor);
}

void Trainer::visit_learner(StateVisitor& visitor) {
  visitor.section("algo", [&](StateVisitor& v) { algo_->visit_state(v); });
  visitor.section("envs", [&](StateVisitor& v) { envs_->visit_state(v); });
  visitor.section("carry", [&](StateVisitor& v) {
    for (size_t i = 0; i < carry_.parts.size(); ++i) v.tensor(std::to_string(i), carry_.parts[i]);
  });
}

void Trainer::visit_clocks(StateVisitor& visitor) {
  visitor.section("trainer", [&](StateVisitor& v) {
    v.integer("owed_updates", owed_);
    v.integer("iterations", iterations_);
    if (plan_->replay) v.integer("updates", updates_);
    v.integer("flushed_iterations", flushed_iterations_);
    v.integer("episodes", episodes_);
    v.real("return_mean", return_mean_);
    v.tensor("recent", recent_);
    v.integer("recent_next", recent_next_);
  });
  if (league_) visitor.section("league", [&](StateVisitor& v) { league_->visit_state(v); });
  if (!plan_->replay) updates_ = iterations_;
  if (steps_before_.defined()) {
    steps_before_.fill_(iterations_ * plan_->collect_steps);
    updates_before_.fill_(updates_);
  }
  // a visit may have loaded
  algo_->publish();
  if (league_) league_->publish();
}

}  // namespace maglev
