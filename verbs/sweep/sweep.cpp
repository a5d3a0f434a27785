// maglev sweep: searches for settings, by trials that are trained side by side.

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <iterator>
#include <string_view>

#include <yaml-cpp/yaml.h>

#include "base/core/error.h"
#include "base/core/file.h"
#include "base/core/find.h"
#include "base/core/home.h"
#include "base/core/shell_word.h"
#include "base/core/split.h"
#include "engine/host/machine.h"
#include "engine/train/training_run.h"
#include "verbs/bench/arms.h"
#include "verbs/notes.h"
#include "verbs/settings.h"
#include "verbs/sweep/board.h"
#include "verbs/sweep/confirm.h"
#include "verbs/sweep/optuna.h"
#include "verbs/sweep/report.h"
#include "verbs/sweep/work.h"
#include "verbs/table.h"
#include "verbs/train/seeds.h"
#include "verbs/verb.h"

namespace maglev::verbs::sweep {

enum class Backend { embedded, optuna };
constexpr auto names_of(Backend) { return std::array{"embedded", "optuna"}; }
enum class Scheduler { none, asha };
constexpr auto names_of(Scheduler) { return std::array{"none", "asha"}; }

VerbEntry entry();

namespace {

constexpr size_t kTableRows = 10;
constexpr size_t kMaxSpaceBytes = 1 << 20;
constexpr const char* kFileLine = "lines such as ppo.lr: 1e-5..1e-2:log";

Grammar grammar() {
  return {
      .flags =
          {{"--space", "SPACE",
            "NAME=low..high, NAME=low..high:log, NAME=64..1024:pow2, NAME=a,b,c, NAME (its "
            "choices, "
            "or around what it is), or a YAML file of such; may be given several times"},
           {"--sampler", "NAME", "random, tpe (default), cmaes, pareto or pbt"},
           {"--scheduler", "NAME", "asha stops trials early; none (default)"},
           {"--trials", "N", "how many (default 50)"},
           {"--budget", "TIME", "no trial of this process begins later, e.g. 600s or 10m"},
           {"--until", "SCORE", "no trial begins once one scored as much"},
           {"--parallel", "N", "trials side by side (default: as threads and memory allow)"},
           {"--seeds", "N", "runs of each trial; their mean is its score (default 1)"},
           {"--search-seed", "N", "of the sampler (default 1)"},
           {"--start", "N", "tpe, pareto: trials at random first (default 10)"},
           {"--independent", "", "tpe: one setting at a time"},
           {"--population", "N", "pbt: its members (default 8)"},
           {"--rung", "STEPS", "asha: the first rung (default: a 27th of train.steps)"},
           {"--keep", "N", "asha: of so many one is promoted (default 3)"},
           {"--confirm", "N",
            "at the end, the best settings and those it began with once more, by N new seeds each"},
           {"--backend", "NAME", "optuna asks Optuna, where it is installed (default embedded)"},
           {"--out", "DIR", "folder (default runs/sweep-<algorithm>-<environment>)"},
           {"--slurm", "N", "write DIR/sweep.sbatch, an array of N workers, and train nothing"},
           {"--config", "FILE", "settings from YAML or JSON, before those on the command line"},
           {"--bare", "", "do not load the proven settings"}},
      .least = 2,
      .most = 2,
      .names = "<algorithm> <environment>",
      .settings = true};
}

// not a number where it is none
double number_now(const Field& field) {
  return std::visit(
      []<class T>(const T& member) -> double {
        if constexpr (std::is_pointer_v<T>)
          if constexpr (std::is_arithmetic_v<std::remove_pointer_t<T>>) return double(*member);
        return NAN;
      },
      field.member);
}

std::vector<search::Setting> known_settings(const OptionTable& table) {
  std::vector<search::Setting> known;
  for (const Field& field : table.fields()) {
    search::Setting setting{.name = field.name,
                            .low = field.rule.min,
                            .high = field.rule.max,
                            .now = number_now(field)};
    using Kind = search::Dimension::Kind;
    const auto is = [&]<class T>(T*) { return std::holds_alternative<T*>(field.member); };
    if (is((int32_t*)nullptr) || is((int64_t*)nullptr) || is((uint64_t*)nullptr))
      setting.kind = Kind::integer;
    else if (!is((float*)nullptr) && !is((double*)nullptr)) setting.kind = Kind::choice;
    if (is((bool*)nullptr)) setting.choices = {"false", "true"};
    if (const auto* choice = std::get_if<ChoiceMember>(&field.member))
      setting.choices = {choice->names.begin(), choice->names.end()};
    known.push_back(std::move(setting));
  }
  return known;
}

// a value that is a list itself, such as layers, in brackets
std::string value_text(const YAML::Node& value) {
  YAML::Emitter text;
  text << YAML::Flow << value;
  return value.IsScalar() ? value.Scalar() : text.c_str();
}

// dotted names of nested maps; a list becomes its values by commas
void add_lines(const YAML::Node& node, const std::string& name, std::vector<std::string>& lines) {
  if (node.IsMap()) {
    for (const auto& item : node)
      add_lines(item.second, (name.empty() ? "" : name + ".") + item.first.as<std::string>(),
                lines);
    return;
  }
  std::string values;
  if (node.IsSequence())
    for (const auto& item : node) values += (values.empty() ? "" : ",") + value_text(item);
  else if (node.IsScalar()) values = node.as<std::string>();
  lines.push_back(values.empty() ? name : name + "=" + values);
}

// dimensions as people write them, and the file that they stand in; empty: the command line
struct SpaceLine {
  std::string text, file;
};

std::vector<SpaceLine> space_lines(const std::vector<std::string>& given) {
  std::vector<SpaceLine> lines;
  for (const std::string& word : given) {
    if (!word.ends_with(".yaml") && !word.ends_with(".yml")) {
      lines.push_back({word, ""});
      continue;
    }
    try {
      const YAML::Node file = YAML::Load(read_file(word, kMaxSpaceBytes));
      if (!file.IsMap()) throw Error("[" + word + "] expects " + kFileLine);
      std::vector<std::string> texts;
      add_lines(file, "", texts);
      for (const std::string& text : texts) lines.push_back({text, word});
    } catch (const YAML::Exception& error) {
      throw Error("[" + word + "] is no YAML: " + error.what());
    }
  }
  if (lines.empty())
    throw Error(
        "[sweep] nothing to search: say --space NAME=low..high, e.g. --space "
        "ppo.lr=1e-5..1e-2:log");
  return lines;
}

search::Dimension dimension_of(const SpaceLine& line, const std::vector<search::Setting>& known) {
  try {
    return search::parse_dimension(line.text, known);
  } catch (const Error& error) {
    if (line.file.empty()) throw;
    throw Error(std::string(error.what()) + "; " + line.file + " is to have " + kFileLine);
  }
}

// whether a policy may be better for it: what says when something is written, watched or ended, and
// on what it is computed, changes none
bool may_help(const std::string& name) {
  constexpr std::string_view kNone[] = {"seed",     "threads",   "device",
                                        "hardware", "processes", "machines"};
  return std::ranges::find(kNone, name) == std::end(kNone) &&
         (name == "train.steps" || !bench::unmeasured(name));
}

search::SearchSpace space_of(const Arguments& arguments, const Experiment& experiment) {
  const auto known = known_settings(experiment.table());
  search::SearchSpace space;
  for (const SpaceLine& line : space_lines(arguments.values("--space"))) {
    // before its values are asked for
    const std::string name(name_part(line.text));
    if (!may_help(name))
      throw Error("[--space " + name + "] does not make a policy better; leave it out");
    const search::Dimension d = dimension_of(line, known);
    for (const std::string& given : arguments.settings())
      if (name_part(given) == d.name)
        throw Error("[--space " + d.name + "] is searched, and " + given +
                    " would count in no trial; leave out one of them");
    space.add(d);
  }
  // what a setting refuses by itself is said before anything is trained
  Experiment scratch(experiment.algo().name, experiment.env().name);
  for (const search::Dimension& d : space.dimensions())
    for (size_t c = 0; c < d.choices.size(); ++c)
      scratch.table().set(d.name, d.choices[c], "--space " + d.name);
  return space;
}

SweepRequest request_of(const Arguments& arguments, const Experiment& experiment) {
  SweepRequest request{.algo = experiment.algo().name,
                       .env = experiment.env().name,
                       .settings = experiment.table().yaml(),
                       .space = space_of(arguments, experiment)};
  for (const Field& field : experiment.table().fields())
    // what tune found on another machine, or has found since, makes no other sweep
    if (!field.rule.free || (field.origin == Origin::command_line && field.name != "threads"))
      request.named[field.name] = field.text();
  request.sampler = arguments.value("--sampler").value_or("tpe");
  find_row(search::sampler_table(), request.sampler, "[sweep] ", "sampler");
  const bool asha =
      arguments.choice<Scheduler>("--scheduler").value_or(Scheduler::none) == Scheduler::asha;
  const bool estimates = request.sampler == "tpe" || request.sampler == "pareto";
  const auto of_another = [&](const char* flag, bool has, const std::string& whose) {
    if (!has && arguments.has(flag))
      throw Error("[sweep] " + std::string(flag) + " is of " + whose + "; leave it out, or say " +
                  whose);
  };
  for (const char* flag : {"--rung", "--keep"}) of_another(flag, asha, "--scheduler asha");
  of_another("--population", request.sampler == "pbt", "--sampler pbt");
  of_another("--independent", request.sampler == "tpe", "--sampler tpe");
  of_another("--start", estimates, "--sampler tpe");
  auto& options = request.options;
  options.independent = arguments.has("--independent");
  options.start = arguments.integer("--start", 1, 100'000).value_or(options.start);
  options.population = arguments.integer("--population", 2, 10'000).value_or(options.population);
  request.seed = uint64_t(arguments.integer("--search-seed", 0, int64_t(1) << 53).value_or(1));
  request.seeds = arguments.integer("--seeds", 1, 1000).value_or(1);
  request.trials = arguments.integer("--trials", 1, 1'000'000).value_or(50);
  if (asha) {
    const auto& space = request.space.dimensions();
    if (std::ranges::find(space, "train.steps", &search::Dimension::name) != space.end())
      throw Error(
          "[sweep] --scheduler asha compares trials at the same steps, and --space train.steps has "
          "them end elsewhere; leave out one of them");
    const int64_t steps = experiment.run.steps;
    request.asha = search::Asha::with(
        arguments.integer("--rung", 1, steps).value_or(std::max<int64_t>(1, steps / 27)), steps,
        arguments.number("--keep", 1.5, 100).value_or(3));
    if (request.seeds > 1)
      throw Error("[sweep] --scheduler asha compares single runs; leave out --seeds");
    if (request.sampler != "random" && request.sampler != "tpe")
      throw Error("[sweep] --scheduler asha goes with the samplers random and tpe, got " +
                  request.sampler + "; its trials end at unlike steps");
  }
  if (request.sampler == "pbt" && arguments.has("--confirm"))
    throw Error(
        "[sweep] --confirm trains the best settings anew, and a population's do not make its "
        "networks; leave it out");
  if (request.sampler == "pbt" && request.seeds > 1)
    throw Error("[sweep] --sampler pbt copies single runs; leave out --seeds");
  if (arguments.choice<Backend>("--backend").value_or(Backend::embedded) == Backend::optuna)
    request.python = find_optuna(request.sampler);
  return request;
}

// the command as it was given, without what is of this process alone
std::string command_of(const std::vector<std::string>& words) {
  std::string text = command_name() + " sweep";
  for (size_t i = 0; i < words.size(); ++i) {
    if (words[i] == "--slurm") ++i;
    else if (!words[i].starts_with("--slurm=")) text += " " + shell_word(words[i]);
  }
  return text;
}

void write_slurm(const Board& board, const std::string& command, int64_t workers, int64_t threads) {
  const std::string path = board.folder() + "/sweep.sbatch";
  write_atomic(path,
               "#!/bin/bash\n"
               "# workers of one sweep; each takes trials from the folder they share\n"
               "#SBATCH --job-name=maglev-sweep\n"
               "#SBATCH --array=1-" +
                   std::to_string(workers) + "\n#SBATCH --ntasks=1\n#SBATCH --cpus-per-task=" +
                   std::to_string(threads) + "\n#SBATCH --output=" + board.folder() +
                   "/worker-%a.txt\nexec " + command + "\n");
  print("submit with: sbatch " + path + "\n");
}

// what a sweep came to
struct Tried {
  std::vector<BoardTrial> trials;  // without copies of others
  size_t copies;
  std::vector<const BoardTrial*> best;  // of `trials`
  std::string unscored;                 // why some have no score, or ""
  int64_t failed;
};

Tried tried_on(const Board& board) {
  Tried tried{.trials = board.trials()};
  tried.copies =
      std::erase_if(tried.trials, [](const BoardTrial& row) { return row.same_as >= 0; });
  tried.best = ranked(tried.trials);
  tried.unscored = unscored_text(board, tried.trials);
  tried.failed = std::ranges::count_if(tried.trials, [](const BoardTrial& row) {
    return row.trial.state == search::TrialState::failed;
  });
  return tried;
}

void write_page(const Board& board, const Tried& tried, const std::string& command,
                const std::optional<Confirmation>& confirmation) {
  write_atomic(board.folder() + "/report.html",
               study::html(page_of(board, tried.trials, command, confirmation)));
}

// the page, the best settings as a file, and a table
void tell(const Board& board, const Tried& tried, const std::string& command) {
  const std::string& out = board.folder();
  const auto& best = tried.best;
  write_page(board, tried, command, /*confirmation=*/{});
  if (!best.empty()) {
    write_atomic(out + "/best.yaml", best_yaml(board, *best[0], tried.unscored));
    print(table_of(board, tried.trials, kTableRows));
    if (tried.copies > 0)
      print(std::to_string(tried.copies) +
            " more had settings that were tried, and their scores\n");
    const bool policy = board.request().sampler == "pbt";
    print((policy ? "\nbest policy: " : "\nbest settings: ") + best_command(board, *best[0]) +
          "\n");
    if (best[0]->trial.state == search::TrialState::stopped)
      print(
          "its score is that of a rung: it was not trained to its end; more --trials promote "
          "some\n");
    if (!tried.unscored.empty()) print(tried.unscored + "\n");
  }
  if (tried.failed > 0)
    print(std::to_string(tried.failed) + " failed, of which " + out +
          "/trials/*/trial.json say why\n");
  print("page: " + out + "/report.html\n");
}

// throws Error where it did not come to what it was for, `until` a score
void expect_score(const Tried& tried, double until, const std::string& command) {
  const auto& trials = tried.trials;
  if (!trials.empty() && tried.failed == std::ssize(trials))
    throw Error("[sweep] every trial failed; the last said: " + trials.back().message);
  const auto is_cut_off = [](const BoardTrial& row) {
    return row.trial.state == search::TrialState::running && !row.message.empty();
  };
  // a sweep that came to what it was for leaves them
  const bool enough = !tried.best.empty() && tried.best[0]->trial.score >= until;
  if (const auto it = std::ranges::find_if(trials, is_cut_off); it != trials.end() && !enough)
    throw Error("[sweep] " + std::to_string(std::ranges::count_if(trials, is_cut_off)) +
                " of the trials were cut off, trial " + std::to_string(it->trial.number) + ": " +
                it->message + "; the same command goes on with them: " + command);
  if (tried.best.empty() && !tried.unscored.empty()) throw Error("[sweep] " + tried.unscored);
}

// false: a signal stopped it
bool confirm_best(const Board& board, const Tried& tried, const std::string& command,
                  std::optional<int64_t> seeds) {
  if (tried.best.empty() || board.request().sampler == "pbt") return true;
  if (!seeds && !is_confirmed(board, *tried.best[0])) {
    if (tried.best.size() == 1) return true;
    print("the best of many scores is partly luck: --confirm 5 tells how much\n");
    return true;
  }
  // a budget or a score ended this one alone: the best may be yet to come
  if (board.trains_elsewhere()) {
    print_notes(
        {"another process still trains: the last one to end confirms the best, or the same "
         "command then does"});
    return true;
  }
  if (is_confirmed_elsewhere(board)) {
    print_notes({"another process confirms it; the same command then tells what it came to"});
    return true;
  }
  const auto confirmation = confirm(board, *tried.best[0], seeds);
  if (!confirmation) return false;
  write_page(board, tried, command, confirmation);
  print("\n" + text_of(*confirmation));
  return true;
}

int run(const std::vector<std::string>& words) {
  const Arguments arguments(entry(), words, grammar());
  if (arguments.help()) {
    arguments.print_help();
    print("\nsamplers:\n");
    for (const auto& sampler : search::sampler_table())
      print("  " + std::string(sampler.name) + ": " + sampler.summary + "\n");
    return 0;
  }
  claim_threads();
  const auto [algo, env] = algo_on_env(arguments.positional());
  Experiment experiment(algo, env);
  print_notes(load_settings(experiment, arguments, arguments.settings()).notes);
  print_notes(experiment.settle());
  // workers may be elsewhere
  if (const std::string note = settle_names(experiment); !note.empty()) print_notes({note});
  // as `train` would have them: a proven setting that cannot hold beside a trial's gives way
  const auto resolved = [&](const std::vector<std::string>& settings) {
    Experiment trial(experiment.algo().name, experiment.env().name);
    std::vector<std::string> words = arguments.settings();
    words.insert(words.end(), settings.begin(), settings.end());
    load_settings(trial, arguments, words);
    trial.settle();
    settle_names(trial);
    return trial.table().yaml();
  };
  const WorkOptions options{
      .parallel = arguments.integer("--parallel", 1, 10'000).value_or(0),
      .budget_s = arguments.seconds("--budget", 0, 1e9).value_or(INFINITY),
      .until = arguments.number("--until", -INFINITY, INFINITY).value_or(INFINITY),
      .resolved = resolved};
  // an interval takes two
  const auto confirm_by = arguments.integer("--confirm", 2, 1000);
  const std::string out = arguments.value("--out").value_or(
      std::string("runs/sweep-") + experiment.algo().name + "-" + experiment.env().name);
  Board board(request_of(arguments, experiment), out);
  const std::string command = command_of(words);
  if (const auto workers = arguments.integer("--slurm", 1, 100'000)) {
    write_slurm(board, command, *workers,
                place(experiment.run.device, experiment.run.threads).threads);
    return 0;
  }

  print_notes({"searches " + board.request().space.written()});
  const RunOutcome outcome = work(board, experiment, options);
  const Tried tried = tried_on(board);
  tell(board, tried, command);
  bool goes_on = outcome == RunOutcome::finished;
  if (goes_on) {
    expect_score(tried, options.until, command);
    goes_on = confirm_best(board, tried, command, confirm_by);
  }
  if (!goes_on) {
    std::fprintf(stderr, "stopped; the same command goes on: %s\n", command.c_str());
    return train::kStopped;
  }
  return 0;
}

}  // namespace

VerbEntry entry() {
  return {.name = "sweep",
          .summary = "search for settings: trials side by side, stopped early, resumable",
          .usage =
              "sweep <algorithm> <environment> --space SPACE ... [--trials N] [setting=value ...]\n"
              "  stopped, it goes on by the same command; a second process with the same command "
              "works on the same trials",
          .run = run};
}

}  // namespace maglev::verbs::sweep
