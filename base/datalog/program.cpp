#include "base/datalog/program.h"

#include <algorithm>
#include <numeric>

namespace maglev::datalog {

int32_t Names::add(std::string_view name) {
  const auto [place, is_new] = ids_.try_emplace(std::string(name), size() + 1);
  if (is_new) names_.emplace_back(name);
  return place->second;
}

int32_t Names::find(std::string_view name) const {
  const auto place = ids_.find(std::string(name));
  return place == ids_.end() ? 0 : place->second;
}

std::vector<int32_t> Names::sort() {
  std::vector<int32_t> order(names_.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(),
            [&](int32_t a, int32_t b) { return names_[size_t(a)] < names_[size_t(b)]; });
  std::vector<int32_t> renumbered(names_.size() + 1, 0);
  std::vector<std::string> sorted;
  sorted.reserve(names_.size());
  for (int32_t old : order) {
    sorted.push_back(std::move(names_[size_t(old)]));
    renumbered[size_t(old) + 1] = int32_t(sorted.size());
    ids_[sorted.back()] = int32_t(sorted.size());
  }
  names_ = std::move(sorted);
  return renumbered;
}

void Program::sort_names(const std::vector<std::vector<Atom>*>& ground) {
  const auto constant = constants.sort(), predicate = predicates.sort();
  const auto term = [&](int32_t t) { return t > 0 ? constant[size_t(t)] : t; };
  const auto renumber = [&](Atom& a) {
    a = {predicate[size_t(a.predicate)], term(a.first), term(a.second)};
  };
  for (Atom& fact : facts) renumber(fact);
  for (Rule& rule : rules) {
    renumber(rule.head);
    for (Atom& atom : rule.body) renumber(atom);
  }
  for (std::vector<Atom>* atoms : ground)
    for (Atom& atom : *atoms) renumber(atom);
}

std::string quoted_name(std::string_view name) {
  const auto digit = [](char c) { return c >= '0' && c <= '9'; };
  const auto plain = [&](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || digit(c);
  };
  const bool bare =
      !name.empty() && (std::all_of(name.begin(), name.end(), digit) ||
                        (name[0] >= 'a' && std::all_of(name.begin(), name.end(), plain)));
  if (bare) return std::string(name);
  std::string quoted = "'";
  for (char c : name) {
    if (c == '\'' || c == '\\') quoted += '\\';
    quoted += c;
  }
  return quoted + "'";
}

std::string to_text(const Program& program, const Atom& atom,
                    const std::vector<std::string>& variables) {
  const auto term = [&](int32_t t) -> std::string {
    if (t < 0) return variables[size_t(-t - 1)];
    if (t > program.constants.size()) return "_" + std::to_string(t - program.constants.size());
    return quoted_name(program.constants.of(t));
  };
  return quoted_name(program.predicates.of(atom.predicate)) + "(" + term(atom.first) + "," +
         term(atom.second) + ")";
}

std::string to_text(const Program& program, const Rule& rule) {
  std::string text = to_text(program, rule.head, rule.variables) + " :- ";
  for (size_t i = 0; i < rule.body.size(); ++i)
    text += (i ? ", " : "") + to_text(program, rule.body[i], rule.variables);
  return text + ".";
}

}  // namespace maglev::datalog
