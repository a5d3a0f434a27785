#include "base/datalog/triples.h"

#include <gtest/gtest.h>

#include "tests/errors.h"

namespace maglev::datalog {
namespace {

std::string error_of_triples(std::string_view bytes) {
  return error_of([&] {
    Program program;
    parse_triples({"train.txt", bytes}, program);
  });
}

std::vector<std::string> atoms_of(std::string_view bytes) {
  Program program;
  std::vector<std::string> texts;
  for (const Atom& atom : parse_triples({"train.txt", bytes}, program).atoms)
    texts.push_back(to_text(program, atom));
  return texts;
}

using Texts = std::vector<std::string>;

TEST(Triples, are_read_as_prolog_text) {
  EXPECT_EQ(atoms_of("% people\n"
                     "uncle(bob,ann).\r\n"
                     "\n"
                     "  aunt( eve , 17 )  % without a dot\n"
                     "p(a,b). q('New York',\"it's\"). % two\n"
                     "wn:is-a(x.n.01,y/z)"),
            (Texts{"uncle(bob,ann)", "aunt(eve,17)", "p(a,b)", "q('New York','it\\'s')",
                   "'wn:is-a'('x.n.01','y/z')"}));
}

TEST(Triples, are_read_as_tsv) {
  EXPECT_EQ(atoms_of("bob\tuncle\tann\nNew York\tin (part of)\t% all\n"),
            (Texts{"uncle(bob,ann)", "'in (part of)'('New York','% all')"}));
  EXPECT_EQ(atoms_of("% a remark\nbob\tuncle\tann\n").size(), 1u);
  EXPECT_EQ(atoms_of("Mercury (planet)\tpart of\tSol (star)\n"),
            (Texts{"'part of'('Mercury (planet)','Sol (star)')"}));
  // tabs as blanks
  EXPECT_EQ(atoms_of("p(a,\tb).\np(c,d).\n"), (Texts{"p(a,b)", "p(c,d)"}));
  EXPECT_EQ(atoms_of("p(\ta\t,b).\n"), (Texts{"p(a,b)"}));
  EXPECT_EQ(atoms_of("p(a,b).\t% of\tall\n"), (Texts{"p(a,b)"}));
}

TEST(Triples, carry_depths_where_there_are_any) {
  Program program;
  EXPECT_EQ(parse_triples({"", "p(a,b). 3\np(b,c)\np(c,d) -1\n"}, program).depths,
            (std::vector<int32_t>{3, -1, -1}));
  EXPECT_EQ(parse_triples({"", "a\tp\tb\t2\nb\tp\tc\n"}, program).depths,
            (std::vector<int32_t>{2, -1}));
  EXPECT_TRUE(parse_triples({"", "a\tp\tb\n"}, program).depths.empty());
}

TEST(Triples, have_one_depth_whichever_line_says_it) {
  Program program;
  const Triples triples =
      parse_triples({"", "p(a,b).\np(b,c). 4\np(a,b). 3\np(b,c). -1\np(a,b). 3\n"}, program);
  EXPECT_EQ(triples.depths, (std::vector<int32_t>{3, 4}));
  EXPECT_EQ(triples.repeated, 3);
  EXPECT_EQ(error_of_triples("p(a,b). 1\np(a,b). 3\n"),
            "[train.txt:2:9] depth 3 of p(a,b), which has depth 1 in a line before; leave one of "
            "them out");
}

TEST(Triples, repeated_ones_count_once) {
  Program program;
  const Triples triples = parse_triples({"", "p(a,b).\np(b,c).\np(a,b).\n"}, program);
  EXPECT_EQ(triples.atoms.size(), 2u);
  EXPECT_EQ(triples.repeated, 1);
}

TEST(Triples, a_mistake_is_named_with_its_place) {
  EXPECT_EQ(
      error_of_triples("p(a,b).\np(a b).\n"),
      "[train.txt:2:5] expected ',' or ')' in the arguments of p (a name with blanks or signs "
      "is written in quotes), got 'b'");
  EXPECT_EQ(error_of_triples("p(a).\n"),
            "[train.txt:1:1] predicate p with 1 argument, where every one has 2");
  EXPECT_EQ(error_of_triples("p(a,b,c).\n"),
            "[train.txt:1:1] predicate p with 3 arguments, where every one has 2");
  EXPECT_TRUE(contains(error_of_triples("p(a,Bob).\n"), "[train.txt:1:5] a fact has constants"));
  EXPECT_TRUE(contains(error_of_triples("p(a,b) :- q(a,b).\n"), "rules stand in rules.txt"));
  EXPECT_EQ(error_of_triples("p(a,'b).\n"), "[train.txt:1:5] a quote that is never closed");
  EXPECT_EQ(error_of_triples("p(a,b) q(c,d)"),
            "[train.txt:1:8] expected '.' behind the fact, got 'q'");
  EXPECT_EQ(error_of_triples("p(a,b). 1.5"),
            "[train.txt:1:9] expected a depth, a whole number, got '1.5'");
  // columns count characters
  EXPECT_TRUE(contains(error_of_triples("p('Zürich',"), "[train.txt:1:12] expected an argument"));
  EXPECT_EQ(error_of_triples("anna mother bob\n"),
            "[train.txt:1:1] expected head, relation and tail between tabs, or "
            "relation(head,tail), got 'anna'");
  EXPECT_EQ(error_of_triples("a\tp\tb\na\tp\n"),
            "[train.txt:2:1] expected head, relation and tail between tabs, got 2 columns");
  EXPECT_EQ(error_of_triples("a\tp\tb\na\t \tb\n"),
            "[train.txt:2:3] expected a relation, got nothing");
  EXPECT_EQ(error_of_triples("a\tp\tb\tdeep\n"),
            "[train.txt:1:7] expected a depth, -1 or more, got 'deep'");
  EXPECT_TRUE(
      contains(error_of_triples(std::string_view("p(a,\0).", 7)), "[train.txt:1:5] expected"));
  EXPECT_TRUE(contains(error_of_triples("p(a,b).\np(Z\xFCrich,b).\n"),
                       "[train.txt:2:4] expected UTF-8, got the byte 252"));
}

TEST(Triples, are_utf8) {
  for (const char* fine :
       {"\xC2\x80", "\xE0\xA0\x80", "\xED\x9F\xBF", "\xF0\x90\x80\x80", "\xF4\x8F\xBF\xBF"})
    EXPECT_EQ(atoms_of("p(" + std::string(fine) + ",b).").size(), 1u) << fine;
  for (const char* bad : {"\x80", "\xC1\xBF", "\xC2", "\xE0\x9F\xBF", "\xED\xA0\x80", "\xE2\x82",
                          "\xF0\x8F\xBF\xBF", "\xF4\x90\x80\x80", "\xF5\x80\x80\x80", "\xFF"})
    EXPECT_TRUE(
        contains(error_of_triples("p(" + std::string(bad) + ",b)."), ":1:3] expected UTF-8"));
}

TEST(Triples, one_bad_line_in_a_million_is_found) {
  std::string text;
  for (int i = 1; i <= 1000000; ++i)
    text += i == 777777 ? "p(a\n"
                        : "r" + std::to_string(i % 40) + "(e" + std::to_string(i % 5000) + ",e" +
                              std::to_string(i / 200) + ").\n";
  EXPECT_TRUE(contains(error_of_triples(text), "[train.txt:777777:4] expected ',' or ')'"));
}

TEST(Triples, come_back_as_they_were_written) {
  Program program;
  const Triples triples = parse_triples(
      {"", "New York\tpart of\t'q\\'\t4\nA\t_p\t12a\nß\t%\t\"\t-1\n7\tz\tz\n"}, program);
  Program again;
  const std::string text = triples_text(program, triples.atoms, triples.depths);
  const Triples same = parse_triples({"", text}, again);
  EXPECT_EQ(triples_text(again, same.atoms, same.depths), text);
  EXPECT_EQ(again.constants.all(), program.constants.all());
  EXPECT_EQ(again.predicates.all(), program.predicates.all());
}

}  // namespace
}  // namespace maglev::datalog
