#include "base/datalog/rules.h"

namespace maglev::datalog {
namespace {

// atoms of subject, relation and object; AMIE puts two blanks between words, so that names may have
// one
std::vector<TextAtom> amie_atoms(const Line& line, const Column& text) {
  const std::string_view bytes = text.text;
  const std::string_view gap = trimmed(bytes).find("  ") == bytes.npos ? " " : "  ";
  std::vector<Column> words;
  for (size_t begin = 0; begin < bytes.size();) {
    size_t end = bytes.find(gap, begin);
    if (end == bytes.npos) end = bytes.size();
    if (!trimmed(bytes.substr(begin, end - begin)).empty()) {
      while (bytes[begin] == ' ') ++begin;
      words.push_back({trimmed(bytes.substr(begin, end - begin)), text.place + begin});
    }
    begin = end + gap.size();
  }
  if (words.empty() || words.size() % 3)
    line.complain(text.place, "expected atoms of subject, relation and object, got " +
                                  std::to_string(words.size()) + " words");
  std::vector<TextAtom> atoms;
  const auto term = [&](const Column& word) {
    const bool variable = word.text.starts_with('?');
    if (variable && word.text.size() == 1) line.fail(word.place, "a variable, as in ?a");
    return TextTerm{std::string(word.text.substr(variable)), variable, word.place};
  };
  for (size_t i = 0; i < words.size(); i += 3) {
    const Column& relation = words[i + 1];
    if (relation.text.starts_with('?'))
      line.fail(relation.place, "a relation between subject and object");
    atoms.push_back(
        {std::string(relation.text), term(words[i]), term(words[i + 2]), words[i].place});
  }
  return atoms;
}

bool names_standard_confidence(std::string_view heading) {
  return heading == "Std Confidence" || heading == "Standard Confidence";
}

}  // namespace

bool parse_amie_rule(Line& line, AmieColumns& to, TextRule& rule) {
  const std::string_view bytes = trimmed(line.text());
  const std::vector<Column> columns = columns_of(line.text());
  if (bytes.starts_with("Rule\t")) {
    for (size_t i = 0; i < columns.size(); ++i)
      if (names_standard_confidence(trimmed(columns[i].text))) to.confidence = i;
    return false;
  }
  // what AMIE says before and behind its rules
  const size_t arrow = columns[0].text.find("=>");
  if (arrow == bytes.npos && columns.size() == 1 && !bytes.starts_with('?')) return false;
  if (arrow == bytes.npos) line.fail(0, "a rule, body => head");
  rule.body = amie_atoms(line, {columns[0].text.substr(0, arrow), 0});
  const std::vector<TextAtom> head =
      amie_atoms(line, {columns[0].text.substr(arrow + 2), arrow + 2});
  if (head.size() != 1) line.complain(head[1].place, "a head of more than one atom");
  rule.head = head[0];
  if (columns.size() > 1) {
    if (columns.size() <= to.confidence)
      line.complain(columns.back().place, "expected the standard confidence in column " +
                                              std::to_string(to.confidence + 1) + ", got " +
                                              std::to_string(columns.size()) + " columns");
    rule.confidence =
        number_of(line, columns[to.confidence], "a standard confidence from 0 to 1", 0, 1);
  }
  return true;
}

}  // namespace maglev::datalog
