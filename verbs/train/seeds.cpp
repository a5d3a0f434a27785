#include "verbs/train/seeds.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <limits>
#include <memory>
#include <optional>
#include <string_view>
#include <thread>
#include <unistd.h>
#include <utility>

#include <nlohmann/json.hpp>

#include "base/core/error.h"
#include "base/core/file.h"
#include "base/core/home.h"
#include "base/core/printed.h"
#include "base/core/shell_word.h"
#include "base/core/split.h"
#include "base/core/terminal.h"
#include "base/metrics/sink.h"
#include "base/statistics/samples.h"
#include "engine/run/checkpoint_store.h"
#include "engine/run/env_title.h"
#include "engine/run/given.h"
#include "engine/run/run_settings.h"
#include "engine/run/several_runs.h"
#include "engine/train/session_sinks.h"
#include "verbs/child.h"
#include "verbs/json_number.h"
#include "verbs/side_by_side.h"
#include "verbs/status_line.h"
#include "verbs/table.h"

namespace maglev::verbs::train {
namespace {

using Json = nlohmann::ordered_json;

constexpr auto kPoll = std::chrono::milliseconds(200);
constexpr size_t kMaxFileBytes = 1 << 20;

struct Member {
  uint64_t seed = 0;
  std::string folder, log;
  std::optional<Child> child;  // while it trains
  std::string gpu;             // that the child sees; empty: all
  bool tried = false;          // this time
  bool held = false;           // another process trains it
  int64_t known_steps = 0;     // as seeds.json last had them
  RunStatus status = {};
  // mean return of its last evaluation; NaN: there was none
  double evaluation = std::numeric_limits<double>::quiet_NaN();
};

// nothing where it has not begun to train; what cannot be read is written anew as it goes on
RunStatus status_at(const std::string& folder) {
  return path_exists(folder + "/run.json") ? run_row(folder, "").status : RunStatus{};
}

Json read_group(const std::string& folder) {
  return Json::parse(read_file(folder + "/seeds.json", kMaxFileBytes));
}

std::string return_text(double value) {
  if (!std::isfinite(value)) return "-";
  return printed("%.2f", value);
}

// the run whose networks a seed begins with, where each begins with those of its own; else empty
std::string beginning_of(const std::string& init_from, uint64_t seed) {
  return !init_from.empty() && is_seeds(init_from) ? init_from + "/seed-" + std::to_string(seed)
                                                   : "";
}

// what one lacks is said before the others train
void check_beginning(const std::string& init_from, uint64_t seed) {
  const std::string run = beginning_of(init_from, seed);
  if (run.empty() || has_checkpoint(run)) return;
  throw Error("[seeds] train.init_from=" + init_from + " has no checkpoint of seed " +
              std::to_string(seed) + "; begin at one it has (seed=), or train fewer (--seeds)");
}

// as long as all train now: one may have finished before they were to train longer
bool is_trained(const RunStatus& status, int64_t steps) {
  return status.state == "finished" && status.total_steps >= steps;
}

// for which each trains, by settings.yaml; 0 where that is gone or damaged
int64_t steps_each(const std::string& folder) {
  try {
    for (const auto& [name, value] :
         named_settings(read_file(folder + "/settings.yaml", kMaxFileBytes)))
      if (name == "train.steps") return std::strtoll(value.c_str(), nullptr, 10);
  } catch (const Error&) {
    // its seeds are shown as they are
  }
  return 0;
}

Error unreadable(const std::string& folder) {
  return Error("[" + folder + "] seeds.json cannot be read; resume its runs one by one");
}

class Group {
 public:
  // one that is there, of `count` seeds from now on; 0: of as many as before
  Group(std::string folder, std::vector<std::string> sinks, RemovedSeed removed, int64_t count)
      : folder_(std::move(folder)), lock_(folder_ + "/seeds.lock"), sinks_(std::move(sinks)) {
    try {
      const Json json = read_group(folder_);
      algo_ = json.at("algorithm"), env_ = json.at("environment");
      for (const Json& row : json.at("seeds")) {
        add(row.at("seed"));
        // a folder that is gone says nothing of what it had done
        Member& member = members_.back();
        if (removed == RemovedSeed::is_lost || path_exists(member.folder))
          member.known_steps = row.value("steps", int64_t(0));
      }
    } catch (const Json::exception&) {
      throw unreadable(folder_);
    }
    if (members_.empty()) throw unreadable(folder_);
    if (count > 0) become(count);
    if (sinks_.empty())
      for (const auto& sink : sink_table())
        if (sink.on_by_default && sink.name != std::string("console"))
          sinks_.emplace_back(sink.name);
  }

  /// `longer`: train.steps=<more> for all of them, or empty.
  RunOutcome run(const std::string& longer) {
    settle(longer);
    // who looks at the folder sees those that are to come too
    if (const std::string why = counted_anew_ ? write_json() : ""; !why.empty()) throw Error(why);
    try {
      return train();
    } catch (const std::exception&) {
      // whatever is wrong here, runs save before they end
      for (Member& member : members_)
        if (member.child) member.child->signal(SIGTERM);
      for (Member& member : members_)
        if (member.child) member.child->wait();
      throw;
    }
  }

 private:
  RunOutcome train() {
    PassedSignals signals;
    std::string refused;
    bool told = false;
    for (bool working = true; working;) {
      signals.pass_on([&](int signal) {
        for (Member& member : members_)
          if (member.child) member.child->signal(signal);
      });
      if (signals.ending() && refused.empty() && !std::exchange(told, true)) {
        line_.clear();
        std::fprintf(stderr, "maglev: %s\n", kStopping);
      }
      const bool goes_on = !signals.ending() && refused.empty();
      if (goes_on) start_more();
      working = goes_on && std::ranges::any_of(
                               members_, [this](const Member& member) { return waits(member); });
      for (Member& member : members_) {
        if (!member.child) continue;
        if (member.child->running()) working = true;
        else if (const std::string why = ended(member, signals.ending()); refused.empty())
          refused = why;
      }
      // what one run refuses before it trains, the others train in vain
      if (!refused.empty() && !signals.ending()) signals.end();
      show();
      if (working) std::this_thread::sleep_for(kPoll);
    }
    line_.clear();
    if (!refused.empty()) throw Error(refused);
    return finish(/*stopped=*/signals.ending());
  }

  // leaves out of the last ones those that never began, or adds some
  void become(int64_t count) {
    const size_t before = members_.size();
    const auto has_begun = [](const Member& member) {
      return member.known_steps > 0 || path_exists(member.folder);
    };
    while (int64_t(members_.size()) > count && !has_begun(members_.back())) members_.pop_back();
    if (const auto begun = int64_t(members_.size()); begun > count)
      throw Error("[" + folder_ + "] holds " + counted(begun, "seed") + " that began, and " +
                  std::to_string(count) + (count == 1 ? " is" : " are") +
                  " asked for: ask for as many or more, or begin others in a new folder");
    while (int64_t(members_.size()) < count) {
      add(members_.back().seed + 1);
      if (const std::string& there = members_.back().folder; path_exists(there))
        throw Error("[" + there + "] is in the way: it is none of the seeds of " + folder_ +
                    ", and would be taken for one; move it elsewhere");
    }
    counted_anew_ = members_.size() != before;
  }

  void add(uint64_t seed) {
    const std::string path = folder_ + "/seed-" + std::to_string(seed);
    Member& member = members_.emplace_back();
    member.seed = seed, member.folder = path, member.log = path + ".txt";
    look_at(member);
  }

  static void look_at(Member& member) {
    member.status = status_at(member.folder);
    member.evaluation = last_evaluation(member.folder);
  }

  bool done(const Member& member) const { return is_trained(member.status, steps_); }
  // one that finished and is to train longer waits as one that has not begun
  std::string state_of(const Member& member) const {
    const std::string& state = member.status.state;
    return state.empty() || (state == "finished" && !done(member)) ? "waiting" : state;
  }
  bool waits(const Member& member) const { return !member.tried && !done(member); }

  // runs of a group that was killed save for a moment longer
  bool is_held(Member& member) {
    const bool before = std::exchange(member.held, FileLock::held(member.folder + "/run.lock"));
    if (before && !member.held) look_at(member);
    if (member.held && !before) {
      line_.clear();
      std::fprintf(stderr, "seed %llu: another process trains it, and is waited for\n",
                   (unsigned long long)member.seed);
    }
    return member.held;
  }

  // what is summed up: what evaluations said where there are any, else the return of training
  double figure(const Member& member) const {
    return evaluates_ ? member.evaluation : member.status.return_mean;
  }
  const char* figure_name() const { return evaluates_ ? "evaluation" : "return"; }

  void settle(const std::string& longer) {
    const std::string path = folder_ + "/settings.yaml";
    Experiment experiment(algo_, env_);
    experiment.table().load(path);
    const std::string before = experiment.table().yaml();
    const int64_t began = experiment.run.steps;
    if (!longer.empty()) experiment.table().override_with(longer);
    steps_ = experiment.run.steps;
    if (steps_ < began)
      throw Error("[" + folder_ + "] its seeds train for " + std::to_string(began) +
                  " steps each; to train on, give train.steps=<more than these>");
    evaluates_ = experiment.run.eval_every > 0;
    init_from_ = experiment.run.init_from;
    for (const Member& member : members_) {
      if (has_checkpoint(member.folder)) continue;
      check_beginning(init_from_, member.seed);
      if (!done(member))
        expect_nothing_lost(member.folder, "in another folder (--out)", member.known_steps);
    }
    const int64_t waiting = std::count_if(members_.begin(), members_.end(),
                                          [this](const Member& member) { return !done(member); });
    side_ = side_by_side(experiment, waiting);
    // nothing is in the way: it holds, also where this is stopped and resumed without saying so again
    if (steps_ == began) return;
    const std::string given = folder_ + "/" + kGivenFile;
    if (path_exists(given))
      write_atomic(given, with_resume(read_file(given, kMaxGivenBytes),
                                      "at " + std::to_string(began) + " steps each", {longer}));
    write_atomic(folder_ + "/settings.before-" + std::to_string(began) + ".yaml", before);
    write_atomic(path, experiment.table().yaml());
  }

  void start_more() {
    int64_t training = std::count_if(members_.begin(), members_.end(),
                                     [](const Member& m) { return m.child.has_value(); });
    for (Member& member : members_) {
      if (training >= side_.at_once) break;
      if (member.child || is_held(member) || !waits(member)) continue;
      std::vector<std::string> held;
      for (const Member& other : members_)
        if (other.child) held.push_back(other.gpu);
      member.gpu = next_gpu(side_.gpus, held);
      member.child.emplace(words_of(member), member.log, member.gpu);
      member.tried = true;
      ++training;
    }
  }

  std::vector<std::string> words_of(const Member& member) const {
    std::string sinks;
    for (const std::string& sink : sinks_) sinks += (sinks.empty() ? "" : ",") + sink;
    std::vector<std::string> words{"train"};
    if (has_checkpoint(member.folder)) {
      words.insert(words.end(), {"--resume", member.folder});
      // one that was resumed by itself may train longer than the others
      if (member.status.total_steps < steps_)
        words.push_back("train.steps=" + std::to_string(steps_));
    } else {
      words.insert(words.end(),
                   {algo_, env_, "--bare", "--config", folder_ + "/settings.yaml", "--out",
                    member.folder, "--overwrite", "seed=" + std::to_string(member.seed)});
      if (const std::string run = beginning_of(init_from_, member.seed); !run.empty())
        words.push_back("train.init_from=" + run);
    }
    words.insert(words.end(), {"--sinks", sinks, "threads=" + std::to_string(side_.threads)});
    return words;
  }

  // takes in what became of it; what it said where it never began to train. `ending`: all were told
  // to end, and one that did not listen yet is ended by that
  std::string ended(Member& member, bool ending) {
    const int status = member.child->wait();
    member.child.reset();
    look_at(member);
    const std::string killed = killed_text(status);
    if (!killed.empty() && !ending) member.status.message = killed;
    else if (status == kStalled) member.status.message = kStalledText;
    else if (member.status.state.empty())
      return status == kStopped || !killed.empty() ? "" : last_line(member.log);
    else if (status != 0 && status != kStopped && member.status.message.empty())
      member.status.message = last_line(member.log);
    line_.clear();
    std::fprintf(stderr, "seed %llu: %s, %s %s%s%s\n", (unsigned long long)member.seed,
                 state_of(member).c_str(), figure_name(), return_text(figure(member)).c_str(),
                 killed.empty() ? "" : "; ", killed.c_str());
    if (const std::string why = write_json(); !why.empty())
      std::fprintf(stderr, "maglev: %s; training goes on\n", why.c_str());
    return "";
  }

  // one line, where it can be rewritten
  void show() {
    if (!line_.live()) return;
    int64_t finished = 0;
    std::string text;
    for (Member& member : members_) {
      finished += done(member);
      if (!member.child) continue;
      const RunStatus status = status_at(member.folder);
      char share[32];
      std::snprintf(share, sizeof share, "%.0f %%",
                    100. * double(status.steps) / double(std::max<int64_t>(1, status.total_steps)));
      text += (text.empty() ? "; seed " : ", seed ") + std::to_string(member.seed) + " at " + share;
    }
    text =
        std::to_string(finished) + " of " + std::to_string(members_.size()) + " seeds done" + text;
    line_.show(text);
  }

  std::vector<double> figures() const {
    std::vector<double> values;
    for (const Member& member : members_)
      if (done(member) && std::isfinite(figure(member))) values.push_back(figure(member));
    return values;
  }

  // why it could not be written; empty: it was
  std::string write_json() const {
    Json json{{"algorithm", algo_},
              {"environment", env_},
              {"return",
               "mean over at least the last 100 episodes of training, and as many as there are "
               "environments"},
              {"evaluation", "mean return of the last evaluation beside training"},
              {"seeds", Json::array()}};
    for (const Member& member : members_)
      json["seeds"].push_back({{"seed", member.seed},
                               {"state", state_of(member)},
                               {"steps", member.status.steps},
                               {"return", finite_or_null<Json>(member.status.return_mean)},
                               {"evaluation", finite_or_null<Json>(member.evaluation)}});
    if (const auto values = figures(); !values.empty()) {
      const Spread spread = spread_of(values);
      json["mean_of"] = figure_name();
      json["mean"] = spread.mean;
      json["deviation"] = finite_or_null<Json>(spread.deviation);
      json["interval_95"] = {finite_or_null<Json>(spread.interval.low),
                             finite_or_null<Json>(spread.interval.high)};
    }
    try {
      write_atomic(folder_ + "/seeds.json", json.dump(2) + "\n");
      return "";
    } catch (const Error& e) {
      return e.what();
    }
  }

  RunOutcome finish(bool stopped) const {
    const std::string unwritten = write_json();
    Table table({">seed", ">steps", ">return", ">evaluation", "state", "run"});
    std::string failed;
    bool all = true;
    for (const Member& member : members_) {
      const RunStatus& status = member.status;
      all &= done(member);
      table.add({std::to_string(member.seed), std::to_string(status.steps),
                 return_text(status.return_mean), return_text(member.evaluation), state_of(member),
                 member.folder});
      if (!status.message.empty() && !done(member))
        failed += (failed.empty() ? "" : "; ") + std::string("seed ") +
                  std::to_string(member.seed) + ": " + status.message;
    }
    print(table.text(probe_terminal(STDOUT_FILENO)));
    if (const auto values = figures(); !values.empty()) {
      const Spread spread = spread_of(values);
      std::string text =
          std::string("\n") + (evaluates_ ? "last evaluations" : "returns of training");
      if (values.size() < members_.size())
        text += " of " + std::to_string(values.size()) + " of " + std::to_string(members_.size()) +
                " seeds";
      text += ": mean " + return_text(spread.mean);
      if (std::isfinite(spread.deviation))
        text += ", deviation " + return_text(spread.deviation) + ", 95 % interval " +
                return_text(spread.interval.low) + " to " + return_text(spread.interval.high) +
                " (Student's t over " + std::to_string(values.size()) + " seeds)";
      print(text + "\n");
    }
    if (!all)
      print("resume with " + command_name() + " train --resume " + shell_word(folder_) + "\n");
    // who stopped all of them goes on with all of them, also with what failed before
    if (!failed.empty() && !stopped) throw Error("[seeds] " + failed);
    if (!unwritten.empty()) throw Error(unwritten);
    return all ? RunOutcome::finished : RunOutcome::stopped;
  }

  std::string folder_;
  FileLock lock_;
  std::vector<std::string> sinks_;
  std::string algo_, env_;
  std::vector<Member> members_;
  bool counted_anew_ = false;  // and seeds.json does not say so yet
  int64_t steps_ = 0;          // for which each trains
  bool evaluates_ = false;
  std::string init_from_;
  SideBySide side_ = {};
  StatusLine line_ = {};
};

std::string new_folder(const Experiment& experiment, const std::string& out) {
  if (!out.empty()) {
    expect_own_name(out);
    make_dirs(out);
    // what begins such a folder is no reason against it: nothing was trained yet
    const auto is_beginning = [](const std::string& name) {
      return name == "settings.yaml" || name == kGivenFile;
    };
    if (const auto there = list_dir(out); !std::all_of(there.begin(), there.end(), is_beginning))
      throw Error("[" + out + "] is not empty; several seeds want a new folder" +
                  (is_seeds(out) ? ", or go on with --resume" : ""));
    return out;
  }
  make_dirs("runs");
  std::time_t now = std::time(nullptr);
  std::tm parts;
  localtime_r(&now, &parts);
  char date[16];
  std::strftime(date, sizeof date, "%Y-%m-%d", &parts);
  const std::string prefix = std::string("runs/") + date + "-" + experiment.algo().name + "-" +
                             path_part(env_title(experiment)) + "-seeds-";
  for (int n = 1;; ++n)
    if (const std::string path = prefix + std::to_string(n); make_dir(path)) return path;
}

}  // namespace

std::string killed_text(int status) {
  const int signal = status - 128;
  if (signal <= 0 || signal >= NSIG || status == kStopped) return "";
  return "ended: signal " + std::to_string(signal) + " (" + strsignal(signal) + ")" +
         (signal == SIGKILL ? ", by the system where memory did not suffice, if by nobody else"
                            : "");
}

std::string last_line(const std::string& path) {
  std::string text = path_exists(path) ? read_file(path, size_t(1) << 30) : "";
  while (!text.empty() && text.back() == '\n') text.pop_back();
  text.erase(0, text.rfind('\n') + 1);
  // whoever passes it on says again who speaks
  constexpr std::string_view kSpeaker = "maglev: ";
  if (text.starts_with(kSpeaker)) text.erase(0, kSpeaker.size());
  return text;
}

double last_evaluation(const std::string& folder) {
  double last = std::numeric_limits<double>::quiet_NaN();
  for (const CheckpointRow& row : CheckpointStore(folder, 0).list())
    if (!std::isnan(row.evaluation)) last = row.evaluation;
  return last;
}

void expect_nothing_lost(const std::string& run, const std::string& anew, int64_t known_steps) {
  // step 0 is saved before the first step is made; metrics tell where the status cannot be read
  const std::string metrics = run + "/metrics.jsonl";
  std::string done;
  try {
    if (const int64_t steps = read_status(run).steps; steps > 0)
      done = std::to_string(steps) + " steps";
  } catch (const Error&) {
    if (path_exists(metrics) && file_bytes(metrics) > 0) done = "what metrics.jsonl tells of";
  }
  if (done.empty() && known_steps > 0) done = std::to_string(known_steps) + " steps";
  if (done.empty()) return;
  throw Error(
      "[" + run + "] had done " + done + ", and " + run +
      "/checkpoints holds nothing to go on from; bring the checkpoints back, or begin anew " +
      anew);
}

SeedsGroup seeds_group(const std::string& folder) {
  try {
    const Json json = read_group(folder);
    return {.algo = json.at("algorithm"),
            .env = json.at("environment"),
            .count = int64_t(json.at("seeds").size())};
  } catch (const Json::exception&) {
    throw unreadable(folder);
  }
}

RunRow seeds_row(const std::string& folder, const std::string& name) {
  RunRow row{.name = name, .path = folder, .status = {}};
  const int64_t steps = steps_each(folder);
  int64_t finished = 0;
  for (const RunRow& member : list_runs(folder)) {
    finished += is_trained(member.status, steps);
    count_in(member, row);
  }
  try {
    const Json json = read_group(folder);
    row.status.algo = json.at("algorithm"), row.status.env = json.at("environment");
    if (row.status.env_title.empty()) row.status.env_title = row.status.env;
    row.status.state = std::to_string(finished) + " of " + std::to_string(json.at("seeds").size()) +
                       " seeds finished";
    // as other rows of runs, whatever the seeds are summed up by
    std::vector<double> returns;
    for (const Json& seed : json.at("seeds"))
      if (const auto value = seed.find("return");
          seed.value("state", "") == "finished" && value != seed.end() && value->is_number())
        returns.push_back(*value);
    if (!returns.empty()) row.status.return_mean = spread_of(returns).mean;
  } catch (const Json::exception&) {
    row.status.state = "unknown";
  }
  return row;
}

RunOutcome train_seeds(const Experiment& experiment, const SeedsRequest& request) {
  expect_one_machine(experiment);
  for (int64_t i = 0; i < request.count; ++i)
    check_beginning(experiment.run.init_from, experiment.run.seed + uint64_t(i));
  const std::string folder = new_folder(experiment, request.out);
  write_atomic(folder + "/settings.yaml", experiment.table().yaml());
  write_atomic(folder + "/" + kGivenFile, request.given);
  if (!request.sinks.empty()) write_atomic(folder + "/" + kSinksFile, sinks_text(request.sinks));
  Json json{{"algorithm", experiment.algo().name}, {"environment", experiment.env().name}};
  for (int64_t i = 0; i < request.count; ++i)
    json["seeds"].push_back({{"seed", experiment.run.seed + uint64_t(i)}});
  write_atomic(folder + "/seeds.json", json.dump(2) + "\n");
  return Group(folder, request.sinks, RemovedSeed::is_lost, request.count).run("");
}

bool for_seeds(const std::string& setting) { return name_part(setting) == "train.steps"; }

RunOutcome resume_seeds(const std::string& folder, const std::vector<std::string>& sinks,
                        const std::vector<std::string>& settings, RemovedSeed removed,
                        int64_t count) {
  for (const std::string& setting : settings)
    if (!for_seeds(setting))
      throw Error("[" + folder +
                  "] several seeds go on as they began, but for train.steps and --seeds; leave "
                  "out '" +
                  setting + "', or resume one of their runs");
  Group group(folder, sinks.empty() ? chosen_sinks(folder) : sinks, removed, count);
  if (!sinks.empty()) write_atomic(folder + "/" + kSinksFile, sinks_text(sinks));
  return group.run(settings.empty() ? "" : settings.back());
}

}  // namespace maglev::verbs::train
