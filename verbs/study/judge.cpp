#include "verbs/study/judge.h"

#include <cstdio>
#include <memory>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "base/core/error.h"
#include "base/core/home.h"
#include "base/core/shell_word.h"
#include "base/core/terminal.h"
#include "engine/host/machine.h"
#include "engine/run/checkpoint_store.h"
#include "engine/run/run_dir.h"
#include "engine/run/stored_experiment.h"
#include "verbs/notes.h"
#include "verbs/study/report.h"
#include "verbs/table.h"
#include "verbs/train/seed_runs.h"

namespace maglev::verbs::study {
namespace {

using Json = nlohmann::ordered_json;

/// A name that was given, and the runs it means.
struct Named {
  Arm arm;
  std::vector<RunName> runs;
};

std::vector<RunName> runs_of(const std::string& name) {
  if (const auto seeds = train::seeds_named(name)) {
    std::vector<RunName> runs;
    for (const std::string& run : train::seed_runs(seeds->folder)) {
      if (has_checkpoint(run)) runs.push_back({.folder = run, .checkpoint = seeds->checkpoint});
      else print_notes({"left out: " + std::string(no_valid_checkpoint(run).what())});
    }
    if (runs.empty()) throw Error("[study] no seed in " + name + " has saved a policy yet");
    return runs;
  }
  const auto run = run_named(name);
  if (!run) throw no_run(name);
  return {*run};
}

/// What a run is judged in. Throws Error where it is of another environment.
std::unique_ptr<Ground> ground_of(const std::string& run, const JudgeRequest& request) {
  auto experiment = experiment_of(run);
  if (experiment->env().name != std::string(kEnvironment))
    throw Error("[study] judges runs on " + std::string(kEnvironment) + ", and " + run +
                " was trained on " + experiment->env().name + "; " + command_name() + " eval " +
                shell_word(run) + " judges it");
  const GivenSettings given = sorted_settings("study", request.settings, {run});
  if (given.threads) experiment->run.threads = *given.threads;
  std::vector<std::string> settings = survival_settings();
  settings.insert(settings.end(), given.env.begin(), given.env.end());
  auto ground = std::make_unique<Ground>(std::move(experiment), settings);
  ground->game.acting = given.acting;
  return ground;
}

/// What judges them again, on however many threads.
std::string judge_command(const JudgeRequest& request) {
  std::string text = command_name() + " study judge";
  for (const std::string& name : request.runs) text += " " + shell_word(name);
  const Protocol usual;
  if (request.protocol.envs != usual.envs)
    text += " --eval-envs " + std::to_string(request.protocol.envs);
  if (request.protocol.steps != usual.steps)
    text += " --eval-steps " + std::to_string(request.protocol.steps);
  std::vector<std::string> settings = request.settings;
  take_threads(settings);
  for (const std::string& setting : settings) text += " " + shell_word(setting);
  return text;
}

void show_page(const Page& page) {
  for (const auto& part : page.parts) {
    if (const auto* heading = std::get_if<Heading>(&part)) print("\n" + heading->text + "\n");
    if (const auto* paragraph = std::get_if<Paragraph>(&part)) print(paragraph->text + "\n");
    const auto* figures = std::get_if<ReportTable>(&part);
    if (!figures) continue;
    std::vector<std::string> headings = figures->headings;
    for (size_t c = 1; c < headings.size(); ++c) headings[c] = ">" + headings[c];
    Table table(headings);
    for (const auto& row : figures->rows) table.add(row);
    print(table.text(probe_terminal(STDOUT_FILENO)));
  }
}

}  // namespace

int judge_runs(const JudgeRequest& request) {
  refuse_survival_settings(request.settings);
  std::vector<Named> named;
  for (const std::string& name : request.runs) {
    named.push_back({.arm = {.name = name.c_str(), .summary = ""}, .runs = runs_of(name)});
    // what one refuses is said before the others are judged
    for (const RunName& run : named.back().runs) ground_of(run.folder, request);
  }
  std::vector<ArmResult> results;
  Json runs = Json::array();
  for (const Named& one : named) {
    ArmResult& result = results.emplace_back(ArmResult{.arm = &one.arm});
    for (const RunName& run : one.runs) {
      const auto ground = ground_of(run.folder, request);
      print_notes(run_notes(run.folder, request.settings));
      std::fprintf(stderr, "judging %s: %ld worlds for %ld steps\n", run.folder.c_str(),
                   long(request.protocol.envs), long(request.protocol.steps));
      result.seeds.push_back(
          judge_policy(run, ground->experiment->run.seed, *ground, request.protocol));
      const Judgement& found = result.seeds.back();
      runs.push_back({{"run", run.folder},
                      {"checkpoint", checkpoint_of(run.folder, run.checkpoint)},
                      {"algorithm", ground->experiment->algo().name},
                      {"seed", found.seed},
                      {"sampled", to_json(found.sampled)},
                      {"greedy", to_json(*found.greedy)}});
    }
  }
  const Page page = page_of_judged(results, request.protocol, judge_command(request));
  if (!request.report.empty()) write_markdown(page, request.report);
  if (!request.json) {
    show_page(page);
    return 0;
  }
  Json figures = Json::object();
  for (const ArmResult& result : results) figures[result.arm->name] = figures_of(result);
  print(
      Json{{"protocol", to_json(request.protocol)}, {"figures", figures}, {"runs", runs}}.dump(2) +
      "\n");
  return 0;
}

}  // namespace maglev::verbs::study
