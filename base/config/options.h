#pragma once
// One table per options struct: name, member, range, unit, help. YAML files, dotted overrides,
// range checks, --help, the saved configuration and Python all read the same rows.

#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace maglev {

/// What a setting accepts, and how it is shown.
struct Rule {
  double min = -std::numeric_limits<double>::infinity();
  double max = std::numeric_limits<double>::infinity();
  const char* unit = "";
  /// For names: a std::string must be one of these; an int32_t member holds the index of one.
  std::vector<std::string> choices = {};
};

/// One setting: a dotted name bound to a member of a live options struct.
struct Field {
  using Member = std::variant<bool*, int32_t*, int64_t*, uint64_t*, float*, double*, std::string*,
                              std::vector<int64_t>*>;
  std::string name;
  Member member;
  std::string help;
  Rule rule;
  std::string initial;  ///< the default, as text, for --help

  /// The value as YAML text that parses back to the same value.
  std::string text() const;
  /// Parses, checks the range and stores. Throws Error that begins with `where`.
  void set(std::string_view text, std::string_view where);
};

/// The settings of a whole run. Does not own the structs it is bound to: they must outlive it.
class OptionTable {
 public:
  /// Binds `member` under the current section. Supported: bool, int32_t, int64_t, uint64_t, float,
  /// double, std::string, std::vector<int64_t>.
  template <class T>
  void add(std::string_view name, T& member, std::string help, Rule rule = {}) {
    add_field(name, Field::Member(&member), std::move(help), std::move(rule));
  }

  /// Adds everything `describe` adds under `prefix.`.
  void section(std::string_view prefix, const std::function<void(OptionTable&)>& describe);

  /// One setting from text, e.g. a command-line override. Unknown names list the near ones.
  void set(std::string_view name, std::string_view value, std::string_view where = "settings");
  /// "name=value".
  void override_with(std::string_view assignment);
  /// Every setting of a YAML (or JSON) file; nested maps and dotted keys are the same. Throws Error
  /// with file and line.
  void load(const std::string& path);
  /// The same from text; `origin` names it in errors.
  void load_text(const std::string& yaml, const std::string& origin);

  /// Nested YAML of all settings with their present values; load_text of it restores them exactly.
  std::string yaml() const;
  /// One line a setting: name, default, range, unit, help.
  std::string help() const;

  const std::vector<Field>& fields() const { return fields_; }
  /// Null when there is none.
  const Field* find(std::string_view name) const;

 private:
  void add_field(std::string_view name, Field::Member member, std::string help, Rule rule);

  std::vector<Field> fields_;
  std::string prefix_;
};

}  // namespace maglev
