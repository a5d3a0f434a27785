#include "base/datalog/rules.h"

#include <algorithm>
#include <charconv>
#include <unordered_set>

#include "base/core/error.h"
#include "base/datalog/knowledge.h"

namespace maglev::datalog {
namespace {

enum class RuleForm { own, anyburl, amie };

RuleForm form_of(const Text& text) {
  RuleForm form = RuleForm::own;
  bool known = false;
  for_each_line(text, [&](Line& line) {
    const std::string_view bytes = trimmed(line.text());
    const auto has = [&](std::string_view sign) { return bytes.find(sign) != bytes.npos; };
    if (known || bytes.starts_with('%')) return;
    known = true;
    if (has("=>") && bytes.starts_with('?')) form = RuleForm::amie;
    else if (has("<=") && has("\t")) form = RuleForm::anyburl;
    else if (!has(":-") && !has("->")) known = false;
  });
  return form;
}

/// Rules of a program as they are added: names become ids, variables numbers.
class RuleAdder {
 public:
  explicit RuleAdder(Program& program) : program_(program) {
    for (const Rule& rule : program.rules) seen_.insert(key_of(rule));
  }

  /// False: the program has it already.
  bool add(const Line& line, const TextRule& text) {
    if (text.body.size() > size_t(kMaxBody))
      line.complain(text.head.place, "a rule of " + std::to_string(text.body.size()) +
                                         " atoms in the body, where at most " +
                                         std::to_string(kMaxBody) + " are allowed");
    Rule rule{.confidence = text.confidence};
    std::vector<std::string> written;
    const auto id_of = [&](const TextTerm& term) -> int32_t {
      if (!term.variable) return program_.constants.add(term.name);
      const auto known = std::find(written.begin(), written.end(), term.name);
      // each _ is a variable of its own
      if (term.name != "_" && known != written.end()) return -int32_t(known - written.begin()) - 1;
      if (written.size() == size_t(kMaxRuleVariables))
        line.complain(term.place,
                      "a rule of more than " + std::to_string(kMaxRuleVariables) + " variables");
      written.push_back(term.name);
      rule.variables.push_back(variable_name(term.name, rule.variables));
      return -int32_t(written.size());
    };
    const auto atom_of = [&](const TextAtom& atom) {
      const int32_t first = id_of(atom.first), second = id_of(atom.second);
      return Atom{program_.predicates.add(atom.predicate), first, second};
    };
    expect_safe(line, text);
    rule.head = atom_of(text.head);
    for (const TextAtom& atom : text.body) rule.body.push_back(atom_of(atom));
    if (!seen_.insert(key_of(rule)).second) return false;
    program_.rules.push_back(std::move(rule));
    return true;
  }

 private:
  static void expect_safe(const Line& line, const TextRule& rule) {
    for (const TextTerm* term : {&rule.head.first, &rule.head.second}) {
      const auto same = [&](const TextTerm& other) {
        return other.variable && other.name == term->name && other.name != "_";
      };
      const bool used = std::any_of(rule.body.begin(), rule.body.end(), [&](const TextAtom& atom) {
        return same(atom.first) || same(atom.second);
      });
      if (term->variable && !used)
        line.complain(term->place, "an unsafe rule: variable " + term->name +
                                       " of the head is not in the body; name it there");
    }
  }

  // as our form writes variables, with a capital letter; other forms have others
  static std::string variable_name(std::string name, const std::vector<std::string>& taken) {
    if (name[0] >= 'a' && name[0] <= 'z') name[0] = char(name[0] - 'a' + 'A');
    const bool plain = name != "_" && std::all_of(name.begin(), name.end(), [](char c) {
                         return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                                (c >= '0' && c <= '9') || c == '_';
                       });
    if (!plain || !(name[0] == '_' || (name[0] >= 'A' && name[0] <= 'Z')))
      name = "V" + std::to_string(taken.size() + 1);
    while (std::find(taken.begin(), taken.end(), name) != taken.end()) name += "_";
    return name;
  }

  // names of variables do not count
  static std::string key_of(const Rule& rule) {
    std::string key;
    const auto put = [&](const Atom& atom) {
      for (int32_t x : {atom.predicate, atom.first, atom.second}) key += std::to_string(x) + " ";
    };
    put(rule.head);
    for (const Atom& atom : rule.body) put(atom);
    return key;
  }

  Program& program_;
  std::unordered_set<std::string> seen_;
};

RulePlace place_of(const Text& text, const Line& line, const TextRule& rule) {
  RulePlace place{std::string(text.name), line.number(), {}};
  for (const TextAtom& atom : rule.body) place.columns.push_back(line.column(atom.place));
  return place;
}

double confidence_in(const Line& line, const Column& word) {
  return number_of(line, word, "a confidence from 0 to 1", 0, 1);
}

// "0.74::" and "r0:0.74:"; the line is behind it then
void take_prefix(Line& line, TextRule& rule) {
  const std::string_view bytes = line.text();
  const size_t begin = line.place(), first = bytes.find(':', begin), bracket = bytes.find('(');
  if (first == bytes.npos || first > std::min(bracket, bytes.find_first_of("'\"", begin))) return;
  const auto word = [&](size_t from, size_t to) {
    return Column{bytes.substr(from, to - from), from};
  };
  if (bytes.substr(first).starts_with("::")) {
    rule.confidence = confidence_in(line, word(begin, first));
    line.go_to(first + 2);
    return;
  }
  const size_t second = bytes.find(':', first + 1);
  // names may have colons: a prefix has a number between two
  double number;
  const std::string_view middle = trimmed(word(first + 1, second).text);
  if (second == bytes.npos || second > bracket ||
      std::from_chars(middle.data(), middle.data() + middle.size(), number).ptr !=
          middle.data() + middle.size() ||
      middle.empty())
    return;
  rule.confidence = confidence_in(line, word(first + 1, second));
  line.go_to(second + 1);
}

}  // namespace

std::string confidence_text(double number) {
  char text[32];
  return std::string(text, std::to_chars(text, text + sizeof text, number).ptr);
}

bool parse_own_rule(Line& line, TextRule& rule) {
  if (line.done()) return false;
  take_prefix(line, rule);
  std::vector<TextAtom> left;
  do left.push_back(line.take_atom());
  while (line.take(","));
  const auto take_list = [&] {
    std::vector<TextAtom> atoms;
    do atoms.push_back(line.take_atom());
    while (line.take(","));
    return atoms;
  };
  if (line.take("->")) {
    rule.body = std::move(left);
    rule.head = line.take_atom();
    const auto one_letter = [](TextTerm& term) {
      const char c = term.name[0];
      if (term.name.size() == 1 && ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')))
        term.variable = true;
    };
    for (TextAtom& atom : rule.body) one_letter(atom.first), one_letter(atom.second);
    one_letter(rule.head.first), one_letter(rule.head.second);
  } else if (left.size() == 1) {
    line.expect(":-", "':-' behind the head of a rule (facts stand in train.txt or facts.txt)");
    rule.head = std::move(left[0]);
    rule.body = take_list();
  } else {
    line.fail("',' or '->' in the body of a rule");
  }
  line.take(".");
  if (!line.done()) line.fail("the end of the rule");
  return true;
}

RuleFile parse_rules(const Text& text, Program& program) {
  const RuleForm form = form_of(text);
  RuleFile file;
  RuleAdder adder(program);
  AmieColumns columns;
  for_each_line(text, [&](Line& line) {
    TextRule rule;
    const bool is_rule = form == RuleForm::amie      ? parse_amie_rule(line, columns, rule)
                         : form == RuleForm::anyburl ? parse_anyburl_rule(line, rule)
                                                     : parse_own_rule(line, rule);
    if (!is_rule) return;
    if (rule.body.empty()) ++file.without_body;
    else if (adder.add(line, rule)) file.places.push_back(place_of(text, line, rule));
    else ++file.repeated;
  });
  return file;
}

RuleFile read_rules(const std::string& path, Program& program) {
  const std::string bytes = read_text(path);
  return parse_rules({path, bytes}, program);
}

std::string rules_text(const Program& program) {
  std::string text;
  for (const Rule& rule : program.rules)
    text += (rule.confidence == 1 ? "" : confidence_text(rule.confidence) + "::") +
            to_text(program, rule) + "\n";
  return text;
}

void expect_predicates(const Program& program, const RuleFile& file) {
  std::vector<uint8_t> has(size_t(program.predicates.size()) + 1);
  for (const Atom& fact : program.facts) has[size_t(fact.predicate)] = 1;
  for (const Rule& rule : program.rules) has[size_t(rule.head.predicate)] = 1;
  const size_t before = program.rules.size() - file.places.size();
  for (size_t i = 0; i < file.places.size(); ++i) {
    const RulePlace& place = file.places[i];
    const Rule& rule = program.rules[before + i];
    for (size_t b = 0; b < rule.body.size(); ++b) {
      const int32_t predicate = rule.body[b].predicate;
      if (has[size_t(predicate)]) continue;
      std::vector<std::string> known;
      for (int32_t p = 1; p <= program.predicates.size(); ++p)
        if (has[size_t(p)]) known.push_back(program.predicates.of(p));
      throw Error("[" + place.file + ":" + std::to_string(place.line) + ":" +
                  std::to_string(place.columns[b]) + "] in " + to_text(program, rule) + " " +
                  unknown_name("predicate", program.predicates.of(predicate), known) +
                  "; no fact and no rule's head has it, so the rule can never be used");
    }
  }
}

}  // namespace maglev::datalog
