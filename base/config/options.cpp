#include "base/config/options.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <fstream>
#include <sstream>

#include <yaml-cpp/yaml.h>

#include "base/core/error.h"

namespace maglev {
namespace {

constexpr size_t kMaxFileBytes = 1 << 20;
constexpr int kMaxDepth = 64;

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
  bool plain = !text.empty() &&
               std::all_of(text.begin(), text.end(),
                           [](unsigned char c) {
                             return std::isalnum(c) || c == '_' || c == '/' || c == '.';
                           }) &&
               std::isalpha(static_cast<unsigned char>(text[0])) && text != "true" &&
               text != "false" && text != "null" && text != "yes" && text != "no" && text != "on" &&
               text != "off" && text != "y" && text != "n";
  if (plain) return text;
  std::string out = "\"";
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
  const char* first = text.data() + (text.size() > 1 && text[0] == '+' ? 1 : 0);
  const char* last = text.data() + text.size();
  auto [end, error] = std::from_chars(first, last, out);
  if (error == std::errc() && end == last && first != last) return true;
  if (text.find_first_of("eE.") == std::string::npos) return false;
  double value = 0;
  auto [dend, derror] = std::from_chars(first, last, value);
  if (derror != std::errc() || dend != last || value != std::floor(value)) return false;
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

std::string choices_text(const std::vector<std::string>& choices) {
  std::string text;
  for (const auto& c : choices) text += (text.empty() ? "" : " | ") + c;
  return text;
}

}  // namespace

std::string Field::text() const {
  return std::visit(overloaded{[](const bool* m) -> std::string { return *m ? "true" : "false"; },
                               [&](const int32_t* m) {
                                 if (rule.choices.empty()) return number_text(*m);
                                 return rule.choices.at(size_t(*m));
                               },
                               [](const std::string* m) { return quoted(*m); },
                               [](const std::vector<int64_t>* m) {
                                 std::string text = "[";
                                 for (size_t i = 0; i < m->size(); ++i)
                                   text += (i ? ", " : "") + number_text((*m)[i]);
                                 return text + "]";
                               },
                               [](const auto* m) { return number_text(*m); }},
                    member);
}

void Field::set(std::string_view text, std::string_view where) {
  auto check_range = [&](double value) {
    if (!(value >= rule.min && value <= rule.max)) reject(where, name, range_text(rule), text);
  };
  auto check_choice = [&]() -> int32_t {
    auto it = std::find(rule.choices.begin(), rule.choices.end(), text);
    if (it == rule.choices.end())
      throw Error("[" + std::string(where) + "] " + unknown_name(name, text, rule.choices));
    return int32_t(it - rule.choices.begin());
  };
  std::visit(overloaded{[&](bool* m) {
                          if (text == "true" || text == "yes" || text == "on" || text == "1")
                            *m = true;
                          else if (text == "false" || text == "no" || text == "off" || text == "0")
                            *m = false;
                          else reject(where, name, "true or false", text);
                        },
                        [&](std::string* m) {
                          if (!rule.choices.empty()) check_choice();
                          *m = std::string(text);
                        },
                        [&](std::vector<int64_t>* m) {
                          std::vector<int64_t> values;
                          std::string body(text);
                          if (!body.empty() && body.front() == '[' && body.back() == ']')
                            body = body.substr(1, body.size() - 2);
                          std::replace(body.begin(), body.end(), ',', ' ');
                          std::istringstream in(body);
                          for (std::string word; in >> word;) {
                            int64_t value = 0;
                            if (!parse_integer(word, value))
                              reject(where, name, "a list of whole numbers such as [64, 64]", text);
                            check_range(double(value));
                            values.push_back(value);
                          }
                          *m = std::move(values);
                        },
                        [&](int32_t* m) {
                          if (!rule.choices.empty()) {
                            *m = check_choice();
                            return;
                          }
                          int32_t value = 0;
                          if (!parse_integer(std::string(text), value))
                            reject(where, name, "a whole number", text);
                          check_range(double(value));
                          *m = value;
                        },
                        [&]<class T>(T* m) {
                          T value = 0;
                          if constexpr (std::is_integral_v<T>) {
                            if (!parse_integer(std::string(text), value))
                              reject(where, name, "a whole number", text);
                          } else {
                            if (!parse_real(text, value)) reject(where, name, "a number", text);
                          }
                          check_range(double(value));
                          *m = value;
                        }},
             member);
}

void OptionTable::add_field(std::string_view name, Field::Member member, std::string help,
                            Rule rule) {
  Field field{prefix_ + std::string(name), member, std::move(help), std::move(rule), ""};
  MAGLEV_ASSERT(!find(field.name), "two settings with one name");
  field.initial = field.text();
  fields_.push_back(std::move(field));
}

void OptionTable::section(std::string_view prefix,
                          const std::function<void(OptionTable&)>& describe) {
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

void OptionTable::set(std::string_view name, std::string_view value, std::string_view where) {
  for (auto& f : fields_) {
    if (f.name != name) continue;
    f.set(value, where);
    return;
  }
  std::vector<std::string> known;
  for (const auto& f : fields_) known.push_back(f.name);
  throw Error("[" + std::string(where) + "] " + unknown_name("setting", name, known));
}

void OptionTable::override_with(std::string_view assignment) {
  size_t equals = assignment.find('=');
  if (equals == std::string_view::npos || equals == 0)
    throw Error("[command line] settings are name=value, got '" + std::string(assignment) + "'");
  set(assignment.substr(0, equals), assignment.substr(equals + 1), "command line");
}

void OptionTable::load(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw Error("[" + path + "] cannot be read; check the path and its permissions");
  std::string text(kMaxFileBytes + 1, '\0');
  file.read(text.data(), std::streamsize(text.size()));
  text.resize(size_t(file.gcount()));
  if (text.size() > kMaxFileBytes)
    throw Error("[" + path + "] is over 1 MiB; settings files are small");
  load_text(text, path);
}

void OptionTable::load_text(const std::string& yaml, const std::string& origin) {
  std::function<void(const YAML::Node&, const std::string&, int)> visit =
      [&](const YAML::Node& node, const std::string& name, int depth) {
        std::string where = origin;
        if (node.Mark().line >= 0) where += ":" + std::to_string(node.Mark().line + 1);
        if (depth > kMaxDepth)
          throw Error("[" + where + "] nested deeper than " + std::to_string(kMaxDepth));
        if (node.IsMap()) {
          for (const auto& item : node) {
            std::string key = item.first.as<std::string>();
            visit(item.second, name.empty() ? key : name + "." + key, depth + 1);
          }
        } else if (name.empty()) {
          if (!node.IsNull()) throw Error("[" + where + "] settings files are maps of name: value");
        } else if (node.IsSequence()) {
          std::string list = "[";
          for (size_t i = 0; i < node.size(); ++i)
            list += (i ? ", " : "") + node[i].as<std::string>();
          set(name, list + "]", where);
        } else {
          set(name, node.IsNull() ? "" : node.as<std::string>(), where);
        }
      };
  try {
    visit(YAML::Load(yaml), "", 0);
  } catch (const YAML::Exception& e) {
    throw Error("[" + origin + ":" + std::to_string(e.mark.line + 1) +
                "] is not valid YAML: " + e.msg);
  }
}

std::string OptionTable::yaml() const {
  std::string out;
  std::vector<std::string> open;
  for (const auto& f : fields_) {
    std::vector<std::string> parts;
    std::istringstream in(f.name);
    for (std::string part; std::getline(in, part, '.');) parts.push_back(part);
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
    std::string about = f.rule.choices.empty() ? range_text(f.rule) : choices_text(f.rule.choices);
    std::string unit = f.rule.unit;
    if (!unit.empty()) about += (about.empty() ? "" : " ") + unit;
    out += "  " + f.name + std::string(width - f.name.size() + 2, ' ') + f.help + " (default " +
           f.initial + (about.empty() ? "" : "; " + about) + ")\n";
  }
  return out;
}

}  // namespace maglev
