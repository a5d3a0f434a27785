#include "verbs/prove/query.h"

#include <algorithm>

#include "base/core/error.h"
#include "base/datalog/text.h"

namespace maglev::verbs::prove {
namespace {

/// Says that a name is unknown, with near ones where there are any: a graph has too many for a
/// list.
std::string unknown_in(const std::string& kind, const std::string& name,
                       const datalog::Names& names) {
  if (!near_names(name, names.all()).empty()) return unknown_name(kind, name, names.all());
  std::string text = "unknown " + kind + " '" + name + "'; the graph has " +
                     std::to_string(names.size()) + ", none with a name near it";
  for (int32_t i = 1; i <= std::min(names.size(), 3); ++i)
    text += (i == 1 ? "; there are " : ", ") + names.of(i);
  return text + (names.size() > 3 ? " and others" : "");
}

}  // namespace

Query parse_query(std::string_view text, const datalog::Program& program) {
  datalog::Line line("query", 1, text);
  const datalog::TextAtom written = line.take_atom();
  line.take(".");
  if (!line.done()) line.fail("the end of the query: one atom");

  Query query;
  query.atom.predicate = program.predicates.find(written.predicate);
  if (!query.atom.predicate)
    line.complain(written.place, unknown_in("predicate", written.predicate, program.predicates));
  const auto term = [&](const datalog::TextTerm& t) {
    if (const int32_t constant = program.constants.find(t.name)) return constant;
    if (!t.variable) line.complain(t.place, unknown_in("constant", t.name, program.constants));
    const auto known = std::find(query.variables.begin(), query.variables.end(), t.name);
    const auto place = int32_t(known - query.variables.begin());
    if (known == query.variables.end() || t.name == "_") {
      query.variables.push_back(t.name);
      return program.constants.size() + int32_t(query.variables.size());
    }
    return program.constants.size() + 1 + place;
  };
  query.atom.first = term(written.first);
  query.atom.second = term(written.second);
  return query;
}

std::string substitution_text(const datalog::Program& program, const Query& query,
                              const datalog::Atom& answer) {
  std::string text;
  for (size_t v = 0; v < query.variables.size(); ++v) {
    const int32_t id = program.constants.size() + 1 + int32_t(v);
    const int32_t constant = query.atom.first == id ? answer.first : answer.second;
    text += (v ? ", " : "") + query.variables[v] + " = " + program.constants.of(constant);
  }
  return text;
}

}  // namespace maglev::verbs::prove
