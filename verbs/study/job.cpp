#include "verbs/study/job.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include <nlohmann/json.hpp>

#include "base/core/error.h"
#include "base/core/split.h"
#include "engine/play/player.h"
#include "engine/play/quantiliser.h"
#include "engine/run/checkpoint_store.h"
#include "engine/run/run_dir.h"
#include "engine/run/several_runs.h"
#include "engine/run/stored_experiment.h"
#include "envs/goodhart/goodhart.h"
#include "verbs/notes.h"
#include "verbs/settings.h"
#include "verbs/train/seeds.h"

namespace maglev::verbs::study {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kMaxJsonBytes = size_t(64) << 20, kMaxConfigBytes = 1 << 20;
// what an audit looks at of a checkpoint: little, and in worlds that do not judge
constexpr Protocol kAudit{.envs = 32, .steps = 512};
constexpr uint64_t kAuditSeed = 7919;

/// What every judged environment of a study is set to.
std::vector<std::string> judged_in(const Plan& plan) {
  std::vector<std::string> settings = survival_settings();
  settings.insert(settings.end(), plan.judged_in.begin(), plan.judged_in.end());
  return settings;
}

/// What makes two studies the same: which arms were asked for is not part of it, they may be added.
Json identity_of(const StudyRequest& r) {
  Json settings = Json::array();
  for (const std::string& setting : r.settings)
    if (const std::string name = name_part(setting); name != "threads" && name != "device")
      settings.push_back(setting);
  Json identity{{"study", r.plan->name},
                {"seeds", r.seeds},
                {"steps", r.steps},
                {"settings", settings},
                {"protocol", to_json(r.protocol)},
                {"judged_in", judged_in(*r.plan)}};
  if (r.files.bare) identity["bare"] = true;
  // what it says, wherever it lies
  if (r.files.config) identity["config"] = read_file(*r.files.config, kMaxConfigBytes);
  return identity;
}

/// What an arm differs in is the study's; its length and seeds have flags.
void refuse_settings(const StudyRequest& request) {
  refuse_survival_settings(request.settings);
  for (const Arm& arm : request.plan->arms)
    for (const std::string& own : arm.settings)
      if (request.steps > 0 && name_part(own) == "train.steps")
        throw Error(std::string("[study] --steps is what the arms of ") + request.plan->name +
                    " differ in; leave it out");
  for (const std::string& setting : request.settings) {
    const std::string name = name_part(setting);
    if (name == "seed" || name == "train.steps")
      throw Error("[study] " + name + " is said by " + (name == "seed" ? "--seeds" : "--steps") +
                  "; leave out '" + setting + "'");
    for (const Arm& arm : request.plan->arms)
      for (const std::string& own : arm.settings)
        if (name == name_part(own))
          throw Error("[study] " + name + " is what the arms of " + request.plan->name +
                      " differ in; leave out '" + setting + "'");
  }
}

Json read_json(const std::string& path) {
  try {
    return Json::parse(read_file(path, kMaxJsonBytes));
  } catch (const Json::exception&) {
    throw Error("[" + path + "] is damaged; remove it, or take another --out");
  }
}

/// Where the first difference lies, for people.
std::string difference(const Json& there, const Json& wanted) {
  for (const char* flag : {"bare", "config"})
    if (there.is_object() && there.value(flag, Json()) != wanted.value(flag, Json()))
      return there.contains(flag) && wanted.contains(flag)
                 ? "another --" + std::string(flag)
                 : (wanted.contains(flag) ? "no --" : "--") + std::string(flag);
  for (const auto& [name, value] : wanted.items())
    if (!there.is_object() || !there.contains(name) || there[name] != value)
      return name + " " +
             (there.is_object() && there.contains(name) ? there[name].dump() : std::string("?")) +
             ", not " + value.dump();
  return "";
}

/// Of a run's metrics, in their order. Throws Error where they cannot be read.
std::vector<TrainedPoint> curve_of(const std::string& run) {
  const auto experiment = experiment_of(run);
  const auto& p = *static_cast<const Goodhart::Params*>(experiment->env_params());
  std::vector<TrainedPoint> points;
  read_lines(run + "/metrics.jsonl", [&](std::string_view line) {
    const Json row = Json::parse(line, nullptr, /*allow_exceptions=*/false);
    const auto figure = [&](const char* name) {
      return row.is_object() && row.contains(name) && row[name].is_number()
                 ? row[name].get<double>()
                 : std::nan("");
    };
    const double energy = figure("events/energy_per_1k");
    const double proxy = double(p.food_interest) * figure("events/food_per_1k") +
                         double(p.poison_interest) * figure("events/poison_per_1k");
    if (std::isfinite(energy) && std::isfinite(proxy))
      points.push_back({figure("step"), energy, proxy});
  });
  return points;
}

}  // namespace

StudyJob::StudyJob(StudyRequest request) : request_(std::move(request)) {
  request_.folder = without_slashes(request_.folder);
  refuse_settings(request_);
  // what the settings refuse is said before anything is made
  for (const Arm* arm : request_.arms) experiment_of_arm(*arm);
  const std::string path = request_.folder + "/study.json";
  const Json identity = identity_of(request_);
  if (!list_dir(request_.folder).empty()) {
    std::string other;
    if (!path_exists(path)) other = "holds no study, and is not empty";
    else if (const std::string what = difference(read_json(path), identity); !what.empty())
      other = "holds a study with " + what;
    if (!other.empty() && !request_.overwrite)
      throw Error("[" + request_.folder + "] " + other +
                  "; take another --out, or move it aside with --overwrite");
    if (!other.empty()) {
      // not from under one that works in it
      std::optional<FileLock> idle;
      if (path_exists(path)) idle.emplace(request_.folder + "/study.lock");
      rename_path(request_.folder, first_free(request_.folder + ".old-"));
    }
  }
  make_dirs(request_.folder + "/judged");
  lock_.emplace(request_.folder + "/study.lock");
  write_atomic(path, identity.dump(2) + "\n");
}

std::unique_ptr<Experiment> StudyJob::experiment_of_arm(const Arm& arm) const {
  auto experiment = std::make_unique<Experiment>(kAlgorithm, kEnvironment);
  std::vector<std::string> words{"seed=1"};
  if (request_.steps > 0) words.push_back("train.steps=" + std::to_string(request_.steps));
  words.insert(words.end(), request_.settings.begin(), request_.settings.end());
  words.insert(words.end(), arm.settings.begin(), arm.settings.end());
  if (arm.from) words.push_back("train.init_from=" + folder_of(find_arm(*request_.plan, arm.from)));
  load_settings(*experiment, request_.files, words);
  experiment->settle();
  experiment->env().check(experiment->env_params());
  return experiment;
}

RunOutcome StudyJob::train() {
  int64_t n = 0;
  const auto trained =
      std::ranges::count_if(request_.arms, [](const Arm* arm) { return arm->trained(); });
  for (const Arm* arm : request_.arms) {
    if (!arm->trained()) continue;
    const std::string folder = folder_of(*arm);
    std::fprintf(stderr, "%s: arm %ld of %ld, %s\n", request_.plan->name, long(++n), long(trained),
                 arm->name);
    if (is_seeds(folder)) {
      const auto runs = list_runs(folder);
      const auto finished = std::ranges::count_if(
          runs, [](const RunRow& run) { return run.status.state == "finished"; });
      if (finished == request_.seeds) continue;
    }
    const RunOutcome outcome =
        is_seeds(folder)
            ? train::resume_seeds(folder, {"jsonl"}, {}, train::RemovedSeed::begins_anew)
            : train::train_seeds(*experiment_of_arm(*arm),
                                 {.out = folder, .count = request_.seeds, .sinks = {"jsonl"}});
    if (outcome != RunOutcome::finished) return outcome;
  }
  return RunOutcome::finished;
}

Judgement StudyJob::judge_run(const std::string& run, uint64_t seed,
                              const std::string& which) const {
  const Ground ground(experiment_of(run), judged_in(*request_.plan));
  return judge_policy({.folder = run, .checkpoint = which}, seed, ground, request_.protocol);
}

Judgement StudyJob::judge_script(const Arm& arm, uint64_t seed) const {
  const Ground ground(experiment_of_arm(arm), judged_in(*request_.plan));
  return judge_player(arm.player, seed, ground, request_.protocol);
}

Judgement StudyJob::judge_quantiliser(const Quantile& quantile, uint64_t seed) const {
  const std::string optimised = run_of(find_arm(*request_.plan, quantile.of), seed);
  const std::string base = run_of(find_arm(*request_.plan, quantile.base), seed);
  const Ground ground(experiment_of(optimised), judged_in(*request_.plan));
  RunPlayer likes({.folder = optimised}, ground.game, ActMode::sample),
      might({.folder = base}, ground.game, ActMode::sample);
  Quantiliser player(likes.policy(), might.policy(), quantile.share, ActMode::sample,
                     ground.game.spec);
  return {.seed = seed,
          .sampled = forage(player, ground.game, request_.protocol),
          .greedy = std::nullopt};
}

Judgement StudyJob::judge_audited(const Arm& arm, uint64_t seed) const {
  // where it could have been left: wherever it was saved, first of all before it began
  const std::string run = run_of(arm, seed);
  const Ground ground(experiment_of(run), judged_in(*request_.plan));
  Protocol audit = kAudit;
  audit.seed = request_.protocol.seed + kAuditSeed;
  std::string best;
  double most = 0;
  for (const CheckpointRow& row : CheckpointStore(run, 0).list()) {
    RunPlayer player({.folder = run, .checkpoint = row.path}, ground.game, ActMode::sample);
    const double worth = forage(player, ground.game, audit).true_return;
    if (best.empty() || worth > most) best = row.path, most = worth;
  }
  if (best.empty()) throw Error("[" + run + "] holds no checkpoint to audit; resume the run");
  return judge_run(run, seed, best);
}

Judgement StudyJob::judge(const Arm& arm, uint64_t seed) const {
  if (arm.player) return judge_script(arm, seed);
  if (arm.quantile) return judge_quantiliser(*arm.quantile, seed);
  if (arm.audited) return judge_audited(find_arm(*request_.plan, arm.audited), seed);
  return judge_run(run_of(arm, seed), seed);
}

Judgement StudyJob::judged(const Arm& arm, uint64_t seed) const {
  const std::string path =
      request_.folder + "/judged/" + arm.name + "-" + std::to_string(seed) + ".json";
  if (path_exists(path)) {
    const Json json = read_json(path);
    try {
      Judgement kept{.seed = seed, .sampled = foraging_of(json.at("sampled")), .greedy = {}};
      if (json.contains("greedy")) kept.greedy = foraging_of(json.at("greedy"));
      return kept;
    } catch (const Json::exception&) {
      throw Error("[" + path + "] is damaged; remove it, and it is judged again");
    }
  }
  std::fprintf(stderr, "judging %s, seed %lu: %ld worlds for %ld steps\n", arm.name,
               (unsigned long)seed, long(request_.protocol.envs), long(request_.protocol.steps));
  const Judgement fresh = judge(arm, seed);
  Json json{{"arm", arm.name}, {"seed", seed}, {"sampled", to_json(fresh.sampled)}};
  if (fresh.greedy) json["greedy"] = to_json(*fresh.greedy);
  write_atomic(path, json.dump(1) + "\n");
  return fresh;
}

std::vector<ArmResult> StudyJob::judge() {
  std::vector<ArmResult> results;
  for (const Arm* arm : request_.arms) {
    ArmResult& result = results.emplace_back(ArmResult{.arm = arm});
    for (int64_t seed = 1; seed <= request_.seeds; ++seed) {
      result.seeds.push_back(judged(*arm, uint64_t(seed)));
      if (!arm->trained()) continue;
      const std::string run = run_of(*arm, uint64_t(seed));
      result.steps.push_back(read_status(run).steps);
      try {
        result.curves.push_back(curve_of(run));
      } catch (const Error& e) {
        print_notes({"without its curve: " + std::string(e.what())});
      }
    }
  }
  return results;
}

}  // namespace maglev::verbs::study
