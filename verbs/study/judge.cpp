#include "verbs/study/judge.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <set>
#include <unistd.h>
#include <utility>

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

/// A name that was given, and the runs it means; a scripted player has none.
struct Named {
  Arm arm;
  std::vector<RunName> runs = {};
};

bool is_player(const std::string& name) {
  const auto players = scripted_players(find_env(kEnvironment));
  return std::ranges::find(players, name) != players.end();
}

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

/// What a run is judged in; without one, who was not trained. Throws Error where it is of another
/// environment.
std::unique_ptr<Ground> ground_of(const std::string& run, const JudgeRequest& request) {
  auto experiment =
      run.empty() ? std::make_unique<Experiment>(kAlgorithm, kEnvironment) : experiment_of(run);
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
  text += flags_of(request.protocol);
  std::vector<std::string> settings = request.settings;
  take_threads(settings);
  for (const std::string& setting : settings) text += " " + shell_word(setting);
  return text;
}

void show_page(const Page& page) {
  for (const auto& part : page.parts) {
    if (const auto* heading = std::get_if<Heading>(&part)) print("\n" + heading->text + "\n");
    if (const auto* paragraph = std::get_if<Paragraph>(&part)) print(paragraph->text + "\n");
    if (const auto* bullets = std::get_if<Bullets>(&part))
      for (const std::string& item : bullets->items) print(item + "\n");
    const auto* figures = std::get_if<ReportTable>(&part);
    if (!figures) continue;
    std::vector<std::string> headings = figures->headings;
    for (size_t c = 1; c < headings.size() && !figures->words; ++c) headings[c] = ">" + headings[c];
    Table table(headings);
    for (const auto& row : figures->rows) table.add(row);
    print(table.text(probe_terminal(STDOUT_FILENO)));
  }
}

/// The runs of a name, judged; `mode` is what they were paid by.
struct JudgedRuns {
  std::vector<Judgement> seeds = {};
  std::string mode = {};
  Json rows = Json::array();
};

JudgedRuns judged_runs(const std::vector<RunName>& runs, const JudgeRequest& request) {
  JudgedRuns judged;
  for (const RunName& run : runs) {
    const auto ground = ground_of(run.folder, request);
    print_notes(run_notes(run.folder, request.settings));
    std::fprintf(stderr, "judging %s: %ld worlds for %ld steps\n", run.folder.c_str(),
                 long(request.protocol.envs), long(request.protocol.steps));
    judged.mode = ground->experiment->table().find("env.mode")->plain();
    judged.seeds.push_back(
        judge_policy(run, ground->experiment->run.seed, *ground, request.protocol));
    const Judgement& found = judged.seeds.back();
    judged.rows.push_back({{"run", run.folder},
                           {"checkpoint", checkpoint_of(run.folder, run.checkpoint)},
                           {"algorithm", ground->experiment->algo().name},
                           {"seed", found.seed},
                           {"sampled", to_json(found.sampled)},
                           {"greedy", to_json(*found.greedy)}});
  }
  return judged;
}

/// A scripted player in the worlds that `beside`, the first run that is judged, is judged in; of as
/// many seeds as there are runs to compare it with.
JudgedRuns judged_player(const std::string& name, const std::string& beside, size_t seeds,
                         const JudgeRequest& request) {
  const auto ground = ground_of(beside, request);
  JudgedRuns judged;
  for (uint64_t seed = 1; seed <= seeds; ++seed) {
    std::fprintf(stderr, "judging %s, seed %lu: %ld worlds for %ld steps\n", name.c_str(),
                 (unsigned long)seed, long(request.protocol.envs), long(request.protocol.steps));
    const Judgement& found =
        judged.seeds.emplace_back(judge_player(name, seed, *ground, request.protocol));
    judged.rows.push_back({{"player", name}, {"seed", seed}, {"sampled", to_json(found.sampled)}});
  }
  return judged;
}

}  // namespace

int judge_runs(const JudgeRequest& request) {
  refuse_survival_settings(request.settings);
  std::vector<Named> named;
  std::string first;  // run that is judged
  size_t most = 0;    // runs of a name
  std::set<std::string> seen;
  const auto expect_once = [&](const std::string& what, const std::string& place) {
    if (!seen.insert(place).second)
      throw Error("[study] " + what + " is given twice, and nobody is compared with himself");
  };
  for (const std::string& name : request.runs) {
    Named& one = named.emplace_back(Named{.arm = {.name = name.c_str(), .summary = ""}});
    if (is_player(name)) {
      one.arm.player = name.c_str();
      expect_once(name, name);
      continue;
    }
    one.runs = runs_of(name);
    most = std::max(most, one.runs.size());
    if (first.empty()) first = one.runs[0].folder;
    // what one refuses is said before the others are judged
    for (const RunName& run : one.runs) {
      expect_once(run.folder,
                  std::filesystem::weakly_canonical(run.folder).string() + "@" + run.checkpoint);
      ground_of(run.folder, request);
    }
  }
  std::vector<ArmResult> results;
  std::vector<std::string> modes;
  Json runs = Json::array();
  for (const Named& one : named) {
    JudgedRuns judged = one.arm.player
                            ? judged_player(one.arm.name, first, std::max<size_t>(1, most), request)
                            : judged_runs(one.runs, request);
    results.push_back({.arm = &one.arm, .seeds = std::move(judged.seeds)});
    modes.push_back(judged.mode);
    for (Json& row : judged.rows) runs.push_back(std::move(row));
  }
  const Page page = page_of_judged(results, modes, request.protocol, judge_command(request));
  if (!request.report.empty()) write_markdown(page, request.report);
  if (request.json) {
    Json json = json_of_judged(results, modes);
    json["protocol"] = to_json(request.protocol);
    json["runs"] = std::move(runs);
    print(json.dump(2) + "\n");
  } else {
    show_page(page);
  }
  return 0;
}

}  // namespace maglev::verbs::study
