// maglev kg: knowledge graphs as files. Makes the built-in ones, mines rules, trains embeddings,
// says what one is like.

#include <cstdio>
#include <map>
#include <span>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "base/core/error.h"
#include "base/core/file.h"
#include "base/core/printed.h"
#include "base/core/terminal.h"
#include "base/datalog/dataset.h"
#include "base/datalog/knowledge.h"
#include "base/datalog/mine.h"
#include "base/datalog/rules.h"
#include "base/datalog/stats.h"
#include "engine/run/run_dir.h"
#include "verbs/arguments.h"
#include "verbs/kg/part.h"
#include "verbs/table.h"
#include "verbs/verb.h"

namespace maglev::verbs::kg {

VerbEntry entry();

namespace {

using Json = nlohmann::ordered_json;
using datalog::Dataset;

std::string share_text(int64_t part, int64_t of) {
  if (!of) return "-";
  return printed("%lld (%.1f %%)", static_cast<long long>(part), 100 * double(part) / double(of));
}

std::string decimal(double x) { return printed("%.3f", x); }

void print_notes(const Dataset& dataset) {
  for (const std::string& note : dataset.notes) print("note: " + note + "\n");
}

struct SplitRow {
  const char* name;
  const std::vector<datalog::Atom>* queries;
  const std::vector<int32_t>* depths;
  datalog::SplitStats stats;
};

// how many queries have a proof of how many steps
std::map<int32_t, int64_t> by_depth(const std::vector<int32_t>& depths) {
  std::map<int32_t, int64_t> counts;
  for (int32_t depth : depths) ++counts[depth];
  return counts;
}

// "2: 20, 4: 3, unknown: 1"
std::string depths_text(const std::vector<int32_t>& depths) {
  std::string text, unknown;
  for (const auto& [depth, count] : by_depth(depths)) {
    const std::string one = ": " + std::to_string(count);
    if (depth < 0) unknown = "unknown" + one;
    else text += (text.empty() ? "" : ", ") + std::to_string(depth) + one;
  }
  if (!unknown.empty()) text += (text.empty() ? "" : ", ") + unknown;
  return text.empty() ? "-" : text;
}

// of each split, and into `report`
Table splits_table(std::span<const SplitRow> rows, Json& report) {
  Table splits({"split", ">queries", ">proved by one rule", ">of as many false ones", ">are facts",
                ">of unknown names", "queries by depth"});
  for (const SplitRow& row : rows) {
    const datalog::SplitStats& s = row.stats;
    splits.add({row.name, std::to_string(s.queries), share_text(s.by_one_rule, s.queries),
                share_text(s.false_by_one_rule, s.false_queries), share_text(s.facts, s.queries),
                std::to_string(s.unknown), depths_text(*row.depths)});
    report["splits"][row.name] = {{"queries", s.queries},
                                  {"by_one_rule", s.by_one_rule},
                                  {"false_queries", s.false_queries},
                                  {"false_by_one_rule", s.false_by_one_rule},
                                  {"facts", s.facts},
                                  {"unknown", s.unknown}};
    for (const auto& [depth, count] : by_depth(*row.depths))
      report["splits"][row.name]["depths"][std::to_string(depth)] = count;
  }
  return splits;
}

// likewise of each predicate
Table predicates_table(const datalog::Program& program, const datalog::Knowledge& knowledge,
                       std::span<const SplitRow> rows, Json& report) {
  Table predicates({"predicate", ">facts", ">rules", ">train", ">valid", ">test"});
  for (int32_t p = 1; p <= knowledge.predicates; ++p) {
    std::vector<std::string> cells{program.predicates.of(p), std::to_string(knowledge.of(p).size()),
                                   std::to_string(knowledge.rules_of(p).size())};
    Json& one = report["by_predicate"][cells[0]];
    one = {{"facts", knowledge.of(p).size()}, {"rules", knowledge.rules_of(p).size()}};
    for (const SplitRow& row : rows) {
      int64_t queries = 0;
      for (const datalog::Atom& atom : *row.queries) queries += atom.predicate == p;
      cells.push_back(std::to_string(queries));
      one[row.name] = queries;
    }
    predicates.add(std::move(cells));
  }
  return predicates;
}

int stats(const Arguments& arguments) {
  const Dataset dataset = datalog::open_dataset(arguments.positional()[0]);
  const datalog::Program& program = dataset.program;
  const datalog::OwnedKnowledge knowledge(program);
  Json report{{"name", dataset.name},
              {"constants", knowledge->constants},
              {"predicates", knowledge->predicates},
              {"facts", knowledge->facts},
              {"rules", knowledge->rules},
              {"longest_body", knowledge->longest_body},
              {"fan_out", knowledge->fan_out},
              {"bound_fan_out", knowledge->bound_fan_out},
              {"notes", dataset.notes}};

  const datalog::DatasetStats stats = datalog::stats_of(dataset, *knowledge);
  const SplitRow rows[] = {{"train", &dataset.train, &dataset.train_depth, stats.train},
                           {"valid", &dataset.valid, &dataset.valid_depth, stats.valid},
                           {"test", &dataset.test, &dataset.test_depth, stats.test}};
  const Table splits = splits_table(rows, report);
  const Table predicates = predicates_table(program, *knowledge, rows, report);

  if (arguments.has("--json")) {
    print(report.dump(2) + "\n");
    return 0;
  }
  const Terminal terminal = probe_terminal(STDOUT_FILENO);
  print(dataset.name + ": " + counted(knowledge->constants, "constant") + ", " +
        counted(knowledge->predicates, "predicate") + ", " + counted(knowledge->facts, "fact") +
        ", " + counted(knowledge->rules, "rule") + " of at most " +
        counted(knowledge->longest_body, "atom") + "\n");
  std::printf("a goal has at most %d children, one with a constant at most %d\n",
              knowledge->fan_out, knowledge->bound_fan_out);
  print_notes(dataset);
  print("\n" + splits.text(terminal) + "\n" + predicates.text(terminal));
  return 0;
}

int make(const Arguments& arguments) {
  const std::string& name = arguments.positional()[0];
  const auto folder = arguments.value("--out");
  if (!folder) throw Error("[kg make] --out DIR is missing: where the files go");
  if (is_run(*folder))
    throw Error("[" + *folder +
                "] holds a run, which a graph's files would mix with; name another");
  std::optional<uint64_t> seed;
  if (const auto given = arguments.integer("--seed", 0, INT64_MAX)) seed = uint64_t(*given);
  const Dataset dataset = datalog::make_dataset(name, seed);
  datalog::write_dataset(dataset, *folder, arguments.has("--overwrite"));
  std::printf("%s holds %s: %s, %s, %zu, %zu and %zu queries\n", folder->c_str(), name.c_str(),
              counted(int64_t(dataset.program.facts.size()), "fact").c_str(),
              counted(int64_t(dataset.program.rules.size()), "rule").c_str(), dataset.train.size(),
              dataset.valid.size(), dataset.test.size());
  return 0;
}

int mine(const Arguments& arguments) {
  datalog::MineOptions options{.per_head = 20};
  options.support = arguments.integer("--support", 1, INT32_MAX).value_or(options.support);
  options.confidence = arguments.number("--confidence", 0, 1).value_or(options.confidence);
  options.per_head = arguments.integer("--per-head", 0, INT32_MAX).value_or(options.per_head);
  const auto file = arguments.output("--out");
  const Dataset dataset = datalog::open_dataset(arguments.positional()[0]);
  const auto rules = datalog::mine_rules(dataset.program, options);
  if (rules.empty())
    throw Error("[" + dataset.name + "] bears out no rule: none is true of " +
                counted(options.support, "pair") + " with confidence " +
                decimal(options.confidence) + " among " +
                counted(int64_t(dataset.program.facts.size()), "fact") +
                "; ask for less with --support or --confidence");
  if (!file) {
    Table table({">support", ">of", ">confidence", ">PCA", "rule"});
    for (const datalog::MinedRule& mined : rules)
      table.add({std::to_string(mined.support), std::to_string(mined.body),
                 decimal(mined.rule.confidence), decimal(mined.pca_confidence()),
                 to_text(dataset.program, mined.rule)});
    print(table.text(probe_terminal(STDOUT_FILENO)));
    print(counted(int64_t(rules.size()), "rule") + "\n");
    return 0;
  }
  std::string text =
      "% mined from " + dataset.name + ": support " + std::to_string(options.support) +
      ", confidence " + datalog::confidence_text(options.confidence) +
      (options.per_head ? ", " + std::to_string(options.per_head) + " a head" : "") + "\n";
  for (const datalog::MinedRule& mined : rules)
    text += datalog::confidence_text(mined.rule.confidence) +
            "::" + to_text(dataset.program, mined.rule) + "  % " + std::to_string(mined.support) +
            " of " + std::to_string(mined.body) + ", PCA " + decimal(mined.pca_confidence()) + "\n";
  write_atomic(*file, text);
  print(*file + " holds " + counted(int64_t(rules.size()), "rule") + "\n");
  return 0;
}

std::vector<Part> parts() {
  const Flag overwrite{
      "--overwrite", "",
      "files that are there already are replaced; others of a graph become NAME.old-1, -2, ..."};
  return {
      {{"kg stats", "how large a graph is, and how much of it one rule proves",
        "kg stats <data> [--json]", nullptr},
       {.flags = {{"--json", "", "print JSON instead of tables"}},
        .least = 1,
        .most = 1,
        .names = "<data>"},
       stats},
      {{"kg make", "write a built-in graph as text files",
        "kg make <name> --out DIR [--seed N] [--overwrite]", nullptr},
       {.flags = {{"--out", "DIR", "folder of the files"},
                  {"--seed", "N", "of those that are drawn (default 1)"},
                  overwrite},
        .least = 1,
        .most = 1,
        .names = "<name>"},
       make},
      {{"kg mine", "rules of one or two atoms that the facts bear out",
        "kg mine <data> [--support N] [--confidence X] [--per-head N] [--out FILE] [--overwrite]",
        nullptr},
       {.flags = {{"--support", "N", "pairs that bear a rule out, at least (default 10)"},
                  {"--confidence", "X", "share of them among what it says, at least (default 0.3)"},
                  {"--per-head", "N", "the surest of each predicate; 0: all (default 20)"},
                  {"--out", "FILE", "write them there, as rules.txt wants them"},
                  overwrite},
        .least = 1,
        .most = 1,
        .names = "<data>"},
       mine},
      embed_part()};
}

int run(const std::vector<std::string>& words) {
  const bool asks = words.empty() || words[0] == "--help" || words[0] == "-h";
  std::vector<std::string> names;
  for (const Part& part : parts()) {
    names.push_back(std::string(part.verb.name).substr(3));
    if (asks || words[0] != names.back()) continue;
    const Arguments arguments(part.verb, {words.begin() + 1, words.end()}, part.grammar);
    return arguments.help() ? arguments.print_help() : part.run(arguments);
  }
  if (!asks) throw Error("[kg] " + unknown_name("command", words[0], names));
  std::string text;
  for (const Part& part : parts())
    text += Arguments(part.verb, {"--help"}, part.grammar).help_text() + "\n";
  text += "<data> is a folder with train.txt, valid.txt and test.txt, or a built-in name:";
  for (const std::string& name : datalog::dataset_names()) text += " " + name;
  print(text + "\n");
  return words.empty() ? 2 : 0;
}

}  // namespace

VerbEntry entry() {
  return {
      .name = "kg",
      .summary = "knowledge graphs: what one is like, built-in ones as files, rules, embeddings",
      .usage = "kg stats|make|mine|embed ...",
      .run = run};
}

}  // namespace maglev::verbs::kg
