#pragma once
// Knowledge graphs of a few lines, for tests: "father(ann,bob). uncle(X,Y) :- brother(X,Z),
// father(Z,Y)." Names that begin with a capital are variables of a rule.

#include <algorithm>
#include <cctype>
#include <string>
#include <string_view>
#include <vector>

#include "base/core/error.h"
#include "base/datalog/program.h"

namespace maglev::datalog {

/// Reads what it is given to the end, adding names as it meets them.
class SmallGraph {
 public:
  explicit SmallGraph(std::string_view text) {
    text_ = text;
    for (skip_blanks(); !text_.empty(); skip_blanks()) {
      Rule rule;
      rule.head = atom(rule);
      if (take(":-")) rule.body = atoms(rule);
      expect(".");
      if (rule.body.empty() && rule.variables.empty()) program.facts.push_back(rule.head);
      else program.rules.push_back(rule);
    }
  }

  /// "uncle(ann,X)": variables are numbered behind the constants, in the order of their names'
  /// occurrence.
  std::vector<Atom> goal(std::string_view text) {
    text_ = text;
    Rule named;
    std::vector<Atom> goal = atoms(named);
    for (Atom& a : goal)
      for (int32_t* term : {&a.first, &a.second})
        if (*term < 0) *term = program.constants.size() - *term;
    return goal;
  }

  Program program;

 private:
  void skip_blanks() {
    while (!text_.empty() && std::isspace(static_cast<unsigned char>(text_[0])))
      text_.remove_prefix(1);
  }
  bool take(std::string_view word) {
    skip_blanks();
    if (!text_.starts_with(word)) return false;
    text_.remove_prefix(word.size());
    return true;
  }
  void expect(std::string_view word) {
    if (!take(word))
      throw Error("expected '" + std::string(word) + "' at '" + std::string(text_) + "'");
  }
  std::string name() {
    skip_blanks();
    size_t end = 0;
    while (end < text_.size() && (std::isalnum(static_cast<unsigned char>(text_[end])))) ++end;
    if (end == 0) throw Error("expected a name at '" + std::string(text_) + "'");
    const std::string word(text_.substr(0, end));
    text_.remove_prefix(end);
    return word;
  }
  int32_t term(Rule& rule) {
    const std::string word = name();
    if (!std::isupper(static_cast<unsigned char>(word[0]))) return program.constants.add(word);
    auto& known = rule.variables;
    const auto place = std::find(known.begin(), known.end(), word) - known.begin();
    if (place == std::ssize(known)) known.push_back(word);
    return int32_t(-place - 1);
  }
  Atom atom(Rule& rule) {
    Atom a{.predicate = program.predicates.add(name())};
    expect("("), a.first = term(rule), expect(","), a.second = term(rule), expect(")");
    return a;
  }
  std::vector<Atom> atoms(Rule& rule) {
    std::vector<Atom> list{atom(rule)};
    while (take(",")) list.push_back(atom(rule));
    return list;
  }

  std::string_view text_;
};

}  // namespace maglev::datalog
