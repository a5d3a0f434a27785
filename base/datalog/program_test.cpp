#include "base/datalog/program.h"

#include <gtest/gtest.h>

#include "tests/small_graph.h"

namespace maglev::datalog {
namespace {

TEST(Names, are_numbered_from_one_as_they_come) {
  Names names;
  EXPECT_EQ(names.add("b"), 1);
  EXPECT_EQ(names.add("a"), 2);
  EXPECT_EQ(names.add("b"), 1);
  EXPECT_EQ(names.find("a"), 2);
  EXPECT_EQ(names.find("c"), 0);
  EXPECT_EQ(names.of(2), "a");
}

TEST(Names, sorted_tell_where_each_went) {
  Names names;
  for (const char* name : {"c", "a", "b"}) names.add(name);
  EXPECT_EQ(names.sort(), (std::vector<int32_t>{0, 3, 1, 2}));
  EXPECT_EQ(names.all(), (std::vector<std::string>{"a", "b", "c"}));
  for (const std::string& name : names.all()) EXPECT_EQ(names.of(names.find(name)), name);
  EXPECT_EQ(names.add("d"), 4);
}

TEST(Program, means_the_same_when_its_names_are_sorted) {
  SmallGraph graph("z(b,a). y(c,b). z(X,c) :- y(X,Y), z(Y,X).");
  Program& p = graph.program;
  std::vector<Atom> queries = p.facts;
  const std::string rule = to_text(p, p.rules[0]), fact = to_text(p, p.facts[1]);
  EXPECT_EQ(rule, "z(X,c) :- y(X,Y), z(Y,X).");
  p.sort_names({&queries});
  EXPECT_EQ(p.constants.all(), (std::vector<std::string>{"a", "b", "c"}));
  EXPECT_EQ(to_text(p, p.rules[0]), rule);
  EXPECT_EQ(to_text(p, p.facts[1]), fact);
  EXPECT_EQ(queries, p.facts);
}

TEST(Program, writes_variables_of_goals_by_their_numbers) {
  SmallGraph graph("p(a,b).");
  EXPECT_EQ(to_text(graph.program, graph.goal("p(a,X), p(X,Y)")[1]), "p(_1,_2)");
}

}  // namespace
}  // namespace maglev::datalog
