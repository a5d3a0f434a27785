#pragma once
// One table per options struct: name, member, range, unit, help. YAML files, dotted overrides,
// range checks, --help, the saved configuration and Python all read the same rows.

#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/config/choice.h"
#include "base/config/text.h"
#include "base/core/error.h"

namespace maglev {

/// What a setting accepts, and how it is shown.
struct Rule {
  double min = -std::numeric_limits<double>::infinity();
  double max = std::numeric_limits<double>::infinity();
  const char* unit = "";
  /// It changes speed and memory and not what is learned, but for the order in which sums are
  /// rounded: what `maglev tune` may set by itself.
  bool free = false;
  /// How a policy acts, and nothing that was learned: a trained one may be judged and played with
  /// another value.
  bool acting = false;
  /// How steps are collected, and what is kept of them: of no matter where nothing is collected, as
  /// where a dataset is learned from.
  bool collecting = false;
  /// A discount: the algorithm's, of returns, or one of an environment's that is to be the same.
  bool discount = false;
  /// The algorithm's discount is 1 - 1 / this.
  bool horizon = false;
};

/// Where a setting's value comes from. What people gave comes last.
enum class Origin {
  built_in,      ///< the struct's own default
  proven,        ///< configs/<algorithm>/
  profile,       ///< +hardware
  file,          ///< --config, or a run that is continued
  command_line,  ///< name=value
};

/// One setting: a dotted name bound to a member of a live options struct.
struct Field {
  using Member = std::variant<bool*, int32_t*, int64_t*, uint64_t*, float*, double*, std::string*,
                              std::vector<int64_t>*, ChoiceMember, TextMember>;
  std::string name;
  Member member;
  std::string help;
  Rule rule;
  std::string initial;  ///< the built-in default, as text, for --help
  Origin origin = Origin::built_in;

  /// The value as YAML text that parses back to the same value.
  std::string text() const;
  /// The same as it is given on a command line: without quotes.
  std::string plain() const;
  /// The value of a signed whole number; none of any other setting.
  std::optional<int64_t> whole_number() const;
  /// Parses, checks the range and stores. Throws Error that begins with `where`.
  void set(std::string_view text, std::string_view where);
};

/// A setting that cannot hold beside the others: "[ppo] ppo.minibatch must be at most 32, got 256".
struct SettingError : Error {
  struct What {
    std::string setting;  ///< its dotted name
    std::string must;     ///< what it must be, e.g. "at most ppo.rollout = 32"
    std::string got;
    std::string nearest = "";  ///< the value next to it that would hold; empty: there is none
  };
  explicit SettingError(What what);
  What what_is_wrong;
};

/// The settings of a whole run. Does not own the structs it is bound to: they must outlive it.
class OptionTable {
 public:
  /// Binds `member` under the current section. Supported: bool, int32_t, int64_t, uint64_t, float,
  /// double, std::string, std::vector<int64_t>; enums with names, std::optional of those, and OnOff
  /// (choice.h); Text (text.h).
  template <class T>
  void add(std::string_view name, T& member, std::string help, Rule rule = {}) {
    if constexpr (requires { choice_member(member); })
      add_field(name, choice_member(member), std::move(help), rule);
    else if constexpr (requires { text_member(member); })
      add_field(name, text_member(member), std::move(help), rule);
    else add_field(name, Field::Member(&member), std::move(help), rule);
  }

  /// `name` says what these settings are where they say nothing themselves: given later than they
  /// were (Origin), it takes their place, and they go back to their defaults. Of the section that is
  /// being described.
  void stands_for(std::string_view name, const std::vector<std::string>& settings);

  /// Adds everything `describe` adds under `prefix.`.
  void section(std::string_view prefix, const std::function<void(OptionTable&)>& describe);

  /// One setting from text. Unknown names are answered with near ones, and those of other libraries
  /// with ours.
  void set(std::string_view name, std::string_view value, std::string_view where = "settings",
           Origin origin = Origin::command_line);
  /// "name=value", of the command line where `where` says nothing else.
  void override_with(std::string_view assignment, std::string_view where = "command line");
  /// All of them; names that are none are told of at once, before any is set.
  void override_with(const std::vector<std::string>& assignments,
                     std::string_view where = "command line");
  /// Whether a file's setting of this dotted name is to be left out.
  using Skip = std::function<bool(const std::string& name)>;
  /// Every setting of a YAML (or JSON) file; nested maps and dotted keys are the same. Throws Error
  /// with file and line; of names that are no settings one that has all.
  void load(const std::string& path, Origin origin = Origin::file, const Skip& skip = {});
  /// The same from text; `path` names it in errors.
  void load_text(const std::string& yaml, const std::string& path, Origin origin = Origin::file,
                 const Skip& skip = {});

  /// Nested YAML of all settings with their present values; load_text of it restores them exactly.
  std::string yaml() const;
  /// One line a setting: name, help, present value, built-in default where that is another, range,
  /// unit.
  std::string help() const;

  const std::vector<Field>& fields() const { return fields_; }
  /// Null when there is none.
  const Field* find(std::string_view name) const;
  /// Names of the settings that say how a policy acts.
  std::vector<std::string> acting() const;

 private:
  void add_field(std::string_view name, Field::Member member, std::string help, Rule rule);
  /// The default of a setting that was given earlier than `later`.
  void give_back(const std::string& name, Origin later);
  /// What helps with a name that is none, of a file with the names `beside`.
  std::string refusal(std::string_view name, const std::vector<std::string>& beside = {}) const;
  struct Refused {
    std::string name, where;
  };
  /// Throws Error that says so of all of a file, at least one.
  [[noreturn]] void refuse(const std::vector<Refused>& all, const std::string& path) const;

  std::vector<Field> fields_;
  std::vector<std::pair<std::string, std::string>> governed_;  ///< by the first, of stands_for()
  std::string prefix_;
};

}  // namespace maglev
