#include "base/config/options.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <fstream>
#include <set>
#include <sstream>

#include <yaml-cpp/yaml.h>

#include "base/config/other_names.h"
#include "base/core/file.h"
#include "base/core/words.h"

namespace maglev {
namespace {

constexpr size_t kMaxFileBytes = 1 << 20;
constexpr int kMaxDepth = 64;
// values and keys of one file, aliases counted as often as they are named
constexpr size_t kMaxNodes = 20'000;

template <class... F>
struct overloaded : F... {
  using F::operator()...;
};
template <class... F>
overloaded(F...) -> overloaded<F...>;

// the shortest text that reads back to the same number; always with a digit, never locale-dependent
template <class T>
std::string number_text(T value) {
  if constexpr (std::is_floating_point_v<T>) {
    if (std::isnan(value)) return ".nan";
    if (std::isinf(value)) return value > 0 ? ".inf" : "-.inf";
  }
  char buffer[64];
  auto end = std::to_chars(buffer, buffer + sizeof buffer, value).ptr;
  return {buffer, end};
}

std::string quoted(const std::string& text) {
  // plain words need no quotes; anything YAML could read as something else gets them
  static constexpr std::string_view kOthers[] = {"true", "false", "null", "yes", "no",
                                                 "on",   "off",   "y",    "n"};
  bool plain = !text.empty() &&
               std::all_of(text.begin(), text.end(),
                           [](unsigned char c) {
                             return std::isalnum(c) || c == '_' || c == '/' || c == '.';
                           }) &&
               std::isalpha(static_cast<unsigned char>(text[0])) &&
               std::ranges::find(kOthers, lower_case(text)) == std::end(kOthers);
  if (plain) return text;
  std::string out = "\"";
  // in quotes: a quote, a backslash and the end of a line are written otherwise
  for (char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    if (c == '\n') out += "\\n";
    else out += c;
  }
  return out + "\"";
}

std::string range_text(const Rule& rule) {
  bool low = std::isfinite(rule.min), high = std::isfinite(rule.max);
  if (low && high) return "[" + number_text(rule.min) + ", " + number_text(rule.max) + "]";
  if (low) return ">= " + number_text(rule.min);
  if (high) return "<= " + number_text(rule.max);
  return "";
}

[[noreturn]] void reject(std::string_view where, const std::string& name,
                         const std::string& expected, std::string_view came) {
  throw Error("[" + std::string(where) + "] " + name + " must be " + expected + ", got '" +
              std::string(came) + "'");
}

// accepts 1e6 and 1_000_000 for integers, as people write step counts
template <class T>
bool parse_integer(std::string text, T& out) {
  std::erase(text, '_');
  // from_chars knows no plus sign
  const char* first = text.data() + (text.size() > 1 && text[0] == '+' ? 1 : 0);
  const char* last = text.data() + text.size();
  auto [end, error] = std::from_chars(first, last, out);
  if (error == std::errc() && end == last && first != last) return true;
  // 1e6 and 2.5e3 are whole numbers too
  if (text.find_first_of("eE.") == std::string::npos) return false;
  double value = 0;
  auto [dend, derror] = std::from_chars(first, last, value);
  if (derror != std::errc() || dend != last || value != std::floor(value)) return false;
  // beyond 2^53 not every whole number is a double
  if (std::abs(value) > 9007199254740992.0 || (std::is_unsigned_v<T> && value < 0)) return false;
  if (value > double(std::numeric_limits<T>::max()) ||
      value < double(std::numeric_limits<T>::lowest()))
    return false;
  out = T(value);
  return true;
}

template <class T>
bool parse_real(std::string_view text, T& out) {
  if (text == ".inf" || text == "inf") return out = std::numeric_limits<T>::infinity(), true;
  if (text == "-.inf" || text == "-inf") return out = -std::numeric_limits<T>::infinity(), true;
  if (!text.empty() && text[0] == '+') text.remove_prefix(1);
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  return error == std::errc() && end == text.data() + text.size() && !text.empty() &&
         !std::isnan(out);
}

// as YAML 1.1 and Python write it, in any case
std::optional<bool> parse_bool(std::string_view text) {
  const std::string word = lower_case(text);
  for (const char* yes : {"true", "yes", "on", "1"})
    if (word == yes) return true;
  for (const char* no : {"false", "no", "off", "0"})
    if (word == no) return false;
  return std::nullopt;
}

// the index of `text` among the names; a switch that may also be auto takes true for on
std::optional<size_t> parse_choice(const std::vector<const char*>& names, std::string_view text) {
  const auto found = [&](std::string_view name) -> std::optional<size_t> {
    const auto it = std::find(names.begin(), names.end(), name);
    return it == names.end() ? std::nullopt : std::optional(size_t(it - names.begin()));
  };
  if (const auto index = found(text)) return index;
  const auto answer = parse_bool(text);
  return answer ? found(*answer ? "on" : "off") : std::nullopt;
}

std::string choices_text(const std::vector<const char*>& names) {
  std::string text;
  for (const char* name : names) text += (text.empty() ? "" : " | ") + std::string(name);
  return text;
}

// what a value may be, for --help
std::string accepted_text(const Field& field) {
  const auto* choice = std::get_if<ChoiceMember>(&field.member);
  std::string text = choice ? choices_text(choice->names) : range_text(field.rule);
  if (*field.rule.unit) text += (text.empty() ? "" : " ") + std::string(field.rule.unit);
  return text;
}

std::string message_of(const SettingError::What& what) {
  const std::string section = what.setting.substr(0, what.setting.find('.'));
  return "[" + section + "] " + what.setting + " must be " + what.must + ", got " + what.got +
         (what.nearest.empty() ? "" : "; use " + what.nearest);
}

// one YAML document, each setting handed to `set` with its place in the file
class Document {
 public:
  struct Value {
    std::string text;        // as the command line would give it
    bool list = false;       // it is a sequence
    bool nested = false;     // and some entry of it is another, or a map
    std::string names = {};  // its entries between commas
  };
  using Set =
      std::function<void(const std::string& name, const Value& value, const std::string& where)>;
  Document(std::string path, Set set) : path_(std::move(path)), set_(std::move(set)) {}

  void visit(const YAML::Node& node, const std::string& name, int depth) {
    const std::string where = place(node);
    if (depth > kMaxDepth)
      throw Error("[" + where + "] nested deeper than " + std::to_string(kMaxDepth));
    count(1, where);
    if (node.IsMap()) {
      visit_map(node, name, depth);
    } else if (name.empty()) {
      if (!node.IsNull()) throw Error("[" + where + "] settings files are maps of name: value");
    } else {
      if (!seen_.insert(name).second)
        throw Error("[" + where + "] gives " + name + " a second time; leave one out");
      set_(name, value(node, where, depth), where);
    }
  }

 private:
  std::string place(const YAML::Node& node) const {
    return node.Mark().line >= 0 ? path_ + ":" + std::to_string(node.Mark().line + 1) : path_;
  }

  void visit_map(const YAML::Node& node, const std::string& name, int depth) {
    // a key that stands twice in a map would lose one of its values
    std::set<std::string> keys;
    for (const auto& item : node) {
      const std::string key = item.first.as<std::string>();
      if (!keys.insert(key).second)
        throw Error("[" + place(item.first) + "] has a second '" + key +
                    "' in one map; join the two");
      visit(item.second, name.empty() ? key : name + "." + key, depth + 1);
    }
  }

  Value value(const YAML::Node& node, const std::string& where, int depth) {
    if (node.IsNull()) return {.text = ""};
    if (!node.IsSequence()) return {.text = node.as<std::string>()};
    Value list{.text = entry_text(node, where, depth), .list = true};
    for (const auto& entry : node) {
      if (entry.IsSequence() || entry.IsMap()) list.nested = true;
      else list.names += (list.names.empty() ? "" : ",") + entry.as<std::string>();
    }
    return list;
  }

  // of lists within lists, which no setting takes, whoever refuses them shows what came
  std::string entry_text(const YAML::Node& node, const std::string& where, int depth) {
    if (depth > kMaxDepth)
      throw Error("[" + where + "] nested deeper than " + std::to_string(kMaxDepth));
    if (node.IsMap()) return "{...}";
    if (!node.IsSequence()) return node.as<std::string>();
    count(node.size(), where);
    std::string list;
    for (const auto& entry : node)
      list += (list.empty() ? "" : ", ") + entry_text(entry, where, depth + 1);
    return "[" + list + "]";
  }

  // aliases of aliases would grow without bound
  void count(size_t nodes, const std::string& where) {
    nodes_ += nodes;
    if (nodes_ > kMaxNodes)
      throw Error("[" + where + "] names more than " + std::to_string(kMaxNodes) +
                  " values; settings files are small");
  }

  std::string path_;
  Set set_;
  std::set<std::string> seen_;
  size_t nodes_ = 0;
};

// name and value of "name=value"
std::pair<std::string_view, std::string_view> parted(std::string_view assignment,
                                                     std::string_view where) {
  const size_t equals = assignment.find('=');
  if (equals == std::string_view::npos || equals == 0)
    throw Error("[" + std::string(where) + "] settings are name=value, got '" +
                std::string(assignment) + "'");
  return {assignment.substr(0, equals), assignment.substr(equals + 1)};
}

}  // namespace

std::string Field::text() const {
  return std::visit(
      overloaded{[](const bool* m) -> std::string { return *m ? "true" : "false"; },
                 [](const std::string* m) { return quoted(*m); },
                 [](const TextMember& m) { return quoted(m.bytes); },
                 [](const ChoiceMember& m) { return quoted(m.names.at(m.index(m.member))); },
                 [](const std::vector<int64_t>* m) {
                   std::string text = "[";
                   for (size_t i = 0; i < m->size(); ++i)
                     text += (i ? ", " : "") + number_text((*m)[i]);
                   return text + "]";
                 },
                 [](const auto* m) { return number_text(*m); }},
      member);
}

std::optional<int64_t> Field::whole_number() const {
  if (auto* value = std::get_if<int64_t*>(&member)) return **value;
  if (auto* value = std::get_if<int32_t*>(&member)) return **value;
  return std::nullopt;
}

std::string Field::plain() const {
  if (const auto* text = std::get_if<std::string*>(&member)) return **text;
  if (const auto* text = std::get_if<TextMember>(&member)) return text->bytes;
  if (const auto* choice = std::get_if<ChoiceMember>(&member))
    return std::string(choice->names.at(choice->index(choice->member)));
  return text();
}

void Field::set(std::string_view text, std::string_view where) {
  const auto within = [&](const std::string& before) {
    const std::string range = range_text(rule);
    return range.empty() ? "" : before + (range.starts_with('[') ? "in " : "") + range;
  };
  auto check_range = [&](double value, const std::string& of = "") {
    if (value < rule.min || value > rule.max) reject(where, name, within(of), text);
  };
  std::visit(overloaded{[&](bool* m) {
                          const auto value = parse_bool(text);
                          if (!value) reject(where, name, "true or false", text);
                          *m = *value;
                        },
                        [&](std::string* m) { *m = std::string(text); },
                        [&](const TextMember& m) {
                          if (text.size() >= m.capacity)
                            reject(where, name,
                                   "at most " + std::to_string(m.capacity - 1) + " bytes long",
                                   text);
                          // zeros to the end: equal texts are equal bytes
                          std::fill_n(std::copy(text.begin(), text.end(), m.bytes),
                                      m.capacity - text.size(), '\0');
                        },
                        [&](const ChoiceMember& m) {
                          const auto index = parse_choice(m.names, text);
                          if (!index)
                            throw Error("[" + std::string(where) + "] " +
                                        unknown_name(name, text, {m.names.begin(), m.names.end()}));
                          m.assign(m.member, *index);
                        },
                        [&](std::vector<int64_t>* m) {
                          std::vector<int64_t> values;
                          // brackets may be left out, and commas
                          std::string body(text);
                          if (!body.empty() && body.front() == '[' && body.back() == ']')
                            body = body.substr(1, body.size() - 2);
                          std::replace(body.begin(), body.end(), ',', ' ');
                          std::istringstream in(body);
                          for (std::string word; in >> word;) {
                            int64_t value = 0;
                            if (!parse_integer(word, value))
                              reject(where, name, "a list of whole numbers such as [64, 64]", text);
                            check_range(double(value), "a list of numbers ");
                            values.push_back(value);
                          }
                          *m = std::move(values);
                        },
                        [&]<class T>(T* m) {
                          T value = 0;
                          if constexpr (std::is_integral_v<T>) {
                            if (!parse_integer(std::string(text), value))
                              reject(where, name, "a whole number" + within(" "), text);
                          } else {
                            if (!parse_real(text, value)) reject(where, name, "a number", text);
                          }
                          check_range(double(value));
                          *m = value;
                        }},
             member);
}

SettingError::SettingError(What what) : Error(message_of(what)), what_is_wrong(std::move(what)) {}

void OptionTable::add_field(std::string_view name, Field::Member member, std::string help,
                            Rule rule) {
  Field field{prefix_ + std::string(name), std::move(member), std::move(help), rule, ""};
  if (find(field.name))
    throw Error("[settings] two are called " + field.name +
                "; give the one that was added last another name where it is described");
  field.initial = field.text();
  fields_.push_back(std::move(field));
}

void OptionTable::stands_for(std::string_view name, const std::vector<std::string>& settings) {
  for (const std::string& setting : settings) {
    MAGLEV_ASSERT(find(prefix_ + setting) && find(prefix_ + std::string(name)),
                  "settings there are");
    governed_.emplace_back(prefix_ + std::string(name), prefix_ + setting);
  }
}

void OptionTable::section(std::string_view prefix,
                          const std::function<void(OptionTable&)>& describe) {
  // the prefix holds while `describe` adds its settings
  std::string outer = prefix_;
  prefix_ += std::string(prefix) + ".";
  describe(*this);
  prefix_ = outer;
}

const Field* OptionTable::find(std::string_view name) const {
  for (const auto& f : fields_)
    if (f.name == name) return &f;
  return nullptr;
}

std::vector<std::string> OptionTable::acting() const {
  std::vector<std::string> names;
  for (const auto& f : fields_)
    if (f.rule.acting) names.push_back(f.name);
  return names;
}

void OptionTable::set(std::string_view name, std::string_view value, std::string_view where,
                      Origin origin) {
  for (auto& f : fields_) {
    if (f.name != name) continue;
    f.set(value, where);
    f.origin = origin;
    for (const auto& [governor, governed] : governed_)
      if (governor == name) give_back(governed, origin);
    return;
  }
  throw Error("[" + std::string(where) + "] " + refusal(name));
}

void OptionTable::give_back(const std::string& name, Origin later) {
  for (auto& f : fields_)
    if (f.name == name && f.origin < later) f.set(f.initial, name), f.origin = Origin::built_in;
}

std::string OptionTable::refusal(std::string_view name,
                                 const std::vector<std::string>& beside) const {
  std::vector<std::string> known;
  for (const auto& f : fields_) known.push_back(f.name);
  const std::string below = std::string(name) + ".";
  for (const std::string& setting : known) {
    if (!setting.starts_with(below)) continue;
    // who gives a value to env means which one
    const std::string answer = answer_to_setting(name, known, beside);
    return answer.empty()
               ? "'" + std::string(name) + "' is a section; give its settings, e.g. " + setting
               : answer;
  }
  return unknown_setting(name, known, beside);
}

void OptionTable::refuse(const std::vector<Refused>& all, const std::string& path) const {
  std::vector<std::string> names;
  for (const Refused& one : all) names.push_back(one.name);
  if (all.size() == 1) throw Error("[" + all[0].where + "] " + refusal(all[0].name, names));
  std::string text =
      "[" + path + "] gives " + std::to_string(all.size()) + " names that are no settings:";
  for (const Refused& one : all)
    text += "\n  " + (one.where == path ? "" : "[" + one.where + "] ") + refusal(one.name, names);
  throw Error(text);
}

void OptionTable::override_with(std::string_view assignment, std::string_view where) {
  const auto [name, value] = parted(assignment, where);
  set(name, value, where, Origin::command_line);
}

void OptionTable::override_with(const std::vector<std::string>& assignments,
                                std::string_view where) {
  std::vector<Refused> refused;
  for (const std::string& assignment : assignments)
    if (const auto name = parted(assignment, where).first; !find(name))
      refused.push_back({std::string(name), std::string(where)});
  if (!refused.empty()) refuse(refused, std::string(where));
  for (const std::string& assignment : assignments) override_with(assignment, where);
}

void OptionTable::load(const std::string& path, Origin origin, const Skip& skip) {
  if (is_folder(path)) throw Error("[" + path + "] is a folder; name the settings file in it");
  std::ifstream file(path, std::ios::binary);
  if (!file) throw Error("[" + path + "] cannot be read; check the path and its permissions");
  // one byte more than allowed shows a file that is too large
  std::string text(kMaxFileBytes + 1, '\0');
  file.read(text.data(), std::streamsize(text.size()));
  text.resize(size_t(file.gcount()));
  if (text.size() > kMaxFileBytes)
    throw Error("[" + path + "] is over 1 MiB; settings files are small");
  load_text(text, path, origin, skip);
}

void OptionTable::load_text(const std::string& yaml, const std::string& path, Origin origin,
                            const Skip& skip) {
  // whoever brings a file is told of all names at once
  std::vector<Refused> refused;
  Document document(
      path, [&](const std::string& name, const Document::Value& value, const std::string& where) {
        if (skip && skip(name)) return;
        const Field* field = find(name);
        if (!field) return void(refused.push_back({name, where}));
        // a list of names is one text, in which they stand between commas
        const bool text = value.list && (std::holds_alternative<std::string*>(field->member) ||
                                         std::holds_alternative<TextMember>(field->member));
        if (text && value.nested) reject(where, name, "a text or a list of texts", value.text);
        set(name, text ? value.names : value.text, where, origin);
      });
  try {
    const std::vector<YAML::Node> documents = YAML::LoadAll(yaml);
    if (documents.size() > 1)
      throw Error("[" + path + "] holds " + std::to_string(documents.size()) +
                  " YAML documents; settings files have one");
    if (!documents.empty()) document.visit(documents[0], "", 0);
  } catch (const YAML::BadConversion& e) {
    throw Error("[" + path + ":" + std::to_string(e.mark.line + 1) +
                "] a name or a plain value was expected here, got a list or a map; settings files "
                "are maps of name: value");
  } catch (const YAML::Exception& e) {
    throw Error("[" + path + ":" + std::to_string(e.mark.line + 1) +
                "] is not valid YAML: " + e.msg);
  }
  if (!refused.empty()) refuse(refused, path);
}

std::string OptionTable::yaml() const {
  std::string out;
  std::vector<std::string> open;
  for (const auto& f : fields_) {
    // a.b.c is c in section b in section a
    std::vector<std::string> parts;
    std::istringstream in(f.name);
    for (std::string part; std::getline(in, part, '.');) parts.push_back(part);
    // sections that are open already go on
    size_t shared = 0;
    while (shared < open.size() && shared + 1 < parts.size() && open[shared] == parts[shared])
      ++shared;
    open.resize(shared);
    for (size_t i = shared; i + 1 < parts.size(); ++i) {
      out += std::string(2 * i, ' ') + parts[i] + ":\n";
      open.push_back(parts[i]);
    }
    out += std::string(2 * (parts.size() - 1), ' ') + parts.back() + ": " + f.text() + "\n";
  }
  return out;
}

std::string OptionTable::help() const {
  size_t width = 0;
  for (const auto& f : fields_) width = std::max(width, f.name.size());
  std::string out;
  for (const auto& f : fields_) {
    // configs/ may give another default than the struct itself, and a person another value
    const std::string now = f.text(), accepted = accepted_text(f);
    const bool given = f.origin > Origin::proven;
    const std::string other = given ? ", built in " : ", bare ";
    out += "  " + f.name + std::string(width - f.name.size() + 2, ' ') + f.help +
           (given ? " (given " : " (default ") + now + (now == f.initial ? "" : other + f.initial) +
           (accepted.empty() ? "" : "; " + accepted) + (f.rule.free ? "; free" : "") +
           (f.rule.acting ? "; acting" : "") + ")\n";
  }
  return out;
}

}  // namespace maglev
