#include "base/datalog/rules.h"

#include <gtest/gtest.h>

#include "base/datalog/triples.h"
#include "tests/errors.h"

namespace maglev::datalog {
namespace {

using Texts = std::vector<std::string>;

Texts rules_of(std::string_view bytes) {
  Program program;
  parse_rules({"rules.txt", bytes}, program);
  Texts texts;
  for (const Rule& rule : program.rules) {
    char confidence[16];
    std::snprintf(confidence, sizeof confidence, "%.3g ", rule.confidence);
    texts.push_back(confidence + to_text(program, rule));
  }
  return texts;
}

std::string error_of_rules(std::string_view bytes) {
  return error_of([&] {
    Program program;
    parse_rules({"rules.txt", bytes}, program);
  });
}

TEST(Rules, are_read_in_our_form) {
  EXPECT_EQ(rules_of("% kin\n"
                     "uncle(X,Y) :- brother(X,Z), mother(Z,Y).\n"
                     "0.74::aunt(X,Y):-sister(X,Z),father(Z,Y) % most\n"
                     "citizen(X,'New York') :- born(X,_), lives(_,X).\n"),
            (Texts{"1 uncle(X,Y) :- brother(X,Z), mother(Z,Y).",
                   "0.74 aunt(X,Y) :- sister(X,Z), father(Z,Y).",
                   "1 citizen(X,'New York') :- born(X,V2), lives(V3,X)."}));
}

TEST(Rules, are_read_with_arrows) {
  EXPECT_EQ(
      rules_of("r0:0.747:brother(a,h), mother(b,h) -> son(a,b)\n"
               "r1:1:inCS(X,W), inSR(W,Z) -> inCR(X,Z)\n"
               "p(X,europe) -> q(X,europe).\n"
               "x:y(X,Z) -> q(X,Z)\n"),
      (Texts{"0.747 son(A,B) :- brother(A,H), mother(B,H).", "1 inCR(X,Z) :- inCS(X,W), inSR(W,Z).",
             "1 q(X,europe) :- p(X,europe).", "1 q(X,Z) :- 'x:y'(X,Z)."}));
}

TEST(Rules, are_read_from_anyburl) {
  EXPECT_EQ(rules_of("20\t15\t0.75\tspeaks(X,Y) <= lives(X,A), language(A,Y)\n"
                     "9\t3\t0.333\tspeaks(X,dutch) <= lives(X,Den Haag, NL (south))\n"
                     "9\t9\t1.0\tknows(X,me_myself_i) <= likes(X,A)\n"),
            (Texts{"0.75 speaks(X,Y) :- lives(X,A), language(A,Y).",
                   "0.333 speaks(X,dutch) :- lives(X,'Den Haag, NL (south)').",
                   "1 knows(X,X) :- likes(X,A)."}));
  Program program;
  const RuleFile file = parse_rules({"", "9\t3\t0.3\tspeaks(X,dutch) <= \n"}, program);
  EXPECT_EQ(file.without_body, 1);
  EXPECT_TRUE(program.rules.empty());
}

TEST(Rules, are_read_from_amie) {
  const std::string_view heading =
      "Loading files...\n"
      "Rule\tHead Coverage\tStd Confidence\tPCA Confidence\tPositive Examples\tBody size\t"
      "PCA Body size\tFunctional variable\n";
  EXPECT_EQ(
      rules_of(std::string(heading) +
               "?b  _verb_group  ?a   => ?a  _verb_group  ?b\t0.93\t0.91\t0.98\t1060\t1138\t"
               "1081\t?a\n"
               "?a  lives in  ?e  ?e  /part/of  ?b   => ?a  at  ?b\t0.1\t0.2\t0.3\t5\t9\t8\t?a\n"
               "Mining done in 0.43 s\n"),
      (Texts{"0.91 '_verb_group'(A,B) :- '_verb_group'(B,A).",
             "0.2 at(A,B) :- 'lives in'(A,E), '/part/of'(E,B)."}));
  // another order of columns, single blanks, no columns at all
  EXPECT_EQ(rules_of("Rule\tStandard Confidence\n?a p ?b => ?a q ?b\t0.25\n"),
            (Texts{"0.25 q(A,B) :- p(A,B)."}));
  EXPECT_EQ(rules_of("?a p Rome => ?a q ?a\n"), (Texts{"1 q(A,A) :- p(A,'Rome')."}));
}

TEST(Rules, a_mistake_is_named_with_its_place) {
  EXPECT_EQ(error_of_rules("p(X,Y) :- q(X,Z).\n"),
            "[rules.txt:1:5] an unsafe rule: variable Y of the head is not in the body; name it "
            "there");
  EXPECT_EQ(error_of_rules("\np(X,Y) :- q(X), r(X,Y).\n"),
            "[rules.txt:2:11] predicate q with 1 argument, where every one has 2");
  EXPECT_EQ(error_of_rules("p(a,b).\n"),
            "[rules.txt:1:7] expected ':-' behind the head of a rule (facts stand in train.txt or "
            "facts.txt), got '.'");
  EXPECT_EQ(error_of_rules("p(X,Y) :- q(X,Y) r(X,Y).\n"),
            "[rules.txt:1:18] expected the end of the rule, got 'r'");
  EXPECT_EQ(error_of_rules("1.5::p(X,Y) :- q(X,Y).\n"),
            "[rules.txt:1:1] expected a confidence from 0 to 1, got '1.5::p'");
  EXPECT_EQ(error_of_rules("r0:-2:q(X,Y) -> p(X,Y)\n"),
            "[rules.txt:1:4] expected a confidence from 0 to 1, got '-2:q'");
  EXPECT_EQ(error_of_rules("9\t3\tp(X,Y) <= q(X,Y)\n"),
            "[rules.txt:1:1] expected AnyBURL's columns predicted, correct, confidence and rule "
            "between tabs, got 3");
  EXPECT_EQ(error_of_rules("9\t3\t0.3\tp(X,Y) <= q(X,Y), r\n"),
            "[rules.txt:1:27] expected an atom, as in rel(X,Y), got 'r'");
  EXPECT_TRUE(
      contains(error_of_rules("?a p ?b ?c => ?a q ?b\n"), "[rules.txt:1:1] expected atoms"));
  EXPECT_TRUE(
      contains(error_of_rules("?a p ?b => ?a q ?b\t0.1\n"), "expected the standard confidence"));
  std::string text = "p(X,Y) :- ";
  for (int i = 0; i < 15; ++i) text += "q(X,Y), ";
  EXPECT_TRUE(contains(error_of_rules(text + "q(X,Y)."), "16 atoms in the body, where at most 15"));
  text = "p(X0,X0) :- ";
  for (int i = 0; i < 8; ++i)
    text += "q(X" + std::to_string(2 * i) + ",X" + std::to_string(2 * i + 1) + "), ";
  EXPECT_TRUE(contains(error_of_rules(text + "q(X16,X0)."), "more than 16 variables"));
}

TEST(Rules, repeated_ones_count_once_whatever_their_variables) {
  Program program;
  const RuleFile file =
      parse_rules({"", "p(X,Y) :- q(X,Y).\np(A,B) :- q(A,B).\np(B,A) :- q(A,B).\n"}, program);
  EXPECT_EQ(program.rules.size(), 2u);
  EXPECT_EQ(file.repeated, 1);
  EXPECT_EQ(file.places[1].line, 3);
}

TEST(Rules, a_predicate_that_nothing_has_is_refused) {
  Program program;
  program.facts = parse_triples({"", "mother(a,b).\nson(a,b).\n"}, program).atoms;
  // one that a rule's head has is as good as one of a fact
  const RuleFile fine = parse_rules(
      {"rules.txt", "kin(X,Y) :- mother(X,Y).\np(X,Y) :- kin(Y,X).\np(X,Y) :- p(Y,X).\n"}, program);
  EXPECT_NO_THROW(expect_predicates(program, fine));
  const RuleFile file = parse_rules({"rules.txt", "\nkin(X,Y) :- motherr(Y,X).\n"}, program);
  EXPECT_EQ(
      error_of([&] { expect_predicates(program, file); }),
      "[rules.txt:2:13] in kin(X,Y) :- motherr(Y,X). unknown predicate 'motherr'; did you mean "
      "mother?; no fact and no rule's head has it, so the rule can never be used");
}

TEST(Rules, come_back_as_they_were_written) {
  Program program;
  parse_rules({"", "0.1::p(X,Y) :- 'a b'(X,Z), q(Z,Y).\np(x,Y) :- 'X'(Y,'_1').\n"}, program);
  Program again;
  parse_rules({"", rules_text(program)}, again);
  EXPECT_EQ(rules_text(again), rules_text(program));
  EXPECT_EQ(again.rules[0].confidence, 0.1);
}

}  // namespace
}  // namespace maglev::datalog
