#pragma once
// Knowledge graphs of a few lines, for tests: "father(ann,bob). uncle(X,Y) :- brother(X,Z),
// father(Z,Y)."

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "base/datalog/program.h"
#include "base/datalog/text.h"

namespace maglev::datalog {

/// Names are numbered as they are met.
class SmallGraph {
 public:
  explicit SmallGraph(std::string_view text) {
    for (Line line("test", 1, text); !line.done();) {
      Rule rule;
      rule.head = atom(line, rule);
      if (line.take(":-")) rule.body = atoms(line, rule);
      line.expect(".", "'.'");
      if (rule.body.empty() && rule.variables.empty()) program.facts.push_back(rule.head);
      else program.rules.push_back(rule);
    }
  }

  /// "uncle(ann,X), father(X,Y)": variables are numbered behind the constants.
  std::vector<Atom> goal(std::string_view text) {
    Line line("test", 1, text);
    Rule named;
    std::vector<Atom> goal = atoms(line, named);
    for (Atom& a : goal)
      for (int32_t* term : {&a.first, &a.second})
        if (*term < 0) *term = program.constants.size() - *term;
    return goal;
  }

  Program program;

 private:
  int32_t term(const TextTerm& read, Rule& rule) {
    if (!read.variable) return program.constants.add(read.name);
    auto& known = rule.variables;
    const auto place = std::find(known.begin(), known.end(), read.name) - known.begin();
    if (place == std::ssize(known)) known.push_back(read.name);
    return int32_t(-place - 1);
  }
  Atom atom(Line& line, Rule& rule) {
    const TextAtom read = line.take_atom();
    return {program.predicates.add(read.predicate), term(read.first, rule),
            term(read.second, rule)};
  }
  std::vector<Atom> atoms(Line& line, Rule& rule) {
    std::vector<Atom> list{atom(line, rule)};
    while (line.take(",")) list.push_back(atom(line, rule));
    return list;
  }
};

}  // namespace maglev::datalog
