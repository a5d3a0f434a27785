#include "verbs/sweep/work.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <list>
#include <set>
#include <thread>
#include <utility>

#include <nlohmann/json.hpp>

#include "base/core/error.h"
#include "base/core/file.h"
#include "base/metrics/rows.h"
#include "engine/run/checkpoint_store.h"
#include "engine/run/run_dir.h"
#include "engine/run/several_runs.h"
#include "verbs/child.h"
#include "verbs/side_by_side.h"
#include "verbs/status_line.h"
#include "verbs/sweep/ending.h"
#include "verbs/sweep/report.h"
#include "verbs/train/seeds.h"

namespace maglev::verbs::sweep {
namespace {

using Clock = std::chrono::steady_clock;
using search::TrialState;

constexpr auto kPoll = std::chrono::milliseconds(100);
// of the time a look at metrics that grow may take
constexpr double kShareOfLooks = 0.02;
constexpr size_t kMaxSeedsBytes = 1 << 20;
constexpr uint64_t kNoRoomBytes = 64 << 10;
constexpr int64_t kMostKills = 4;  // of one trial

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

// one trial in training
struct Job {
  Claim claim;
  std::string gpu;  // that the child sees; empty: all
  Child child;
  Clock::time_point began, next_look = began;  // next_look: at its metrics
  bool told = false;                           // to stop at its rung
  Clock::time_point next_word = began;         // at what it says
  bool waits = false;                          // and people were told
};

class Worker {
 public:
  Worker(Board& board, const Experiment& experiment, const WorkOptions& options)
      : board_(board),
        options_(options),
        figure_(experiment.run.eval_every > 0 ? "eval/return_mean" : "return_mean"),
        evaluates_(experiment.run.eval_every > 0) {
    side_ =
        side_by_side(experiment, options.parallel > 0 ? options.parallel : board.request().trials);
    // what was asked for holds, also where it is more than the machine has threads
    if (options.parallel > 0) side_.at_once = options.parallel;
  }

  RunOutcome run() {
    try {
      return try_all();
    } catch (const std::exception&) {
      // whatever is wrong here, what trains saves before it ends
      for (Job& job : jobs_) job.child.signal(SIGTERM);
      for (Job& job : jobs_) job.child.wait();
      throw;
    }
  }

 private:
  RunOutcome try_all() {
    PassedSignals signals;
    while (!signals.ending()) {
      try {
        while (int64_t(jobs_.size()) < side_.at_once && start()) {
        }
      } catch (const Error& error) {
        // those that train are not ended for it
        if (in_the_way_.empty()) in_the_way_ = error.what();
      }
      if (jobs_.empty() && (closed() || board_.done(put_off_))) break;
      const bool ended = look(signals);
      show();
      // between two trials others would take it for one that has ended
      if (!ended) std::this_thread::sleep_for(kPoll);
    }
    // those that were told save and end; what they trained is gone on with
    while (!jobs_.empty()) {
      look(signals);
      std::this_thread::sleep_for(kPoll);
    }
    line_.clear();
    if (!in_the_way_.empty()) throw Error(in_the_way_);
    return signals.ending() ? RunOutcome::stopped : RunOutcome::finished;
  }

  // no new trial begins
  bool closed() const {
    return seconds_since(began_) >= options_.budget_s || best_ >= options_.until ||
           !in_the_way_.empty();
  }

  bool start() {
    best_ = -std::numeric_limits<double>::infinity();
    for (const BoardTrial& row : board_.trials())
      if (row.trial.state == TrialState::finished) best_ = std::max(best_, row.trial.score);
    if (closed()) return false;
    auto claim = board_.claim(/*begin_new=*/true, put_off_);
    if (!claim) return false;
    // another worker may have ended before it could say so; and what trained in one go may have
    // reached further than it was told to
    const std::string folder = board_.folder_of(claim->task.trial.number);
    const bool finished = has_finished(folder + "/run");
    if (finished || (board_.request().asha && at_its_rung(claim->task))) {
      count_cost(claim->task);
      finished ? finish(claim->task) : stop_at_rung(claim->task);
      board_.record(*claim);
      say(claim->task);
      return true;
    }
    // a sampler may propose what was tried
    if (const auto same = board_.tried(claim->task)) {
      BoardTrial& task = claim->task;
      task.trial.state = same->trial.state;
      task.trial.score = same->trial.score, task.trial.cost = same->trial.cost;
      task.same_as = same->trial.number;
      task.message = "the settings of trial " + std::to_string(task.same_as) +
                     (task.trial.state == TrialState::unscored ? "" : ", and its score");
      board_.record(*claim);
      say(task);
      return true;
    }
    const std::vector<std::string> words = words_of(claim->task);
    std::vector<std::string> held;
    for (const Job& job : jobs_) held.push_back(job.gpu);
    const std::string gpu = next_gpu(side_.gpus, held);
    jobs_.push_back({std::move(*claim), gpu, Child(words, folder + "/log.txt", gpu), Clock::now()});
    return true;
  }

  std::vector<std::string> words_of(const BoardTrial& task) const {
    const SweepRequest& request = board_.request();
    const std::string run = board_.folder_of(task.trial.number) + "/run";
    std::vector<std::string> words{"train"};
    if (is_seeds(run) || has_checkpoint(run)) {
      words.insert(words.end(), {"--resume", run});
    } else {
      // it never came to a checkpoint
      if (path_exists(run)) remove_tree(run);
      words.insert(words.end(), {request.algo, request.env, "--bare", "--config",
                                 settings_file(task), "--out", run});
      for (const std::string& setting : board_.settings_of(task.trial.values))
        words.push_back(setting);
      if (task.trial.parent >= 0)
        words.push_back("train.init_from=" + board_.folder_of(task.trial.parent) + "/run");
      words.push_back("threads=" + std::to_string(side_.threads));
      if (request.seeds > 1) words.insert(words.end(), {"--seeds", std::to_string(request.seeds)});
    }
    words.insert(words.end(), {"--sinks", "jsonl"});
    return words;
  }

  // the trial's settings, written; where they contradict each other it says so itself
  std::string settings_file(const BoardTrial& task) const {
    std::string settings;
    try {
      settings = options_.resolved(board_.settings_of(task.trial.values));
    } catch (const Error&) {
      return board_.folder() + "/settings.yaml";
    }
    const std::string path = board_.folder_of(task.trial.number) + "/settings.yaml";
    write_atomic(path, settings);
    return path;
  }

  // whether one has ended
  bool look(PassedSignals& signals) {
    signals.pass_on([&](int signal) {
      for (Job& job : jobs_) job.child.signal(signal);
    });
    if (signals.ending() && !jobs_.empty() && !std::exchange(told_, true)) {
      line_.clear();
      std::fprintf(stderr, "maglev: %s\n", kStopping);
    }
    const size_t before = jobs_.size();
    for (auto job = jobs_.begin(); job != jobs_.end();) {
      if (job->child.running()) {
        // at the rung it was promoted to it waits until it is promoted further
        if (board_.request().asha && !job->told && look_due(*job) && looked_at_rung(*job)) {
          job->child.signal(SIGTERM);
          job->told = true;
        }
        tell_of_waiting(*job);
        ++job;
      } else {
        end(*job, signals.ending());
        job = jobs_.erase(job);
      }
    }
    return jobs_.size() < before;
  }

  // one that waits, for room on the disk, looks like one that hangs
  void tell_of_waiting(Job& job) {
    constexpr auto kEvery = std::chrono::seconds(2);
    if (job.waits || Clock::now() < job.next_word) return;
    job.next_word = Clock::now() + kEvery;
    const int64_t number = job.claim.task.trial.number;
    const std::string said = train::last_line(board_.folder_of(number) + "/log.txt");
    job.waits = said.find(kTriedAgain) != said.npos;
    if (!job.waits) return;
    line_.clear();
    std::fprintf(stderr, "trial %ld waits: %s\n", long(number), said.c_str());
  }

  // scores at the rungs that the run's metrics have reached: of each the first one from it on
  std::vector<double> rungs_reached(int64_t number) const {
    const std::vector<int64_t>& rungs = board_.request().asha->rungs;
    std::vector<double> scores;
    each_metric_row(board_.folder_of(number) + "/run", [&](const MetricReader& row) {
      const double value = row.value(figure_);
      if (!std::isfinite(value)) return;
      while (scores.size() < rungs.size() && row.step() >= double(rungs[scores.size()]))
        scores.push_back(value);
    });
    return scores;
  }

  // its metrics grow, and with them what reading them takes
  static bool look_due(const Job& job) { return Clock::now() >= job.next_look; }

  bool at_its_rung(const BoardTrial& task) const {
    return task.promoted < int64_t(board_.request().asha->rungs.size()) &&
           int64_t(rungs_reached(task.trial.number).size()) >= task.promoted;
  }
  bool looked_at_rung(Job& job) const {
    const auto begin = Clock::now();
    const bool reached = at_its_rung(job.claim.task);
    const auto took = Clock::now() - begin;
    job.next_look = begin + std::chrono::duration_cast<Clock::duration>(took / kShareOfLooks);
    return reached;
  }

  // scores up to the rung it was promoted to
  void take_rungs(BoardTrial& task) const {
    task.trial.rungs = rungs_reached(task.trial.number);
    if (int64_t(task.trial.rungs.size()) > task.promoted)
      task.trial.rungs.resize(size_t(task.promoted));
  }

  void stop_at_rung(BoardTrial& task) const {
    take_rungs(task);
    task.trial.score = task.trial.rungs.back();
    task.trial.state = TrialState::stopped;
  }

  // what it trained before a worker was killed counts too: the run knows
  void count_cost(BoardTrial& task) const {
    double& cost = task.trial.cost;
    each_metric_row(board_.folder_of(task.trial.number) + "/run", [&](const MetricReader& row) {
      if (const double seconds = row.value("seconds"); seconds > cost) cost = seconds;
    });
  }

  void finish(BoardTrial& task) const {
    search::SearchTrial& trial = task.trial;
    trial.score = score_of(board_.folder_of(trial.number) + "/run");
    trial.state = std::isfinite(trial.score) ? TrialState::finished : TrialState::unscored;
    if (trial.state == TrialState::unscored)
      task.message = std::string("no episode ") + (evaluates_ ? "of its evaluations " : "") +
                     "ended: it has no score, and may be the best";
    if (!board_.request().asha) return;
    trial.rungs = rungs_reached(trial.number);
    if (trial.state == TrialState::unscored) return;
    // the last rung is the end
    trial.rungs.resize(board_.request().asha->rungs.size() - 1, trial.score);
    trial.rungs.push_back(trial.score);
    task.promoted = int64_t(trial.rungs.size());
  }

  // `ending`: a run that was told to end may have heard of it before it could save
  void end(Job& job, bool ending) {
    BoardTrial& task = job.claim.task;
    search::SearchTrial& trial = task.trial;
    const int status = job.child.wait();
    trial.cost += seconds_since(job.began);
    count_cost(task);
    const std::string folder = board_.folder_of(trial.number);
    // told to stop before it listened, or behind its end
    const bool unheard = job.told && status == 128 + SIGTERM;
    if (status == 0 || (unheard && has_finished(folder + "/run"))) {
      finish(task);
    } else if (unheard || (job.told && status == train::kStopped)) {
      stop_at_rung(task);
    } else {
      if (board_.request().asha) take_rungs(task);
      if (!ending) cut_off(task, status);
    }
    try {
      board_.record(job.claim);
    } catch (const Error& error) {
      // it stands there as running, and others that train are not ended for it
      if (in_the_way_.empty()) in_the_way_ = error.what();
      return;
    }
    say(task);
  }

  // what says nothing of its settings is not told to the sampler: it runs, and is gone on with
  void cut_off(BoardTrial& task, int status) {
    const std::string folder = board_.folder_of(task.trial.number);
    const std::string said = train::last_line(folder + "/log.txt");
    const std::string killed = train::killed_text(status);
    task.message = status == train::kStopped ? "somebody else stopped it"
                   : !killed.empty()         ? killed
                   : !said.empty()           ? said
                                             : "it ended with status " + std::to_string(status);
    const std::string trial = "trial " + std::to_string(task.trial.number);
    std::string then;
    switch (status_cause(status, said)) {
      case Cause::trial:
        task.trial.state = TrialState::failed;
        // a crash may have been told before it came
        if (!said.empty()) task.message = said + (killed.empty() ? "" : "; it " + killed);
        return;
      case Cause::outside:
        // what kills it each time, such as a lack of memory, would keep this one busy for ever, and
        // the sweep from its end
        if (++task.killed == kMostKills) {
          task.trial.state = TrialState::failed;
          task.message += ", " + std::to_string(kMostKills) + " times";
          return;
        }
        if (!again_.insert(task.trial.number).second) put_off_.insert(task.trial.number);
        then = put_off_.contains(task.trial.number) ? "the same command goes on with it later"
                                                    : "it goes on";
        break;
      case Cause::disk:
        in_the_way_ = "[sweep] the disk is full, and " + trial + " was cut off: " + task.message +
                      "; with room there the same command goes on";
        then = "no more trials begin";
        break;
    }
    line_.clear();
    std::fprintf(stderr, "%s was cut off: %s; %s\n", trial.c_str(), task.message.c_str(),
                 then.c_str());
  }

  // a log that has no room says nothing
  Cause status_cause(int status, const std::string& said) const {
    const Cause cause = cause_of(status, said);
    return cause == Cause::trial && free_bytes(board_.folder()) < kNoRoomBytes ? Cause::disk
                                                                               : cause;
  }

  // as `train --seeds` sums up: evaluations where there are any, else the return of training
  double score_of(const std::string& run) const {
    if (is_seeds(run)) {
      const auto json = nlohmann::json::parse(read_file(run + "/seeds.json", kMaxSeedsBytes));
      // a mean over some of them would leave out just those that never failed
      for (const auto& seed : json.at("seeds"))
        if (seed.at(evaluates_ ? "evaluation" : "return").is_null()) return NAN;
      return json.contains("mean") ? json["mean"].get<double>() : NAN;
    }
    return evaluates_ ? train::last_evaluation(run) : read_status(run).return_mean;
  }

  void say(const BoardTrial& task) {
    if (task.trial.state == TrialState::running) return;
    line_.clear();
    std::string settings;
    const auto& dimensions = board_.request().space.dimensions();
    for (size_t d = 0; d < dimensions.size(); ++d)
      settings += " " + dimensions[d].name + "=" + dimensions[d].brief(task.trial.values[d]);
    std::fprintf(stderr, "trial %ld %s: %s in %.1f s%s%s%s\n", long(task.trial.number),
                 name_of(task.trial.state), score_text(task.trial.score).c_str(), task.trial.cost,
                 settings.c_str(), task.message.empty() ? "" : "; ", task.message.c_str());
  }

  // one line, where it can be rewritten
  void show() {
    if (!line_.live()) return;
    int64_t counts[names_of(TrialState{}).size()] = {};
    double best = -std::numeric_limits<double>::infinity();
    for (const BoardTrial& row : board_.trials()) {
      ++counts[size_t(row.trial.state)];
      if (row.trial.state == TrialState::finished) best = std::max(best, row.trial.score);
    }
    const std::string text = "best " + score_text(best) + "; " + std::to_string(counts[0]) +
                             " running, " + std::to_string(counts[1]) + " finished, " +
                             std::to_string(counts[2]) + " stopped early, " +
                             std::to_string(counts[3]) + " failed, " + std::to_string(counts[4]) +
                             " without a score, of " + std::to_string(board_.request().trials);
    line_.show(text);
  }

  Board& board_;
  const WorkOptions options_;
  const char* figure_;
  const bool evaluates_;
  SideBySide side_ = {};
  std::list<Job> jobs_;
  std::set<int64_t> again_, put_off_;  // trials that were killed once, and twice
  std::string in_the_way_;             // why no more trials begin
  bool told_ = false;                  // that they were asked to stop
  double best_ = -std::numeric_limits<double>::infinity();
  const Clock::time_point began_ = Clock::now();
  StatusLine line_ = {};
};

}  // namespace

RunOutcome work(Board& board, const Experiment& experiment, const WorkOptions& options) {
  return Worker(board, experiment, options).run();
}

}  // namespace maglev::verbs::sweep
