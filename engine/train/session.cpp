#include "engine/train/session.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <ctime>
#include <limits>
#include <thread>
#include <unistd.h>
#include <utility>

#include <ATen/ATen.h>
#include <c10/util/Exception.h>

#include "base/core/clock.h"
#include "base/core/error.h"
#include "base/core/printed.h"
#include "base/core/thread_pool.h"
#include "base/core/words.h"
#include "base/simd/pairs.h"
#include "base/trace/span.h"
#include "engine/algo/micro_batch.h"
#include "engine/device/device.h"
#include "engine/device/refusal.h"
#include "engine/host/build_text.h"
#include "engine/host/cpu_cache.h"
#include "engine/run/env_title.h"
#include "engine/train/action_shares.h"
#include "engine/train/first_update.h"
#include "engine/train/memory_plan.h"
#include "engine/train/recorded_run.h"
#include "engine/train/session_sinks.h"
#include "engine/train/store.h"
#include "engine/train/timed.h"

namespace maglev {
namespace {

// run.json is at most so old while rows of metrics come
constexpr double kBetweenStatus_s = 10;
// and where train.save_every says nothing the last save, if saving is no large part of the time
constexpr double kSaveOverdue_s = 600;

std::string figure_text(double x) { return printed("%.4g", x); }

// "2 threads", "4 processes of 1 thread", "4 processes on 2 machines, each of 1 thread"
std::string workers_text(const Placement& placement) {
  const std::string threads = counted(placement.threads, "thread");
  if (placement.processes == 1) return threads;
  const std::string processes = std::to_string(placement.processes) + " processes";
  if (placement.machines == 1) return processes + " of " + threads;
  return processes + " on " + std::to_string(placement.machines) + " machines, each of " + threads;
}

// the first tensor of a state that holds a number that is not finite
class NonFinite : public PartialVisitor {
 public:
  std::string name;

 private:
  void visit_tensor(const std::string& tensor, at::Tensor& value) override {
    if (name.empty() && at::isFloatingType(value.scalar_type()) &&
        !at::isfinite(value).all().item<bool>())
      name = tensor;
  }
};

std::vector<PastRow> past_rows(const std::string& dir, int64_t until) {
  std::vector<PastRow> rows;
  for (const SinkEntry& sink : sink_table()) {
    if (!sink.read_back || !rows.empty()) continue;
    try {
      sink.read_back(dir, [&](const PastRow& row) {
        if (row.step <= until) rows.push_back(row);
      });
    } catch (const Error&) {
      // a chart is not worth a run
    }
  }
  return rows;
}

// bytes that the process may come to hold beside what it has, and all that a device may
Monitor::Planned planned_bytes(const MemoryPlan& plan, bool cuda) {
  return {.host = plan.pinned + (cuda ? 0 : plan.total() - plan.programs),
          .device = cuda ? plan.total() : 0};
}

// as many processes as step environments at most; 0: they have no such setting
int64_t most_workers(const Experiment& experiment) {
  const auto& fields = experiment.table().fields();
  const auto workers = std::ranges::find(fields, "env.workers", &Field::name);
  return workers == fields.end() ? 0 : int64_t(workers->rule.max);
}

// rows of which as many threads have a block each
int64_t rows_for(int threads, const DataPlan& plan, int64_t agents) {
  int64_t rows = agents;
  while ((rows - 1) / plan.block_of(rows, agents) + 1 < threads) rows *= 2;
  return rows;
}

// what may be advised
Load free_to_use(Trainer& trainer, const Hooks& hooks) {
  const RunOptions& run = trainer.experiment().run;
  const Placement& placement = trainer.placement();
  const DataPlan& plan = trainer.algorithm().plan();
  const bool cuda = placement.device.is_cuda(), graph = run.graph.value_or(true);
  // as Trainer::capture_graphs() has it
  const bool capturable = plan.capturable && !hooks.epoch;
  return {.most_workers = most_workers(trainer.experiment()),
          .threads = placement.threads,
          .usable = usable_cpus(),
          .on_device = cuda,
          .host_steps = cuda && trainer.envs().transfers(),
          .launches = cuda && !(capturable && graph),
          .may_capture = cuda && capturable && !graph,
          .rows = trainer.envs().rows(),
          .block_rows = plan.block_of(trainer.envs().rows(), trainer.envs().agents()),
          .agents = trainer.envs().agents(),
          .busy_rows = rows_for(placement.threads, plan, trainer.envs().agents()),
          .processes = placement.processes,
          .may_overlap = plan.may_overlap() && run.dataset.empty() && !run.overlap,
          .may_round = placement.precision == Precision::fp32 && plan.offers(Precision::bf16) &&
                       (cuda || pair_products_available()),
          .for_more_threads = plan.for_more_threads,
          .saves_to_evaluate = run.eval_every > 0 && run.eval_every < trainer.save_interval()};
}

}  // namespace

Session::Session(Trainer& trainer, RunDir& dir, const RunRequest& request, RunTrace& trace,
                 int64_t resumed_at)
    : trainer_(trainer),
      dir_(dir),
      trace_(trace),
      resumed_at_(resumed_at),
      saved_step_(std::max<int64_t>(0, resumed_at)),
      store_(dir.path(), int(trainer.experiment().run.keep)),
      writer_(open(request)),
      plan_(plan_memory(trainer.experiment(), trainer.placement())),
      limit_(tensor_limit(plan_, trainer.experiment(), trainer.placement())),
      gpu_(options().monitor_every > 0 ? meter_of(trainer.placement().device) : nullptr),
      monitor_(
          options().monitor_every, planned_bytes(plan_, trainer.placement().device.is_cuda()),
          free_to_use(trainer, request.hooks), [] { return sample_usage(); },
          [cuda = trainer.placement().device.is_cuda()] { return tensor_memory(cuda); },
          gpu_ ? [this] { return gpu_->sample(); } : std::function<GpuUsage()>(),
          [this] {
            const TensorMemory tensors = tensor_memory(trainer_.placement().device.is_cuda());
            return held_now(tensors.device_reserved > 0 ? tensors.device : tensors.host).parts();
          }),
      hooks_(request.hooks) {
  const Experiment& experiment = trainer.experiment();
  status_ = {.algo = experiment.algo().name,
             .env = experiment.env().name,
             .state = "running",
             .steps = trainer.step(),
             .total_steps = options().steps,
             .started = double(std::time(nullptr)),
             .env_title = env_title(experiment),
             .plugins = plugins_named(),
             .labels = ActionShares::labels(experiment.spec().action)};
  if (resumed_at >= 0) {
    try {
      status_.started = read_status(dir.path()).started;
    } catch (const Error&) {
      // a damaged one is written anew
    }
  }
  dir_.write_status(status_);
  trace_.attach(dir_.path(), recorded_run(trainer, dir_.path()));
  const int64_t each = trainer.steps_per_iteration();
  trace_.expect((options().steps + each - 1) / each);
  trainer_.stop_when([] { return SignalGuard::leave(); });
  if (trainer.placement().device.is_cuda()) reset_device_peak(), keep_refusals();
  // before warm-up, which would capture updates that are to be watched; its own are not told
  if (hooks_.epoch) trainer_.report().metrics().watch([](int64_t, const Figures&) {});
}

MetricWriter Session::open(const RunRequest& request) {
  const Experiment& experiment = trainer_.experiment();
  const Placement& placement = trainer_.placement();
  RunInfo info{.dir = dir_.path(),
               .algo = experiment.algo().name,
               .env = env_title(experiment),
               .device = placement.device.str() + ", " + workers_text(placement) + ", " +
                         name_of(placement.precision),
               .total_steps = options().steps,
               .seeding_steps = trainer_.report().progress().seeding_steps,
               .settled_episodes = trainer_.report().settled_episodes(),
               .resumed_at = resumed_at_,
               .plays = options().dataset.empty(),
               .options_yaml = experiment.table().yaml(),
               .past = {}};
  if (resumed_at_ >= 0) info.past = past_rows(dir_.path(), resumed_at_);
  // before the writer's thread looks
  trainer_.report().progress().leaving = &SignalGuard::leave;
  return MetricWriter(open_sinks(info, sinks_for(request)), &trainer_.report().progress());
}

std::vector<std::string> Session::sinks_for(const RunRequest& request) {
  std::vector<std::string> names = request.sinks;
  if (names.empty() && resumed_at_ >= 0) names = chosen_sinks(dir_.path());
  if (!request.sinks.empty()) {
    dir_.write(kSinksFile, sinks_text(names));
    return names;
  }
  const bool kept = !names.empty();
  for (const SinkEntry& sink : sink_table()) {
    // seeds and trials are begun without the console, which whoever resumes one looks at
    const bool wanted = kept ? sink.name == std::string_view("console") : sink.on_by_default;
    if (wanted && std::ranges::find(names, sink.name) == names.end()) names.emplace_back(sink.name);
  }
  if (kept)
    sinks_note_ = "metrics go to " + joined(names) + ", as sinks.txt has it; --sinks names others";
  return names;
}

RunOutcome Session::run() {
  try {
    watch_for_stalls();
    held_ = held_now(0);
    if (!sinks_note_.empty()) say(sinks_note_);
    tell_traces();
    if (resumed_at_ >= 0 && trainer_.forgets_replay())
      say("the replay was not saved (train.save_replay=false): it begins empty");
    warm_up();
    loop();
    if (SignalGuard::signalled())
      log(SignalGuard::asked_by() + ": the run stops at step " + by_thousands(trainer_.step()));
    // the last checkpoints are judged and the last row is shown
    evaluate(/*wait=*/true);
    trainer_.end_traces();
    trace_.finish();
    tell_traces();
    if (trainer_.step() != trainer_.report().flushed_step()) trainer_.begin_flush();
    push(/*wait=*/true);
    look_for_divergence();
    if (trainer_.done() && !reached_) tell_what_never_came();
    // what a signal left unjudged is made up for by a resume
    const bool judged = !evaluation_ || (unjudged_.empty() && !evaluation_->running());
    const bool finished = (trainer_.done() && judged) || outcome_ == RunOutcome::finished;
    end(finished ? "finished" : "stopped", status_.message);
    if (finished && outcome_ != RunOutcome::diverged) outcome_ = RunOutcome::finished;
  } catch (const std::exception& e) {
    // what it did last is seen where it was being traced; a trace that fails too hides no reason
    try {
      trainer_.end_traces();
      trace_.finish();
      tell_traces();
    } catch (const std::exception&) {
    }
    // where it was thrown in torch is for the log: people read what it says
    const auto* of_torch = dynamic_cast<const c10::Error*>(&e);
    if (of_torch) log(e.what());
    if (of_torch && is_out_of_memory(*of_torch)) {
      const std::string text = tell_out_of_memory(*of_torch);
      end("failed", text);
      throw Error(text);
    }
    end("failed", of_torch ? status_.algo + ": " + of_torch->what_without_backtrace() : e.what());
    throw;
  }
  // whatever it does, the run is as it ended
  if (hooks_.training_end) hooks_.training_end(trainer_);
  return outcome_;
}

void Session::warm_up() {
  if (options().warmup > 0)
    say("warming up: " + by_thousands(options().warmup) + " iterations, undone afterwards");
  begin_traced(0);
  const double begin_s = steady_s();
  trainer_.warm_up();
  const double took_s = steady_s() - begin_s;
  trace_.end_iteration(0);
  // what people wait for before the first step; graphs want a warm-up that nobody asked for
  constexpr double kLong_s = 1;
  if (took_s >= kLong_s) say(printed("warming up took %.1f s", took_s));
}

void Session::loop() {
  if (options().eval_every > 0) {
    evaluation_ = std::make_unique<Evaluation>(trainer_.experiment(), trainer_.placement());
    // what an earlier session saved and did not live to judge
    unjudged_ = store_.unjudged();
  }
  begin_hooks();
  // step 0 is saved too: a disk that cannot hold a checkpoint says so now and not after an hour
  if (trainer_.step() == 0) save(/*must=*/true);
  while (!over()) {
    // what a session that was stopped within an iteration has left is a part of the next one
    const int64_t number = iteration();
    if (SignalGuard::take_trace()) trace_.ask();
    begin_traced(number);
    const double begin_s = steady_s();
    iterate();
    const double took_s = steady_s() - begin_s;
    stall_->iteration(took_s);
    trainer_.report().progress().iteration_s = took_s;
    if (trainer_.updates() > 0 && !std::exchange(measured_, true)) measure_memory();
    trace_.end_iteration(number);
    tell_traces();
  }
}

void Session::watch_for_stalls() {
  // the line comes from a thread of the watch's own
  StallWatch::Asks asks{.say =
                            [this](const std::string& text) {
                              writer_.tell(text);
                              log(text);
                            },
                        .end = [] { ::_exit(kStalled); }};
  if (const at::Device device = trainer_.placement().device; device.is_cuda())
    asks.device = [index = device.index(), stream = current_stream()] {
      return stream_text(index, stream);
    };
  stall_.emplace(StallWatch::Limits{.tell_s = options().stall, .end_s = options().stall_end},
                 std::move(asks));
}

HeldMemory Session::held_now(int64_t tensors) {
  return held_memory(trainer_, tensors, sample_usage().resident);
}

void Session::measure_memory() {
  const bool cuda = trainer_.placement().device.is_cuda();
  held_ = held_now(cuda ? device_memory().peak_in_use : cpu_cache_bytes());
  log("memory: " + held_text(held_, plan_));
  try {
    dir_.write("memory.json", json_with(plan_, held_));
  } catch (const Error&) {
    // a file that says what people read already is not worth a run
  }
}

std::string Session::tell_out_of_memory(const c10::Error& error) {
  const bool cuda = trainer_.placement().device.is_cuda();
  const std::optional<Refusal> refusal = cuda ? last_refusal() : std::nullopt;
  const std::string blocks = refusal ? keep_blocks(refusal->blocks, dir_.path()) : "";
  // by part as it was before: a device that has no memory left is asked for none
  HeldMemory held = held_;
  held.tensors = refusal ? refusal->in_use : cuda ? device_memory().in_use : cpu_cache_bytes();
  return out_of_memory_text(error, held, trainer_.experiment(), trainer_.placement()) + blocks;
}

void Session::begin_traced(int64_t iteration) {
  trace_.begin_iteration(iteration);
  if (const auto order = trace_.take_order()) trainer_.trace_others(*order);
}

void Session::iterate() {
  const auto span = trace::stage("iteration", trainer_.step());
  say_notes();
  if (hooks_.iteration_start) {
    const auto hook = trace::stage("hook iteration_start");
    Timed timed(monitor_.beside().hooks);
    hooks_.iteration_start(trainer_.step());
  }
  trainer_.iterate();
  tell_episodes();
  flush();
  look_for_divergence();
  look_for_return();
  // one evaluation at a time: another that is due waits for the one before
  evaluate(/*wait=*/evaluation_due());
  // rows are shown after the save, so that a run which goes on from it flushes where an unbroken
  // one does
  const bool asked = SignalGuard::take_save();
  const bool due = over() || asked || evaluation_due() || trainer_.save_due();
  if (due || save_overdue()) save(/*must=*/over(), /*between=*/!due);
}

bool Session::save_overdue() const {
  // ten a run are too few of one that takes days; a save takes a fiftieth of the time at most
  return options().save_every == 0 &&
         steady_s() - saved_s_ >= std::max(kSaveOverdue_s, 50 * save_took_s_);
}

void Session::flush() {
  const auto span = trace::stage("flush");
  Timed timed(monitor_.beside().logging);
  if (trainer_.flush_due()) {
    try {
      look_after_folder();
    } catch (const RunDir::Taken&) {
      throw;
    } catch (const Error& e) {
      // rows go where the folder went, and a save may come to find it back
      if (!std::exchange(unsaved_, true))
        say(std::string(e.what()) + "; training goes on and tries again");
    }
    trainer_.begin_flush();
  }
  push(/*wait=*/false);
}

void Session::say_notes() {
  // with a replay graphs come after the first updates
  if (graph_note_ != trainer_.graph_note()) say(graph_note_ = trainer_.graph_note());
  const std::string note = trainer_.algorithm().note();
  if (algorithm_note_ != note) say(algorithm_note_ = note);
}

void Session::tell_traces() {
  for (const std::string& note : trace_.take_notes()) say(note);
}

void Session::say(const std::string& text) {
  writer_.note(text);
  log(text);
}

void Session::log(const std::string& text) {
  // where it was another run may be now
  if (!dir_.in_place()) return;
  try {
    dir_.log(text);
  } catch (const Error&) {
    // the console and run.json have what matters
  }
}

void Session::warn(const std::string& text) {
  writer_.warn(text);
  log(text);
  remember(text);
  tell_status();
}

void Session::remember(const std::string& text) {
  status_.message += (status_.message.empty() ? "" : "; ") + text;
}

void Session::push(bool wait) {
  while (auto row = trainer_.report().next_row(wait)) {
    monitor_.add_to(*row);
    constexpr double kHour_s = 3600;
    if (options().price > 0)
      row->values.emplace_back("machine/cost", options().price * row->seconds / kHour_s);
    if (!row->bound_by.empty()) status_.bound_by = row->bound_by;
    if (hooks_.row) {
      const auto hook = trace::stage("hook row");
      hooks_.row(*row);
    }
    writer_.push(std::move(*row));
  }
  if (const std::string grown = monitor_.take_warning(); !grown.empty()) warn(grown);
  // who lists runs sees how this one stands, also between checkpoints
  if (steady_s() - told_s_ >= kBetweenStatus_s) tell_status();
}

void Session::begin_hooks() {
  if (hooks_.epoch)
    trainer_.report().metrics().watch([this](int64_t epoch, const Figures& figures) {
      const auto hook = trace::stage("hook epoch");
      double took = 0;
      {
        Timed timed(took);
        hooks_.epoch(epoch, figures);
      }
      monitor_.beside().hooks += took, monitor_.beside().hooks_in_learn += took;
    });
  if (hooks_.episodes && options().dataset.empty()) episodes_.emplace(trainer_.envs());
  told_step_ = trainer_.step();
  if (hooks_.folder) hooks_.folder(dir_.path());
  if (hooks_.training_start) hooks_.training_start(trainer_);
}

void Session::tell_episodes() {
  // an iteration that was cut short by a signal, between updates it owes, has collected nothing
  if (!episodes_ || trainer_.step() == told_step_) return;
  told_step_ = trainer_.step();
  const auto finished = episodes_->read(trainer_.store().window(), told_step_);
  if (finished.empty()) return;
  const auto hook = trace::stage("hook episodes");
  Timed timed(monitor_.beside().hooks);
  hooks_.episodes(finished);
}

bool Session::evaluation_due() const {
  return evaluation_ && trainer_.step() > 0 &&
         (trainer_.done() || reached_ || trainer_.passed(options().eval_every));
}

void Session::evaluate(bool wait) {
  if (!evaluation_) return;
  do {
    take_verdict(wait);
    if (evaluation_->running() || unjudged_.empty() || SignalGuard::leave()) return;
    evaluation_->begin(unjudged_.front());
    unjudged_.erase(unjudged_.begin());
  } while (wait);
}

void Session::take_verdict(bool wait) {
  using namespace std::chrono_literals;
  if (wait && evaluation_->running()) {
    trace_.excuse();
    const auto span = trace::wait("evaluation", "pool");
    Timed timed(monitor_.beside().evaluating);
    // a signal does not wait for it
    while (!evaluation_->ended() && !SignalGuard::leave()) std::this_thread::sleep_for(2ms);
  }
  const auto verdict = evaluation_->take();
  if (!verdict) return;
  const std::string of = "the evaluation of step " + by_thousands(verdict->row.step);
  if (verdict->failure.empty()) {
    say(of + ": mean return " + figure_text(verdict->return_mean) +
        (verdict->note.empty() ? "" : "; " + verdict->note));
    writer_.push(verdict->row);
    // the row is there before the verdict is: a run that is killed in between evaluates again
    writer_.flush();
  } else {
    say("no verdict of " + of + ": " + verdict->failure);
  }
  try {
    store_.judge(verdict->checkpoint, verdict->return_mean);
  } catch (const Error& e) {
    say(e.what());
  }
  reach(verdict->return_mean, of);
}

void Session::look_for_return() {
  // evaluations, where there are any, decide alone
  if (!evaluation_)
    reach(trainer_.report().settled_return_mean(),
          "the mean of " + by_thousands(trainer_.report().settled_episodes()) + " episodes");
}

void Session::reach(double mean, const std::string& what) {
  // an infinite return reaches nothing, nor is infinity reached
  if (ending_ || !std::isfinite(mean) || !(mean >= options().until_return)) return;
  ending_ = reached_ = true;
  outcome_ = RunOutcome::finished;
  const std::string text = what + ", " + figure_text(mean) +
                           ", reached train.until_return=" + figure_text(options().until_return);
  writer_.ends_early(text);
  log(text + ": the run ends at step " + by_thousands(trainer_.step()));
  remember(text);
}

void Session::look_for_divergence() {
  if (warned_ || trainer_.report().divergence().empty()) return;
  warned_ = true;
  trace_.diverged();
  NonFinite state;
  state.section("algo", [&](StateVisitor& v) { trainer_.algorithm().visit_state(v); });
  std::string text = "learning has diverged by step " + by_thousands(trainer_.step()) + ": " +
                     trainer_.report().divergence();
  if (!state.name.empty()) text += "; '" + state.name + "' holds a number that is not finite";
  text += "; earlier checkpoints are as they were, a lower learning rate may help";
  warn(text);
  if (options().on_divergence != OnDivergence::stop) return;
  ending_ = true;
  outcome_ = RunOutcome::diverged;
}

void Session::tell_what_never_came() {
  const Report& report = trainer_.report();
  const auto& replay = trainer_.algorithm().plan().replay;
  // beside the last iteration's steps those of the one before are made
  const int64_t asked = trainer_.step() - (options().overlap ? trainer_.steps_per_iteration() : 0);
  const int64_t due = replay && options().dataset.empty() ? updates_due(*replay, asked) : 0;
  const int64_t missed = due - trainer_.updates();
  if (trainer_.updates() == 0) {
    std::string why = why_no_update(trainer_.experiment(), trainer_.placement());
    if (why.empty() && missed > 0) why = "the replay never held a sequence to learn from";
    warn("no update was made: nothing was learned" + (why.empty() ? "" : ": " + why));
  } else if (missed > 0) {
    warn(by_thousands(missed) + " of " + by_thousands(due) +
         " updates that were due were not made: the replay held no sequence to learn from");
  }
  if (options().until_return < std::numeric_limits<double>::infinity() && !evaluation_ &&
      !std::isfinite(report.settled_return_mean()))
    warn("train.until_return was never asked: it is the mean of " +
         by_thousands(report.settled_episodes()) +
         " episodes, and the run had fewer; train.eval_every judges checkpoints instead");
}

void Session::look_after_folder() {
  if (dir_.in_place()) return;
  const std::string moved = dir_.remake();
  // sinks write where the old folder went
  writer_.reopen();
  warn("the run's folder was " + (moved.empty() ? std::string("deleted") : "moved to " + moved) +
       " while it trained; it was made anew at " + dir_.path());
}

void Session::tell_status() {
  status_.steps = trainer_.step();
  status_.return_mean = trainer_.report().return_mean();
  told_s_ = steady_s();
  // where it was another run may be now
  if (!dir_.in_place()) return;
  try {
    dir_.write_status(status_);
    status_trouble_.clear();
  } catch (const Error& e) {
    if (status_trouble_ != e.what()) writer_.note(e.what());
    status_trouble_ = e.what();
  }
}

void Session::end(const std::string& state, const std::string& message) {
  stall_.reset();
  status_.state = state;
  status_.message = message;
  status_.ended = double(std::time(nullptr));
  tell_status();
  // sinks are told as they close, and whoever began the run by what is thrown
  if (state == "failed") log(message);
  writer_.close(state == "failed" ? message : state);
}

}  // namespace maglev
