// maglev verify: whether a run is what it should be, check by check, or the same as another.

#include <cstdio>
#include <cstring>
#include <optional>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "base/core/error.h"
#include "base/core/file.h"
#include "base/core/terminal.h"
#include "engine/host/machine.h"
#include "engine/run/checkpoint_store.h"
#include "engine/run/stored_experiment.h"
#include "verbs/arguments.h"
#include "verbs/status_line.h"
#include "verbs/table.h"
#include "verbs/verb.h"
#include "verbs/verify/against.h"
#include "verbs/verify/checks.h"

namespace maglev::verbs::verify {

VerbEntry entry();

std::vector<Check> checks_of(const std::string& env) {
  const auto general = general_checks(), foraging = goodhart_checks();
  std::vector<Check> checks(general.begin(), general.end());
  if (env == "goodhart") checks.insert(checks.end(), foraging.begin(), foraging.end());
  return checks;
}

namespace {

using Json = nlohmann::ordered_json;

Grammar grammar() {
  return {.flags = {{"--checkpoint", "WHICH",
                     "latest, best, or a checkpoint by name or folder (default latest)"},
                    {"--against", "RUN",
                     "instead: where this run and that one, which should be the same, part"},
                    {"--json", "", "print JSON instead of a table"}},
          .least = 1,
          .most = 1,
          .names = "<run>",
          .settings = true};
}

// what cannot be done is not as it should be
Finding finding_of(const Check& check, Subject& subject) {
  try {
    return check.find(subject);
  } catch (const Error& error) {
    return {Outcome::failed, error.what()};
  }
}

/// Whether there is something to load, be it damaged.
bool has_checkpoint(const std::string& folder, const std::string& which) {
  if (which != "latest" && which != "best") return path_exists(which);
  return !list_dir(folder + "/checkpoints").empty();
}

/// What is wrong with each checkpoint of a run, in one line.
std::string damage_of(const std::string& folder) {
  std::string all;
  CheckpointStore(folder, 0).newest_verified(
      [&](const std::string& note) { all += (all.empty() ? "" : "; ") + note; });
  return all;
}

/// Of a run whose policy cannot be loaded: the first check has found it, nothing else can be looked
/// at.
Finding not_loaded(const Check& check, const std::string& why) {
  if (std::strcmp(check.name, general_checks().front().name) == 0) return {Outcome::failed, why};
  return {Outcome::skipped, "nothing could be loaded"};
}

/// The run's policy, or why it cannot be loaded.
struct Loaded {
  std::optional<RunPolicy> policy;
  std::string why_not;
};
/// A folder that is no run is a mistake and throws; a run that cannot be loaded is not as it should
/// be.
void load(const std::string& folder, const std::string& which,
          const std::vector<std::string>& settings, Loaded& loaded) {
  try {
    loaded.policy.emplace(folder, which, settings);
  } catch (const Error& error) {
    if (!has_checkpoint(folder, which)) throw;
    loaded.why_not = which == "latest" ? damage_of(folder) : error.what();
    if (loaded.why_not.empty()) loaded.why_not = error.what();
  }
}

/// What the checks found.
struct Findings {
  Json rows = Json::array();
  int64_t counts[names_of(Outcome()).size()] = {};  ///< by outcome
  int64_t count(Outcome outcome) const { return counts[size_t(outcome)]; }
};

/// Runs each check; `shown`: as a table, a row as its check ends.
Findings look(const std::vector<Check>& checks, Loaded& loaded, const std::string& folder,
              bool shown) {
  std::optional<Subject> subject;
  if (RunPolicy* run = loaded.policy ? &*loaded.policy : nullptr)
    subject.emplace(Subject{.folder = folder,
                            .run = *run,
                            .game = game_of(run->experiment(), run->placement(), run->pool())});
  Findings found;
  Table table({"check", "outcome", "what was seen"});
  // columns are as wide from the beginning
  for (const Check& check : checks) table.widen({check.name, "", ""});
  for (const char* outcome : names_of(Outcome())) table.widen({"", outcome, ""});
  const Terminal terminal = probe_terminal(STDOUT_FILENO);
  size_t printed = 0;
  // some checks play for minutes: who looks on sees which
  StatusLine line;
  for (const Check& check : checks) {
    line.show(std::string("checking ") + check.name);
    const Finding finding =
        subject ? finding_of(check, *subject) : not_loaded(check, loaded.why_not);
    found.counts[size_t(finding.outcome)] += 1;
    found.rows.push_back(
        {{"check", check.name}, {"outcome", name_of(finding.outcome)}, {"what", finding.what}});
    table.add({check.name, name_of(finding.outcome), finding.what});
    if (!shown) continue;
    line.clear();
    const std::string text = table.text(terminal);
    print(text.substr(printed));
    std::fflush(stdout);
    printed = text.size();
  }
  line.clear();
  return found;
}

// whether what they came to is the same
int run_against(const std::string& folder, const std::string& other, bool as_json) {
  const std::vector<Comparison> compared = compare_runs(folder, other);
  bool same = true;
  Json rows = Json::array();
  Table table({"compared", "outcome", "what was seen"});
  for (const Comparison& one : compared) {
    same = same && (one.same || !one.learned);
    rows.push_back({{"compared", one.name}, {"same", one.same}, {"what", one.what}});
    table.add({one.name, one.same ? "same" : "differ", one.what});
  }
  if (as_json)
    print(Json{{"run", folder}, {"against", other}, {"compared", rows}, {"same", same}}.dump(2) +
          "\n");
  else
    print(table.text(probe_terminal(STDOUT_FILENO)) +
          (same ? "the same to the bit in what both have\n" : "not the same\n"));
  return same ? 0 : 1;
}

int run(const std::vector<std::string>& words) {
  const Arguments arguments(entry(), words, grammar());
  if (arguments.help()) return arguments.print_help();
  const std::string& folder = arguments.positional()[0];
  std::vector<std::string> other = arguments.settings();
  take_threads(other);
  if (!other.empty())
    throw Error(
        "[verify] a run is checked as it was trained: of settings only threads=N may be "
        "given, got '" +
        other[0] + "'");
  const bool as_json = arguments.has("--json");
  if (const auto against = arguments.value("--against")) {
    if (arguments.has("--checkpoint") || !arguments.settings().empty())
      throw Error("[verify] --against reads all checkpoints and runs nothing; leave " +
                  (arguments.has("--checkpoint") ? "--checkpoint" : arguments.settings()[0]) +
                  " out");
    return run_against(folder, *against, as_json);
  }
  const auto experiment = experiment_of(folder);
  Loaded loaded;
  load(folder, arguments.value("--checkpoint").value_or("latest"), arguments.settings(), loaded);
  const Findings found =
      look(checks_of(experiment->env().name), loaded, folder, /*shown=*/!as_json);
  const bool passed = found.count(Outcome::failed) == 0;
  const auto& policy = loaded.policy;
  if (as_json) {
    const Json report = {{"run", folder},
                         {"checkpoint", policy ? Json(policy->checkpoint()) : Json()},
                         {"step", policy ? Json(policy->identity().step) : Json()},
                         {"checks", found.rows},
                         {"passed", passed}};
    print(report.dump(2) + "\n");
  } else {
    const std::string judged =
        policy ? policy->checkpoint() + ", step " + std::to_string(policy->identity().step)
               : folder;
    std::printf("%ld passed, %ld failed, %ld skipped: %s\n", long(found.count(Outcome::passed)),
                long(found.count(Outcome::failed)), long(found.count(Outcome::skipped)),
                judged.c_str());
  }
  return passed ? 0 : 1;
}

}  // namespace

VerbEntry entry() {
  return {
      .name = "verify",
      .summary =
          "check a run: what it stores, gives and does; or where it and another part; exit "
          "status 1 where a check fails, or figures or checkpoints differ",
      .usage = "verify <run> [--checkpoint latest|best|DIR | --against RUN] [--json] [threads=N]",
      .run = run};
}

}  // namespace maglev::verbs::verify
