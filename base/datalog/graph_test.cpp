#include "base/datalog/graph.h"

#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>

#include "tests/errors.h"
#include "tests/folder.h"

namespace maglev::datalog {
namespace {

TEST(Graph, is_opened_once_for_all_who_ask) {
  const Graph& graph = open_graph("family");
  EXPECT_EQ(&graph, &open_graph("family"));
  EXPECT_NE(&graph, &open_graph("countries_s1"));
  EXPECT_NE(error_of([] { open_graph("famly"); }), "");
}

TEST(Graph, knows_the_queries_of_all_splits_and_proves_with_facts_alone) {
  const Graph& graph = open_graph("countries_s1");
  for (const auto* split : {&graph.dataset.train, &graph.dataset.valid, &graph.dataset.test})
    for (const Atom& query : *split) ASSERT_GE(graph.truths->find(query), 0);
  for (const Atom& fact : graph.dataset.program.facts) {
    ASSERT_GE(graph.knowledge->find(fact), 0);
    ASSERT_GE(graph.truths->find(fact), 0);
  }
  for (const Atom& query : graph.dataset.test) EXPECT_EQ(graph.knowledge->find(query), -1);
  EXPECT_EQ(graph.truths->rules, 0);
}

// sizes are asked for before what is sized by them: a file changed in between must not show
TEST(Graph, stays_what_it_was_when_a_file_is_changed) {
  const std::string folder = test_folder() + "/graph";
  std::filesystem::create_directory(folder);
  const auto write = [&](const char* file, const char* text) {
    std::ofstream(folder + "/" + file) << text;
  };
  write("train.txt", "p(a,b).\n"), write("valid.txt", "p(b,a).\n"), write("test.txt", "p(b,b).\n");
  const Graph& before = open_graph(folder);
  EXPECT_EQ(&before, &open_graph(folder));
  EXPECT_EQ(before.knowledge->facts, 1);
  write("train.txt", "p(a,b).\np(a,a).\n");
  EXPECT_EQ(&before, &open_graph(folder));
  EXPECT_EQ(open_graph(folder).knowledge->facts, 1);
}

}  // namespace
}  // namespace maglev::datalog
