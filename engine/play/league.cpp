#include "engine/play/league.h"

#include <algorithm>
#include <cmath>

#include <nlohmann/json.hpp>

#include "base/core/error.h"
#include "base/core/philox.h"
#include "base/core/split.h"
#include "engine/run/snapshot.h"

namespace maglev {
namespace {

// past selves are remembered this often in a run when train.past_every does not say
constexpr int64_t kPastARun = 20;
// weight of a game in the recent score
constexpr double kRecentWeight = 0.02;
// chance that a hopeless match keeps under hard matchmaking
constexpr double kLeastWeight = 0.01;

// names of opponents that are the learner: as it was, and as it is
constexpr const char *kPast = "past", *kSelf = "self";

// whether a name is a scripted player's or the learner's, and no run's
bool goes_by_itself(const EnvEntry& env, const std::string& name) {
  return name == kPast || name == kSelf || std::ranges::count(scripted_players(env), name) > 0;
}

}  // namespace

double elo_expected(double elo, double other) {
  return 1 / (1 + std::pow(10, (other - elo) / 400));
}

std::vector<std::string> opponents_of(const RunOptions& run) {
  std::vector<std::string> names = split_list(run.opponents, "train.opponents");
  for (std::string& name : names) {
    name.erase(0, name.find_first_not_of(' '));
    name.erase(name.find_last_not_of(' ') + 1);
  }
  return names;
}

bool meets_past(const RunOptions& run) { return std::ranges::count(opponents_of(run), kPast) > 0; }

int64_t most_rivals(const RunOptions& run) {
  const auto names = opponents_of(run);
  const int64_t past = std::ranges::count(names, kPast);
  return int64_t(names.size()) - past + (past > 0 ? run.past : 0);
}

std::optional<RunName> opponent_run(const EnvEntry& env, const std::string& name) {
  return goes_by_itself(env, name) ? std::nullopt : run_named(name);
}

std::string lasting_opponents(const Experiment& experiment, std::vector<std::string>* replaced) {
  std::string list;
  const EnvEntry& env = experiment.env();
  for (const std::string& name : opponents_of(experiment.run)) {
    auto run = opponent_run(env, name);
    if (!run && !goes_by_itself(env, name)) throw no_player(name, env, {kPast, kSelf});
    std::string lasting = name;
    if (run) try {
        lasting = lasting_name(*run);
      } catch (const Error&) {
        if (!replaced || run->checkpoint == "latest") throw;
        const std::string gone = run->checkpoint;
        run->checkpoint = "latest";
        lasting = lasting_name(*run);
        replaced->push_back("opponent " + run->folder + " has no " + gone +
                            " any more (its train.keep): " +
                            lasting.substr(lasting.rfind('@') + 1) + " plays instead");
      }
    if (lasting.find(',') != std::string::npos)
      throw Error("[train] train.opponents is a list with commas, and the path " + lasting +
                  " has one; rename that folder, or give a link to it");
    list += (list.empty() ? "" : ",") + lasting;
  }
  return list;
}

League::League(const Experiment& experiment, const Placement& placement, ThreadPool& pool,
               Policy& learner)
    : experiment_(&experiment), learner_(&learner) {
  const RunOptions& run = experiment.run;
  const AlgoContext context = context_of(experiment, placement, pool);
  const Game game{.env = experiment.env(),
                  .params = experiment.env_params(),
                  .spec = context.spec,
                  .placement = placement,
                  .pool = pool,
                  .rows = run.env_count};
  rivals_ =
      std::make_unique<Rivals>(game.env, game.spec, run.env_count, placement.device, run.seed);
  const auto enter = [&](std::unique_ptr<Player> player, bool in_play) {
    rivals_->add(*player);
    // a run goes by its folder's own name and its checkpoint's
    const bool is_a_run = dynamic_cast<RunPlayer*>(player.get()) != nullptr;
    const std::string whole = player->name(), short_name = whole.substr(whole.rfind('/') + 1);
    // one that is named twice is met twice as often, and has a line of its own each time
    std::string name = short_name;
    const auto is_taken = [&](const Member& other) { return in_play && other.name == name; };
    for (int64_t namesakes = 2; std::ranges::any_of(members_, is_taken); ++namesakes)
      name = short_name + "#" + std::to_string(namesakes);
    members_.push_back({.name = name,
                        .run = is_a_run ? whole : "",
                        .is_self = whole == kSelf,
                        .in_play = in_play,
                        .elo = kEloStart,
                        .recent = 0.5});
    players_.push_back(std::move(player));
    return int64_t(members_.size()) - 1;
  };
  int64_t past_groups = 0;
  for (const std::string& name : opponents_of(run)) {
    if (name == kPast) {
      ++past_groups;
      continue;
    }
    const auto mode = ActMode::sample;
    auto player = name == kSelf ? std::make_unique<PolicyPlayer>(learner, name, mode)
                                : make_player(name, game, mode);
    groups_.push_back({enter(std::move(player), true)});
  }
  first_past_ = int64_t(members_.size());
  std::vector<int64_t> group;
  for (int64_t i = 0; past_groups > 0 && i < run.past; ++i) {
    past_.push_back(experiment.algo().make_policy(experiment.algo_options(), context));
    group.push_back(
        enter(std::make_unique<PolicyPlayer>(*past_.back(), kPast, ActMode::sample), false));
  }
  for (int64_t i = 0; i < past_groups; ++i) groups_.push_back(group);
  // there is always somebody to play: the learner before it learned anything
  remember(0);
  for (int64_t env = 0; env < run.env_count; ++env) rivals_->assign(env, draw(env));
}

void League::publish() {
  for (auto& past : past_) past->publish();
}

void League::remember(int64_t step) {
  if (past_.empty()) return;
  int64_t every = experiment_->run.past_every;
  if (every == 0) every = std::max<int64_t>(1, experiment_->run.steps / kPastARun);
  if (remembered_ > 0 && step - remembered_step_ < every) return;
  // the oldest makes room; games against it that run go on against its successor
  const int64_t slot = remembered_ % int64_t(past_.size());
  Policy& copy = *past_[size_t(slot)];
  StateSnapshot([&](StateVisitor& v) { learner_->visit_state(v); }).restore([&](StateVisitor& v) {
    copy.visit_state(v);
  });
  copy.publish();
  members_[size_t(first_past_ + slot)] = {
      .name = "past@" + std::to_string(step), .in_play = true, .elo = elo_, .recent = 0.5};
  ++remembered_;
  remembered_step_ = step;
}

int64_t League::draw(int64_t env) {
  Rng rng(experiment_->run.seed, stream_id(Purpose::opponent, (1ull << 48) + uint64_t(env)),
          uint64_t(games_));
  // each entry of the list alike, and within past selves each that there is
  const bool hard = experiment_->run.matchmaking == Matchmaking::hard;
  std::vector<std::pair<int64_t, double>> weights;
  double total = 0;
  for (const auto& group : groups_) {
    int64_t there = 0;
    for (int64_t m : group) there += members_[size_t(m)].in_play;
    for (int64_t m : group) {
      if (!members_[size_t(m)].in_play) continue;
      double weight = 1. / double(there);
      // whom the learner beats for sure teaches it little
      if (hard) weight *= std::pow(1 - members_[size_t(m)].recent, 2) + kLeastWeight;
      weights.emplace_back(m, weight);
      total += weight;
    }
  }
  double u = rng.uniform() * total;
  for (const auto& [member, weight] : weights)
    if ((u -= weight) < 0) return member;
  return weights.back().first;
}

void League::settle(const LearnersStep& step) {
  for (const GameResult& game : rivals_->settle(step)) {
    Member& rival = members_[size_t(rivals_->player_of(game.env))];
    const double gain = kEloGain * (game.score - elo_expected(elo_, rival.elo));
    // a game against oneself says nothing
    if (!rival.is_self) elo_ += gain, rival.elo -= gain;
    rival.recent += kRecentWeight * (game.score - rival.recent);
    rival.games += 1;
    (game.score == 1 ? rival.wins : game.score == 0 ? rival.losses : rival.draws) += 1;
    ++games_;
    rivals_->assign(game.env, draw(game.env));
  }
}

// the learner as its own opponent is as strong as the learner
double League::elo_of(const Member& member) const { return member.is_self ? elo_ : member.elo; }

std::vector<LeagueRow> League::table() const {
  std::vector<LeagueRow> rows;
  for (const Member& m : members_)
    if (m.in_play)
      rows.push_back({.name = m.name,
                      .run = m.run,
                      .elo = elo_of(m),
                      .games = m.games,
                      .wins = m.wins,
                      .draws = m.draws,
                      .losses = m.losses});
  return rows;
}

std::vector<std::pair<std::string, double>> League::figures() const {
  std::vector<std::pair<std::string, double>> figures{{"elo/learner", elo_}};
  for (size_t m = 0; m < members_.size(); ++m) {
    // past selves come and go: their names would be new columns each time
    if (int64_t(m) >= first_past_) continue;
    figures.emplace_back("elo/" + members_[m].name, elo_of(members_[m]));
    figures.emplace_back("score/" + members_[m].name, members_[m].recent);
  }
  if (!past_.empty()) {
    double score = 0, there = 0;
    for (size_t m = size_t(first_past_); m < members_.size(); ++m)
      if (members_[m].in_play) score += members_[m].recent, there += 1;
    figures.emplace_back("score/past", score / there);
  }
  return figures;
}

std::string League::json(int64_t step) const {
  nlohmann::json players = nlohmann::json::array();
  for (const LeagueRow& row : table()) {
    players.push_back({{"name", row.name},
                       {"elo", row.elo},
                       {"games", row.games},
                       {"wins", row.wins},
                       {"draws", row.draws},
                       {"losses", row.losses}});
    if (!row.run.empty()) players.back()["run"] = row.run;
  }
  return nlohmann::json{{"step", step}, {"learner_elo", elo_}, {"players", players}}.dump(2) + "\n";
}

void League::visit_state(StateVisitor& visitor) {
  visitor.section("rivals", [&](StateVisitor& v) { rivals_->visit_state(v); });
  visitor.real("elo", elo_);
  visitor.count("games", games_);
  visitor.count("remembered", remembered_);
  visitor.count("remembered_step", remembered_step_);
  for (size_t m = 0; m < members_.size(); ++m)
    visitor.section("member" + std::to_string(m), [&](StateVisitor& v) {
      Member& member = members_[m];
      int64_t in_play = member.in_play;
      // a run by its whole name: others of its folder's name are others
      const std::string name = member.name, whole = member.run.empty() ? name : member.run;
      std::string saved = whole;
      v.text("name", saved);
      v.integer("in_play", in_play, 0, 1);
      v.real("elo", member.elo);
      v.real("recent", member.recent);
      v.count("games", member.games);
      v.count("wins", member.wins);
      v.count("draws", member.draws);
      v.count("losses", member.losses);
      member.in_play = in_play != 0;
      if (int64_t(m) >= first_past_) member.name = saved;
      // another opponent in this place now: nobody has met it yet
      else if (saved != whole)
        member = {.name = name,
                  .run = member.run,
                  .is_self = member.is_self,
                  .in_play = true,
                  .elo = kEloStart,
                  .recent = 0.5};
    });
  // somebody has to be drawn
  if (std::none_of(members_.begin(), members_.end(), [](const Member& m) { return m.in_play; }))
    throw Error("[league] nobody of the checkpoint's league is in play; use an earlier one");
  for (size_t p = 0; p < past_.size(); ++p)
    visitor.section("past" + std::to_string(p), [&](StateVisitor& v) { past_[p]->visit_state(v); });
}

}  // namespace maglev
