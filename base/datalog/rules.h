#pragma once
// Files of rules, one a line, in the forms that people and other programs write. The first line
// that has a rule says which:
//   ours     head(X,Y) :- b1(X,Z), b2(Z,Y).        a confidence stands before it as 0.74::
//   arrow    r0:0.74:b1(X,Z), b2(Z,Y) -> head(X,Y) the prefix may be missing; a term of one letter is
//                                                  a variable, whatever its case
//   AnyBURL  predicted, correct, confidence, head(X,Y) <= b1(X,A), b2(A,Y), between tabs (Meilicke et
//            al., IJCAI 2019). One capital letter is a variable, me_myself_i the other term again
//   AMIE     ?a  b1  ?c  ?c  b2  ?b   => ?a  head  ?b, then columns between tabs (Lajus, Galarraga,
//            Suchanek, ESWC 2020): the standard confidence is taken, by the heading if any
// Ours and the arrow may stand in one file. '%' begins a comment in both.

#include <cstdint>
#include <string>
#include <vector>

#include "base/datalog/program.h"
#include "base/datalog/text.h"

namespace maglev::datalog {

/// A rule as it was written.
struct TextRule {
  TextAtom head;
  std::vector<TextAtom> body;
  double confidence = 1;
};

/// Where a rule stood, for complaints that need the whole program.
struct RulePlace {
  std::string file;
  int64_t line = 0;
  std::vector<size_t> columns;  ///< of each atom of the body, in characters from 1
};

struct RuleFile {
  std::vector<RulePlace> places;  ///< of each rule that was added to the program, in order
  int64_t repeated = 0;           ///< rules that were there before, left out
  int64_t without_body = 0;       ///< AnyBURL's rules without a body, left out: they prove anything
};

/// Adds to the program's rules. Throws Error at the first bad line: what is no rule, an unsafe one,
/// a confidence outside [0, 1], more atoms than kMaxBody or variables than kMaxRuleVariables.
RuleFile parse_rules(const Text& text, Program& program);
RuleFile read_rules(const std::string& path, Program& program);

/// In our form; confidences where they are not 1.
std::string rules_text(const Program& program);

/// Throws Error for a rule whose body asks for a predicate that no fact and no rule's head has: it
/// could never be used, which is nearly always a slip of the pen.
void expect_predicates(const Program& program, const RuleFile& file);

/// One line of each form. False: the line holds no rule.
bool parse_own_rule(Line& line, TextRule& rule);
bool parse_anyburl_rule(Line& line, TextRule& rule);
/// AMIE's columns: of the standard confidence, counted from the rule; a heading moves it.
struct AmieColumns {
  size_t confidence = 2;
};
bool parse_amie_rule(Line& line, AmieColumns& columns, TextRule& rule);

/// A confidence as it reads back: the shortest text of the same number.
std::string confidence_text(double number);

}  // namespace maglev::datalog
