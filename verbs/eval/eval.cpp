// maglev eval: judges a run's policy under one fixed protocol.

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "base/core/error.h"
#include "base/core/file.h"
#include "base/core/split.h"
#include "base/core/terminal.h"
#include "engine/play/evaluate.h"
#include "engine/play/player.h"
#include "engine/play/record.h"
#include "engine/play/run_policy.h"
#include "engine/run/stored_experiment.h"
#include "verbs/arguments.h"
#include "verbs/eval/dreams.h"
#include "verbs/recording.h"
#include "verbs/table.h"
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

Grammar grammar() {
  return {.flags =
              {{"--episodes", "N",
                "episodes, each environment's first ones (default 100); one that does not end is "
                "given up after 100,000 steps"},
               {"--steps", "N", "run this many environment steps instead of counting episodes"},
               {"--envs", "N", "environments at once (default: one an episode, at most 256)"},
               {"--seed", "S", "seed of the evaluation's environments and draws (default 1000003)"},
               {"--against", "NAMES",
                "in games of two: scripted players or run folders, by commas (default: each "
                "scripted player)"},
               {"--actions", "HOW", "mean, sample or both (default both)"},
               {"--checkpoint", "WHICH", "latest, best or a checkpoint's folder (default latest)"},
               {"--imagine", "FILE",
                "draw what a world model sees and imagines beside what there was: .gif moves, .png "
                "is a strip; the run's policy plays all agents"},
               {"--seen", "N", "steps the world model is shown before it imagines (default 5)"},
               {"--imagined", "N", "steps it imagines from there (default 45)"},
               {"--overwrite", "", "replace FILE where it is there already"},
               {"--json", "", "print JSON instead of a table"}},
          .least = 1,
          .most = 1,
          .names = "<run>",
          .settings = true};
}

struct DreamLength {
  int64_t seen = 5, imagined = 45;
};

nlohmann::json number(double x) {
  return std::isfinite(x) ? nlohmann::json(x) : nlohmann::json(nullptr);
}

nlohmann::json to_json(const EvalResult& r) {
  nlohmann::json events = nlohmann::json::object();
  for (const auto& [name, value] : r.events_per_1k) events[name] = number(value);
  return {{"actions", r.mode},
          {"seed", r.seed},
          {"envs", r.envs},
          {"episodes", r.episodes},
          {"episodes_given_up", r.given_up},
          {"steps", r.steps},
          {"return_mean", number(r.return_mean)},
          {"return_std", number(r.return_std)},
          {"return_min", number(r.return_min)},
          {"return_max", number(r.return_max)},
          {"length_mean", number(r.length_mean)},
          {"events_per_1k", events},
          {"returns", r.returns},
          {"seconds", r.seconds}};
}

std::string fixed(double x) {
  char text[32] = "-";
  if (std::isfinite(x)) std::snprintf(text, sizeof text, "%.2f", x);
  return text;
}

std::vector<std::string> rival_names(const Arguments& arguments, const EnvEntry& env) {
  if (const auto chosen = arguments.value("--against")) return split_list(*chosen, "--against");
  std::vector<std::string> names;
  if (env.agents == 2)
    for (const Bot& bot : env.bots) names.emplace_back(bot.name);
  return names;
}

constexpr int64_t kDreamRows = 4, kMostDreamSteps = 1000;

/// What `trained`'s world model makes of play in `judged`. Throws Error where it has none.
Dreamed dream(const Experiment& trained, const Experiment& judged, const std::string& checkpoint,
              Policy& policy, const Placement& placement, ThreadPool& pool,
              const DreamLength& length, ActMode mode, uint64_t seed) {
  const auto model =
      trained.algo().make_imagination(trained.algo_options(), context_of(trained, placement, pool));
  load_section(checkpoint, "algo", {.algo = trained.algo().name, .env = trained.env().name},
               [&](StateVisitor& v) { model->visit_state(v); });
  const int64_t envs = std::max<int64_t>(1, kDreamRows / judged.env().agents);
  const Batch play = record_play(
      policy, judged, placement, pool,
      {.steps = length.seen + length.imagined - 1, .envs = envs, .seed = seed, .mode = mode});
  return {.columns = judged.spec().observations,
          .truth = play.obs,
          .model = model->imagine(play, length.seen, seed),
          .is_first = play.is_first,
          .seen = length.seen};
}

int run(const std::vector<std::string>& words) {
  const Arguments arguments(entry(), words, grammar());
  if (arguments.help()) return arguments.print_help();
  const std::string folder = arguments.positional()[0];
  const Actions actions = arguments.choice<Actions>("--actions").value_or(Actions::both);
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

  const auto picture = arguments.value("--imagine");
  for (const char* flag : {"--seen", "--imagined", "--overwrite"})
    if (!picture && arguments.has(flag))
      throw Error("[eval] " + std::string(flag) + " says how --imagine FILE draws; give that too");

  RunPolicy run(folder, arguments.value("--checkpoint").value_or("latest"));
  const Experiment& trained = run.experiment();
  std::unique_ptr<Animation> drawn;
  if (picture) {
    if (!trained.algo().make_imagination)
      throw Error("[eval] " + std::string(trained.algo().name) +
                  " has no world model whose pictures could be drawn; leave out --imagine");
    drawn = recording_to("eval", *picture, arguments.has("--overwrite"));
  }
  const Placement& placement = run.placement();
  ThreadPool& pool = run.pool();
  Policy& policy = run.policy();
  const std::string& checkpoint = run.checkpoint();

  // the environment may be asked to differ from training, e.g. env.energy=true
  auto judged = experiment_of(folder);
  for (const auto& setting : arguments.settings()) {
    if (!setting.starts_with("env."))
      throw Error("[eval] only env.* settings may differ from training, got '" + setting + "'");
    judged->table().override_with(setting);
  }

  nlohmann::json report = {{"run", folder},
                           {"checkpoint", checkpoint},
                           {"step", run.identity().step},
                           {"results", nlohmann::json::array()}};
  // what a world model makes of it, before the long work: what cannot be drawn is said now
  std::vector<DreamError> dream_errors;
  if (drawn) {
    const Dreamed dreamed = dream(trained, *judged, checkpoint, policy, placement, pool, length,
                                  modes_of(actions).front(), options.seed);
    dream_errors = errors_of(dreamed);
    if (picture->ends_with(".gif")) draw_moving(dreamed, *drawn);
    else draw_strip(dreamed, *drawn);
    drawn->finish();
    for (const DreamError& e : dream_errors)
      report["world_model"][e.column] = {{"error_seen", number(e.seen)},
                                         {"error_imagined", number(e.imagined)}};
  }
  // whom it meets: in games of two each scripted player, elsewhere nobody
  std::vector<std::unique_ptr<Player>> rivals;
  const Game game{.env = judged->env(),
                  .spec = judged->spec(),
                  .placement = placement,
                  .pool = pool,
                  .rows = context_of(*judged, placement, pool).rows};
  for (const std::string& name : rival_names(arguments, judged->env()))
    rivals.push_back(make_player(name, game, ActMode::sample));
  const bool games = !rivals.empty();
  if (!games) rivals.push_back(nullptr);
  std::vector<std::string> headings{"actions"};
  if (games) headings.insert(headings.end(), {"against", ">won", ">drawn", ">lost"});
  headings.insert(headings.end(), {">episodes", ">return", ">std", ">min", ">max", ">length"});
  for (const auto& event : judged->spec().events) headings.push_back(">" + event + "/1k");
  Table table(headings);
  int64_t given_up = 0;
  for (ActMode mode : modes_of(actions)) {
    options.mode = mode;
    for (const auto& rival : rivals) {
      options.against = rival.get();
      const EvalResult r = evaluate(policy, *judged, placement, pool, options);
      given_up += r.given_up;
      report["results"].push_back(to_json(r));
      std::vector<std::string> cells{r.mode};
      if (rival) {
        auto& row = report["results"].back();
        row["against"] = rival->name();
        row["wins"] = r.wins, row["draws"] = r.draws, row["losses"] = r.losses;
        cells.push_back(rival->name());
        for (int64_t n : {r.wins, r.draws, r.losses}) cells.push_back(std::to_string(n));
      }
      cells.push_back(std::to_string(r.episodes));
      for (double x : {r.return_mean, r.return_std, r.return_min, r.return_max, r.length_mean})
        cells.push_back(fixed(x));
      for (const auto& [name, value] : r.events_per_1k) cells.push_back(fixed(value));
      table.add(cells);
    }
  }
  // what was found out is shown first: the folder may be one that cannot be written
  const std::string text = report.dump(2) + "\n";
  if (arguments.has("--json")) {
    print(text);
  } else {
    std::printf("%s on %s, step %ld, %s\n", trained.algo().name, trained.env().name,
                long(run.identity().step), checkpoint.c_str());
    print(table.text(probe_terminal(STDOUT_FILENO)));
    for (const DreamError& e : dream_errors)
      std::printf("%s: the world model is off by %.3g where it saw, %.3g where it imagined\n",
                  e.column.c_str(), e.seen, e.imagined);
    if (drawn) std::printf("drawn to %s\n", picture->c_str());
    if (given_up > 0)
      std::printf(
          "%ld episodes had not ended after %ld steps and do not count; "
          "--steps N judges by steps instead\n",
          long(given_up), long(options.longest_episode));
  }
  try {
    write_atomic(folder + "/eval.json", text);
  } catch (const Error& e) {
    std::fprintf(stderr, "maglev: the result above was not kept: %s\n", e.what());
    return 1;
  }
  return 0;
}

}  // namespace

VerbEntry entry() {
  return {.name = "eval",
          .summary = "judge a run's policy: fixed seeds, mean and sampled actions",
          .usage =
              "eval <run> [--episodes N | --steps N] [--actions mean|sample|both] "
              "[env.setting=value ...]",
          .run = run};
}

}  // namespace maglev::verbs::eval
