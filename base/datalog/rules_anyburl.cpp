#include "base/datalog/rules.h"

namespace maglev::datalog {
namespace {

constexpr std::string_view kSameTerm = "me_myself_i";

// one capital letter; a constant has more, or other ones
bool anyburl_variable(std::string_view term) {
  return term.size() == 1 && term[0] >= 'A' && term[0] <= 'Z';
}

// "rel(X,Y)": names are what stands there, brackets and commas too, so that what parts them is
// found from the variable that every atom of AnyBURL has
TextAtom anyburl_atom(const Line& line, Column text) {
  while (text.text.starts_with(' ')) text.text.remove_prefix(1), ++text.place;
  while (text.text.ends_with(' ')) text.text.remove_suffix(1);
  const std::string_view bytes = text.text;
  const size_t open = bytes.find('(');
  if (open == bytes.npos || open == 0 || !bytes.ends_with(')'))
    line.fail(text.place, "an atom, as in rel(X,Y)");
  const std::string_view inside = bytes.substr(open + 1, bytes.size() - open - 2);
  size_t comma = inside.find(',');
  if (comma == inside.npos || comma == 0 || comma + 1 == inside.size())
    line.fail(text.place + open + 1, "two arguments with a comma between them");
  const size_t last = inside.rfind(',');
  if (!anyburl_variable(inside.substr(0, comma)) && comma != last) {
    if (!anyburl_variable(inside.substr(last + 1)) && inside.substr(last + 1) != kSameTerm)
      line.complain(text.place + open + 1,
                    "arguments with more than one comma, of which neither is a variable");
    comma = last;
  }
  const auto term = [&](size_t begin, size_t end) {
    const std::string_view name = inside.substr(begin, end - begin);
    return TextTerm{std::string(name), anyburl_variable(name), text.place + open + 1 + begin};
  };
  TextAtom atom{std::string(bytes.substr(0, open)), term(0, comma), term(comma + 1, inside.size()),
                text.place};
  // r(X,me_myself_i) is r(X,X)
  if (atom.first.name == kSameTerm) atom.first = atom.second;
  if (atom.second.name == kSameTerm) atom.second = atom.first;
  return atom;
}

}  // namespace

bool parse_anyburl_rule(Line& line, TextRule& rule) {
  if (trimmed(line.text()).empty()) return false;
  const std::vector<Column> columns = columns_of(line.text());
  if (columns.size() != 4)
    line.complain(0,
                  "expected AnyBURL's columns predicted, correct, confidence and rule between "
                  "tabs, got " +
                      std::to_string(columns.size()));
  number_of(line, columns[0], "how many were predicted", 0, 1e18);
  number_of(line, columns[1], "how many of them are correct", 0, 1e18);
  rule.confidence = number_of(line, columns[2], "a confidence from 0 to 1", 0, 1);
  const Column& text = columns[3];
  const size_t arrow = text.text.find("<=");
  if (arrow == text.text.npos) line.fail(text.place, "a rule, head <= body");
  rule.head = anyburl_atom(line, {text.text.substr(0, arrow), text.place});
  // atoms end where a bracket closes before a comma and a blank
  for (size_t begin = arrow + 2; !trimmed(text.text.substr(begin)).empty();) {
    const size_t end = text.text.find("), ", begin);
    const size_t length = end == text.text.npos ? text.text.npos : end + 1 - begin;
    rule.body.push_back(anyburl_atom(line, {text.text.substr(begin, length), text.place + begin}));
    if (end == text.text.npos) break;
    begin = end + 3;
  }
  return true;
}

}  // namespace maglev::datalog
