// maglev rank: how well a run that proves tells true triples from false ones.

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <numeric>
#include <optional>
#include <tuple>
#include <unistd.h>

#include <ATen/ATen.h>

#include <nlohmann/json.hpp>

#include "base/core/clock.h"
#include "base/core/error.h"
#include "base/core/file.h"
#include "base/core/printed.h"
#include "base/core/terminal.h"
#include "base/trace/span.h"
#include "engine/embeddings/complex.h"
#include "engine/play/run_policy.h"
#include "verbs/arguments.h"
#include "verbs/json_number.h"
#include "verbs/notes.h"
#include "verbs/rank/questions.h"
#include "verbs/rank/report.h"
#include "verbs/rank/trials.h"
#include "verbs/settings.h"
#include "verbs/table.h"
#include "verbs/traced.h"
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
            "which argument is asked for: both, head or tail (default: as the run was trained)"},
           {"--raw", "", "candidates that are known to be true count as false ones too"},
           {"--rank-type", "RULE",
            "among equal scores: random, realistic, optimistic or pessimistic (default random)"},
           {"--actions", "HOW", "mean takes the likeliest, sample draws (default mean)"},
           {"--embedding", "FILE",
            "scores of an embedding beside, and both joined (maglev kg embed)"},
           {"--shortlist", "K",
            "prove only the K candidates that the embedding puts first; the others follow"},
           {"--by", "WHAT", "a table more: by mode, predicate or depth"},
           {"--at-most", "MS", "more milliseconds a candidate that is tried are exit status 1"},
           {"--seed", "S", "of all that is drawn (default 0)"},
           {"--scores", "FILE", "every candidate with its scores as CSV"},
           kTraceFlag,
           {"--overwrite", "", "replace FILE where it is there already"},
           {"--checkpoint", "WHICH",
            "latest, best, or a checkpoint by name or folder (default latest)"},
           {"--json", "", "print JSON instead of tables"}},
      .least = 1,
      .most = 1,
      .names = "<run>",
      .settings = true};
}

constexpr int kSlow = 1;  // exit status

enum class How { mean, sample };
constexpr auto names_of(How) { return std::array{"mean", "sample"}; }
enum class By { mode, predicate, depth };
constexpr auto names_of(By) { return std::array{"mode", "predicate", "depth"}; }

Asked asked_of(const Arguments& arguments, const Kg::Params& params) {
  Asked asked;
  asked.split = arguments.choice<maglev::kg::Split>("--split").value_or(asked.split);
  const auto trained = params.corrupt == maglev::kg::Corruption::head   ? Modes::head
                       : params.corrupt == maglev::kg::Corruption::tail ? Modes::tail
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

/// The embedding's score of each candidate.
std::vector<std::vector<double>> embedded(const ComplexEmbedding& model,
                                          const std::vector<Question>& questions,
                                          const datalog::Program& program) {
  const auto span = maglev::trace::stage("embedding");
  std::vector<std::vector<double>> scores;
  for (const Question& question : questions) {
    const datalog::Atom& query = question.candidates[0];
    const auto one = [](int32_t id) { return at::full({1}, int64_t(id), at::kLong); };
    const at::Tensor all =
        (question.head ? model.firsts(one(query.predicate), one(query.second))
                       : model.seconds(one(query.predicate), one(query.first)))[0]
            .contiguous();
    auto& row = scores.emplace_back();
    for (const datalog::Atom& atom : question.candidates) {
      row.push_back(
          double(all.const_data_ptr<float>()[(question.head ? atom.first : atom.second) - 1]));
      if (!std::isfinite(row.back()))
        throw Error("[rank] the embedding's score of " + to_text(program, atom) +
                    " is not finite: its numbers are too large; train it anew with a smaller --lr");
    }
  }
  return scores;
}

double log_sigmoid(double x) { return std::min(x, 0.) - std::log1p(std::exp(-std::abs(x))); }

/// The places of the K best scores. Among those alike names decide, and not which one is true.
std::vector<size_t> best(const std::vector<double>& scores,
                         const std::vector<datalog::Atom>& candidates, size_t K) {
  std::vector<size_t> order(scores.size());
  std::iota(order.begin(), order.end(), 0);
  const auto key = [&](size_t c) {
    return std::tuple(-scores[c], candidates[c].first, candidates[c].second);
  };
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return key(a) < key(b); });
  order.resize(std::min(K, order.size()));
  return order;
}

std::string text(const char* format, double x) {
  return std::isfinite(x) ? printed(format, x) : "-";
}

/// What a run's policy made of the questions.
struct Ranking {
  std::vector<Question> questions;
  std::vector<std::vector<Trial>> trials;      ///< as candidates
  std::vector<std::vector<double>> embedding;  ///< likewise; empty without one
  std::vector<Scoring> scorings;
  TrialCounts counts;
  int64_t candidates = 0;  ///< of all questions
  int64_t tried = 0;       ///< of them those whose proofs were tried
  double seconds = 0;      ///< of the proofs
};

/// Proves the candidates: all, or those that the embedding puts first.
void prove(Ranking& r, Prover& prover, ActMode mode, uint64_t seed, size_t shortlist) {
  const auto span = maglev::trace::stage("prove");
  std::vector<datalog::Atom> queries;
  std::vector<std::pair<size_t, size_t>> places;
  for (size_t q = 0; q < r.questions.size(); ++q) {
    const auto& candidates = r.questions[q].candidates;
    r.trials.emplace_back(candidates.size());
    r.candidates += int64_t(candidates.size());
    std::vector<size_t> chosen(candidates.size());
    std::iota(chosen.begin(), chosen.end(), 0);
    if (shortlist > 0) chosen = best(r.embedding[q], candidates, shortlist);
    for (size_t c : chosen) queries.push_back(candidates[c]), places.emplace_back(q, c);
  }
  r.tried = int64_t(queries.size());
  const double begin_s = steady_s();
  const std::vector<Trial> trials = prover.prove(queries, mode, seed);
  r.seconds = steady_s() - begin_s;
  r.counts = prover.counts();
  for (size_t i = 0; i < trials.size(); ++i) {
    if (!std::isfinite(trials[i].log_prob))
      throw Error(
          "[rank] the policy's probability of a proof is no number; its network diverged, take "
          "an earlier --checkpoint");
    Trial& trial = r.trials[places[i].first][places[i].second];
    trial = trials[i];
    trial.tried = true;
  }
}

void score(Ranking& r, size_t shortlist) {
  const auto span = maglev::trace::stage("score");
  const auto each = [&](const char* name, auto&& of) {
    Scoring& scoring = r.scorings.emplace_back(Scoring{.name = name, .scores = {}});
    for (size_t q = 0; q < r.questions.size(); ++q) {
      auto& row = scoring.scores.emplace_back();
      for (size_t c = 0; c < r.trials[q].size(); ++c) row.push_back(of(q, c));
    }
  };
  if (shortlist == 0)
    each("proof", [&](size_t q, size_t c) { return proof_score(r.trials[q][c]); });
  if (r.embedding.empty()) return;
  each("embedding", [&](size_t q, size_t c) { return r.embedding[q][c]; });
  // the embedding's and the proof's, one for the other, as likelihoods; what is not proved has a
  // penalty
  each(shortlist ? "shortlist" : "both", [&](size_t q, size_t c) {
    return 2 * log_sigmoid(r.embedding[q][c]) + (r.trials[q][c].proved ? 1 : kNotProved);
  });
  // a large score's likelihood is 1 to the last place, and its order is still the embedding's
  r.scorings.back().ties_by = r.embedding;
}

std::vector<std::pair<std::string, std::vector<size_t>>> groups_of(
    const Ranking& r, By by, const datalog::Program& program) {
  // by number, so that a depth of 10 comes behind 2; what is unknown last
  std::map<std::pair<int64_t, std::string>, std::vector<size_t>> groups;
  for (size_t q = 0; q < r.questions.size(); ++q) {
    const Question& question = r.questions[q];
    const std::string name = by == By::mode ? (question.head ? "head" : "tail")
                             : by == By::predicate
                                 ? program.predicates.of(question.candidates[0].predicate)
                             : question.depth < 0 ? "unknown"
                                                  : std::to_string(question.depth);
    const bool unknown = by == By::depth && question.depth < 0;
    groups[{unknown ? INT64_MAX : by == By::depth ? question.depth : 0, name}].push_back(q);
  }
  std::vector<std::pair<std::string, std::vector<size_t>>> named;
  for (auto& [key, which] : groups) named.emplace_back(key.second, std::move(which));
  return named;
}

std::vector<std::string> cells(const Figures& f) {
  return {std::to_string(f.questions),
          text("%.3f", f.rank.mrr),
          text("%.3f", f.mrr.low) + " to " + text("%.3f", f.mrr.high),
          text("%.3f", f.rank.hits1),
          text("%.3f", f.rank.hits3),
          text("%.3f", f.rank.hits10),
          text("%.3f", f.auc_pr),
          text("%.1f %%", 100 * f.proved_true),
          text("%.1f %%", 100 * f.proved_false)};
}
const std::vector<std::string> kHeadings{">questions", ">MRR",         ">95 %",
                                         ">Hits@1",    ">@3",          ">@10",
                                         ">AUC-PR",    ">true proved", ">false proved"};

Json to_json(const Figures& f) {
  return {{"questions", f.questions},
          {"mrr", f.rank.mrr},
          {"mrr_interval", {finite_or_null<Json>(f.mrr.low), finite_or_null<Json>(f.mrr.high)}},
          {"hits1", f.rank.hits1},
          {"hits3", f.rank.hits3},
          {"hits10", f.rank.hits10},
          {"auc_pr", finite_or_null<Json>(f.auc_pr)},
          {"proved_true", f.proved_true},
          {"proved_false", f.proved_false}};
}

/// A CSV field.
std::string quoted(const std::string& name) {
  if (name.find_first_of(",\"\n") == std::string::npos) return name;
  std::string out = "\"";
  for (char c : name) out += c == '"' ? "\"\"" : std::string(1, c);
  return out + "\"";
}

std::string csv_of(const Ranking& r, const datalog::Program& program) {
  const auto span = maglev::trace::stage("csv");
  std::string csv = "question,mode,predicate,first,second,true,tried,proved,log_prob,steps";
  for (const Scoring& scoring : r.scorings) csv += "," + scoring.name;
  csv += "\n";
  for (size_t q = 0; q < r.questions.size(); ++q)
    for (size_t c = 0; c < r.trials[q].size(); ++c) {
      const datalog::Atom& atom = r.questions[q].candidates[c];
      const Trial& trial = r.trials[q][c];
      csv += std::to_string(q) + (r.questions[q].head ? ",head," : ",tail,") +
             quoted(program.predicates.of(atom.predicate)) + "," +
             quoted(program.constants.of(atom.first)) + "," +
             quoted(program.constants.of(atom.second)) + (c ? ",0," : ",1,") +
             (trial.tried ? "1," : "0,") + (trial.proved ? "1," : "0,") +
             text("%.6g", double(trial.log_prob)) + "," + std::to_string(trial.steps);
      for (const Scoring& scoring : r.scorings) csv += "," + text("%.17g", scoring.scores[q][c]);
      csv += "\n";
    }
  return csv;
}

/// How ranks are counted and questions grouped.
struct Counting {
  Ties ties;
  uint64_t seed;         ///< of ties that are drawn
  std::optional<By> by;  ///< nullopt: all questions together alone
};

/// The figures of each scoring, of all questions and of each group: a row each, and into `report`.
Table figures_table(const Ranking& r, const datalog::Program& program, const Counting& counting,
                    Json& report) {
  const auto by = counting.by;
  std::vector<std::string> headings{"scores"};
  if (by) headings.insert(headings.begin(), names_of(*by)[size_t(*by)]);
  headings.insert(headings.end(), kHeadings.begin(), kHeadings.end());
  Table table(headings);
  std::vector<size_t> all(r.questions.size());
  std::iota(all.begin(), all.end(), 0);
  for (const Scoring& scoring : r.scorings) {
    const auto span = maglev::trace::stage("figures");
    const Scoring places = ties_broken(scoring);
    const std::vector<double> ranks = ranks_of(places, counting.ties, counting.seed);
    const auto add = [&](const std::string& group, const std::vector<size_t>& which, Json& into) {
      const Figures f = figures_of(which, r.questions, places, ranks, r.trials);
      std::vector<std::string> row{scoring.name};
      if (by) row.insert(row.begin(), group);
      auto rest = cells(f);
      // an embedding proves nothing
      if (scoring.name == "embedding") rest.back() = rest[rest.size() - 2] = "-";
      row.insert(row.end(), rest.begin(), rest.end());
      table.add(row);
      into = to_json(f);
    };
    add("all", all, report["scores"][scoring.name]);
    if (!by) continue;
    for (const auto& [name, which] : groups_of(r, *by, program))
      add(name, which, report["by"][name][scoring.name]);
  }
  return table;
}

/// What whoever reads the figures must know of how they came about.
void print_caveats(const Ranking& r, const Asked& asked, size_t shortlist) {
  if (shortlist > 0)
    std::printf("%ld of %ld candidates tried: %.3g ms of proving a candidate of all\n",
                long(r.tried), long(r.candidates), 1e3 * r.seconds / double(r.candidates));
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
        "%ld successors found no room (env.successors), %ld goals were longer than "
        "env.atoms: some proofs may be missing\n",
        long(r.counts.dropped), long(r.counts.too_long));
}

int run(const std::vector<std::string>& words) {
  const Arguments arguments(entry(), words, grammar());
  if (arguments.help()) return arguments.print_help();
  const std::string folder = arguments.positional()[0];
  const auto scores_file = arguments.output("--scores");
  const auto ties = arguments.choice<Ties>("--rank-type").value_or(Ties::random);
  const auto by = arguments.choice<By>("--by");
  const auto how = arguments.choice<How>("--actions").value_or(How::mean);
  const auto most_ms = arguments.number("--at-most", 0, 1e9);
  const auto file = arguments.value("--embedding");
  const size_t shortlist = size_t(arguments.integer("--shortlist", 1, 1'000'000).value_or(0));
  if (arguments.has("--overwrite") && !scores_file && !arguments.has("--trace"))
    throw Error("[rank] --overwrite goes with --scores FILE or --trace FILE");
  if (shortlist > 0 && !file)
    throw Error("[rank] --shortlist needs the embedding that makes it; give --embedding FILE");

  // the run's policy, in its environment but for what was asked to differ
  Traced traced(arguments, entry(), /*on_device=*/names_device(arguments.settings()));
  for (const auto& setting : traced.settings())
    if (!setting.starts_with("env.") && !setting.starts_with("threads=") &&
        !setting.starts_with("device="))
      throw Error("[rank] only env.* settings, threads and device may differ from training, got '" +
                  setting + "'");
  print_notes(run_notes(folder, traced.settings()));
  RunPolicy run(folder, arguments.value("--checkpoint").value_or("latest"), traced.settings(),
                names_device(traced.settings()) ? "" : "cpu");
  const at::Device device = run.placement().device;
  Prover prover(run.experiment(), run.policy(), run.pool(), device);

  // questions, embeddings, proofs, scores
  const datalog::Graph& graph = datalog::open_graph(std::string(prover.params().data.view()));
  const datalog::Program& program = graph.dataset.program;
  const Asked asked = asked_of(arguments, prover.params());
  Ranking r;
  r.questions = questions_of(graph, asked);
  if (file) r.embedding = embedded(ComplexEmbedding::load(*file, program), r.questions, program);
  prove(r, prover, how == How::mean ? ActMode::mean : ActMode::sample, asked.seed, shortlist);
  score(r, shortlist);

  // the figures
  Json report{{"run", folder},
              {"checkpoint", run.checkpoint()},
              {"step", run.identity().step},
              {"device", device.str()},
              {"candidates", r.candidates},
              {"tried", r.tried},
              {"different", r.counts.tried},
              {"milliseconds_per_candidate", 1e3 * r.seconds / double(r.tried)},
              {"milliseconds_per_candidate_of_all", 1e3 * r.seconds / double(r.candidates)},
              {"steps", r.counts.steps},
              {"successors_dropped", r.counts.dropped},
              {"goals_too_long", r.counts.too_long}};
  if (scores_file) write_atomic(*scores_file, csv_of(r, program));
  const Table table =
      figures_table(r, program, {.ties = ties, .seed = asked.seed, .by = by}, report);
  const auto end_trace = [&] {
    return traced.finish({.run = folder,
                          .algorithm = run.experiment().algo().name,
                          .environment = run.experiment().env().name,
                          .device = device.str(),
                          .threads = run.placement().threads});
  };
  // what is slower than it was to be
  const double each_ms = 1e3 * r.seconds / double(r.tried);
  const bool slow = most_ms && each_ms > *most_ms;
  const auto judged = [&] {
    if (slow)
      std::fprintf(stderr, "maglev: %.3g ms a candidate tried, and --at-most %g were allowed\n",
                   each_ms, *most_ms);
    return slow ? kSlow : 0;
  };
  if (arguments.has("--json")) {
    print(report.dump(2) + "\n");
    end_trace();
    return judged();
  }
  std::printf("%s on %s, step %ld: %zu questions, %ld candidates\n", run.experiment().algo().name,
              graph.dataset.name.c_str(), long(run.identity().step), r.questions.size(),
              long(r.candidates));
  print(table.text(probe_terminal(STDOUT_FILENO)));
  std::printf("%.3g ms a candidate tried, %ld of them different, %.1f steps each, %d threads%s\n",
              each_ms, long(r.counts.tried),
              double(r.counts.steps) / double(std::max<int64_t>(1, r.counts.tried)),
              run.placement().threads, device.is_cpu() ? "" : (" beside " + device.str()).c_str());
  print_caveats(r, asked, shortlist);
  if (scores_file) std::printf("scores in %s\n", scores_file->c_str());
  for (const std::string& line : end_trace()) std::printf("%s\n", line.c_str());
  return judged();
}

}  // namespace

VerbEntry entry() {
  return {.name = "rank",
          .summary = "rank true triples among false ones by a run's proofs",
          .usage = "rank <run> [--queries N] [--corruptions N|all] [--embedding FILE] ...",
          .run = run};
}

}  // namespace maglev::verbs::rank
