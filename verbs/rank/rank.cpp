// maglev rank: how well a run's proofs, the confidences of rules, an embedding, and all of these
// joined tell true triples from false ones.

#include <algorithm>
#include <cstdio>
#include <optional>
#include <unistd.h>

#include <ATen/ATen.h>

#include <nlohmann/json.hpp>

#include "base/core/error.h"
#include "base/core/file.h"
#include "base/core/printed.h"
#include "base/core/shell_word.h"
#include "base/core/terminal.h"
#include "base/core/thread_pool.h"
#include "engine/embeddings/complex.h"
#include "engine/host/machine.h"
#include "engine/play/run_policy.h"
#include "engine/run/run_dir.h"
#include "engine/run/run_name.h"
#include "verbs/arguments.h"
#include "verbs/checkpoint_asked.h"
#include "verbs/notes.h"
#include "verbs/rank/explain.h"
#include "verbs/rank/over_seeds.h"
#include "verbs/rank/questions.h"
#include "verbs/rank/ranking.h"
#include "verbs/rank/tables.h"
#include "verbs/rank/trials.h"
#include "verbs/settings.h"
#include "verbs/table.h"
#include "verbs/traced.h"
#include "verbs/train/seed_runs.h"
#include "verbs/train/seeds.h"
#include "verbs/verb.h"

namespace maglev::verbs::rank {

VerbEntry entry();

namespace {

using Json = nlohmann::ordered_json;

Grammar grammar() {
  return {
      .flags =
          {{"--split", "NAME", "whose queries: train, valid or test (default test)"},
           {"--queries", "N", "this many of them, drawn (default: all)"},
           {"--corruptions", "N", "false candidates of each, drawn, or all (default 100)"},
           {"--modes", "WHICH",
            "which argument is asked for: both (default), head or tail; of a run as it was "
            "trained"},
           {"--raw", "", "candidates that are known to be true count as false ones too"},
           {"--rank-type", "RULE",
            "among equal scores: random, realistic, optimistic or pessimistic (default random)"},
           {"--actions", "HOW", "mean takes the likeliest, sample draws (default mean)"},
           {"--width", "N",
            "goals of a candidate that are gone on with at once, the likeliest; 1: greedy "
            "(default 4; with --actions sample 1)"},
           {"--embedding", "FILE",
            "scores of an embedding beside, and all joined (maglev kg embed)"},
           {"--aggregate", "HOW",
            "what several rules come to: max (default), the surest first, or noisy-or"},
           {"--explain", "N",
            "of the first N questions, which rules say what, how sure, and what the run proves"},
           {"--shortlist", "K",
            "prove only the K candidates of a question that the embedding puts first"},
           {"--by", "WHAT", "a table more: by mode, predicate or depth"},
           {"--at-most", "MS", "more milliseconds a candidate that is tried are exit status 1"},
           {"--seed", "S", "of all that is drawn (default 0)"},
           {"--scores", "FILE", "every candidate with its scores as CSV"},
           kTraceFlag,
           {"--overwrite", "", "replace FILE where it is there already"},
           {"--checkpoint", "WHICH",
            "of a run: latest, best, or a checkpoint by name or folder (default latest)"},
           {"--json", "", "print JSON instead of tables"}},
      .least = 1,
      .most = 1,
      .names = "<data>",
      .settings = true};
}

constexpr int kSlow = 1;  // exit status
constexpr int64_t kWidth = 4, kMostWidth = 1024;

enum class How { mean, sample };
constexpr auto names_of(How) { return std::array{"mean", "sample"}; }

/// `params`: of the run; null: a graph is ranked.
Asked asked_of(const Arguments& arguments, const Kg::Params* params) {
  Asked asked;
  asked.split = arguments.choice<maglev::kg::Split>("--split").value_or(asked.split);
  const auto trained = !params                                           ? Modes::both
                       : params->corrupt == maglev::kg::Corruption::head ? Modes::head
                       : params->corrupt == maglev::kg::Corruption::tail ? Modes::tail
                                                                         : Modes::both;
  asked.modes = arguments.choice<Modes>("--modes").value_or(trained);
  asked.queries = arguments.integer("--queries", 1, 1'000'000'000).value_or(0);
  asked.corruptions = 100;
  if (arguments.value("--corruptions") == "all") asked.corruptions = 0;
  else if (arguments.has("--corruptions"))
    asked.corruptions = *arguments.integer("--corruptions", 1, 1'000'000'000);
  asked.filtered = !arguments.has("--raw");
  asked.seed = uint64_t(arguments.integer("--seed", 0, int64_t(1) << 53).value_or(0));
  return asked;
}

/// What whoever reads the figures must know of how they came about.
void print_caveats(const Ranking& r, const Asked& asked, size_t shortlist) {
  if (shortlist > 0)
    std::printf("%ld of %s tried: %.3g ms of proving a candidate of all\n", long(r.tried),
                counted(r.candidates, "candidate").c_str(), 1e3 * r.seconds / double(r.candidates));
  const bool drawn = std::ranges::any_of(r.questions, [&](const Question& q) {
    return asked.corruptions > 0 && int64_t(q.candidates.size()) > asked.corruptions;
  });
  if (drawn)
    std::printf(
        "false candidates are drawn, up to %ld a question: ranks among all are other figures "
        "(--corruptions all)\n",
        long(asked.corruptions));
  if (r.counts.dropped + r.counts.too_long > 0)
    std::printf(
        "%s found no room (env.successors), %s longer than env.atoms (a setting of training): some "
        "proofs may be missing\n",
        counted(r.counts.dropped, "successor").c_str(),
        counted(r.counts.too_long, "goal was", "goals were").c_str());
}

/// The weights of a joined score, of as many valid queries as are ranked, among candidates that are
/// filtered without the test queries: nothing of those is seen. None where a signal ended it.
std::optional<Weights> weights_of(Asked asked, const Scorers& scorers) {
  const datalog::OwnedKnowledge truths(truths_of(scorers.graph.dataset, /*with_test=*/false));
  asked.split = maglev::kg::Split::valid;
  asked.truths = &*truths;
  const Ranking valid = ranking_of(questions_of(scorers.graph, asked), scorers);
  if (valid.left_out > 0) return std::nullopt;
  return find_weights(parts_of(valid), scorers.pool);
}

/// Why there is no joined score though there is an embedding; empty: there is one.
std::string unjoined(const Asked& asked, const Scorers& scorers) {
  const datalog::Dataset& data = scorers.graph.dataset;
  if (asked.split == maglev::kg::Split::valid)
    return "no joined score of valid queries: they find its weights; --split test has one";
  if (data.valid.empty())
    return "no joined score: its weights want valid queries, and " + data.name + " has none";
  if (scorers.graph.knowledge->rules == 0 && !scorers.prover)
    return "no joined score: " + data.name + " has no rules beside the embedding";
  return "";
}

std::string weights_text(const Weights& weights, const Ranking& r) {
  std::string text = "joined: log likelihood of the embedding";
  if (!r.fired.empty()) text += printed(" + %.4g rules", weights.rules);
  if (!r.trials.empty()) text += printed(" + %.4g proof", weights.proof);
  return text + printed(": weights of %s of valid, of MRR %.3f (the embedding alone %.3f)",
                        counted(weights.questions, "question").c_str(), weights.mrr,
                        weights.embedding_mrr);
}

Json to_json(const Weights& weights, const Ranking& r) {
  return {{"weights",
           {{"embedding", 1},
            {"rules", r.fired.empty() ? Json() : Json(weights.rules)},
            {"proof", r.trials.empty() ? Json() : Json(weights.proof)}}},
          {"valid_questions", weights.questions},
          {"valid_mrr", weights.mrr},
          {"valid_mrr_of_embedding", weights.embedding_mrr}};
}

/// A flag or setting that would be without effect is a mistake.
void expect_flags(const Arguments& arguments, const std::vector<std::string>& settings,
                  const std::string& name, bool of_run) {
  if (arguments.has("--overwrite") && !arguments.has("--scores") && !arguments.has("--trace"))
    throw Error("[rank] --overwrite goes with --scores FILE or --trace FILE");
  if (arguments.has("--shortlist") && !arguments.has("--embedding"))
    throw Error("[rank] --shortlist needs the embedding that makes it; give --embedding FILE");
  if (arguments.has("--width") && arguments.choice<How>("--actions") == How::sample)
    throw Error("[rank] --width is of likeliest actions; leave out --actions sample");
  for (const char* flag : {"--shortlist", "--actions", "--width", "--at-most", "--checkpoint"})
    if (!of_run && arguments.has(flag))
      throw Error(std::string("[rank] ") + flag + " is of a run's proofs, and " + name +
                  " is no run; train one with `maglev train ppo kg env.data=" + name + "`");
  for (const auto& setting : settings) {
    if (!of_run)
      throw Error("[rank] " + setting + " is a setting of a run, and " + name + " is none");
    if (!setting.starts_with("env.") && !setting.starts_with("device="))
      throw Error("[rank] only env.* settings, threads and device may differ from training, got '" +
                  setting + "'");
  }
}

const datalog::Graph& graph_of(const std::string& name) {
  try {
    return datalog::open_graph(name);
  } catch (const Error& e) {
    throw Error(e.what() + or_near_run(name));
  }
}

/// What is ranked: a run, whose policy proves in its environment but for what was asked to differ,
/// or a graph alone. What a graph has no use for is refused once there is one of that name.
struct RankedData {
  RankedData(const Arguments& arguments, const std::vector<std::string>& settings,
             const RunName& named);
  RankedData(const RankedData&) = delete;
  RankedData& operator=(const RankedData&) = delete;

  ThreadPool& pool() { return policy ? policy->pool() : *threads; }
  std::string device() const { return policy ? policy->placement().device.str() : "cpu"; }

  std::string name;
  std::optional<RunPolicy> policy;    ///< nullopt: a graph
  std::optional<Prover> prover;       ///< with the policy
  std::optional<ThreadPool> threads;  ///< without
  const datalog::Graph* graph = nullptr;
};

RankedData::RankedData(const Arguments& arguments, const std::vector<std::string>& settings,
                       const RunName& named)
    : name(named.folder) {
  const bool of_run = is_run(name);
  if (!of_run) graph = &graph_of(name);
  std::vector<std::string> others = settings;
  const auto asked = take_threads(others);
  expect_flags(arguments, others, name, of_run);
  print_notes(run_notes(name, settings));
  if (!of_run) {
    claim_threads();
    threads.emplace(place("cpu", asked.value_or(0)).threads, [] { at::set_num_threads(1); });
    return;
  }
  policy.emplace(name, named.checkpoint, settings, names_device(settings) ? "" : "cpu");
  prover.emplace(policy->experiment(), policy->policy(), policy->pool(),
                 policy->placement().device);
  graph = &graph_of(std::string(prover->params().data.view()));
}

/// There must be something to rank by, and rules where they are to be explained.
void expect_rules(const RankedData& data, bool explained, bool embedded) {
  if (data.graph->knowledge->rules > 0) return;
  const std::string& name = data.graph->dataset.name;
  if (explained)
    throw Error("[rank] --explain names the rules that speak for a candidate, and " + name +
                " has none; give it a rules.txt, which `maglev kg mine` finds");
  if (!data.prover && !embedded)
    throw Error("[rank] " + name +
                " has no rules to rank by; give it a rules.txt, which `maglev kg mine` finds, an "
                "--embedding FILE, or a run that proves");
}

/// What the questions' candidates came to.
struct RankResult {
  Ranking ranking;
  std::optional<Weights> weights;  ///< of the joined score
  std::string why_unjoined;        ///< where an embedding has none
  bool ended = false;              ///< by a signal, before all proofs were tried
  std::vector<Scoring> scorings;

  double tried_ms() const { return 1e3 * ranking.seconds / double(ranking.tried); }
};

RankResult rank_result(const Scorers& scorers, const Asked& asked) {
  RankResult result;
  if (scorers.embedding) result.why_unjoined = unjoined(asked, scorers);
  if (scorers.shortlist > 0 && !result.why_unjoined.empty())
    throw Error("[rank] --shortlist ranks by a joined score, but there is " + result.why_unjoined);
  result.ranking = ranking_of(questions_of(scorers.graph, asked), scorers);
  result.ended = result.ranking.left_out > 0;
  if (result.ranking.questions.empty())
    throw Error("[rank] ended by a signal before a question was complete");
  if (scorers.embedding && result.why_unjoined.empty()) {
    if (!result.ended) result.weights = weights_of(asked, scorers);
    if (!result.weights) result.why_unjoined = "no joined score: a signal came before its weights";
    result.ended = !result.weights;
  }
  result.scorings = scorings_of(result.ranking, scorers, result.weights);
  return result;
}

/// The report's beginning: what was ranked, and what it took.
Json report_head(const RankedData& data, const Scorers& scorers, const RankResult& result) {
  const Ranking& r = result.ranking;
  Json report;
  if (data.policy)
    report = {{"run", data.name},
              {"checkpoint", data.policy->checkpoint()},
              {"step", data.policy->identity().step},
              {"device", data.device()}};
  report["data"] = data.graph->dataset.name;
  report["candidates"] = r.candidates;
  if (result.ended) report["questions_left_out"] = r.left_out;
  if (data.policy) {
    report["width"] = scorers.width;
    report["tried"] = r.tried;
    report["different"] = r.counts.tried;
    report["milliseconds_per_candidate"] = result.tried_ms();
    report["milliseconds_per_candidate_of_all"] = 1e3 * r.seconds / double(r.candidates);
    report["steps"] = r.counts.steps;
    report["successors_dropped"] = r.counts.dropped;
    report["goals_too_long"] = r.counts.too_long;
  }
  if (!r.fired.empty()) report["aggregate"] = name_of(scorers.aggregate);
  if (result.weights) report["joined"] = to_json(*result.weights, r);
  return report;
}

/// The figures for people, with what was ranked above them and what they rest on below.
void print_figures(const RankedData& data, const Scorers& scorers, const Asked& asked,
                   const RankResult& result, const Table& table) {
  const Ranking& r = result.ranking;
  const std::string& graph = data.graph->dataset.name;
  const std::string ranked =
      graph + (data.policy ? printed(", step %ld", long(data.policy->identity().step)) : "");
  print((data.policy ? data.policy->experiment().algo().name + std::string(" on ") : "") + ranked +
        ": " + counted(int64_t(r.questions.size()), "question") + ", " +
        counted(r.candidates, "candidate") + "\n");
  print(table.text(probe_terminal(STDOUT_FILENO)));
  if (result.weights) std::printf("%s\n", weights_text(*result.weights, r).c_str());
  if (!result.why_unjoined.empty()) std::printf("%s\n", result.why_unjoined.c_str());
  if (data.policy)
    std::printf(
        "%.3g ms a candidate tried, %ld of them different, %.1f steps each, %s%s\n",
        result.tried_ms(), long(r.counts.tried),
        double(r.counts.steps) / double(std::max<int64_t>(1, r.counts.tried)),
        counted(scorers.pool.threads(), "thread").c_str(),
        data.policy->placement().device.is_cpu() ? "" : (" beside " + data.device()).c_str());
  print_caveats(r, asked, scorers.shortlist);
}

/// A line on what shows a proof of the run's, by the example of a candidate that was explained;
/// empty: none was proved.
std::string proof_note(const RankedData& data, const std::vector<Explained>& explained,
                       const Ranking& r, int64_t width) {
  if (r.trials.empty()) return "";
  for (const Explained& one : explained)
    for (const ExplainedCandidate& c : one.candidates)
      if (r.trials[one.question][c.candidate].proved)
        return "the run's own proof: `maglev prove " + shell_word(data.name) + " " +
               shell_word(to_text(data.graph->dataset.program,
                                  r.questions[one.question].candidates[c.candidate])) +
               printed(" --search policy --exclude-query --width %ld`\n", long(width));
  return "";
}

/// A line on what finds the depths that questions were to be grouped by; empty: some are known.
std::string depths_note(const RankedData& data, const Asked& asked, const Ranking& r) {
  if (std::ranges::any_of(r.questions, [](const Question& q) { return q.depth >= 0; })) return "";
  return "no depths: `maglev prove " + data.name + " --queries " + name_of(asked.split) +
         " --exclude-query --out DIR` finds them; then " +
         (data.policy ? "give env.data=DIR" : "rank DIR") + "\n";
}

/// The exit status: whether a signal ended it, or a candidate took longer than it was to.
int rank_status(const RankResult& result, std::optional<double> most_ms) {
  if (result.ended) {
    if (result.ranking.left_out == 0)
      std::fprintf(stderr, "maglev: ended by a signal, before the joined score's weights\n");
    else
      std::fprintf(stderr, "maglev: ended by a signal: %s not complete, and left out\n",
                   counted(result.ranking.left_out, "question was", "questions were").c_str());
    return train::kStopped;
  }
  if (!most_ms || !(result.tried_ms() > *most_ms)) return 0;
  std::fprintf(stderr, "maglev: %.3g ms a candidate tried, and --at-most %g were allowed\n",
               result.tried_ms(), *most_ms);
  return kSlow;
}

/// What was ranked: the report and the exit status.
struct Ranked {
  Json report;
  int status = 0;
};

/// Ranks a run or a graph and shows what it came to, as JSON only where `print_json`.
Ranked rank_one(const Arguments& arguments, Traced& traced, const RunName& named, bool print_json) {
  const auto scores_file = arguments.output("--scores");
  const auto ties = arguments.choice<Ties>("--rank-type").value_or(Ties::random);
  const auto by = arguments.choice<By>("--by");
  const auto how = arguments.choice<How>("--actions").value_or(How::mean);
  const auto most_ms = arguments.number("--at-most", 0, 1e9);
  const auto file = arguments.value("--embedding");
  const auto explained = arguments.integer("--explain", 1, 1'000'000);
  RankedData data(arguments, traced.settings(), named);
  const datalog::Graph& graph = *data.graph;
  const datalog::Program& program = graph.dataset.program;
  expect_rules(data, explained.has_value(), file.has_value());

  // questions, and what is known of their candidates
  const Asked asked = asked_of(arguments, data.prover ? &data.prover->params() : nullptr);
  std::optional<ComplexEmbedding> embedding;
  if (file) embedding = ComplexEmbedding::load(*file, program);
  const Scorers scorers{
      .graph = graph,
      .pool = data.pool(),
      .aggregate = arguments.choice<Aggregate>("--aggregate").value_or(Aggregate::max),
      .embedding = embedding ? &*embedding : nullptr,
      .prover = data.prover ? &*data.prover : nullptr,
      .mode = how == How::mean ? ActMode::mean : ActMode::sample,
      .width = arguments.integer("--width", 1, kMostWidth).value_or(how == How::mean ? kWidth : 1),
      .seed = asked.seed,
      .shortlist = size_t(arguments.integer("--shortlist", 1, 1'000'000).value_or(0))};
  const RankResult result = rank_result(scorers, asked);
  const Ranking& r = result.ranking;

  // the figures
  Json report = report_head(data, scorers, result);
  if (scores_file) write_atomic(*scores_file, csv_of(r, result.scorings, program));
  const Table table = figures_table(r, result.scorings, program,
                                    {.ties = ties, .seed = asked.seed, .by = by}, report);
  std::vector<Explained> explanations;
  if (explained) explanations = explain(r, result.scorings, size_t(*explained));
  if (explained) report["explained"] = explained_json(explanations, r, result.scorings, program);
  const bool json = arguments.has("--json");
  if (json && print_json) print(report.dump(2) + "\n");
  if (!json) print_figures(data, scorers, asked, result, table);
  if (!json && by == By::depth) print(depths_note(data, asked, r));
  if (!json)
    print(explained_text(explanations, r, result.scorings, program, probe_terminal(STDOUT_FILENO)));
  if (!json) print(proof_note(data, explanations, r, scorers.width));
  if (!json && scores_file) std::printf("scores in %s\n", scores_file->c_str());
  traced.finish(
      {.run = data.name,
       .algorithm = data.policy ? data.policy->experiment().algo().name : "rank",
       .environment = data.policy ? data.policy->experiment().env().name : graph.dataset.name,
       .device = data.device(),
       .threads = scorers.pool.threads()});
  return {.report = std::move(report), .status = rank_status(result, most_ms)};
}

/// Each seed of a folder as a run by itself, then what they come to together.
int rank_seeds(const Arguments& arguments, Traced& traced, const RunName& seeds) {
  const auto runs = train::seeds_to_judge("rank", seeds.folder);
  for (const char* flag : {"--explain", "--scores", "--trace", "--overwrite"})
    if (arguments.has(flag))
      throw Error("[rank] " + std::string(flag) + " is for one run; name a seed, e.g. " + runs[0]);
  std::vector<Json> reports;
  int status = 0;
  for (const std::string& run : runs) {
    if (!arguments.has("--json")) print(run + ": ");
    const Ranked ranked =
        rank_one(arguments, traced, {run, seeds.checkpoint}, /*print_json=*/false);
    status = std::max(status, ranked.status);
    if (status == train::kStopped) return status;
    reports.push_back(ranked.report);
    if (!arguments.has("--json")) print("\n");
  }
  const Json results = over_seeds(reports);
  if (arguments.has("--json"))
    print(Json{{"seeds", seeds.folder}, {"results", results}, {"runs", reports}}.dump(2) + "\n");
  else
    print("all " + counted(int64_t(reports.size()), "seed") + ":\n" +
          over_seeds_table(results).text(probe_terminal(STDOUT_FILENO)));
  return status;
}

int run(const std::vector<std::string>& words) {
  const Arguments arguments(entry(), words, grammar());
  if (arguments.help()) return arguments.print_help();
  Traced traced(arguments, entry(), /*on_device=*/names_device(arguments.settings()));
  const std::string& name = arguments.positional()[0];
  if (auto seeds = train::seeds_named(name)) {
    seeds->checkpoint = checkpoint_asked("rank", arguments, *seeds);
    return rank_seeds(arguments, traced, *seeds);
  }
  RunName named = run_named(name).value_or(RunName{.folder = name});
  named.checkpoint = checkpoint_asked("rank", arguments, named);
  return rank_one(arguments, traced, named, /*print_json=*/true).status;
}

}  // namespace

VerbEntry entry() {
  return {
      .name = "rank",
      .summary = "rank true triples among false ones by proofs, rules, an embedding, and joined",
      .usage =
          "rank <data> [--queries N] [--corruptions N|all] [--embedding FILE] ... [threads=N]\n\n"
          "<data> is a run on kg (RUN@best), whose proofs are ranked too, a folder of seeds, each "
          "of which is and then\nall together, or a data set's name (family) or a folder of one, "
          "which are ranked by rules and embedding.\nOf a run env.* and device may be given too.",
      .run = run};
}

}  // namespace maglev::verbs::rank
