// maglev verify: whether a run is what it should be, check by check.

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "base/core/error.h"
#include "base/core/terminal.h"
#include "verbs/arguments.h"
#include "verbs/table.h"
#include "verbs/verb.h"
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

Grammar grammar() {
  return {
      .flags = {{"--checkpoint", "WHICH", "latest, best or a checkpoint's folder (default latest)"},
                {"--json", "", "print JSON instead of a table"}},
      .least = 1,
      .most = 1,
      .names = "<run>"};
}

// what cannot be done is not as it should be
Finding finding_of(const Check& check, Subject& subject) {
  try {
    return check.find(subject);
  } catch (const Error& error) {
    return {Outcome::failed, error.what()};
  }
}

int run(const std::vector<std::string>& words) {
  const Arguments arguments(entry(), words, grammar());
  if (arguments.help()) return arguments.print_help();
  const std::string& folder = arguments.positional()[0];
  RunPolicy policy(folder, arguments.value("--checkpoint").value_or("latest"));
  Subject subject{.folder = folder,
                  .run = policy,
                  .game = game_of(policy.experiment(), policy.placement(), policy.pool())};

  Table table({"check", "outcome", "what was seen"});
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  int64_t counts[3] = {};
  for (const Check& check : checks_of(policy.experiment().env().name)) {
    const Finding finding = finding_of(check, subject);
    counts[size_t(finding.outcome)] += 1;
    table.add({check.name, name_of(finding.outcome), finding.what});
    rows.push_back(
        {{"check", check.name}, {"outcome", name_of(finding.outcome)}, {"what", finding.what}});
  }
  const int64_t passed = counts[size_t(Outcome::passed)], failed = counts[size_t(Outcome::failed)];
  if (arguments.has("--json")) {
    const nlohmann::ordered_json report = {{"run", folder},
                                           {"checkpoint", policy.checkpoint()},
                                           {"step", policy.identity().step},
                                           {"checks", rows},
                                           {"passed", failed == 0}};
    print(report.dump(2) + "\n");
  } else {
    print(table.text(probe_terminal(STDOUT_FILENO)));
    std::printf("%ld passed, %ld failed, %ld skipped: %s\n", long(passed), long(failed),
                long(counts[size_t(Outcome::skipped)]), policy.checkpoint().c_str());
  }
  return failed == 0 ? 0 : 1;
}

}  // namespace

VerbEntry entry() {
  return {
      .name = "verify",
      .summary = "check a run: what it stores, gives and does; exit status 1 where a check fails",
      .usage = "verify <run> [--checkpoint latest|best|DIR] [--json]",
      .run = run};
}

}  // namespace maglev::verbs::verify
