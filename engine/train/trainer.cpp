#include "engine/train/trainer.h"

#include <algorithm>
#include <map>
#include <utility>

#include <ATen/ATen.h>

#include "base/core/clock.h"
#include "base/core/error.h"
#include "base/processes/process_group.h"
#include "base/trace/span.h"
#include "engine/device/device.h"
#include "engine/device/launch.h"
#include "engine/host/cpu_cache.h"
#include "engine/run/checkpoint.h"
#include "engine/run/snapshot.h"
#include "engine/trace/run_trace.h"
#include "engine/train/timed.h"

namespace maglev {
namespace {

constexpr int64_t kRowsPerRun = 2000, kLeastRows = 100;
// however many steps a run has, a row is of no more than these, whichever is more steps
constexpr int64_t kMostRowSteps = 10'000, kMostRowIterations = 100;
// iterations before a capture: the first sets libraries up, the second shows what a warm one needs
constexpr int64_t kBeforeCapture = 2;
// what the first process of a run tells the others
constexpr const char *kWarmUp = "warm up", *kIterate = "iterate", *kFlush = "flush",
                     *kExpectSound = "expect sound", *kVisit = "visit", *kEnd = "end",
                     *kEndTraces = "end traces";
// before a piece's number and the name of what it is of; before a window of a trace
const std::string kGive = "give ", kTrace = "trace ";

// threads that act and step beside updates; the others learn. Beside a GPU's updates all of them do
int collect_threads(const Experiment& experiment, const Placement& placement) {
  const bool shared = experiment.run.overlap && placement.device.is_cpu();
  return shared ? std::max(1, placement.threads / 2) : placement.threads;
}

// before anything is made on its device
const Experiment& allowed(const Experiment& experiment, const Placement& placement) {
  if (experiment.run.processes != placement.processes)
    throw Error("[processes] processes=" + std::to_string(experiment.run.processes) +
                " is for train; this is done by one process, leave it out");
  if (experiment.algo().cpu_only && !placement.device.is_cpu())
    throw Error("[train] " + std::string(experiment.algo().name) +
                " runs on a processor only, got " + placement.device.str() + "; set device=cpu");
  return experiment;
}

// what other processes have to give of their rows, by name, once they visited
class ToGive : public PartialVisitor {
 public:
  std::map<std::string, std::shared_ptr<InPieces>> rows;

 private:
  void visit_pieces(const std::string& name, const std::shared_ptr<InPieces>& all) override {
    rows[name] = all;
  }
};

}  // namespace

Trainer::Trainer(const Experiment& experiment, const Placement& placement)
    : experiment_(&allowed(experiment, placement)),
      placement_(placement),
      dependent_(experiment.run.dependent_launch, placement.device),
      overlap_(experiment.run.overlap),
      pool_(collect_threads(experiment, placement)),
      shares_(experiment.env().spec(experiment.env_params()).action),
      report_(placement.device),
      graphs_(placement.device) {
  apply_precision(placement.precision, placement.device, experiment.run.deterministic);
  make_overlap();
  make_envs();
  make_algorithm();
  make_rows();
  choose_order();
  make_clocks();
  begin_episodes();
  begin_report();
  // what building left behind is of other sizes than what iterations ask for
  release_cpu_cache();
}

void Trainer::make_overlap() {
  if (!overlap_) return;
  if (placement_.device.is_cpu()) {
    learn_pool_ = std::make_unique<ThreadPool>(std::max(1, placement_.threads - pool_.threads()));
    stages_ = std::make_unique<ThreadPool>(2);
  } else {
    beside_ = std::make_unique<GraphPool>(placement_.device);
  }
}

void Trainer::make_envs() {
  const RunOptions& run = experiment_->run;
  const int64_t share = run.env_count / placement_.processes;
  // opponents act for all rows between the learner and the step
  const bool whole = run.collect != Collect::blocks || meets_opponents() || share < 2;
  envs_ = std::make_unique<VecEnv>(experiment_->env(), experiment_->env_params(), share, run.seed,
                                   placement_.device, pool_, rank_of(placement_.group) * share,
                                   /*learners=*/meets_opponents() ? 1 : 0,
                                   /*host_blocks=*/whole ? 1 : 2);
}

void Trainer::make_algorithm() {
  algo_ = experiment_->algo().make(experiment_->algo_options(),
                                   context_of(*experiment_, placement_, learners_pool()));
  plan_ = &algo_->plan();
  MAGLEV_ASSERT(plan_->block_rows == algo_->policy().block_rows(),
                "a plan has its policy's blocks");
  check_plan(*plan_, placement_.precision, experiment_->algo().name);
  if (offline() && meets_opponents())
    throw Error(
        "[train] train.opponents is for a run that plays; one that learns from train.dataset plays "
        "nothing, leave it out");
  if (overlap_ && (!plan_->may_overlap() || offline()))
    throw Error(
        "[train] train.overlap=true needs an algorithm that acts on a copy of what it learns "
        "from a replay, and steps to collect; leave it out");
}

void Trainer::make_rows() {
  const int64_t rows = envs_->rows();
  const int64_t block = placement_.device.is_cuda() ? envs_->block() * envs_->agents()
                                                    : plan_->block_of(rows, envs_->agents());
  store_ = make_store(experiment_->run, envs_->spec(), *plan_,
                      {.T = plan_->collect_steps, .rows = rows, .block_rows = block}, placement_);
  carry_ = algo_->policy().initial_carry(rows);
  if (offline()) return;
  for (const TimeStep& part : store_->window().step(0).blocks) {
    blocks_.push_back({.carry = carry_.rows(part.first, part.rows())});
    const int64_t stride = steps_one_by_one() ? envs_->agents() : part.rows();
    for (int64_t row = 0; row < part.rows(); row += stride)
      parts_.push_back({.first = part.first + row, .rows = stride});
  }
}

void Trainer::choose_order() {
  by_turns_ = meets_opponents() || envs_->transfers();
  const bool in_turn = by_turns_ && steps_elsewhere() && placement_.device.is_cuda();
  // a block that runs ahead by itself waits for nobody and finds its rows in the cache
  lockstep_ = experiment_->run.collect == Collect::lockstep || (by_turns_ && !in_turn) ||
              steps_one_by_one();
  if (!lockstep_ && !in_turn) return;
  turns_.resize(size_t(plan_->collect_steps));
  for (Turn& turn : turns_)
    for (size_t b = 0; b < (in_turn ? blocks_.size() : 1); ++b) turn.act.emplace_back("act", "act");
}

void Trainer::make_clocks() {
  if (placement_.device.is_cuda())
    stage_times_ = std::make_unique<DeviceTimes>(std::max<int64_t>(1, int64_t(blocks_.size())));
  // a graph that is replayed reads how far the run is where it runs
  if (!experiment_->run.graph.value_or(placement_.device.is_cuda())) return;
  steps_before_ = at::zeros({1}, at::TensorOptions(at::kLong).device(placement_.device));
  updates_before_ = at::zeros_like(steps_before_);
}

void Trainer::begin_episodes() {
  finite_ = std::make_unique<FiniteCheck>(experiment_->env().name, envs_->spec(), envs_->agents(),
                                          rank_of(placement_.group) * envs_->count(),
                                          store_->window(), placement_.device,
                                          /*flagged=*/placement_.device.is_cuda());
  if (meets_opponents())
    league_ = std::make_unique<League>(*experiment_, placement_, pool_, algo_->policy());
  StepIo first = store_->window().first_io();
  if (league_) league_->rivals().attach(first, /*first=*/true);
  if (!offline()) envs_->reset(first);
}

void Trainer::begin_report() {
  report_.watch({.envs = envs_.get(),
                 .replay = store_->replay(),
                 .replay_in_each = offline(),
                 .finite = finite_.get(),
                 .league = league_.get(),
                 .stages = stage_times_.get(),
                 .precision = placement_.precision,
                 .group = placement_.group,
                 .not_finite = [this](int64_t step) {
                   // told at a flush, when the iteration is over: its first step lies behind
                   finite_->name_first(time_steps() - store_->window().shape().T);
                   throw Error("[env] " + std::string(experiment_->env().name) +
                               " gave a number that is not finite in the iterations before step " +
                               std::to_string(step) + "; checkpoints before it are intact");
                 }});
  Progress& progress = report_.progress();
  if (!placement_.device.is_cuda()) progress.iteration_steps = steps_per_iteration();
  progress.total_steps = experiment_->run.steps;
  if (plan_->replay && !offline()) progress.seeding_steps = plan_->replay->first_steps;
}

void Trainer::mark(int64_t t, int place) {
  if (stage_times_ && t == plan_->collect_steps / 2) stage_times_->mark(place);
}

void Trainer::act(int64_t t, int64_t block) {
  const auto span = trace::stage("act");
  BlockState& state = blocks_[size_t(block)];
  Timed timed(state.policy);
  ActKey key{.seed = experiment_->run.seed,
             .purpose = Purpose::act,
             .step = t,
             .first = rank_of(placement_.group) * envs_->rows()};
  if (steps_before_.defined()) key.base = steps_before_.const_data_ptr<int64_t>();
  else key.step += time_steps();
  if (block == 0) mark(t, 0);
  algo_->policy().act(store_->window().step(t).blocks[size_t(block)], state.carry, ActMode::sample,
                      key);
  if (block == 0) mark(t, 1);
}

void Trainer::act_in_turn(int64_t t, int64_t block) {
  if (turns_.empty()) return act(t, block);
  turns_[size_t(t)].act[size_t(block)].run([&] { act(t, block); });
}

StepIo Trainer::io(int64_t t) {
  StepIo io = store_->window().io(t);
  if (league_) league_->rivals().attach(io, /*first=*/false);
  return io;
}

void Trainer::begin_part(int64_t t, int64_t index) {
  StepPart& part = parts_[size_t(index)];
  Timed timed(part.environment);
  const int64_t agents = envs_->agents();
  envs_->begin_step(io(t), part.first / agents, (part.first + part.rows) / agents);
}

void Trainer::step_part(int64_t t, int64_t index) {
  const auto span = trace::stage("env_step");
  StepPart& part = parts_[size_t(index)];
  Timed timed(part.environment);
  const int64_t agents = envs_->agents(), begin = part.first, count = part.rows;
  const StepIo io = this->io(t);
  envs_->step(io, begin / agents, (begin + count) / agents);
  if (index == 0) mark(t, 2);
  if (placement_.device.is_cuda()) return;
  report_.progress().iteration_step.fetch_add(count * placement_.processes,
                                              std::memory_order_relaxed);
  // while the rows are in the cache
  part.finite &= finite_->rows_finite(io, begin, count);
}

void Trainer::act_all(int64_t t) {
  pool_.run(int64_t(blocks_.size()), [&](int64_t b) { act(t, b); });
}

void Trainer::step_all(int64_t t) {
  // what is stepped elsewhere is all under way before any of it is waited for
  for (size_t p = 0; steps_elsewhere() && p < parts_.size(); ++p) begin_part(t, int64_t(p));
  pool_.run(int64_t(parts_.size()), [&](int64_t p) { step_part(t, p); });
}

void Trainer::collect_ahead() {
  // a thread acts for one of its blocks while the steps of its others are under way
  const bool cuda = placement_.device.is_cuda();
  const int64_t T = plan_->collect_steps, blocks = int64_t(blocks_.size());
  const int64_t lanes = cuda ? 1 : std::min(int64_t(pool_.threads()), blocks);
  const auto collect = [&](int64_t lane) {
    for (int64_t t = 0; t < T; ++t)
      for (int64_t b = lane; b < blocks; b += lanes) {
        if (t > 0) step_part(t - 1, b);
        act_in_turn(t, b);
        begin_part(t, b);
      }
    for (int64_t b = lane; b < blocks; b += lanes) step_part(T - 1, b);
  };
  // a device is asked by this thread, and the pool steps environments meanwhile
  if (cuda) collect(0);
  else pool_.run(lanes, collect);
}

void Trainer::collect() {
  const int64_t T = plan_->collect_steps;
  const double begin = steady_s();
  if (lockstep_) {
    for (int64_t t = 0; t < T; ++t) {
      turns_[size_t(t)].act[0].run([&] { act_all(t); });
      if (league_) league_->rivals().act(time_steps() + t);
      turns_[size_t(t)].step.run([&] { step_all(t); });
      if (league_) {
        StepWindow& window = store_->window();
        league_->settle({window.reward(t), window.terminated(t), window.truncated(t),
                         window.step(t + 1).is_first});
      }
    }
  } else if (steps_elsewhere()) {
    collect_ahead();
  } else {
    pool_.run(int64_t(blocks_.size()), [&](int64_t b) {
      for (int64_t t = 0; t < T; ++t) act(t, b), step_part(t, b);
    });
  }
  // the time that passed, in the proportion of the time threads spent
  PhaseTimes spent;
  bool finite = true;
  for (BlockState& block : blocks_) spent.policy += std::exchange(block.policy, 0);
  for (StepPart& part : parts_) {
    spent.environment += std::exchange(part.environment, 0);
    finite &= std::exchange(part.finite, true);
  }
  const double share = (steady_s() - begin) / std::max(1e-12, spent.policy + spent.environment);
  report_.times().policy += share * spent.policy;
  report_.times().environment += share * spent.environment;
  if (!finite) finite_->name_first(time_steps());
  end_collect_.run([this] { end_collect(); });
}

void Trainer::keep_collected() {
  if (placement_.device.is_cuda()) shares_.add(store_->collected(), report_.metrics());
  else shares_.add(store_->window(), report_.metrics());
  store_->commit();
}

void Trainer::end_collect() {
  if (finite_->flag().defined()) finite_->look(store_->collected());
  if (!overlap_) keep_collected();
  if (steps_before_.defined()) steps_before_.add_(plan_->collect_steps);
}

void Trainer::learn() {
  // each process draws of its own rows
  ReplayKey key{.seed = experiment_->run.seed, .number = first_number(placement_.group)};
  if (updates_before_.defined()) key.base = updates_before_.const_data_ptr<int64_t>();
  else key.number += updates_;
  const Batch& batch = store_->batch(key, learners_pool());
  if (another_) store_->draw_ahead({.seed = key.seed, .number = key.number + 1, .base = key.base});
  algo_->update(batch, report_.metrics());
  store_->learned();
  if (updates_before_.defined()) updates_before_.add_(1);
}

void Trainer::make_updates(int64_t count, int64_t more) {
  Timed timed(report_.times().learn);
  for (int64_t left = count + more; left > more; --left, ++updates_) {
    const auto span = trace::stage("update");
    report_.progress().updates_left.store(left, std::memory_order_relaxed);
    another_ = left > 1 || offline();
    // where that graph could not be had, the other one does without
    const bool ahead =
        another_ && store_->draws_ahead() && update_ahead_.captured() == update_.captured();
    (ahead ? update_ahead_ : update_).run([this] { learn(); });
  }
}

void Trainer::make_owed_updates() {
  if (owed_ == 0) return;
  const InStage measured(stage_times_.get(), Stage::learn);
  // a replay is saved as it is, so the rest can wait; a rollout is not
  const bool may_stop = plan_->replay.has_value();
  for (; owed_ > 0 && !(may_stop && stopped()); --owed_) make_updates(1, owed_ - 1);
  if (owed_ == 0) publish_learned();
}

bool Trainer::stopped() { return !all_say(!(stop_ && stop_())); }

int64_t Trainer::due() {
  const int64_t due = store_->due(step(), updates_);
  // the rows of one process may hold a sequence before another's do
  return !plan_->replay || all_say(due > 0) ? due : 0;
}

void Trainer::forgive_updates() {
  updates_ += std::exchange(owed_, 0);
  if (updates_before_.defined()) updates_before_.fill_(updates_);
}

void Trainer::publish_learned() {
  publish_.run([this] { publish(); });
  // a past self is of an iteration's end, also where the updates before it were cut short
  if (league_) league_->remember(step());
}

void Trainer::iterate_in_turn() {
  // what an iteration that was cut short has left; a replay that was not saved has nothing to learn
  // from before more steps are there, and what is due then counts these too
  if (owed_ > 0) owed_ = std::min(owed_, due());
  make_owed_updates();
  if (owed_ > 0) return;
  if (!offline()) {
    store_->begin();
    const InStage measured(stage_times_.get(), Stage::collect);
    const auto span = trace::stage("collect");
    collect_.run([this] { collect(); });
  }
  steps_ += steps_per_iteration();
  owed_ = due();
  make_owed_updates();
}

void Trainer::iterate_overlapped() {
  // what is sampled is fixed here: begin() takes out what the steps overwrite, commit() is after
  store_->begin();
  const int64_t due = this->due();
  const auto updates = [&] {
    if (due == 0) return;
    const InStage measured(stage_times_.get(), Stage::learn);
    make_updates(due);
  };
  const auto steps = [&] {
    const InStage measured(stage_times_.get(), Stage::collect);
    const auto span = trace::stage("collect");
    collect_.run([this] { collect(); });
  };
  if (beside_) {
    // a device is asked for both by one thread, and makes the updates while that waits for actions
    try {
      beside_->fork(updates);
      steps();
    } catch (...) {
      // what updates still use is given back to the steps' stream
      beside_->abandon();
      throw;
    }
    beside_->join();
  } else {
    stages_->run(2, [&](int64_t stage) { stage == 1 ? updates() : steps(); });
  }
  // updates add figures as well: not before they are made
  keep_.run([this] { keep_collected(); });
  steps_ += steps_per_iteration();
  if (due > 0) publish_learned();
}

void Trainer::tell(const std::string& order) {
  if (placement_.orders && placement_.orders->rank() == 0) placement_.orders->tell(order);
}

void Trainer::follow(RunTrace& trace) {
  // the first process alone reads what is visited
  ToGive to_give;
  // as the first process counts, from the first window on
  int64_t iteration = 0;
  const auto traced = [&](const auto& work) {
    trace.begin_iteration(iteration);
    work();
    trace.end_iteration(iteration++);
  };
  for (;;) {
    const std::string order = placement_.orders->hear();
    if (order == kWarmUp) traced([&] { warm_up(); });
    else if (order == kIterate)
      traced([&] {
        const auto span = trace::stage("iteration", steps_);
        iterate();
      });
    else if (order == kEndTraces) trace.finish();
    else if (order.starts_with(kTrace)) iteration = trace.follow(order.substr(kTrace.size()));
    else if (order == kFlush) flush();
    else if (order == kExpectSound) expect_sound();
    else if (order == kVisit) to_give.rows.clear(), visit_state(to_give);
    else if (order.starts_with(kGive)) {
      size_t end = 0;
      const int64_t piece = std::stoll(order.substr(kGive.size()), &end);
      to_give.rows.at(order.substr(kGive.size() + end + 1))->get(piece);
    } else {
      MAGLEV_ASSERT(order == kEnd, "the first process says what all know");
      return;
    }
  }
}

void Trainer::trace_others(const std::string& order) { tell(kTrace + order); }

void Trainer::end_traces() { tell(kEndTraces); }

void Trainer::end() { tell(kEnd); }

void Trainer::begin_flush() {
  tell(kFlush);
  report_.begin(steps_);
}

void Trainer::expect_sound() {
  tell(kExpectSound);
  report_.expect_finite(steps_);
  expect_alike();
}

void Trainer::expect_alike() {
  if (!placement_.orders) return;
  ProcessGroup& orders = *placement_.orders;
  const std::string own = state_hash([&](StateVisitor& v) { algo_->visit_state(v); });
  std::string all(own.size() * size_t(orders.size()), '\0');
  orders.gather(own.data(), own.size(), all.data());
  for (int rank = 1; rank < orders.size(); ++rank)
    if (all.compare(size_t(rank) * own.size(), own.size(), all, 0, own.size()) != 0)
      throw Error(
          "[processes] at step " + std::to_string(steps_) + " process " + std::to_string(rank) +
          " has other networks than the first one: what they compute alike rounds otherwise "
          "there, as on another kind of processor. Resume from the newest checkpoint, which "
          "they had alike, on machines of one kind");
}

void Trainer::iterate() {
  tell(kIterate);
  iterate_here();
}

void Trainer::iterate_in_order() {
  if (overlap_) iterate_overlapped();
  else iterate_in_turn();
}

void Trainer::iterate_here() {
  if (capture_after_ < 0) {
    iterate_in_order();
  } else {
    graphs_.on_side_stream([&] {
      iterate_in_order();
      if (updates_ >= capture_after_) capture_graphs();
    });
  }
  show_progress();
}

void Trainer::show_progress() {
  report_.progress().iteration_step.store(0, std::memory_order_relaxed);
  report_.progress().updates_left.store(0, std::memory_order_relaxed);
  report_.progress().step.store(steps_, std::memory_order_relaxed);
}

void Trainer::warm_up() {
  tell(kWarmUp);
  const bool graphs = steps_before_.defined() && placement_.device.is_cuda();
  const int64_t iterations = std::max(experiment_->run.warmup, graphs ? kBeforeCapture : 0);
  if (iterations == 0) return;
  const auto span = trace::stage("warm_up");
  // of a replay only what the steps overwrite, for it may be most of the memory
  const auto visit = [this, steps = iterations * plan_->collect_steps](StateVisitor& v) {
    visit_learner(v);
    store_->visit_ahead(v, steps);
    visit_clocks(v);
  };
  auto before = std::make_unique<const StateSnapshot>(visit);
  report_.progress().warming.store(true, std::memory_order_relaxed);
  const int64_t updates = updates_;
  graphs_.on_side_stream([&] {
    // who is one of several cannot stop alone
    const bool may_stop = stop_ && !placement_.group;
    for (int64_t i = 0; i < iterations && !(may_stop && stop_()); ++i) iterate_here();
    if (graphs && updates_ >= updates + kBeforeCapture) capture_graphs();
  });
  before->restore(visit);
  before.reset();
  if (captured()) release_device_memory();
  // a replay has nothing to learn from in the beginning: its graphs come after its first updates
  if (graphs && graph_note_.empty()) capture_after_ = updates_ + kBeforeCapture;
  finite_->raise_flag();
  report_.restart_clocks();
  show_progress();
  report_.progress().warming.store(false, std::memory_order_relaxed);
}

bool Trainer::all_say(bool mine) {
  if (!placement_.orders) return mine;
  float count = mine;
  placement_.orders->sum(&count, 1);
  return int(count) == placement_.orders->size();
}

bool Trainer::flush_due() const {
  const int64_t since = steps_ - report_.flushed_step(), chosen = experiment_->run.log_every;
  if (chosen > 0) return since >= chosen;
  // of a run that is to go on until somebody stops it there are rows too
  const int64_t most = std::max(kMostRowSteps, kMostRowIterations * steps_per_iteration());
  if (since < std::clamp<int64_t>(experiment_->run.steps / kRowsPerRun, 1, most)) return false;
  // with a replay most iterations of a short run make no update: a row of such says nothing of the
  // run's rate, and has no losses
  if (!plan_->replay || offline() || steps_ < plan_->replay->first_steps ||
      since >= std::min(experiment_->run.steps / kLeastRows, most))
    return true;
  return updates_due(*plan_->replay, steps_) > updates_due(*plan_->replay, report_.flushed_step());
}

bool Trainer::save_due() const { return done() || passed(save_interval()); }

int64_t Trainer::save_interval() const {
  const RunOptions& run = experiment_->run;
  return run.save_every ? run.save_every : std::max<int64_t>(1, run.steps / 10);
}

MetricRow Trainer::flush() {
  begin_flush();
  return *report_.next_row(/*wait=*/true);
}

void Trainer::save_state(StateVisitor& visitor) {
  MAGLEV_ASSERT(visitor.sees_values() && !visitor.loads(), "the others give their rows to it");
  tell(kVisit);
  visit_shared(visitor, [this](const std::string& name, int64_t piece) {
    tell(kGive + std::to_string(piece) + " " + name);
  });
}

void Trainer::visit_state(StateVisitor& visitor) { visit_shared(visitor, {}); }

void Trainer::visit_shared(StateVisitor& visitor, const AllRows::BeforeGet& before_get) {
  report_.settle();
  if (!placement_.group) return visit_all(visitor);
  if (visitor.sees_values() && !visitor.loads()) report_.pool_figures();
  AllRows all(visitor, *placement_.group, before_get);
  visit_all(all);
}

void Trainer::visit_all(StateVisitor& visitor) {
  visit_learner(visitor);
  store_->visit_state(visitor);
  visit_clocks(visitor);
}

void Trainer::visit_learner(StateVisitor& visitor) {
  visitor.section("algo", [&](StateVisitor& v) { algo_->visit_state(v); });
  visitor.section("envs", [&](StateVisitor& v) { envs_->visit_state(v); });
  visitor.section("carry", [&](StateVisitor& v) {
    for (size_t i = 0; i < carry_.parts.size(); ++i) v.rows(std::to_string(i), carry_.parts[i]);
  });
}

void Trainer::visit_clocks(StateVisitor& visitor) {
  visitor.section("trainer", [&](StateVisitor& v) {
    v.count("steps", steps_);
    v.count("updates", updates_);
    v.count("owed_updates", owed_);
    report_.visit_state(v);
  });
  if (league_) visitor.section("league", [&](StateVisitor& v) { league_->visit_state(v); });
  if (steps_before_.defined()) {
    steps_before_.fill_(time_steps());
    updates_before_.fill_(updates_);
  }
  // a visit may have loaded
  algo_->publish();
  if (league_) league_->publish();
}

}  // namespace maglev
