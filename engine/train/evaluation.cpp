#include "engine/train/evaluation.h"

#include <cmath>
#include <limits>
#include <utility>

#include "base/core/clock.h"
#include "base/core/error.h"
#include "base/core/split.h"
#include "base/trace/span.h"
#include "engine/device/device.h"
#include "engine/run/checkpoint.h"
#include "engine/run/stored_experiment.h"

namespace maglev {
namespace {

// neither training's nor those of `maglev eval`, so that a best that was chosen here is judged
// there on what it has never seen
constexpr uint64_t kSeed = 2'000'003;
// time steps after which an evaluation ends even if an agent does not: an environment may know no
// limit
constexpr int64_t kMostEpisodeSteps = 100'000;
constexpr const char* kWhere = "train.eval_env";

// of train.eval_env, as env.name=value; what has no name goes on with the list before it
std::vector<std::string> eval_settings(const std::string& text) {
  std::vector<std::string> settings;
  for (const std::string& part : split_list(text, kWhere)) {
    if (part.find('=') == std::string::npos && !settings.empty()) settings.back() += "," + part;
    else settings.push_back(part.starts_with("env.") ? part : "env." + part);
  }
  return settings;
}

// the run's environment with what train.eval_env says otherwise, besides `more`
std::unique_ptr<EnvParams> differing_env(const Experiment& experiment,
                                         const std::vector<std::string>& more = {}) {
  std::vector<std::string> settings = env_settings(experiment.table());
  for (std::string& setting : eval_settings(experiment.run.eval_env))
    settings.push_back(std::move(setting));
  settings.insert(settings.end(), more.begin(), more.end());
  return std::make_unique<EnvParams>(experiment.env(), settings, kWhere);
}

// what the environment itself wants otherwise where checkpoints are judged
Judging judging_in(const Experiment& experiment) {
  return judging_of(experiment.env(), differing_env(experiment)->get(),
                    eval_settings(experiment.run.eval_env));
}

// the mean over the results of all rivals
double mean(const std::vector<EvalResult>& results, double EvalResult::*figure) {
  double sum = 0;
  for (const EvalResult& r : results) sum += r.*figure;
  return sum / double(results.size());
}

}  // namespace

std::unique_ptr<EnvParams> evaluation_env(const Experiment& experiment) {
  const EnvEntry& env = experiment.env();
  auto params = differing_env(experiment, judging_in(experiment).settings);
  // what it reads is there
  env.asset_bytes(params->get());
  if (!same_columns(experiment.spec(), env.spec(params->get())))
    throw Error("[train] train.eval_env=" + experiment.run.eval_env +
                " changes the environment's observations or actions, and a policy is of those it "
                "was trained on; leave out the setting that does");
  return params;
}

std::string evaluation_note(const Experiment& experiment) {
  const std::string note = judging_in(experiment).note;
  return note.empty() ? "" : "checkpoints are " + note;
}

std::string lasting_eval_env(const Experiment& experiment) {
  if (experiment.run.eval_env.empty()) return "";
  const auto params = differing_env(experiment);
  experiment.env().settle(params->get());
  // text is what files and folders are named by; the rest stays as it was written
  std::string lasting;
  for (const std::string& setting : eval_settings(experiment.run.eval_env)) {
    const std::string name = name_part(setting);
    const Field* field = params->table().find(name);
    const bool text = field && std::holds_alternative<TextMember>(field->member);
    lasting += (lasting.empty() ? "" : ",") + (text ? name + "=" + field->plain() : setting);
  }
  return lasting;
}

Evaluation::Evaluation(const Experiment& experiment, const Placement& placement)
    : experiment_(&experiment),
      env_(evaluation_env(experiment)),
      placement_(placement.alone()),
      pool_(1),
      stream_(placement.device) {
  placement_.threads = 1;
  policy_ = experiment.algo().make_policy(experiment.algo_options(),
                                          context_of(experiment, placement_, pool_));
  if (experiment.spec().agents == 2)
    for (const Bot& bot : experiment.env().bots)
      rivals_.push_back(std::make_unique<BotPlayer>(bot, bot.name, env_->get()));
  // nobody to meet
  if (rivals_.empty()) rivals_.push_back(nullptr);
}

Evaluation::~Evaluation() { stop_ = true; }

void Evaluation::begin(const std::string& checkpoint) {
  MAGLEV_ASSERT(!running(), "one evaluation at a time");
  verdict_ = {
      .checkpoint = checkpoint, .row = {.values = {}, .event = true}, .failure = {}, .note = {}};
  ended_ = false;
  begun_ = true;
  thread_.start([this] {
    try {
      if (placement_.device.is_cuda()) use_device(placement_.device.index());
      stream_.on_side_stream([this] { judge(); });
    } catch (const std::exception& e) {
      verdict_.failure = e.what();
    }
    ended_.store(true, std::memory_order_release);
  });
}

void Evaluation::judge() {
  const auto span = trace::stage("evaluate");
  const double begin_s = steady_s();
  const CheckpointIdentity identity =
      load_section(verdict_.checkpoint, "algo", identity_of(*experiment_),
                   [&](StateVisitor& v) { policy_->visit_state(v); });
  policy_->publish();
  verdict_.row.step = identity.step;
  verdict_.row.seconds = identity.seconds;
  PolicyPlayer judged(*policy_, "learner", ActMode::mean);
  Game game = game_of(*experiment_, placement_, pool_);
  game.params = env_->get();
  game.spec = experiment_->env().spec(env_->get());
  std::vector<EvalResult> results;
  double score = 0, games = 0;
  int64_t cut = 0, given_up = 0;
  for (const auto& rival : rivals_) {
    results.push_back(
        evaluate(judged, game,
                 {.episodes = experiment_->run.eval_episodes,
                  .longest_episode = kMostEpisodeSteps,
                  .seed = kSeed,
                  .against = rival.get(),
                  .stop = [this](int64_t t) { return t >= kMostEpisodeSteps || stop_.load(); }}));
    const EvalResult& r = results.back();
    score += double(r.wins) + 0.5 * double(r.draws);
    games += double(r.wins + r.draws + r.losses);
    cut += r.cut, given_up += r.given_up;
  }
  // what its graphs and its streams were given is of no use to the next one
  if (placement_.device.is_cuda()) release_device_memory();
  verdict_.return_mean = mean(results, &EvalResult::return_mean);
  auto& values = verdict_.row.values;
  values = {{"eval/return_mean", verdict_.return_mean},
            {"eval/return_std", mean(results, &EvalResult::return_std)},
            {"eval/length_mean", mean(results, &EvalResult::length_mean)}};
  if (games > 0) values.emplace_back("eval/score", score / games);
  // the same ones in the same order of all rivals
  for (size_t k = 0; k < game.spec.events.size(); ++k) {
    double per_1k = 0, per_episode = 0;
    for (const EvalResult& r : results) {
      per_1k += r.events_per_1k[k].second / double(results.size());
      per_episode += r.episodes ? r.events[k].second / double(r.episodes * int64_t(results.size()))
                                : std::numeric_limits<double>::quiet_NaN();
    }
    const std::string name = "eval/" + game.spec.events[k];
    values.emplace_back(name + "_per_1k", per_1k);
    values.emplace_back(name + "_per_episode", per_episode);
  }
  // shares are of what happened with all of them
  std::vector<double> totals(game.spec.events.size());
  for (const EvalResult& r : results)
    for (size_t k = 0; k < totals.size(); ++k) totals[k] += r.events[k].second;
  for (const EventShare& share : game.spec.shares)
    values.emplace_back("eval/" + share.name, share_of(share, totals));
  values.emplace_back("time/evaluation_s", steady_s() - begin_s);
  verdict_.note = unended_note(cut, given_up, kMostEpisodeSteps);
  if (stop_) verdict_.failure = "it was stopped";
  else if (std::isnan(verdict_.return_mean))
    verdict_.failure = "no episode ended within " + std::to_string(kMostEpisodeSteps) + " steps";
}

std::optional<Verdict> Evaluation::take() {
  if (!running() || !ended()) return std::nullopt;
  thread_.wait();
  begun_ = false;
  return std::exchange(verdict_, {});
}

}  // namespace maglev
