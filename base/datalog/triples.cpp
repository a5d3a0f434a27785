#include "base/datalog/triples.h"

#include <algorithm>
#include <unordered_map>

#include "base/core/printed.h"
#include "base/datalog/knowledge.h"

namespace maglev::datalog {
namespace {

constexpr double kMaxDepth = 1e6;

struct AtomHash {
  size_t operator()(const Atom& atom) const { return size_t(hash_of(atom)); }
};

// an atom in Prolog's form has a bracket before any tab, and tabs within it or behind it alone
bool is_tsv(std::string_view line) {
  const size_t tab = line.find('\t'), bracket = line.find('(');
  if (tab == line.npos) return false;
  if (bracket == line.npos || tab < bracket) return true;
  const std::string_view first = line.substr(0, tab);
  if (std::count(first.begin(), first.end(), '(') != std::count(first.begin(), first.end(), ')'))
    return false;
  const std::vector<Column> columns = columns_of(line);
  return (columns.size() == 3 || columns.size() == 4) &&
         std::none_of(columns.begin(), columns.end(), [](const Column& column) {
           return trimmed(column.text).empty() || column.text.starts_with('%');
         });
}

int32_t depth_of(const Line& line, const Column& word) {
  const double depth = number_of(line, word, "a depth, -1 or more", -1, kMaxDepth);
  if (depth != double(int32_t(depth))) line.fail(word.place, "a depth, a whole number");
  return int32_t(depth);
}

class TripleReader {
 public:
  TripleReader(Program& program, Triples& to) : program_(program), to_(to) {}

  void read_tsv(const Line& line) {
    const std::vector<Column> columns = columns_of(line.text());
    if (columns.size() != 3 && columns.size() != 4)
      line.complain(0, "expected head, relation and tail between tabs, got " +
                           counted(int64_t(columns.size()), "column"));
    static constexpr const char* kNames[] = {"a head", "a relation", "a tail"};
    for (size_t i = 0; i < 3; ++i)
      if (trimmed(columns[i].text).empty())
        line.complain(columns[i].place, std::string("expected ") + kNames[i] + ", got nothing");
    add(trimmed(columns[1].text), trimmed(columns[0].text), trimmed(columns[2].text));
    if (columns.size() == 4) say_depth(line, columns[3]);
  }

  void read_prolog(Line& line) {
    while (!line.done()) {
      // neither form: between blanks or commas, most often
      if (line.text().find('(', line.place()) == std::string_view::npos)
        line.fail("head, relation and tail between tabs, or relation(head,tail)");
      const TextAtom atom = line.take_atom();
      for (const TextTerm* term : {&atom.first, &atom.second})
        if (term->variable)
          line.complain(term->place, "a fact has constants alone, and " + term->name +
                                         " is a variable; a constant of that name is written '" +
                                         term->name + "', in quotes");
      add(atom.predicate, atom.first.name, atom.second.name);
      const bool dot = line.take(".");
      if (!line.done()) {
        const char c = line.text()[line.place()];
        if (c == '-' || (c >= '0' && c <= '9')) {
          const size_t begin = line.place();
          line.take_number("a depth");
          say_depth(line, {line.text().substr(begin, line.place() - begin), begin});
        } else if (!dot) {
          line.fail(line.text().substr(line.place()).starts_with(":-")
                        ? "'.' behind the fact: rules stand in rules.txt"
                        : "'.' behind the fact");
        }
      }
    }
  }

 private:
  void add(std::string_view predicate, std::string_view first, std::string_view second) {
    const Atom atom{program_.predicates.add(predicate), program_.constants.add(first),
                    program_.constants.add(second)};
    const auto [place, is_new] = places_.try_emplace(atom, to_.atoms.size());
    if (is_new) to_.atoms.push_back(atom);
    else ++to_.repeated;
    last_ = place->second;
  }

  /// Of the atom that was added last. -1 says nothing, and contradicts nothing.
  void say_depth(const Line& line, const Column& word) {
    const int32_t depth = depth_of(line, word);
    to_.depths.resize(to_.atoms.size(), -1);
    int32_t& known = to_.depths[last_];
    if (known >= 0 && depth >= 0 && known != depth)
      line.complain(word.place, "depth " + std::to_string(depth) + " of " +
                                    to_text(program_, to_.atoms[last_]) + ", which has depth " +
                                    std::to_string(known) +
                                    " in a line before; leave one of them out");
    known = std::max(known, depth);
  }

  Program& program_;
  Triples& to_;
  std::unordered_map<Atom, size_t, AtomHash> places_;
  size_t last_ = 0;
};

}  // namespace

Triples parse_triples(const Text& text, Program& program) {
  Triples triples;
  TripleReader reader(program, triples);
  bool begun = false, tsv = false;
  for_each_line(text, [&](Line& line) {
    // a comment, which a name of TSV is not taken for
    const std::string_view bytes = trimmed(line.text());
    if (bytes.empty() || (bytes[0] == '%' && !(tsv && bytes.find('\t') != bytes.npos))) return;
    if (!begun) begun = true, tsv = is_tsv(line.text());
    if (tsv) reader.read_tsv(line);
    else reader.read_prolog(line);
  });
  if (!triples.depths.empty()) triples.depths.resize(triples.atoms.size(), -1);
  return triples;
}

Triples read_triples(const std::string& path, Program& program) {
  const std::string bytes = read_text(path);
  return parse_triples({path, bytes}, program);
}

std::string triples_text(const Program& program, const std::vector<Atom>& atoms,
                         const std::vector<int32_t>& depths) {
  std::string text;
  for (size_t i = 0; i < atoms.size(); ++i) {
    text += to_text(program, atoms[i]) + ".";
    if (!depths.empty()) text += " " + std::to_string(depths[i]);
    text += "\n";
  }
  return text;
}

}  // namespace maglev::datalog
