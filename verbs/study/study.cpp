// maglev study: a whole experiment as one command, with a report.

#include <csignal>
#include <cstdio>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "base/core/error.h"
#include "base/core/file.h"
#include "base/core/home.h"
#include "base/core/shell_word.h"
#include "base/core/split.h"
#include "engine/host/machine.h"
#include "verbs/arguments.h"
#include "verbs/study/job.h"
#include "verbs/study/judge.h"
#include "verbs/study/report.h"
#include "verbs/table.h"
#include "verbs/train/seeds.h"
#include "verbs/verb.h"

namespace maglev::verbs::study {

VerbEntry entry();

namespace {

constexpr const char* kJudge = "judge";
constexpr size_t kMostWords = 1000;

Grammar grammar() {
  return {
      .flags = {{"--seeds", "N", "training seeds of each arm, from 1 on (default 5)"},
                {"--steps", "N",
                 "steps of each run, in whole iterations (default: as configs/ says)"},
                {"--arms", "NAMES", "by commas (default: all of the study)"},
                {"--config", "FILE",
                 "settings of all arms from YAML or JSON, before those on the command line"},
                {"--bare", "", "do not load the proven settings"},
                {"--out", "DIR", "folder of runs and report (default runs/study-<study>)"},
                {"--report", "FILE",
                 "write the report to FILE, which ends in .md, and its figures beside it as well"},
                {"--eval-envs", "N",
                 "worlds each run is judged in (default 8192: hours on a processor, where 256 "
                 "are enough)"},
                {"--eval-steps", "N",
                 "steps in each of them (default 16384; on a processor 1024 are enough)"},
                {"--eval-seed", "S", "seed of these worlds and of draws (default 1000003)"},
                {"--overwrite", "",
                 "move another study in DIR aside, and replace the files of --report"},
                {"--json", "", "of judge: print JSON instead of tables"}},
      .least = 1,
      .most = kMostWords,
      .names = "<study> | judge <run> ...",
      .settings = true};
}

/// What makes it again, without where it lies here and how many threads it had.
std::string command_of(const StudyRequest& request, const std::string& arms) {
  std::string text =
      command_name() + " study " + request.plan->name + " --seeds " + std::to_string(request.seeds);
  if (request.steps > 0) text += " --steps " + std::to_string(request.steps);
  if (!arms.empty()) text += " --arms " + arms;
  text += flags_of(request.protocol);
  if (request.files.bare) text += " --bare";
  if (request.files.config) text += " --config " + shell_word(*request.files.config);
  std::vector<std::string> settings = request.settings;
  take_threads(settings);
  for (const std::string& setting : settings) text += " " + shell_word(setting);
  return text;
}

/// Where a report goes besides: its path without .md. Throws Error where it may not.
std::string report_stem(const Arguments& arguments) {
  const auto file = arguments.value("--report");
  if (!file) return "";
  // a folder that is not there is made
  if (path_exists(*file)) arguments.output("--report");
  if (!file->ends_with(".md"))
    throw Error("[study] --report wants a Markdown file, e.g. docs/study.md, got '" + *file + "'");
  return file->substr(0, file->size() - 3);
}

Protocol protocol_given(const Arguments& arguments) {
  Protocol protocol;
  protocol.envs = arguments.integer("--eval-envs", 1, 1 << 20).value_or(protocol.envs);
  protocol.steps = arguments.integer("--eval-steps", 1, 1 << 24).value_or(protocol.steps);
  protocol.seed = uint64_t(
      arguments.integer("--eval-seed", 0, int64_t(1) << 53).value_or(int64_t(protocol.seed)));
  return protocol;
}

int judge_given(const Arguments& arguments) {
  const auto& words = arguments.positional();
  if (words.size() < 2)
    throw Error("[study] judge expects runs, e.g. " + command_name() + " study judge RUN");
  for (const char* flag : {"--seeds", "--steps", "--arms", "--config", "--bare", "--out"})
    if (arguments.has(flag))
      throw Error("[study] " + std::string(flag) +
                  " is of a study, and judge takes runs as they are; leave it out");
  return judge_runs({.runs = {words.begin() + 1, words.end()},
                     .protocol = protocol_given(arguments),
                     .settings = arguments.settings(),
                     .json = arguments.has("--json"),
                     .report = report_stem(arguments)});
}

/// What was judged is written down as it was judged: who is asked to stop then leaves at once.
void leave_at_once(int) {
  constexpr char text[] = "stopped; the same command goes on\n";
  [[maybe_unused]] const auto written = ::write(STDERR_FILENO, text, sizeof text - 1);
  ::_exit(train::kStopped);
}

int run(const std::vector<std::string>& words) {
  const Arguments arguments(entry(), words, grammar());
  if (arguments.help()) {
    arguments.print_help();
    for (const Plan& plan : plans()) {
      print("\n" + std::string(plan.name) + ": " + plan.summary + "\n");
      for (const Arm& arm : plan.arms)
        print("  " + std::string(arm.name) + (*arm.summary ? ": " : "") + arm.summary + "\n");
    }
    return 0;
  }
  claim_threads();
  if (arguments.positional()[0] == kJudge) return judge_given(arguments);
  if (arguments.positional().size() > 1)
    throw Error("[study] expects one study, got also '" + arguments.positional()[1] + "'");
  if (arguments.has("--json"))
    throw Error("[study] --json is of judge; a study writes results.json into its folder");
  const std::string stem = report_stem(arguments);
  const Plan& plan = find_plan(arguments.positional()[0]);
  const std::string arms = arguments.value("--arms").value_or("");
  StudyRequest request{
      .plan = &plan,
      .arms = chosen_arms(plan, split_list(arms, "--arms")),
      .folder = arguments.value("--out").value_or("runs/study-" + std::string(plan.name)),
      .protocol = protocol_given(arguments),
      .files = {.bare = arguments.has("--bare"), .config = arguments.value("--config")},
      .settings = arguments.settings(),
      .overwrite = arguments.has("--overwrite")};
  request.seeds = arguments.integer("--seeds", 1, 1000).value_or(request.seeds);
  request.steps = arguments.integer("--steps", 1, int64_t(1) << 50).value_or(0);

  // wherever no run is asked to stop in its place
  for (int signal : {SIGINT, SIGTERM}) std::signal(signal, leave_at_once);
  StudyJob job(std::move(request));
  if (job.train() != RunOutcome::finished) {
    std::fprintf(stderr, "stopped; the same command goes on\n");
    return train::kStopped;
  }
  const std::vector<ArmResult> results = job.judge();
  const StudyRequest& made = job.request();
  const Page page = report_of(made, results, command_of(made, arms));
  write_atomic(made.folder + "/results.json", json_of(made, results).dump(2) + "\n");
  write_atomic(made.folder + "/report.html", html(page));
  write_markdown(page, made.folder + "/report");
  if (!stem.empty()) write_markdown(page, stem);
  for (const auto& part : page.parts)
    if (const auto* found = std::get_if<Bullets>(&part))
      for (const std::string& item : found->items) print(item + "\n");
  print("report: " + made.folder + "/report.html\n");
  return 0;
}

}  // namespace

VerbEntry entry() {
  return {
      .name = "study",
      .summary = "a whole experiment as one job: trains, judges, compares, reports",
      .usage =
          "study <study> [--seeds N] [--steps N] [--arms NAMES] [--out DIR] "
          "[+hardware=auto|NAME|FILE] [setting=value ...]\n"
          "  stopped, it goes on by the same command\n"
          "study judge <run> ... [--eval-envs N] [--eval-steps N] [--eval-seed S] [--json] "
          "[--report FILE] "
          "[setting=value ...]\n"
          "  judges runs of any algorithm on goodhart by the same protocol, and tests each pair: a "
          "run, <run>@<checkpoint>, a folder of seeds, or a scripted player such as random;\n"
          "  settings: env.*, threads=N, and those that say how a policy acts (\"acting\" in "
          "train --help)",
      .run = run};
}

}  // namespace maglev::verbs::study
