#include "base/datalog/dataset.h"

#include <algorithm>
#include <filesystem>
#include <unordered_map>
#include <utility>

#include "base/core/error.h"
#include "base/core/file.h"
#include "base/core/printed.h"
#include "base/datalog/countries.h"
#include "base/datalog/family.h"
#include "base/datalog/knowledge.h"
#include "base/datalog/mine.h"
#include "base/datalog/pykeen.h"
#include "base/datalog/rules.h"
#include "base/datalog/triples.h"

namespace maglev::datalog {
namespace {

// of a read graph without rules of its own: enough to prove most of it, few enough to choose from
constexpr int64_t kMinedPerHead = 20;

Dataset read_pykeen(const std::string& name, const MineOptions& options) {
  Dataset dataset = open_dataset(pykeen_folder() + "/datasets/" + name);
  dataset.notes.clear();
  for (MinedRule& mined : mine_rules(dataset.program, options))
    dataset.program.rules.push_back(std::move(mined.rule));
  return dataset;
}

struct BuiltIn {
  const char* name;
  bool drawn;  ///< made from a seed, not read
  Dataset (*make)(uint64_t seed);
};
constexpr BuiltIn kBuiltIn[] = {
    {"countries_s1", true,
     [](uint64_t seed) { return make_countries({.stage = 1, .seed = seed}); }},
    {"countries_s2", true,
     [](uint64_t seed) { return make_countries({.stage = 2, .seed = seed}); }},
    {"countries_s3", true,
     [](uint64_t seed) { return make_countries({.stage = 3, .seed = seed}); }},
    {"family", true, [](uint64_t seed) { return make_family({.seed = seed}); }},
    {"kinships", false,
     [](uint64_t) { return read_pykeen("kinships", {.support = 20, .per_head = kMinedPerHead}); }},
    {"nations", false,
     [](uint64_t) {
       return read_pykeen("nations", {.confidence = .5, .per_head = kMinedPerHead});
     }},
    {"umls", false, [](uint64_t) { return read_pykeen("umls", {.per_head = kMinedPerHead}); }},
};

// all that a data set may have
constexpr const char* kFiles[] = {"train.txt",        "valid.txt",        "test.txt",
                                  "facts.txt",        "rules.txt",        "domains.txt",
                                  "train_depths.txt", "valid_depths.txt", "test_depths.txt"};

// of the three splits: its file without the end, its queries and their depths
struct SplitFile {
  const char* name;
  std::vector<Atom> Dataset::*queries;
  std::vector<int32_t> Dataset::*depths;
};
constexpr SplitFile kSplits[] = {{"train", &Dataset::train, &Dataset::train_depth},
                                 {"valid", &Dataset::valid, &Dataset::valid_depth},
                                 {"test", &Dataset::test, &Dataset::test_depth}};

void note_repeated(Dataset& dataset, const std::string& file, int64_t repeated) {
  if (repeated)
    dataset.notes.push_back(file + ": " +
                            counted(repeated, "line repeats another and is left out",
                                    "lines repeat others and are left out"));
}

void expect_files(const std::string& folder) {
  std::string missing;
  for (const SplitFile& split : kSplits)
    if (!path_exists(folder + "/" + split.name + ".txt"))
      missing += (missing.empty() ? "" : ", ") + std::string(split.name) + ".txt";
  if (missing.empty()) return;
  const std::vector<std::string> there = list_dir(folder);
  std::string found;
  for (size_t i = 0; i < std::min<size_t>(there.size(), 8); ++i)
    found += (i ? ", " : "") + there[i];
  throw Error("[" + folder + "] has no " + missing +
              "; a knowledge graph is a folder with train.txt, valid.txt, test.txt, and rules.txt, "
              "facts.txt, domains.txt where wanted; found " +
              (found.empty() ? "nothing" : found + (there.size() > 8 ? ", .." : "")));
}

/// What a file of queries and depths says of those of a split joins what stands behind them there:
/// -1 says nothing.
void read_depths(const std::string& file, const std::vector<Atom>& queries, Program names,
                 std::vector<int32_t>& depths) {
  // names that are only here are the copy's, and no part of the graph
  const Triples said = read_triples(file, names);
  auto hash = [](const Atom& atom) { return size_t(hash_of(atom)); };
  std::unordered_map<Atom, size_t, decltype(hash)> places;
  for (size_t q = 0; q < queries.size(); ++q) places.emplace(queries[q], q);
  depths.resize(queries.size(), -1);
  for (size_t i = 0; i < said.atoms.size(); ++i) {
    const auto place = places.find(said.atoms[i]);
    // a split may have been cut since
    if (place == places.end()) continue;
    const int32_t depth = said.depths.empty() ? -1 : said.depths[i];
    int32_t& known = depths[place->second];
    if (known >= 0 && depth >= 0 && known != depth)
      throw Error("[" + file + "] " + to_text(names, said.atoms[i]) + ": depth " +
                  std::to_string(depth) + ", and the split's own file has " +
                  std::to_string(known) + "; leave one of them out");
    known = std::max(known, depth);
  }
}

void read_domains(const std::string& file, Dataset& dataset) {
  Program domains;
  for (const Atom& atom : read_triples(file, domains).atoms) {
    const auto where = [&] { return "[" + file + "] " + to_text(domains, atom) + ": "; };
    if (domains.predicates.of(atom.predicate) != "domain")
      throw Error(where() + "expected domain(predicate, constant)");
    const std::string& name = domains.constants.of(atom.first);
    const int32_t predicate = dataset.program.predicates.find(name);
    if (!predicate)
      throw Error(where() + unknown_name("predicate", name, dataset.program.predicates.all()));
    dataset.domains.resize(size_t(dataset.program.predicates.size()));
    dataset.domains[size_t(predicate - 1)].push_back(
        dataset.program.constants.add(domains.constants.of(atom.second)));
  }
}

void read_split(const std::string& file, Dataset& dataset, std::vector<Atom>& queries,
                std::vector<int32_t>& depths) {
  Triples triples = read_triples(file + ".txt", dataset.program);
  const std::string name = std::filesystem::path(file).filename().string();
  note_repeated(dataset, name + ".txt", triples.repeated);
  queries = std::move(triples.atoms);
  depths = std::move(triples.depths);
  if (path_exists(file + "_depths.txt"))
    read_depths(file + "_depths.txt", queries, dataset.program, depths);
}

Dataset read_folder(const std::string& folder) {
  expect_files(folder);
  Dataset dataset;
  dataset.folder = folder;
  dataset.name = std::filesystem::weakly_canonical(folder).filename().string();
  const auto file = [&](const char* name) { return folder + "/" + name; };

  for (const SplitFile& split : kSplits)
    read_split(file(split.name), dataset, dataset.*split.queries, dataset.*split.depths);
  if (path_exists(file("facts.txt"))) {
    Triples facts = read_triples(file("facts.txt"), dataset.program);
    dataset.program.facts = std::move(facts.atoms);
    note_repeated(dataset, "facts.txt", facts.repeated);
  } else {
    dataset.program.facts = dataset.train;
  }
  if (path_exists(file("rules.txt"))) {
    const RuleFile rules = read_rules(file("rules.txt"), dataset.program);
    note_repeated(dataset, "rules.txt", rules.repeated);
    if (rules.without_body)
      dataset.notes.push_back("rules.txt: " + counted(rules.without_body,
                                                      "rule has no body and is left out",
                                                      "rules have no body and are left out"));
    expect_predicates(dataset.program, rules);
  } else {
    dataset.notes.push_back("no rules.txt: nothing but facts can be proved");
  }
  if (path_exists(file("domains.txt"))) read_domains(file("domains.txt"), dataset);
  dataset.sort_names();
  return dataset;
}

bool is_built_in(const std::string& name) {
  return std::ranges::any_of(kBuiltIn, [&](const BuiltIn& one) { return name == one.name; });
}

}  // namespace

void Dataset::sort_names() {
  // domains are renumbered as atoms whose first argument is of no account
  std::vector<Atom> places;
  for (size_t p = 0; p < domains.size(); ++p)
    for (int32_t constant : domains[p]) places.push_back({int32_t(p + 1), constant, constant});
  program.sort_names({&train, &valid, &test, &places});
  if (domains.empty()) return;
  domains.assign(size_t(program.predicates.size()), {});
  for (const Atom& place : places) domains[size_t(place.predicate - 1)].push_back(place.second);
  for (std::vector<int32_t>& domain : domains) std::sort(domain.begin(), domain.end());
}

std::vector<std::string> dataset_names() {
  std::vector<std::string> names;
  for (const BuiltIn& built_in : kBuiltIn) names.push_back(built_in.name);
  return names;
}

Dataset make_dataset(const std::string& name, std::optional<uint64_t> seed) {
  for (const BuiltIn& built_in : kBuiltIn) {
    if (name != built_in.name) continue;
    if (seed && !built_in.drawn) throw Error("[" + name + "] is read as it is: it has no seed");
    Dataset dataset = built_in.make(seed.value_or(1));
    dataset.name = name, dataset.folder.clear();
    return dataset;
  }
  throw Error("[knowledge graph] " + unknown_name("built-in name", name, dataset_names()));
}

std::string lasting_name(const std::string& name_or_folder) {
  if (is_built_in(name_or_folder) || !is_folder(name_or_folder)) return name_or_folder;
  return std::filesystem::absolute(name_or_folder).lexically_normal().string();
}

std::string shadowed_folder(const std::string& name_or_folder) {
  if (!is_built_in(name_or_folder) || !is_folder(name_or_folder)) return "";
  return name_or_folder + " is the built-in graph; the folder of that name is ./" + name_or_folder;
}

Dataset open_dataset(const std::string& name_or_folder) {
  const std::vector<std::string> names = dataset_names();
  if (is_built_in(name_or_folder)) {
    Dataset dataset = make_dataset(name_or_folder, {});
    if (const std::string note = shadowed_folder(name_or_folder); !note.empty())
      dataset.notes.push_back(note);
    return dataset;
  }
  if (is_folder(name_or_folder)) return read_folder(name_or_folder);
  // whoever gives a path means no name, and whoever misspells one no folder
  std::string text = "[knowledge graph] there is no folder '" + name_or_folder + "'";
  if (name_or_folder.find('/') == std::string::npos)
    text += "; " + unknown_name("built-in name", name_or_folder, names);
  if (near_names(name_or_folder, names).empty())
    text += "; a run whose graph has moved is told where by env.data=FOLDER";
  throw Error(text);
}

void expect_no_dataset(const std::string& folder) {
  for (const char* name : kFiles)
    if (path_exists(folder + "/" + name))
      throw Error("[" + folder + "] has a " + name +
                  " already; name another folder, or let it be replaced (--overwrite)");
}

void write_dataset(const Dataset& dataset, const std::string& folder, bool replace) {
  const Program& program = dataset.program;
  std::vector<std::pair<std::string, std::string>> files;
  for (const SplitFile& split : kSplits) {
    const std::vector<Atom>& queries = dataset.*split.queries;
    const std::vector<int32_t>& depths = dataset.*split.depths;
    files.push_back({split.name + std::string(".txt"), triples_text(program, queries)});
    if (!depths.empty())
      files.push_back(
          {split.name + std::string("_depths.txt"), triples_text(program, queries, depths)});
  }
  if (!(program.facts == dataset.train))
    files.push_back({"facts.txt", triples_text(program, program.facts)});
  if (!program.rules.empty()) files.push_back({"rules.txt", rules_text(program)});
  std::string domains;
  for (size_t p = 0; p < dataset.domains.size(); ++p)
    for (int32_t constant : dataset.domains[p])
      domains += "domain(" + quoted_name(program.predicates.of(int32_t(p + 1))) + "," +
                 quoted_name(program.constants.of(constant)) + ").\n";
  if (!domains.empty()) files.push_back({"domains.txt", domains});

  if (!replace) expect_no_dataset(folder);
  make_dirs(folder);
  for (const auto& [name, text] : files) write_atomic(folder + "/" + name, text);
  // of an older one nothing may stay in use: what the new one has no file for is put aside
  for (const char* name : kFiles) {
    const std::string path = folder + "/" + name;
    const bool written = std::ranges::any_of(files, [&](const auto& f) { return f.first == name; });
    if (!written && path_exists(path)) rename_path(path, first_free(path + ".old-"));
  }
}

}  // namespace maglev::datalog
