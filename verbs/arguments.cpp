#include "verbs/arguments.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <utility>

#include "base/config/other_names.h"
#include "base/core/error.h"
#include "base/core/file.h"
#include "base/core/printed.h"
#include "base/core/split.h"

namespace maglev {
namespace {

// name=value with a name that could be a setting: letters, digits, dots and underscores; a plus
// before it layers a profile
bool is_setting(std::string_view word) {
  if (word.starts_with('+')) word.remove_prefix(1);
  const size_t equals = word.find('=');
  if (equals == std::string_view::npos || equals == 0) return false;
  return std::all_of(word.begin(), word.begin() + long(equals), [](unsigned char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '_' || c == '-';
  });
}

bool is_flag(std::string_view word) {
  return word.size() > 1 && word[0] == '-' && !(word[1] >= '0' && word[1] <= '9');
}

}  // namespace

Arguments::Arguments(const VerbEntry& verb, const std::vector<std::string>& words, Grammar grammar)
    : verb_(verb), grammar_(std::move(grammar)) {
  bool flags_over = false;
  for (size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i];
    if (!flags_over && word == "--") {
      flags_over = true;
    } else if (!flags_over && (word == "--help" || word == "-h")) {
      help_ = true;
    } else if (!flags_over && is_flag(word)) {
      const size_t equals = word.find('=');
      const std::string name = word.substr(0, equals);
      const Flag* flag = find(name);
      if (!flag) {
        std::vector<std::string> known{"--help"};
        for (const Flag& f : grammar_.flags) known.emplace_back(f.name);
        const std::string answer = grammar_.settings ? answer_to_flag(name, known) : "";
        if (!answer.empty()) throw Error(where() + answer);
        throw Error(where() + unknown_name("flag", name, known));
      }
      const bool takes_value = *flag->value != 0;
      if (!takes_value && equals != std::string::npos)
        throw Error(where() + name + " takes no value, got '" + word.substr(equals + 1) + "'");
      if (!takes_value) {
        given_.emplace_back(name, "");
      } else if (equals != std::string::npos) {
        given_.emplace_back(name, word.substr(equals + 1));
      } else {
        if (i + 1 == words.size() ||
            (is_flag(words[i + 1]) && find(words[i + 1].substr(0, words[i + 1].find('=')))))
          throw Error(where() + name + " needs a value: " + name + " " + flag->value);
        given_.emplace_back(name, words[++i]);
      }
    } else if (grammar_.settings && is_setting(word)) {
      add_setting(word);
    } else {
      positional_.push_back(word);
    }
  }
  for (const auto& [name, value] : given_)
    if (value.empty() && *find(name)->value) throw Error(where() + name + " needs a value, got ''");
  if (help_) return;
  if (positional_.size() < grammar_.least)
    if (const std::string answer = answer_to_settings(); !answer.empty())
      throw Error(where() + answer);
  const std::string usage = "; usage: maglev " + std::string(verb_.usage);
  if (positional_.size() < grammar_.least)
    throw Error(where() + "expected " + grammar_.names + ", got " +
                counted(int64_t(positional_.size()), "word") + usage);
  if (positional_.size() > grammar_.most)
    throw Error(where() + "did not expect '" + positional_[grammar_.most] + "'" + usage);
}

void Arguments::add_setting(const std::string& word) {
  const std::string name = word.substr(0, word.find('=') + 1);
  const auto before = std::find_if(settings_.begin(), settings_.end(),
                                   [&](const auto& given) { return given.starts_with(name); });
  if (before != settings_.end()) {
    if (*before != word) replaced_.push_back(word + " replaces " + *before);
    settings_.erase(before);
  }
  settings_.push_back(word);
}

std::string Arguments::answer_to_settings() const {
  for (const std::string& setting : settings_) {
    const std::string name = name_part(setting);
    // one with a section may be a setting of what was not said
    if (name.find('.') != name.npos) continue;
    if (const std::string answer = answer_to_setting(name, {}); !answer.empty()) return answer;
  }
  return "";
}

std::string Arguments::help_text() const {
  std::string text = std::string(verb_.summary) + "\n\nusage: maglev " + verb_.usage + "\n";
  if (grammar_.flags.empty()) return text;
  std::vector<std::string> names;
  size_t width = 0;
  for (const Flag& flag : grammar_.flags) {
    names.push_back(std::string(flag.name) + (*flag.value ? " " + std::string(flag.value) : ""));
    width = std::max(width, names.back().size());
  }
  text += "\n";
  for (size_t i = 0; i < names.size(); ++i)
    text += "  " + names[i] + std::string(width - names[i].size() + 2, ' ') +
            grammar_.flags[i].help + "\n";
  return text;
}

int Arguments::print_help() const {
  std::fputs(help_text().c_str(), stdout);
  return 0;
}

bool Arguments::has(std::string_view flag) const { return value(flag).has_value(); }

std::optional<std::string> Arguments::value(std::string_view flag) const {
  MAGLEV_ASSERT(find(flag), "a verb asks only for flags of its grammar");
  for (auto given = given_.rbegin(); given != given_.rend(); ++given)
    if (given->first == flag) return given->second;
  return std::nullopt;
}

std::vector<std::string> Arguments::values(std::string_view flag) const {
  MAGLEV_ASSERT(find(flag), "a verb asks only for flags of its grammar");
  std::vector<std::string> all;
  for (const auto& [name, text] : given_)
    if (name == flag) all.push_back(text);
  return all;
}

std::optional<int64_t> Arguments::integer(std::string_view flag, int64_t min, int64_t max) const {
  const auto text = value(flag);
  if (!text) return std::nullopt;
  int64_t number = 0;
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), number);
  if (error != std::errc() || end != text->data() + text->size() || number < min || number > max)
    throw Error(where() + std::string(flag) + " must be a whole number from " +
                std::to_string(min) + " to " + std::to_string(max) + ", got '" + *text + "'");
  return number;
}

template <class Fits>
std::optional<double> Arguments::number_that(std::string_view flag, const Fits& fits,
                                             const std::string& lies,
                                             const std::string& advice) const {
  const auto text = value(flag);
  if (!text) return std::nullopt;
  double number = 0;
  const char* end = text->data() + text->size();
  const auto [behind, error] = std::from_chars(text->data(), end, number);
  if (error == std::errc() && behind == end && std::isfinite(number) && fits(number)) return number;
  throw Error(where() + std::string(flag) + " must be a number" + lies + ", got '" + *text + "'" +
              advice);
}

std::optional<double> Arguments::number(std::string_view flag, double min, double max) const {
  return number_that(
      flag, [&](double number) { return number >= min && number <= max; },
      std::isinf(min) && std::isinf(max) ? "" : printed(" from %g to %g", min, max), "");
}

std::optional<double> Arguments::number_above(std::string_view flag, double above, double max,
                                              const std::string& advice) const {
  return number_that(
      flag, [&](double number) { return number > above && number <= max; },
      printed(" above %g and at most %g", above, max), advice);
}

std::optional<std::string> Arguments::file(std::string_view flag) const {
  const auto file = value(flag);
  if (!file) return std::nullopt;
  if (is_folder(*file))
    throw Error(where() + *file + " is a folder; name a file for " + std::string(flag));
  const auto folder = std::filesystem::path(*file).parent_path();
  if (!folder.empty() && !is_folder(folder))
    throw Error(where() + folder.string() + " is no folder; make it, or name another file for " +
                std::string(flag));
  return file;
}

std::optional<std::string> Arguments::output(std::string_view flag) const {
  const auto file = this->file(flag);
  if (file && path_exists(*file) && !has("--overwrite"))
    throw Error(where() + *file + " is there already; name another, or replace it by --overwrite");
  return file;
}

std::optional<double> Arguments::seconds(std::string_view flag, double least, double most) const {
  const auto text = value(flag);
  if (!text) return std::nullopt;
  const std::string digits = text->substr(0, text->find_first_not_of("0123456789."));
  const std::string unit = text->substr(digits.size());
  const double factor = unit == "m" ? 60 : unit.empty() || unit == "s" ? 1 : 0;
  char* end = nullptr;
  const double given = factor * std::strtod(digits.c_str(), &end);
  if (digits.empty() || *end || factor == 0 || !(given >= least && given <= most))
    throw Error(where() + std::string(flag) +
                printed(" must be seconds or minutes from %gs to %gs", least, most) +
                ", such as 120s or 2m, got '" + *text + "'");
  return given;
}

std::optional<size_t> Arguments::name_index(std::string_view flag,
                                            const std::vector<std::string>& names) const {
  const auto text = value(flag);
  if (!text) return std::nullopt;
  const auto found = std::find(names.begin(), names.end(), *text);
  if (found == names.end())
    throw Error(where() + unknown_name("choice for " + std::string(flag), *text, names));
  return size_t(found - names.begin());
}

const Flag* Arguments::find(std::string_view name) const {
  for (const Flag& flag : grammar_.flags)
    if (name == flag.name) return &flag;
  return nullptr;
}

std::string Arguments::where() const { return "[" + std::string(verb_.name) + "] "; }

}  // namespace maglev
