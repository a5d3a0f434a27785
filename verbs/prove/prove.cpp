// maglev prove: a proof of a query from a knowledge graph's facts and rules, or why there is none.

#include <algorithm>
#include <cstdio>
#include <functional>
#include <memory>
#include <optional>
#include <unistd.h>

#include "base/core/clock.h"
#include "base/core/error.h"
#include "base/core/file.h"
#include "base/core/terminal.h"
#include "base/datalog/dataset.h"
#include "base/datalog/search.h"
#include "base/trace/span.h"
#include "engine/host/machine.h"
#include "engine/play/run_policy.h"
#include "engine/run/run_dir.h"
#include "engine/run/run_name.h"
#include "engine/run/stored_experiment.h"
#include "verbs/arguments.h"
#include "verbs/checkpoint_asked.h"
#include "verbs/notes.h"
#include "verbs/prove/all_queries.h"
#include "verbs/prove/page.h"
#include "verbs/prove/policy_scores.h"
#include "verbs/prove/query.h"
#include "verbs/prove/result.h"
#include "verbs/prove/result_json.h"
#include "verbs/prove/tree_text.h"
#include "verbs/settings.h"
#include "verbs/table.h"
#include "verbs/traced.h"
#include "verbs/verb.h"

namespace maglev::verbs::prove {

VerbEntry entry();

namespace {

Grammar grammar() {
  return {.flags = {{"--search", "KIND",
                     "breadth (default), deepening, beam, or policy: a beam by a run's own"},
                    {"--select", "KIND",
                     "which atom a step resolves: leftmost (default; of policy as it was trained); "
                     "bound: the first with a constant, as the environment kg"},
                    {"--depth", "N", "most steps of a proof (default 20; with --queries 3)"},
                    {"--nodes", "N", "most goals a search makes (default 1000000)"},
                    {"--seconds", "S", "most time it takes (default: any)"},
                    {"--checkpoint", "WHICH",
                     "of policy: latest, best, or a checkpoint by name or folder (default latest)"},
                    {"--width", "N", "goals a beam keeps a step (default 64; 1: greedy)"},
                    {"--most", "N", "answers to a query with variables (default 10)"},
                    {"--trees", "", "the proof of every answer"},
                    {"--exclude-query", "", "the query is not a fact, even where it is one"},
                    {"--queries", "SPLITS",
                     "instead of a query: which of train, valid, test (with commas) are provable"},
                    {"--out", "DIR",
                     "of --queries: the graph with the steps found as its depths, a folder that "
                     "env.data takes"},
                    {"--json", "", "print JSON"},
                    {"--html", "FILE", "write a page with the tree drawn"},
                    kTraceFlag,
                    {"--overwrite", "", "replace FILE where it is there already"}},
          .least = 1,
          .most = 2,
          .names = "<data> <query>",
          .settings = true};
}

/// The data set of a name, a folder, or a run on one, which env.data among `settings` names anew.
datalog::Dataset data_of(const std::string& name, const std::vector<std::string>& settings) {
  const auto span = maglev::trace::stage("data");
  if (!is_run(name)) {
    if (!settings.empty())
      throw Error("[prove] " + settings[0] + " is a setting of a run, and " + name + " is none");
    try {
      return datalog::open_dataset(name);
    } catch (const Error& e) {
      throw Error(e.what() + or_near_run(name));
    }
  }
  const auto experiment = experiment_of(name);
  for (const std::string& setting : settings) {
    if (setting.starts_with("device=")) continue;
    if (!setting.starts_with("env.data="))
      throw Error("[prove] of a run's settings only env.data=FOLDER may be given, got '" + setting +
                  "'; with --search policy device= too");
    experiment->table().override_with(setting);
  }
  const Field* data = experiment->table().find("env.data");
  if (!data)
    throw Error("[" + name + "] is a run on " + experiment->env().name +
                ", which has no knowledge graph; expected a run on kg, a folder or a data set");
  return datalog::open_dataset(data->plain());
}

/// What would be without effect is a mistake: a flag, or threads=N where it was given.
void expect_flags(const Arguments& arguments, bool threads) {
  const auto refuse = [&](const char* flag, const char* why) {
    if (arguments.has(flag)) throw Error(std::string("[prove] ") + flag + " " + why);
  };
  if (arguments.has("--queries")) {
    for (const char* flag :
         {"--search", "--select", "--nodes", "--seconds", "--width", "--most", "--trees", "--html"})
      refuse(flag, "goes with a query; --queries answers all of them exhaustively");
  } else {
    if (threads)
      throw Error("[prove] threads=N goes with --queries; one query is searched by one thread");
    refuse("--out", "goes with --queries, whose depths it keeps");
  }
  if (arguments.choice<Kind>("--search").value_or(Kind::breadth) < Kind::beam)
    refuse("--width", "goes with --search beam or policy");
  if (arguments.choice<Kind>("--search") != Kind::policy)
    refuse("--checkpoint", "goes with --search policy");
  if (arguments.choice<Kind>("--search") != Kind::policy && names_device(arguments.settings()))
    throw Error("[prove] device= goes with --search policy: other searches are a processor's");
  if (!arguments.has("--html") && !arguments.has("--trace") && !arguments.has("--out"))
    refuse("--overwrite", "goes with --html FILE, --trace FILE or --out DIR");
}

Result search(const datalog::Dataset& data, const Arguments& arguments, PolicyScores* policy) {
  constexpr int64_t kMany = int64_t(1) << 30;
  Result result{.data = &data, .query = parse_query(arguments.positional()[1], data.program)};
  const bool open = !result.query.variables.empty();
  if (open && arguments.has("--exclude-query"))
    throw Error("[prove] --exclude-query wants a query without variables, got " +
                query_text(result));
  datalog::SearchOptions& o = result.options;
  result.kind = arguments.choice<Kind>("--search").value_or(Kind::breadth);
  o.strategy = datalog::Strategy(std::min(result.kind, Kind::beam));
  o.depth = int32_t(arguments.integer("--depth", 1, kMany).value_or(o.depth));
  o.nodes = arguments.integer("--nodes", 1, kMany).value_or(o.nodes);
  o.width = int32_t(arguments.integer("--width", 1, kMany).value_or(o.width));
  o.seconds = arguments.number_above("--seconds", 0, 1e9).value_or(o.seconds);
  if (policy) o.scores = std::ref(*policy);
  const auto trained = policy ? policy->params().select : maglev::kg::Select::leftmost;
  o.how.select_bound = arguments.choice<maglev::kg::Select>("--select").value_or(trained) ==
                       maglev::kg::Select::bound;
  if (arguments.has("--exclude-query")) o.how.excluded = result.query.atom;
  const size_t most = open ? size_t(arguments.integer("--most", 1, kMany).value_or(10)) : size_t(1);

  const datalog::OwnedKnowledge knowledge(data.program);
  const double begin_s = steady_s();
  const auto span = maglev::trace::stage("search");
  datalog::Search search(*knowledge, result.query.atom, o);
  while (result.proofs.size() < most) {
    auto proof = search.next();
    if (!proof) break;
    result.proofs.push_back(std::move(*proof));
  }
  result.report = search.report();
  result.more = open && result.proofs.size() == most;
  result.seconds = steady_s() - begin_s;
  return result;
}

/// What --queries asks for. Returns how many threads it had.
int prove_all(const datalog::Dataset& data, const Arguments& arguments, int64_t threads) {
  // before the long work
  const auto folder = arguments.value("--out");
  if (folder && is_run(*folder))
    throw Error("[" + *folder +
                "] holds a run, which a graph's files would mix with; name another");
  if (folder && !arguments.has("--overwrite")) datalog::expect_no_dataset(*folder);
  const AllAnswers answers =
      answer_all(data, {.splits = *arguments.value("--queries"),
                        .depth = int32_t(arguments.integer("--depth", 1, 1000).value_or(3)),
                        .exclude_query = arguments.has("--exclude-query"),
                        .threads = threads});
  print(arguments.has("--json") ? answers_json(data, answers)
                                : answers_text(data, answers, probe_terminal(STDOUT_FILENO)));
  if (folder)
    datalog::write_dataset(with_depths(data, answers), *folder, arguments.has("--overwrite"));
  return int(answers.asked.threads);
}

int run(const std::vector<std::string>& words) {
  const Arguments arguments(entry(), words, grammar());
  if (arguments.help()) return arguments.print_help();
  const bool splits = arguments.has("--queries");
  if (splits == (arguments.positional().size() == 2))
    throw Error("[prove] expected a query, such as 'uncle(ann, X)', or --queries SPLITS, got " +
                std::string(splits ? "both" : "neither"));
  Traced traced(arguments, entry(), /*on_device=*/names_device(arguments.settings()));
  std::vector<std::string> settings = traced.settings();
  const auto threads = take_threads(settings);
  expect_flags(arguments, threads.has_value());
  const RunName named =
      run_named(arguments.positional()[0]).value_or(RunName{.folder = arguments.positional()[0]});
  if (named.checkpoint != "latest" && arguments.choice<Kind>("--search") != Kind::policy)
    throw Error("[prove] " + arguments.positional()[0] +
                " names a policy, which --search policy alone asks; give that, or leave out @" +
                named.checkpoint);
  const std::string& name = named.folder;
  const datalog::Dataset data = data_of(name, settings);
  print_notes(run_notes(name, settings));
  if (!arguments.has("--json"))
    for (const std::string& note : data.notes) std::fprintf(stderr, "note: %s\n", note.c_str());

  const auto end_trace = [&](int threads, const std::string& device) {
    traced.finish({.run = name,
                   .algorithm = "prove",
                   .environment = data.name,
                   .device = device,
                   .threads = threads});
  };
  if (splits) {
    end_trace(prove_all(data, arguments, threads.value_or(0)), "cpu");
    return 0;
  }

  // the policy of a run, where it is what searches
  std::unique_ptr<RunPolicy> run;
  std::optional<PolicyScores> policy;
  if (arguments.choice<Kind>("--search") == Kind::policy) {
    if (!is_run(name))
      throw Error("[prove] --search policy needs a run's folder in the place of " + name);
    run = std::make_unique<RunPolicy>(name, checkpoint_asked("prove", arguments, named), settings,
                                      names_device(settings) ? "" : "cpu");
    policy.emplace(run->experiment(), run->policy(), run->placement().device);
  }
  const auto page = arguments.output("--html");
  const Result result = search(data, arguments, policy ? &*policy : nullptr);
  if (page) {
    write_atomic(*page, result_page(result));
    print_notes({"a page of it: " + *page});
  }
  print(arguments.has("--json")
            ? result_json(result)
            : result_text(result, arguments.has("--trees"), probe_terminal(STDOUT_FILENO)));
  end_trace(/*threads=*/1, run ? run->placement().device.str() : "cpu");
  return result.proofs.empty() ? 1 : 0;
}

}  // namespace

VerbEntry entry() {
  return {
      .name = "prove",
      .summary = "prove a query from a knowledge graph, or say why it cannot be proved",
      .usage =
          "prove <data> <query> [flags]\n       maglev prove <data> --queries SPLITS "
          "[threads=N] [flags]\n\n"
          "<data> is a data set's name (family), a folder of one, or a run on kg (env.data=FOLDER "
          "where that has moved).\nA query is uncle(ann, bob), or uncle(ann, X) for all who "
          "are one: names with a capital letter are variables\nunless the data knows them. "
          "Exit status: 0 proved, 1 not, "
          "2 a mistake; of --queries 0.",
      .run = run};
}

}  // namespace maglev::verbs::prove
