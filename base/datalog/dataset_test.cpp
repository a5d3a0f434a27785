#include "base/datalog/dataset.h"

#include <cstdlib>
#include <filesystem>

#include <gtest/gtest.h>

#include "base/core/file.h"
#include "base/datalog/pykeen.h"
#include "base/datalog/stats.h"
#include "tests/errors.h"
#include "tests/folder.h"

namespace maglev::datalog {
namespace {

std::string new_folder(const std::string& name) {
  const std::string folder = test_folder() + "/" + name;
  std::filesystem::remove_all(folder);
  make_dirs(folder);
  return folder;
}

/// A small graph of files.
std::string small_folder(const std::string& name) {
  const std::string folder = new_folder(name);
  write_atomic(folder + "/train.txt", "mother(ann,bob).\nbrother(carl,ann).\nmother(ann,bob).\n");
  write_atomic(folder + "/valid.txt", "dora\tuncle\tbob\n");
  write_atomic(folder + "/test.txt", "uncle(carl,bob).\n");
  write_atomic(folder + "/rules.txt", "uncle(X,Y) :- brother(X,Z), mother(Z,Y).\n");
  return folder;
}

TEST(Dataset, is_read_from_a_folder) {
  const Dataset dataset = open_dataset(small_folder("small") + "/");
  EXPECT_EQ(dataset.name, "small");
  EXPECT_EQ(dataset.program.constants.all(),
            (std::vector<std::string>{"ann", "bob", "carl", "dora"}));
  EXPECT_EQ(dataset.program.predicates.all(),
            (std::vector<std::string>{"brother", "mother", "uncle"}));
  EXPECT_EQ(dataset.train, (std::vector<Atom>{{2, 1, 2}, {1, 3, 1}}));
  EXPECT_EQ(dataset.program.facts, dataset.train);
  // dora is in no fact, and has an id
  EXPECT_EQ(dataset.valid, (std::vector<Atom>{{3, 4, 2}}));
  EXPECT_EQ(to_text(dataset.program, dataset.program.rules[0]),
            "uncle(X,Y) :- brother(X,Z), mother(Z,Y).");
  EXPECT_EQ(dataset.notes,
            (std::vector<std::string>{"train.txt: 1 line repeats another and is left out"}));
  EXPECT_TRUE(dataset.test_depth.empty());
  EXPECT_TRUE(dataset.domains.empty());
}

TEST(Dataset, takes_facts_depths_and_domains_where_they_are) {
  const std::string folder = small_folder("more");
  write_atomic(folder + "/facts.txt", "mother(ann,bob).\nbrother(zed,ann).\n");
  write_atomic(folder + "/test_depths.txt", "uncle(x,y). 9\nuncle(carl,bob). 2\n");
  write_atomic(folder + "/domains.txt", "domain(uncle,zed).\ndomain(uncle,bob).\n");
  const Dataset dataset = open_dataset(folder);
  EXPECT_EQ(dataset.program.facts.size(), 2u);
  EXPECT_EQ(to_text(dataset.program, dataset.program.facts[1]), "brother(zed,ann)");
  EXPECT_EQ(dataset.test_depth, (std::vector<int32_t>{2}));
  EXPECT_EQ(dataset.program.constants.find("x"), 0) << "a depth says nothing of the graph";
  ASSERT_EQ(dataset.domains.size(), 3u);
  EXPECT_TRUE(dataset.domains[0].empty());
  EXPECT_EQ(dataset.domains[2], (std::vector<int32_t>{dataset.program.constants.find("bob"),
                                                      dataset.program.constants.find("zed")}));
  write_atomic(folder + "/domains.txt", "domain(uncl,zed).\n");
  EXPECT_TRUE(contains(error_of([&] { open_dataset(folder); }), "did you mean uncle?"));
}

TEST(Dataset, depths_of_two_files_are_joined_and_none_is_lost) {
  const std::string folder = small_folder("depths");
  const auto depths = [&](const char* queries, const char* said) {
    write_atomic(folder + "/test.txt", queries);
    write_atomic(folder + "/test_depths.txt", said);
    return open_dataset(folder).test_depth;
  };
  const auto error = [&](const char* queries, const char* said) {
    return error_of([&] { depths(queries, said); });
  };
  EXPECT_EQ(depths("p(a,b). 2\np(b,c). 5\np(c,d).\n", "p(c,d). 1\np(b,c). -1\n"),
            (std::vector<int32_t>{2, 5, 1}));
  EXPECT_EQ(depths("p(a,b).\n", "p(a,b). 1\np(c,c). 3\n"), (std::vector<int32_t>{1}));
  EXPECT_TRUE(contains(error("p(a,b). 2\n", "p(a,b). 1\n"),
                       "p(a,b): depth 1, and the split's own file has 2"));
  EXPECT_TRUE(contains(error("p(a,b).\n", "p(a,b). 1\np(a,b). 3\n"), "test_depths.txt:2:9]"));
}

TEST(Dataset, comes_back_as_it_was_written) {
  const std::string folder = new_folder("written") + "/countries";
  const Dataset made = open_dataset("countries_s3");
  write_dataset(made, folder, false);
  const Dataset read = open_dataset(folder);
  EXPECT_EQ(read.name, "countries");
  EXPECT_EQ(read.program.constants.all(), made.program.constants.all());
  EXPECT_EQ(read.train, made.train);
  EXPECT_EQ(read.test, made.test);
  EXPECT_EQ(read.test_depth, made.test_depth);
  EXPECT_EQ(read.domains, made.domains);
  EXPECT_EQ(read.program.rules.size(), made.program.rules.size());
  EXPECT_TRUE(
      contains(error_of([&] { write_dataset(made, folder, false); }), "has a train.txt already"));
  write_dataset(open_dataset("family"), folder, true);
  EXPECT_FALSE(path_exists(folder + "/domains.txt")) << "it was the other's";
  EXPECT_EQ(open_dataset(folder).train, open_dataset("family").train);
  // put aside, and an earlier one stays
  const std::string first = read_file(folder + "/domains.txt.old-1", 1 << 20);
  write_atomic(folder + "/domains.txt", "domain(aunt,zed).\n");
  write_dataset(open_dataset("family"), folder, true);
  EXPECT_EQ(read_file(folder + "/domains.txt.old-1", 1 << 20), first);
  EXPECT_EQ(read_file(folder + "/domains.txt.old-2", 1 << 20), "domain(aunt,zed).\n");
}

TEST(Dataset, what_is_missing_or_unknown_is_named) {
  EXPECT_EQ(error_of([] { open_dataset("famly"); }),
            "[knowledge graph] there is no folder 'famly'; unknown built-in name 'famly'; did you "
            "mean family?");
  const std::string folder = small_folder("torn");
  remove_path(folder + "/valid.txt");
  remove_path(folder + "/test.txt");
  const std::string error = error_of([&] { open_dataset(folder); });
  EXPECT_TRUE(contains(error, "torn] has no valid.txt, test.txt; ")) << error;
  EXPECT_TRUE(contains(error, "found rules.txt, train.txt")) << error;
  EXPECT_TRUE(contains(error_of([] { make_dataset("umls", 3); }), "it has no seed"));
}

TEST(Dataset, a_rule_of_an_unknown_predicate_is_refused) {
  const std::string folder = small_folder("slip");
  write_atomic(folder + "/rules.txt", "uncle(X,Y) :- brothr(X,Z), mother(Z,Y).\n");
  EXPECT_TRUE(contains(error_of([&] { open_dataset(folder); }), "rules.txt:1:15] in uncle(X,Y)"));
}

TEST(Dataset, pykeens_graphs_are_found_or_the_way_to_them_is_told) {
  const std::string folder = new_folder("pykeen");
  const char* before = std::getenv("MAGLEV_PYKEEN");
  const std::string saved = before ? before : "";
  ::setenv("MAGLEV_PYKEEN", folder.c_str(), 1);
  EXPECT_TRUE(contains(error_of([] { open_dataset("umls"); }), "run ./maglev setup"));
  make_dirs(folder + "/datasets/umls");
  std::string facts;
  for (int i = 0; i < 12; ++i) {
    const std::string a = "a" + std::to_string(i), b = "b" + std::to_string(i);
    facts += a + "\tisa\t" + b + "\n" + b + "\tasi\t" + a + "\n";
  }
  for (const char* split : {"train", "valid", "test"})
    write_atomic(folder + "/datasets/umls/" + split + ".txt", facts);
  const Dataset dataset = open_dataset("umls");
  EXPECT_EQ(dataset.name, "umls");
  EXPECT_EQ(dataset.train.size(), 24u);
  EXPECT_EQ(to_text(dataset.program, dataset.program.rules[0]), "asi(X,Y) :- isa(Y,X).");
  before ? ::setenv("MAGLEV_PYKEEN", saved.c_str(), 1) : ::unsetenv("MAGLEV_PYKEEN");
}

TEST(Stats, count_what_one_rule_proves) {
  const Dataset dataset = open_dataset(small_folder("stats"));
  const OwnedKnowledge knowledge(dataset.program);
  const auto [train, valid, test] = stats_of(dataset, *knowledge);
  EXPECT_EQ(test.by_one_rule, 1);
  EXPECT_EQ(test.false_queries, 1);
  EXPECT_EQ(test.false_by_one_rule, 0);
  EXPECT_EQ(valid.by_one_rule, 0);
  EXPECT_EQ(valid.unknown, 1);
  // a fact is not its own proof
  EXPECT_EQ(train.facts, 2);
  EXPECT_EQ(train.by_one_rule, 0);
}

TEST(Stats, a_query_is_no_fact_of_its_own_proof) {
  Program program;
  const int32_t p = program.predicates.add("p"), a = program.constants.add("a");
  const int32_t b = program.constants.add("b");
  program.facts = {{p, a, b}, {p, b, a}};
  program.rules = {{{p, -1, -2}, {{p, -1, -2}}, 1, {"X", "Y"}}};
  EXPECT_FALSE(one_rule_proves(*OwnedKnowledge(program), {p, a, b}));
  program.rules = {{{p, -1, -2}, {{p, -2, -1}}, 1, {"X", "Y"}}};
  EXPECT_TRUE(one_rule_proves(*OwnedKnowledge(program), {p, a, b}));
}

}  // namespace
}  // namespace maglev::datalog
