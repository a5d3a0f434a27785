#pragma once
// Small random programs for tests: constants in rules, variables twice in an atom, recursion, rules
// without a body, unary and longer ones.

#include <algorithm>

#include "base/core/philox.h"
#include "base/datalog/program.h"

namespace maglev::datalog {

inline Program random_program(uint64_t seed) {
  Rng rng(seed, stream_id(Purpose::init, 0), 0);
  Program p;
  const int32_t constants = 2 + int32_t(rng.below(4)), predicates = 1 + int32_t(rng.below(3));
  for (int32_t c = 1; c <= constants; ++c) p.constants.add(std::string(1, char('a' + c - 1)));
  for (int32_t q = 1; q <= predicates; ++q) p.predicates.add(std::string(1, char('p' + q - 1)));
  const auto constant = [&] { return 1 + int32_t(rng.below(uint32_t(constants))); };
  const auto predicate = [&] { return 1 + int32_t(rng.below(uint32_t(predicates))); };
  for (uint32_t i = 0, n = 1 + rng.below(9); i < n; ++i)
    p.facts.push_back({predicate(), constant(), constant()});
  for (uint32_t i = 0, n = 1 + rng.below(6); i < n; ++i) {
    Rule r;
    const uint32_t body = rng.below(8) ? 1 + rng.below(3) : 0, variables = 1 + rng.below(4);
    // variables are numbered as they come up
    int32_t number[8] = {};
    const auto term = [&](uint32_t variable) {
      int32_t& n = number[variable];
      if (!n) {
        r.variables.push_back(std::string(1, char('X' + r.variables.size() % 3)) +
                              std::to_string(r.variables.size()));
        n = -int32_t(r.variables.size());
      }
      return n;
    };
    const auto any = [&] { return rng.below(7) ? term(rng.below(variables)) : constant(); };
    r.head.predicate = predicate(), r.head.first = body ? any() : constant();
    r.head.second = body ? any() : constant();
    for (uint32_t b = 0; b < body; ++b) {
      Atom a{.predicate = predicate()};
      a.first = any(), a.second = any();
      r.body.push_back(a);
    }
    // only safe ones: the body names what the head does
    bool safe = true;
    for (int32_t t : {r.head.first, r.head.second})
      safe &= t > 0 || std::any_of(r.body.begin(), r.body.end(),
                                   [&](const Atom& a) { return a.first == t || a.second == t; });
    if (safe) p.rules.push_back(std::move(r));
  }
  return p;
}

}  // namespace maglev::datalog
