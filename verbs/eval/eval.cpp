// maglev eval: judges a run's policy, or a player of an environment, under one fixed protocol.

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <iterator>
#include <unistd.h>
#include <utility>

#include <nlohmann/json.hpp>

#include "base/core/error.h"
#include "base/core/file.h"
#include "base/core/home.h"
#include "base/core/printed.h"
#include "base/core/split.h"
#include "base/core/terminal.h"
#include "base/core/words.h"
#include "base/env/env_params.h"
#include "base/trace/span.h"
#include "engine/host/machine.h"
#include "engine/play/evaluate.h"
#include "engine/play/player.h"
#include "engine/play/quantiliser.h"
#include "engine/play/record.h"
#include "engine/play/run_policy.h"
#include "engine/run/checkpoint_store.h"
#include "engine/run/env_title.h"
#include "engine/run/run_dir.h"
#include "engine/run/stored_experiment.h"
#include "verbs/arguments.h"
#include "verbs/checkpoint_asked.h"
#include "verbs/eval/dreams.h"
#include "verbs/eval/kept.h"
#include "verbs/eval/over_seeds.h"
#include "verbs/json_number.h"
#include "verbs/notes.h"
#include "verbs/play/temperature.h"
#include "verbs/recording.h"
#include "verbs/table.h"
#include "verbs/traced.h"
#include "verbs/train/seed_runs.h"
#include "verbs/verb.h"

namespace maglev::verbs::eval {

VerbEntry entry();

namespace {

/// Which actions are judged.
enum class Actions { mean, sample, both };
constexpr auto names_of(Actions) { return std::array{"mean", "sample", "both"}; }

std::vector<ActMode> modes_of(Actions actions) {
  if (actions == Actions::mean) return {ActMode::mean};
  if (actions == Actions::sample) return {ActMode::sample};
  return {ActMode::mean, ActMode::sample};
}

constexpr size_t kMaxKeptBytes = size_t(1) << 30;
// more than are taken: a pattern of the shell is answered as what it is
constexpr size_t kMostEvalNames = 100'000;

Grammar grammar() {
  return {.flags =
              {{"--episodes", "N",
                "episodes, each environment's first ones (default 100); one that does not end is "
                "cut after 100,000 steps"},
               {"--steps", "N", "run this many environment steps instead of counting episodes"},
               {"--envs", "N", "environments at once (default: one an episode, at most 256)"},
               {"--seed", "S", "seed of the evaluation's environments and draws (default 1000003)"},
               {"--against", "NAMES",
                "in games of two: scripted players or run folders, by commas (default: each "
                "scripted player)"},
               {"--actions", "HOW", "mean, sample or both (default both)"},
               {"--temperature", "T",
                "draw actions from logits over T, and by deviations times T (default 1: as the "
                "policy learned); says --actions sample"},
               {"--checkpoint", "WHICH",
                "latest, best, or a checkpoint by name or folder (default latest)"},
               {"--quantile", "Q",
                "judge a quantiliser: it acts as the policy of --base, within the share Q of its "
                "probability that the run likes best"},
               {"--base", "RUN", "see --quantile"},
               {"--imagine", "FILE",
                "draw what a world model sees and imagines beside what there was: .gif moves, .png "
                "is a strip; the run's policy plays all agents"},
               {"--seen", "N", "steps the world model is shown before it imagines (default 5)"},
               {"--imagined", "N", "steps it imagines from there (default 45)"},
               kTraceFlag,
               {"--overwrite", "", "replace FILE where it is there already"},
               {"--json", "", "print JSON instead of a table"}},
          .least = 1,
          .most = kMostEvalNames,
          .names = "<run> | <folder of seeds> | <environment> <player>",
          .settings = true};
}

struct DreamLength {
  int64_t seen = 5, imagined = 45;
};

/// What the command line asks for, whoever is judged.
struct EvalRequest {
  const Arguments& arguments;
  Traced& traced;
  Actions actions;
  float temperature;  ///< of actions that are drawn
  EvalOptions options;
  DreamLength length;
};

nlohmann::json to_json(const EvalResult& r, const std::string& actions) {
  nlohmann::json events = nlohmann::json::object(), per_1k = nlohmann::json::object(),
                 shares = nlohmann::json::object();
  for (const auto& [name, value] : r.events) events[name] = finite_or_null(value);
  for (const auto& [name, value] : r.events_per_1k) per_1k[name] = finite_or_null(value);
  for (const auto& [name, value] : r.shares) shares[name] = finite_or_null(value);
  return {{"actions", actions},
          {"seed", r.seed},
          {"envs", r.envs},
          {"episodes", r.episodes},
          {"episodes_cut", r.cut},
          {"episodes_given_up", r.given_up},
          {"steps", r.steps},
          {"return_mean", finite_or_null(r.return_mean)},
          {"return_std", finite_or_null(r.return_std)},
          {"return_min", finite_or_null(r.return_min)},
          {"return_max", finite_or_null(r.return_max)},
          {"length_mean", finite_or_null(r.length_mean)},
          {"events", events},
          {"events_per_1k", per_1k},
          {"shares", shares},
          {"returns", r.returns},
          {"seconds", r.seconds}};
}

std::string fixed(double x) { return std::isfinite(x) ? printed("%.2f", x) : "-"; }

std::vector<std::string> rival_names(const Arguments& arguments, const Game& game) {
  const auto chosen = arguments.value("--against");
  if (chosen && game.spec.agents != 2)
    throw Error("[eval] --against is for games of two players, and " + std::string(game.env.name) +
                " has " + std::to_string(game.spec.agents) + "; leave it out");
  if (chosen) return split_list(*chosen, "--against");
  std::vector<std::string> names;
  if (game.spec.agents == 2)
    for (const Bot& bot : game.env.bots) names.emplace_back(bot.name);
  return names;
}

constexpr int64_t kDreamRows = 4, kMostDreamSteps = 1000;

/// What the world model of `run` makes of its policy's play in `judged`. Throws Error where it has
/// none.
Dreamed dream(RunPolicy& run, const Experiment& judged, const EvalRequest& request) {
  const auto span = maglev::trace::stage("imagine");
  const Experiment& trained = run.experiment();
  const DreamLength& length = request.length;
  const uint64_t seed = request.options.seed;
  const auto model = trained.algo().make_imagination(
      trained.algo_options(), context_of(trained, run.placement(), run.pool()));
  load_section(run.checkpoint(), "algo", identity_of(trained),
               [&](StateVisitor& v) { model->visit_state(v); });
  const int64_t envs = std::max<int64_t>(1, kDreamRows / judged.spec().agents);
  const Batch play = record_play(run.policy(), judged, run.placement(), run.pool(),
                                 {.steps = length.seen + length.imagined - 1,
                                  .envs = envs,
                                  .seed = seed,
                                  .mode = modes_of(request.actions).front()});
  return {.columns = judged.spec().observations,
          .truth = model->shown(play),
          .model = model->imagine(play, length.seen, seed),
          .is_first = play.is_first,
          .seen = length.seen};
}

/// A player and how its actions are chosen.
struct Judged {
  std::string actions;
  std::unique_ptr<Player> player;
  float temperature = 1;
};

/// The likeliest action has none.
float temperature_in(ActMode mode, const EvalRequest& request) {
  return mode == ActMode::sample ? request.temperature : 1;
}

/// In games of two each scripted player unless others are named; elsewhere nobody.
std::vector<std::unique_ptr<Player>> rivals_of(const Arguments& arguments, const Game& game) {
  std::vector<std::unique_ptr<Player>> rivals;
  for (const std::string& name : rival_names(arguments, game))
    rivals.push_back(make_player(name, as_trained(game), ActMode::sample));
  return rivals;
}

/// What was found out of all that were judged.
struct EvalResults {
  Table table;  ///< for people
  nlohmann::json rows = nlohmann::json::array();
  int64_t cut = 0, given_up = 0;  ///< as EvalResult has them
  bool none_ended = false;        ///< of somebody, in a run of steps
};

/// Judges each of them, in games of two against each rival that the command line says.
EvalResults judge(const std::vector<Judged>& all, const Game& game, const EvalRequest& request) {
  const auto rivals = rivals_of(request.arguments, game);
  EvalOptions options = request.options;
  std::vector<std::string> headings{"actions"};
  const bool games = !rivals.empty() || game.spec.games;
  if (!rivals.empty()) headings.push_back("against");
  if (games) headings.insert(headings.end(), {">won", ">drawn", ">lost"});
  headings.insert(headings.end(), {">episodes", ">return", ">std", ">min", ">max", ">length"});
  for (const auto& event : game.spec.events) headings.push_back(">" + event + "/1k");
  // of games the columns won, drawn and lost say the same
  const auto shares = game.spec.games ? std::vector<EventShare>{} : game.spec.shares;
  for (const auto& share : shares) headings.push_back(">" + share.name);
  EvalResults results{.table = Table(headings)};
  std::vector<Player*> met;
  for (const auto& rival : rivals) met.push_back(rival.get());
  if (met.empty()) met.push_back(nullptr);
  for (const Judged& one : all)
    for (Player* rival : met) {
      options.against = rival;
      const auto span = maglev::trace::stage("judge");
      const EvalResult r = evaluate(*one.player, game, options);
      results.cut += r.cut, results.given_up += r.given_up;
      results.none_ended |= options.steps > 0 && r.episodes == 0;
      nlohmann::json& row = results.rows.emplace_back(to_json(r, one.actions));
      std::vector<std::string> cells{one.actions};
      if (one.temperature != 1) {
        row["temperature"] = one.temperature;
        cells[0] += printed(", T = %g", double(one.temperature));
      }
      if (rival) {
        row["against"] = rival->name();
        cells.push_back(rival->name());
      }
      if (games) {
        row["wins"] = r.wins, row["draws"] = r.draws, row["losses"] = r.losses;
        for (int64_t n : {r.wins, r.draws, r.losses}) cells.push_back(std::to_string(n));
      }
      cells.push_back(std::to_string(r.episodes));
      for (double x : {r.return_mean, r.return_std, r.return_min, r.return_max, r.length_mean})
        cells.push_back(fixed(x));
      for (const auto& [name, value] : r.events_per_1k) cells.push_back(fixed(value));
      for (size_t i = 0; i < shares.size(); ++i) {
        const double share = r.shares[i].second;
        cells.push_back(std::isfinite(share) ? printed("%.1f %%", 100 * share) : "-");
      }
      results.table.add(cells);
    }
  return results;
}

/// What a judgement is of besides checkpoint and settings.
nlohmann::json asked_of(const EvalRequest& request) {
  const EvalOptions& options = request.options;
  nlohmann::json asked{{"actions", name_of(request.actions)}, {"seed", options.seed}};
  if (options.steps > 0) asked["steps"] = options.steps;
  else asked["episodes"] = options.episodes;
  if (options.envs > 0) asked["envs"] = options.envs;
  if (const auto against = request.arguments.value("--against")) asked["against"] = *against;
  if (request.temperature != 1) asked["temperature"] = request.temperature;
  if (request.arguments.has("--imagine"))
    asked["imagined"] = {request.length.seen, request.length.imagined};
  return asked;
}

std::vector<std::string> appended(std::vector<std::string> settings,
                                  const std::vector<std::string>& more) {
  settings.insert(settings.end(), more.begin(), more.end());
  return settings;
}

/// Those in which it was judged, where there are any: threads change nothing of what is found.
void add_settings(nlohmann::json& report, std::vector<std::string> settings) {
  take_threads(settings);
  if (!settings.empty()) report["settings"] = settings;
}

/// What people see: a line on what was judged, and the table.
void show(const std::string& what, const EvalResults& results, const EvalOptions& options) {
  std::printf("%s\n", what.c_str());
  print(results.table.text(probe_terminal(STDOUT_FILENO)));
  const std::string note = unended_note(results.cut, results.given_up, options.longest_episode);
  if (!note.empty()) std::printf("%s; --steps N judges by steps instead\n", note.c_str());
  if (results.none_ended)
    std::printf("no episode ended within these steps: take more, or --episodes N\n");
}

/// Whether the folder takes what was found out about its run, beside what was found out before.
bool keep(const std::string& folder, const nlohmann::json& report) {
  const std::string path = folder + "/eval.json";
  try {
    const std::string before = path_exists(path) ? read_file(path, kMaxKeptBytes) : "";
    write_atomic(path, with_earlier(report, before).dump(2) + "\n");
    return true;
  } catch (const Error& e) {
    std::fprintf(stderr, "maglev: the result above was not kept: %s\n", e.what());
    return false;
  }
}

/// What was found out of a run, and whether its folder took it.
struct RunReport {
  nlohmann::json json;
  bool kept;
};

/// Flags of a run that would be without effect are mistakes.
void expect_run_flags(const EvalRequest& request) {
  const Arguments& arguments = request.arguments;
  const bool pictured = arguments.has("--imagine");
  for (const char* flag : {"--seen", "--imagined"})
    if (!pictured && arguments.has(flag))
      throw Error("[eval] " + std::string(flag) + " says how --imagine FILE draws; give that too");
  if (!pictured && !arguments.has("--trace") && arguments.has("--overwrite"))
    throw Error("[eval] --overwrite goes with --imagine FILE or --trace FILE");
  if (arguments.has("--quantile") != arguments.has("--base"))
    throw Error("[eval] a quantiliser wants both --quantile Q and --base RUN");
  if (arguments.has("--quantile") && request.actions != Actions::sample)
    throw Error(
        "[eval] a quantiliser draws its actions, whose likeliest are bounded by nothing; leave out "
        "--actions");
  for (const char* flag : {"--quantile", "--imagine"})
    if (arguments.has("--temperature") && arguments.has(flag))
      throw Error("[eval] " + std::string(flag) +
                  " is of the policy as it learned; leave out --temperature");
}

/// What --imagine draws into. Throws Error where the run has no world model.
std::unique_ptr<Animation> opened_picture(const Experiment& trained, const std::string& file) {
  if (!trained.algo().make_imagination)
    throw Error("[eval] " + std::string(trained.algo().name) +
                " has no world model whose pictures could be drawn; leave out --imagine");
  return recording_to(file);
}

/// Draws the dream of a run to the end; returns how far off it is.
std::vector<DreamError> draw(const Dreamed& dreamed, bool as_strip, Animation& into) {
  if (as_strip) draw_strip(dreamed, into);
  else draw_moving(dreamed, into);
  into.finish();
  return errors_of(dreamed);
}

/// The policy of `run`, once for each way its actions are asked for; with `base` a quantiliser of
/// both, which acts within the share --quantile.
std::vector<Judged> players_of(RunPolicy& run, RunPlayer* base, const Game& game,
                               const EvalRequest& request) {
  const auto share = request.arguments.number_above("--quantile", 0, 1);
  std::vector<Judged> players;
  for (ActMode mode : modes_of(request.actions)) {
    std::unique_ptr<Player> player;
    if (base)
      player = std::make_unique<Quantiliser>(run.policy(), base->policy(), *share, mode, game.spec);
    else
      player = std::make_unique<PolicyPlayer>(run.policy(), run.experiment().algo().name, mode,
                                              temperature_in(mode, request));
    players.push_back({name_of(mode), std::move(player), temperature_in(mode, request)});
  }
  return players;
}

/// `print_json`: what --json asks for is printed; not where the run is one of several.
RunReport judge_run(const EvalRequest& request, const RunName& named, bool print_json) {
  const Arguments& arguments = request.arguments;
  Traced& traced = request.traced;
  const std::string& folder = named.folder;
  const auto picture = arguments.output("--imagine");
  expect_run_flags(request);

  // the environment may be asked to differ from training, e.g. env.energy=true, or to lie elsewhere,
  // and a policy to act otherwise, e.g. tdmpc2.iterations=3
  const GivenSettings given = sorted_settings("eval", traced.settings(), {folder});
  print_notes(run_notes(folder, traced.settings()));
  auto judged = experiment_of(folder);
  judged->table().override_with(given.env);
  const Judging judging = judging_of(judged->env(), judged->env_params(), given.env);
  judged->table().override_with(judging.settings);
  if (!judging.note.empty()) print_notes({judging.note});
  std::vector<std::string> own = file_settings(judged->env(), judged->env_params());
  std::ranges::remove_copy_if(traced.settings(), std::back_inserter(own),
                              [](const auto& s) { return s.starts_with("env."); });
  RunPolicy run(folder, named.checkpoint, own);
  const Experiment& trained = run.experiment();
  std::unique_ptr<Animation> drawn;
  if (picture) drawn = opened_picture(trained, *picture);
  expect_same_columns(trained, folder, judged->spec(), given.env);

  nlohmann::json report = {
      {"run", folder}, {"checkpoint", run.checkpoint()}, {"step", run.identity().step}};
  report["asked"] = asked_of(request);
  add_settings(report, appended(traced.settings(), judging.settings));
  const auto share = arguments.number_above("--quantile", 0, 1);
  const auto base_folder = arguments.value("--base");
  if (share) report["quantile"] = *share, report["base"] = *base_folder;
  // what a world model makes of it, before the long work: what cannot be drawn is said now
  std::vector<DreamError> dream_errors;
  if (drawn) dream_errors = draw(dream(run, *judged, request), picture->ends_with("png"), *drawn);
  for (const DreamError& e : dream_errors)
    report["world_model"][e.column] = {{"error_seen", finite_or_null(e.seen)},
                                       {"error_imagined", finite_or_null(e.imagined)},
                                       {"error_still", finite_or_null(e.still)}};
  const Game game = game_of(*judged, run.placement(), run.pool());
  std::unique_ptr<RunPlayer> base;
  if (base_folder) {
    const auto base_name = run_named(*base_folder);
    if (!base_name) throw no_run(*base_folder);
    base = std::make_unique<RunPlayer>(*base_name, game, ActMode::sample);
  }
  const EvalResults results = judge(players_of(run, base.get(), game, request), game, request);
  report["results"] = results.rows;
  // what was found out is shown first: the folder may be one that cannot be written
  const std::string text = report.dump(2) + "\n";
  if (arguments.has("--json")) {
    if (print_json) print(text);
  } else {
    show(std::string(trained.algo().name) + " on " + env_title(trained) + ", step " +
             std::to_string(run.identity().step) + ", " + run.checkpoint(),
         results, request.options);
    for (const DreamError& e : dream_errors)
      std::printf(
          "%s: the world model is off by %.3g%s where it saw, %.3g where it imagined; what "
          "it saw last, held still there, by %.3g\n",
          e.column.c_str(), e.seen, e.most > 0 ? printed(" of %.0f", e.most).c_str() : "",
          e.imagined, e.still);
    if (drawn) std::printf("drawn to %s\n", picture->c_str());
  }
  // a quantiliser is not the run
  const bool kept = base || keep(folder, report);
  traced.finish({.run = folder,
                 .algorithm = trained.algo().name,
                 .environment = trained.env().name,
                 .device = run.placement().device.str(),
                 .threads = run.placement().threads});
  return {.json = std::move(report), .kept = kept};
}

/// Each seed of a folder as a run by itself, then the mean over them.
int judge_seeds(const EvalRequest& request, const RunName& seeds) {
  const Arguments& arguments = request.arguments;
  const std::string& folder = seeds.folder;
  const std::vector<std::string> runs = train::seeds_to_judge("eval", folder);
  for (const char* flag :
       {"--imagine", "--seen", "--imagined", "--trace", "--overwrite", "--base", "--quantile"})
    if (arguments.has(flag))
      throw Error("[eval] " + std::string(flag) + " is for one run; name a seed, e.g. " + runs[0]);
  std::vector<nlohmann::json> reports;
  bool kept = true;
  for (const std::string& run : runs) {
    RunReport report = judge_run(request, {.folder = run, .checkpoint = seeds.checkpoint},
                                 /*print_json=*/false);
    kept &= report.kept;
    reports.push_back(std::move(report.json));
  }
  const nlohmann::json results = over_seeds(reports);
  if (arguments.has("--json"))
    print(nlohmann::json{{"seeds", folder}, {"results", results}, {"runs", reports}}.dump(2) +
          "\n");
  else print("\n" + over_seeds_text(results));
  return kept ? 0 : 1;
}

/// A player that no run here is judged by: scripted, or a run on another's environment.
int judge_player(const EvalRequest& request, const std::string& env, const std::string& name) {
  const Arguments& arguments = request.arguments;
  Traced& traced = request.traced;
  for (const char* flag :
       {"--imagine", "--seen", "--imagined", "--checkpoint", "--base", "--quantile"})
    if (arguments.has(flag))
      throw Error("[eval] " + std::string(flag) + " is for a run by itself; leave it out");
  if (arguments.has("--overwrite") && !arguments.has("--trace"))
    throw Error("[eval] --overwrite goes with --trace FILE; leave it out");
  const EnvEntry& entry = find_env(env);
  GivenSettings given = sorted_settings("eval", traced.settings(), {name});
  const EnvParams params(entry, given.env);
  const Judging judging = judging_of(entry, params.get(), traced.settings());
  given.env = appended(std::move(given.env), judging.settings);
  if (!judging.note.empty()) print_notes({judging.note});
  const OpenGame open(entry, given, kMostEvalEnvs);
  const Game& game = open.game();
  print_notes(guest_notes(name, given.acting, params.table()));
  const auto scripted = scripted_players(entry);
  const auto game_at = [&](float temperature) {
    Game at = game;
    at.temperature = temperature;
    return at;
  };
  std::vector<Judged> all;
  // a script has one way to play
  if (std::ranges::find(scripted, name) != scripted.end())
    all.push_back({name == RandomPlayer::kRandom ? name : "scripted",
                   make_player(name, game_at(request.temperature), ActMode::sample)});
  else
    for (ActMode mode : modes_of(request.actions)) {
      const float temperature = temperature_in(mode, request);
      all.push_back({name_of(mode), make_player(name, game_at(temperature), mode), temperature});
    }
  nlohmann::json report = {{"environment", entry.name}, {"player", name}};
  add_settings(report, appended(traced.settings(), judging.settings));
  const EvalResults results = judge(all, game, request);
  report["results"] = results.rows;
  if (arguments.has("--json")) print(report.dump(2) + "\n");
  else show(name + " on " + entry.name, results, request.options);
  traced.finish({.run = name,
                 .algorithm = name,
                 .environment = entry.name,
                 .device = game.placement.device.str(),
                 .threads = game.placement.threads});
  return 0;
}

int run(const std::vector<std::string>& words) {
  const Arguments arguments(entry(), words, grammar());
  if (arguments.help()) return arguments.print_help();
  const Actions actions =
      arguments.choice<Actions>("--actions")
          .value_or(arguments.has("--quantile") || arguments.has("--temperature") ? Actions::sample
                                                                                  : Actions::both);
  const float temperature = play::temperature_given(arguments).value_or(1);
  expect_drawn("eval", actions == Actions::mean ? ActMode::mean : ActMode::sample, temperature);
  for (const std::string& setting : arguments.settings())
    if (name_part(setting) == "seed")
      throw Error("[eval] the seed of an evaluation is --seed " +
                  setting.substr(setting.find('=') + 1) + "; leave out '" + setting + "'");
  if (arguments.has("--episodes") && arguments.has("--steps"))
    throw Error("[eval] --episodes and --steps each say how long to judge; give one of them");
  EvalOptions options;
  options.episodes = arguments.integer("--episodes", 1, 1'000'000).value_or(options.episodes);
  options.steps = arguments.integer("--steps", 1, int64_t(1) << 50).value_or(0);
  options.envs = arguments.integer("--envs", 1, 1 << 20).value_or(0);
  options.seed =
      uint64_t(arguments.integer("--seed", 0, int64_t(1) << 53).value_or(int64_t(options.seed)));
  DreamLength length;
  length.seen = arguments.integer("--seen", 1, kMostDreamSteps).value_or(length.seen);
  length.imagined = arguments.integer("--imagined", 1, kMostDreamSteps).value_or(length.imagined);
  Traced traced(arguments, entry(), /*on_device=*/true);
  claim_threads();
  const EvalRequest request{.arguments = arguments,
                            .traced = traced,
                            .actions = actions,
                            .temperature = temperature,
                            .options = options,
                            .length = length};
  const auto& names = arguments.positional();
  const auto env =
      std::ranges::find_if(env_table(), [&](const EnvEntry& e) { return names[0] == e.name; });
  const bool on_env = env != env_table().end();
  auto seeds = train::seeds_named(names[0]);
  if (names.size() > 1 && !on_env && (run_named(names[0]) || seeds))
    throw Error("[eval] judges one run at a time, or the seeds of one folder, got " + names[0] +
                ", " + names[1] + (names.size() > 2 ? ", ..." : "") +
                "; in a shell: for run in ...; do " + command_name() + " eval $run; done");
  if (names.size() > 2)
    throw Error("[eval] expects an environment and one player, got also '" + names[2] + "'");
  if (names.size() == 2) return judge_player(request, names[0], names[1]);
  if (seeds) {
    seeds->checkpoint = checkpoint_asked("eval", arguments, *seeds);
    return judge_seeds(request, *seeds);
  }
  if (on_env && !is_run(names[0]))
    throw Error("[eval] " + names[0] + " is an environment; say who plays it: " +
                joined(scripted_players(*env)) + " or the folder of a run");
  auto named = run_named(names[0]);
  if (!named) throw no_run(names[0]);
  named->checkpoint = checkpoint_asked("eval", arguments, *named);
  const RunReport report = judge_run(request, *named, /*print_json=*/true);
  return report.kept ? 0 : 1;
}

}  // namespace

VerbEntry entry() {
  return {
      .name = "eval",
      .summary = "judge a run's policy, or a player of an environment: fixed seeds",
      .usage =
          "eval <run> | <folder of seeds> | <environment> <player> [--episodes N | --steps N] "
          "[--actions mean|sample|both] [--temperature T] [setting=value ...]\n"
          "  a player is one of the environment's scripted ones, random or the folder of a run;\n"
          "  settings: env.*, threads=N, and those that say how a policy acts (\"acting\" in train "
          "--help)",
      .run = run};
}

}  // namespace maglev::verbs::eval
