// Ten thousand mutations of each form of file: a reader answers each with what it holds or with one
// Error, and what it read it reads again from what we write.

#include <gtest/gtest.h>

#include "base/core/philox.h"
#include "base/datalog/rules.h"
#include "base/datalog/triples.h"
#include "tests/errors.h"

namespace maglev::datalog {
namespace {

constexpr int kMutations = 10000;

/// A text with one to four bytes or ranges changed.
std::string mutated(std::string text, uint64_t number) {
  static const std::string kSigns[] = {
      "(",  ")",  ",", ".", "'", "\"", "\\", "%",    "\t",  "\n", "\r",    "::",  ":-",    "->",
      "=>", "<=", "?", "_", "X", " ",  "",   "\xC3", "0.5", "-1", "1e999", "nan", "Rule\t"};
  Rng rng(11, stream_id(Purpose::dataset, 9), number << 16);
  for (uint32_t change = 1 + rng.below(4); change > 0; --change) {
    const size_t place = rng.below(uint32_t(text.size() + 1));
    const size_t length = rng.below(2) ? 1 : rng.below(24);
    switch (rng.below(5)) {
      case 0:
        text.erase(place, length);
        break;
      case 1:
        text.insert(place, text.substr(rng.below(uint32_t(text.size() + 1)), length));
        break;
      case 2:
        text.insert(place, kSigns[rng.below(std::size(kSigns))]);
        break;
      case 3:
        if (place < text.size()) text[place] = char(rng.below(256));
        break;
      case 4:
        text.resize(place);
        break;
    }
  }
  return text;
}

/// Counts how many of the mutations are read and how many are refused, both of which must come
/// about.
template <class Read>
void fuzz(const std::string& text, const Read& read) {
  int fine = 0, refused = 0;
  for (int i = 0; i < kMutations; ++i) {
    const std::string bytes = mutated(text, uint64_t(i));
    Program program;
    const std::string error = error_of([&] { read({"fuzz", bytes}, program); });
    ++(error.empty() ? fine : refused);
    // one line that names the place, and no longer than what came
    if (!error.empty()) {
      EXPECT_TRUE(error.starts_with("[fuzz:")) << error;
      EXPECT_EQ(error.find('\n'), std::string::npos) << error;
      EXPECT_LT(error.size(), 300 + 2 * bytes.size());
    }
    EXPECT_LE(size_t(program.constants.size()), bytes.size());
    EXPECT_LE(program.rules.size(), bytes.size());
    if (testing::Test::HasFailure()) FAIL() << "mutation " << i << ":\n" << bytes;
  }
  EXPECT_GT(fine, kMutations / 50);
  EXPECT_GT(refused, kMutations / 50);
}

void read_triples_twice(const Text& text, Program& program) {
  const Triples triples = parse_triples(text, program);
  Program again;
  const std::string written = triples_text(program, triples.atoms, triples.depths);
  const Triples same = parse_triples({"again", written}, again);
  EXPECT_EQ(triples_text(again, same.atoms, same.depths), written);
  EXPECT_EQ(again.constants.all(), program.constants.all());
}

void read_rules_twice(const Text& text, Program& program) {
  parse_rules(text, program);
  Program again;
  parse_rules({"again", rules_text(program)}, again);
  EXPECT_EQ(rules_text(again), rules_text(program));
  ASSERT_EQ(again.rules.size(), program.rules.size());
  for (size_t i = 0; i < again.rules.size(); ++i)
    EXPECT_EQ(again.rules[i].confidence, program.rules[i].confidence);
}

TEST(TextFuzz, triples_as_prolog_text) {
  fuzz("% people\nuncle(bob,ann).\naunt('Eve M.', \"x y\"). 3\nwn:is-a(n.01,17)\np(a,b). q(b,c).\n",
       read_triples_twice);
}

TEST(TextFuzz, triples_as_tsv) {
  fuzz("bob\tuncle\tann\nNew York\tpart of\tUSA\t3\nx\ty\tz\t-1\r\n", read_triples_twice);
}

TEST(TextFuzz, rules_in_our_form) {
  fuzz("% kin\nuncle(X,Y) :- brother(X,Z), mother(Z,Y).\n0.74::p(X,'a b') :- q(X,_), r(b,X).\n",
       read_rules_twice);
}

TEST(TextFuzz, rules_with_arrows) {
  fuzz("r0:0.747:brother(a,h), mother(b,h) -> son(a,b)\nr1:1:p(X,Z), q(Z,eu) -> r(X,eu).\n",
       read_rules_twice);
}

TEST(TextFuzz, rules_from_anyburl) {
  fuzz(
      "20\t15\t0.75\ts(X,Y) <= l(X,A), g(A,Y)\n9\t3\t0.3\ts(X,Den, Haag) <= l(X,me_myself_i)\n"
      "9\t3\t0.3\ts(X,dutch) <= \n",
      read_rules_twice);
}

TEST(TextFuzz, rules_from_amie) {
  fuzz(
      "Rule\tHead Coverage\tStd Confidence\tPCA Confidence\n"
      "?b  v  ?a   => ?a  v  ?b\t0.93\t0.91\t0.98\n?a  l  ?e  ?e  p q  ?b   => ?a  at  "
      "?b\t.1\t.2\t.3\n"
      "Mining done in 0.43 s\n",
      read_rules_twice);
}

}  // namespace
}  // namespace maglev::datalog
